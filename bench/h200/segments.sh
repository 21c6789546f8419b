#!/usr/bin/env bash
# Memory that moves, without daemon or bench, some 2 minutes: each case of memory_run, a
# process each, with its own agent, daemon and engine, and of pool_run; then what allocating
# costs, with segments and without. Needs lib/libxmsched.so and lib/memory (make -C shim/cuda/preload
# all memory). Not more than 1 GiB of the device is used, but for the last. With CASES="door
# busy" those alone. `lease` and `session_ends` are the ones that map memory on a thread without a
# context; `told` is what an attribute says of it.
. "$(dirname "$0")/lib.sh"

nobody=$(mktemp -d)
touch "$nobody/board.sock"
export XM_PTX=hal/kernels/kernels.ptx XMSCHED_LIB=$PWD/lib/memory XMSCHED_DIR=$nobody XMSCHED_MEMORY=1
bounds=(KEEPER_TARGET=67108864 KEEPER_LIMIT=134217728)
preload=(env LD_PRELOAD="$PWD/lib/libxmsched.so")
run=("${preload[@]}" lib/memory/memory_run) pool=("${preload[@]}" lib/memory/pool_run)
cases=${CASES:-answers told shared mapped contexts small forks door busy lease engine_dies session_ends drained leaves threads history}

for name in $cases; do
    step "$name" 60 "${run[@]}" "$name"
done
if [ -z "${CASES:-}" ]; then
    for name in moves figures order stream_ends crosswise pools_end contexts_end default_streams pool_threads captures; do
        step "pool: $name" 60 "${pool[@]}" "$name"
    done
    step "pool: limited" 60 env "${bounds[@]}" "${pool[@]}" limited
    step "speed of pools" 60 "${pool[@]}" pool_speed
    step "speed of the driver's pools" 60 env XMSCHED_MEMORY=0 "${pool[@]}" pool_speed
fi
step bounded 60 env "${bounds[@]}" "${run[@]}" bounded
step "speed with segments" 60 "${run[@]}" speed
step "speed of the driver" 60 env XMSCHED_MEMORY=0 "${run[@]}" speed
dmesg 2>/dev/null | grep -i xid || echo "no Xid in the kernel's log, or no leave to read it"
rm -rf "$nobody"
finish
