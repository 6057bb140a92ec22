#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P4: a signed package from a web server on loopback: fetched, verified, kept and unpacked, beside what curl, sha256sum and
# tar take one after the other for its layer alone. Once with a real package, once with one of 300 MB that does not
# compress, whose fetch must stay below 32 MiB of memory.
#   tests/bench/fetch.sh KMODSMITH
set -euo pipefail
kmodsmith=$1
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../vm/cache.sh"
# shellcheck source=tests/vm/packages.sh
. "$top/tests/vm/packages.sh"
release=$(of K61)
driver=$(driver_version OPEN)
real=$(package open K61)
work=$(mktemp -d)
export BATS_FILE_TMPDIR=$work
# shellcheck source=tests/services/servers.bash
. "$top/tests/services/servers.bash"
trap 'servers_stop; rm -rf "$work"' EXIT

mkdir "$work/www"
cp -r "$real/layout" "$work/www/real"
python3 "$top/tests/services/make_layout.py" --kernel "$release" --pad 300000000 "$work/www/large" "$real"/modules/*.ko >/dev/null
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/key" 2>/dev/null
openssl pkey -in "$work/key" -pubout -out "$work/key.pem"
"$kmodsmith" trust add "$work/key.pem" --trust-dir "$work/trust" >/dev/null
nginx_start plain "$work/www"

for name in real large; do
  layer=$(blob_of "$work/www/$name" layers)
  "$kmodsmith" sign "$work/www/$name" --key "$work/key" --catalog >/dev/null
  fetch="$kmodsmith fetch --quiet --driver $driver --flavour open --kernel $release --from $NGINX_PLAIN/$name"
  fetch+=" --trust-dir $work/trust --state-dir $work/state"
  row="curl -sf -o $work/got/layer $NGINX_PLAIN/$name/blobs/sha256/${layer##*/};sha256sum $work/got/layer"
  row+=";tar --zstd -xf $work/got/layer -C $work/got"
  TMPDIR=$work lap "$([ "$name" = real ] && echo 15 || echo 5)" "P4 fetch, $name package, layer of $(du -h "$layer" | cut -f1)" \
    kmodsmith "rm -rf $work/state" "$fetch" "curl, sha256sum, tar" "rm -rf $work/got;mkdir $work/got" "$row"
  rm -rf "$work/state"
  # shellcheck disable=SC2086 # words
  kib=$(command time -f %M $fetch 2>&1 >/dev/null | tail -n 1)
  printf 'row\tP4\tpeak memory, %s package\tnative\tMiB\t%s\n' "$name" "$(awk -v k="$kib" 'BEGIN { printf "%.1f", k / 1024 }')"
done
