#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with NVIDIA GPUs and a loaded driver, as root: what kmodsmith says beside what the kernel and NVIDIA's programs say.
# Loads and unloads nothing, changes no setting of a GPU; opens the GPUs, as any program does. A few minutes.
#   scripts/on-gpu.sh [DIR]      DIR: where everything that was said is kept; default build/on-gpu
# Exit status 1: something differed. KMODSMITH=PROGRAM: default build/release/kmodsmith-static.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
program=${KMODSMITH:-build/release/kmodsmith-static} dir=${1:-build/on-gpu} differed=0
[ "${1-}" != --help ] || { sed -n 's/^#   //p' "$0"; exit 0; }
[ -r /proc/driver/nvidia/version ] || { echo "no NVIDIA driver is loaded here" >&2; exit 2; }
command -v python3 >/dev/null || { echo "python3 is needed, to compare what programs say" >&2; exit 2; }
mkdir -p "$dir" && echo "kept in $dir"

say() { # NAME COMMAND...: runs it, keeps what it says, prints how long it took
  local name=$1 begun end rc
  shift
  begun=$(date +%s%N)
  "$@" >"$dir/$name" 2>"$dir/$name.err"
  rc=$?
  end=$(date +%s%N)
  printf '%-24s exit %-3s %6d ms  %s\n' "$name" "$rc" $(((end - begun) / 1000000)) "$*"
  return "$rc"
}
same() { # TITLE OURS THEIRS
  if [ "$2" = "$3" ]; then echo "  same    $1"; else differed=1 && printf '  DIFFERS %s\n    ours   %s\n    theirs %s\n' "$1" "$2" "$3"; fi
}
ours() { python3 -c "import json,sys; s=json.load(open('$dir/status.json')); print($1)"; } # EXPRESSION on s
smi() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | sort; }           # FIELD
has() { command -v "$1" >/dev/null || { echo "  absent  $1: not compared"; return 1; }; }

uname -a >"$dir/machine" && cat /proc/driver/nvidia/version /etc/os-release >>"$dir/machine"
say version "$program" --version
say doctor.json "$program" doctor --json
say nodes "$program" nodes --dry-run
same "no device node is missing or wrong" "$?" 0
say idle.json "$program" status --json
say status.json "$program" status --check-gpus --json
same "every GPU works" "$(ours "sorted({g['outcome'] for g in s['gpu_check']['gpus']})")" "['works']"
addresses=$(find /proc/driver/nvidia/gpus -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | paste -sd' ')
same "GPUs as the kernel has them" "$(ours "' '.join(g['address'] for g in s['gpu_check']['gpus'])")" "$addresses"
if has nvidia-smi; then
  say smi nvidia-smi -q
  say smi-list nvidia-smi -L # the check beside it is measure P13
  same driver "$(ours "s['driver']['version']")" "$(smi driver_version | head -n 1)"
  same UUIDs "$(ours "' '.join(sorted(g['uuid'] or '?' for g in s['gpu_check']['gpus']))")" "$(smi uuid | paste -sd' ')"
  same names "$(ours "', '.join(sorted(g['name'] or '?' for g in s['gpu_check']['gpus']))")" "$(smi name | paste -sd, | sed 's/,/, /g')"
fi
node=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | head -n 1)
if [ -n "$node" ]; then # a holder that we know
  sleep 60 9<"$node" &
  holder=$!
  say holders "$program" holders
  same "who holds $node is found" "$(grep -c "^pid $holder " "$dir/holders")" 1
  kill "$holder"
fi
say cdi.json "$program" cdi generate --output -
if has nvidia-ctk; then say cdi-theirs.json nvidia-ctk cdi generate --format json; fi
say support.txt "$program" support -o "$dir/support.tar.gz"
exit "$differed"
