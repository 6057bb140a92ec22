# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A site's own kernel, with the site's certificate built in: what is predicted of modules that it signed is what the kernel does.
# Of such a certificate the kernel tells no more than that it is there; a module that was changed is known by the image's copy of it.
# kernel: K61 K612
# built-in: site:K61 curve:K612
# packages: small stranger-small curve-small curve.tampered-small oldcurve-small site-small site.tampered-small site.ripemd160-small oldsite-small
# files: tests/vm/trust-table.sh
# shellcheck source=tests/vm/trust-table.sh
. /files/trust-table.sh
signer=site
[ "$(uname -r)" = "$K61" ] || signer=curve # in the place of an elliptic key's certificate there is no room for another one
column $signer "built in"
echo 1 >/sys/module/module/parameters/sig_enforce
column $signer "built in, sig_enforce"
table
