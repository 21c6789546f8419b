#!/usr/bin/env bash
# Level 3 by itself, without daemon or bench, some 3 minutes: what objects the driver
# makes, and each case of channels_run, a process each; what is least known comes
# last. Needs lib/libxmsched.so and lib/channels (make -C shim/cuda/preload all
# channels). With CASES="compute all" those alone. What the driver asked of the
# resource manager is in $OUT/objects.txt and, of a client of MPS, objects-mps.txt.
. "$(dirname "$0")/lib.sh"

nobody=$(mktemp -d)
export XM_PTX=hal/kernels/kernels.ptx XM_PROBE=hal/kernels/probe.ptx XMSCHED_LIB=$nobody XMSCHED_DIR=$nobody XM_PIN_MIB=8192
run=(env LD_PRELOAD="$PWD/lib/libxmsched.so" lib/channels/channels_run)
cases=${CASES:-compute all twice legacy cooperative graph slices copies copies_beside in_place forked goes made pinning leaves}

XM_VERBOSE=1 "${run[@]}" objects >"$OUT/objects.txt" 2>&1
grep -v '^rm' "$OUT/objects.txt"
grep -E '^rm (alloc|dup)' "$OUT/objects.txt"
for name in $cases; do
    step "$name" 60 "${run[@]}" "$name"
done

# Killed while it is held: the next one finds the device as it was.
coproc HELD { exec timeout 60 "${run[@]}" killed; }
held=$HELD_PID
read -r line <&"${HELD[0]}" && echo "== $line, and killed"
kill -9 "$(pgrep -P "$held")" "$held"
wait "$held"
step "compute after it" 60 "${run[@]}" compute 20

if [ -z "${CASES:-}" ] && command -v nvidia-cuda-mps-control >/dev/null; then
    export CUDA_MPS_PIPE_DIRECTORY=$nobody/pipe CUDA_MPS_LOG_DIRECTORY=$nobody/log
    mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    nvidia-cuda-mps-control -d
    XM_VERBOSE=1 timeout 60 "${run[@]}" objects >"$OUT/objects-mps.txt" 2>&1
    grep -v '^rm' "$OUT/objects-mps.txt"
    timeout 60 "${run[@]}" compute 5
    echo "compute as a client of MPS: exit code $?"
    echo quit | nvidia-cuda-mps-control
fi
dmesg 2>/dev/null | grep -i xid || echo "no Xid in the kernel's log, or no leave to read it"
rm -rf "$nobody"
finish
