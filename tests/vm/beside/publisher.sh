# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What a publisher has: the package of the open modules for a kernel, signed, in the layout $work/layout; the guest gets the
# trust directory with the publisher's key. Sourced with the arguments that the service was called with: start WORK GUEST KEY.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=../cache.sh
. "$here/cache.sh"
# shellcheck source=../packages.sh
. "$here/packages.sh"
[ "$1" = start ] || exit 2
work=$2 guest=$3 key=$4
kmodsmith=${KMODSMITH:-$top/build/release/kmodsmith}
package=$(package open "$key")
cp -r "$package/layout" "$work/layout"
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/key.pem"
openssl pkey -in "$work/key.pem" -pubout -out "$work/site.pem"
"$kmodsmith" sign "oci:$work/layout" --key "$work/key.pem" --catalog
"$kmodsmith" trust add "$work/site.pem" --trust-dir "$guest/trust"
