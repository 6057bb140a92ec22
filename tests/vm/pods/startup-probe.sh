#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The checks of the operator's startup probe in their order (driver-container contract 1.3): the module is there, the
# daemons' status, where there is one, says Ready, nvidia-smi succeeds; then the file that the validator waits for appears
# at once. No simulated GPU answers what nvidia-smi asks of the real one, so that it is asked for its help, for which it
# loads its libraries and no more.
set -eu
validations=/run/nvidia/validations
[ -f /sys/module/nvidia/refcnt ] || { echo "nvidia is not loaded"; exit 1; }
daemons=$validations/.driver-daemons-status
[ ! -f $daemons ] || [ "$(cat $daemons)" = Ready ] || { echo "daemons: $(cat $daemons)"; exit 1; }
nvidia-smi --help >/dev/null
mkdir -p $validations
for flag in GDRCOPY_ENABLED GDS_ENABLED GPU_DIRECT_RDMA_ENABLED; do
  eval "echo $flag: \${$flag:-false}"
done >$validations/.driver-ctr-ready.new
mv $validations/.driver-ctr-ready.new $validations/.driver-ctr-ready
