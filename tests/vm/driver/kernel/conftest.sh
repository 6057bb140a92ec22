#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Of NVIDIA's conftest.sh what is asked before a compile: the flags for a test of the kernel's headers.
#   conftest.sh CC ARCH SOURCES OUTPUT build_cflags
[ "$5" = build_cflags ] || { echo "conftest.sh: there is no $5" >&2; exit 1; }
for dir in "$3" "$4"; do
  printf -- '-I%s ' "$dir/arch/x86/include" "$dir/arch/x86/include/generated" "$dir/include" "$dir/arch/x86/include/uapi" \
    "$dir/arch/x86/include/generated/uapi" "$dir/include/uapi" "$dir/include/generated/uapi"
done
