#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What hosts of the Red Hat family have beside a plain repository: lists of mirrors, metalinks, exclusions, entitlements; and dnf 5.
# dnf 4 is this machine's; dnf 5 and its rpm are of Debian's newest suite, in a root of their own. Packages are made up.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load distribution

entitlement() { # NAME DAYS: a client's key and certificate
  openssl req -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj "/CN=$1" -keyout "$keys/$1-key.pem" -out "$keys/$1.csr" 2>>"$log"
  openssl x509 -req -in "$keys/$1.csr" -CA "$CA" -CAkey "$SERVERS/ca.key" -days "$2" -out "$keys/$1.pem" 2>>"$log"
}
setup_file() {
  distribution_keys
  export RHEL=5.14.0-999.1.el9.x86_64 DNF5_ROOT=$BATS_FILE_TMPDIR/dnf5-root ENTITLED
  header_rpm "$web/rpm" "$RHEL" good
  header_rpm "$web/rpm-unsigned" "$RHEL"
  header_rpm "$web/rpm-other" 5.14.0-998.1.el9.x86_64 good
  nginx_start plain "$web"
  printf '%s\n' http://127.0.0.1:1/rpm/ "$NGINX_PLAIN/rpm/" >"$web/mirrors"
  cat >"$web/metalink" <<METALINK
<?xml version="1.0" encoding="utf-8"?>
<metalink version="3.0" xmlns="http://www.metalinker.org/" xmlns:mm0="http://fedorahosted.org/mirrormanager">
<files><file name="repomd.xml"><size>$(stat -c %s "$web/rpm/repodata/repomd.xml")</size>
<verification><hash type="sha256">$(sha256sum <"$web/rpm/repodata/repomd.xml" | cut -d' ' -f1)</hash></verification>
<resources maxconnections="1"><url protocol="http" type="http" preference="100">$NGINX_PLAIN/rpm/repodata/repomd.xml</url></resources>
</file></files></metalink>
METALINK
  ca_make
  entitlement good 2
  entitlement expired -1
  local port
  port=$(free_port)
  ENTITLED=https://127.0.0.1:$port
  server_run entitled "$port" python3 -c "
import functools, http.server, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('$SERVERS/server.pem', '$SERVERS/server.key')
context.load_verify_locations('$CA')
context.verify_mode = ssl.CERT_REQUIRED
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory='$web')
server = http.server.ThreadingHTTPServer(('127.0.0.1', $port), handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()"
  debian_root "$DNF5_ROOT" --suite sid dnf5 rpm bash coreutils
}
teardown_file() { distribution_stop; }
setup() {
  KERNEL=$RHEL
  fresh
  red_hat
}
red_hat() { # [PROGRAMS]
  distribution_host "$@"
  mkdir -p "$ROOT/etc/yum.repos.d" "$ROOT/etc/pki/entitlement" "$ROOT/etc/rhsm/ca"
  cp "$CA" "$ROOT/etc/rhsm/ca/uep.pem"
  cp "$keys"/{good,expired}*.pem "$ROOT/etc/pki/entitlement"
  printf 'PLATFORM_ID="platform:el9"\nVERSION_ID="9.4"\n' >>"$ROOT/etc/os-release"
}
instead_of_baseurl() { sed -Ei "s#^(baseurl|mirrorlist|metalink)=.*#$1#" "$ROOT/etc/yum.repos.d/site.repo"; }
entitled() { # NAME
  dnf_source rpm sslverify=1 sslcacert=/etc/rhsm/ca/uep.pem "sslclientkey=/etc/pki/entitlement/$1-key.pem" \
    "sslclientcert=/etc/pki/entitlement/$1.pem"
  instead_of_baseurl "baseurl=$ENTITLED/rpm"
}

@test "a list of mirrors, the first of which is away, and a metalink lead to the package" {
  dnf_source rpm
  instead_of_baseurl "mirrorlist=$NGINX_PLAIN/mirrors"
  build "$RHEL"
  fetched "kernel-devel-$RHEL.rpm"
  fresh
  instead_of_baseurl "metalink=$NGINX_PLAIN/metalink"
  build "$RHEL"
  fetched "kernel-devel-$RHEL.rpm"
  fresh
  sed 's|<hash type="sha256">..|&00|; s|\(<hash type="sha256">..00.\{60\}\)..|\1|' "$web/metalink" >"$web/metalink-of-another"
  instead_of_baseurl "metalink=$NGINX_PLAIN/metalink-of-another"
  refused E_DIGEST "checksum doesn't match"
}

@test "headers come although the host excludes kernels from installations" {
  printf '[main]\nexcludepkgs=kernel*\n' >"$ROOT/etc/dnf.conf"
  mkdir "$ROOT/etc/dnf"
  mv "$ROOT/etc/dnf.conf" "$ROOT/etc/dnf/dnf.conf"
  dnf_source rpm 'excludepkgs=kernel-devel'
  build "$RHEL"
  fetched "kernel-devel-$RHEL.rpm"
}

@test "an entitlement opens a repository; one that is missing or has expired is named" {
  entitled good
  build "$RHEL"
  fetched "kernel-devel-$RHEL.rpm"
  fresh
  entitled gone
  refused E_AUTH "a repository's entitlement: the host has no '/etc/pki/entitlement/gone-key.pem'"
  entitled expired
  refused E_AUTH "a repository's entitlement: '/etc/pki/entitlement/expired.pem' ended on "
  dnf_source nowhere '[other]' 'name=other' 'baseurl=http://127.0.0.1:1/' 'enabled=0' 'sslclientcert=/etc/pki/entitlement/gone.pem'
  refused E_SERVER "404"
  [[ $stderr != *entitlement* ]] || told | fail
}

@test "dnf 5 does as dnf 4: the package, its signature, what there is instead, a repository that is away, exclusions" {
  red_hat "$DNF5_ROOT"
  [ ! -e "$DNF5_ROOT/usr/bin/dnf" ]
  dnf_source rpm 'excludepkgs=kernel-devel'
  build "$RHEL"
  fetched "asking dnf for kernel-devel-uname-r = $RHEL" "kernel-devel-$RHEL.rpm"
  fresh
  dnf_source rpm-unsigned
  refused E_UNTRUSTED "no key of the enabled repositories signed this package"
  dnf_source rpm-other
  refused E_HEADERS_NOT_FOUND "no repository has kernel-devel-uname-r = $RHEL; they have 5.14.0-998.1.el9.x86_64"
  dnf_source nowhere
  refused E_SERVER "404"
  instead_of_baseurl baseurl=http://127.0.0.1:1/
  refused E_NETWORK "127.0.0.1"
}

@test "where dnf is a link to dnf 5, as on Fedora, it is asked as dnf 5 is" {
  cp -a "$DNF5_ROOT" "$BATS_TEST_TMPDIR/fedora"
  ln -s dnf5 "$BATS_TEST_TMPDIR/fedora/usr/bin/dnf"
  red_hat "$BATS_TEST_TMPDIR/fedora"
  dnf_source rpm
  build "$RHEL"
  fetched "kernel-devel-$RHEL.rpm"
}
