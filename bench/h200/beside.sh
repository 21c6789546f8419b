#!/usr/bin/env bash
# What moving memory takes from a kernel that reads device memory at full speed, half a
# minute: beside.txt in $OUT. Needs nvcc, and nothing of ours.
. "$(dirname "$0")/lib.sh"

if [ -n "$DRY" ]; then
    echo "nvcc beside.cu; beside"
    exit 0
fi
step build 120 nvcc -O2 -arch=sm_90 -o "$state/beside" bench/h200/beside.cu -lcuda
step beside 60 bash -c '"$1" | tee "$2"' - "$state/beside" "$OUT/beside.txt"
finish
