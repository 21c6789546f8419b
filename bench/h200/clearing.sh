#!/usr/bin/env bash
# What giving device memory back takes from copies to the device, half a minute: clearing.txt
# in $OUT. Needs nvcc, and nothing of ours.
. "$(dirname "$0")/lib.sh"

if [ -n "$DRY" ]; then
    echo "nvcc clearing.cu; clearing"
    exit 0
fi
step build 120 nvcc -O2 -o "$state/clearing" bench/h200/clearing.cu -lcuda
step clearing 90 bash -c '"$1" | tee "$2"' - "$state/clearing" "$OUT/clearing.txt"
finish
