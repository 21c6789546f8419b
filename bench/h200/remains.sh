#!/usr/bin/env bash
# Whether memory that passes from one task to another shows what was there: two programs
# fill the device and the host's slots with a mark; one is killed, the other ends; who
# comes after them looks at all that it is given. Exit code 1 when a mark is found, or
# nothing moved. Needs gcc.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
DRY=${DRY:-}
dir=$(mktemp -d)
export XMSCHED_DIR=$dir/run
mkdir -m 700 "$XMSCHED_DIR"
# Sizes: MiB of a buffer, buffers of who writes, of who looks, and the budget.
if [ -n "$DRY" ]; then mib=16 write=3 look=5 budget=64MiB; else mib=256 write=12 look=20 budget=4GiB; fi
mark=0x5ec2e7a1
pids=()
trap 'for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null; done; wait; rm -rf "$dir"' EXIT

gcc -std=c11 -D_GNU_SOURCE -O2 -o "$dir/remains" cmd/e2e/testdata/remains.c -Llib/sim -l:libcuda.so.1 || exit 1
bin/xserver ${DRY:+--sim} --no-probe --hbm-budget "$budget" --policy RR 2>"$dir/xserver.log" &
pids+=($!)
for _ in $(seq 100); do bin/xcli status >/dev/null 2>&1 && break; sleep 0.1; done

run() { bin/xrun ${DRY:+--sim} --require-daemon --name "$1" -- "$dir/remains" "${@:2}"; }

(exec bin/xrun ${DRY:+--sim} --require-daemon --name first -- "$dir/remains" write $write $mib $mark) >"$dir/first" &
first=$!
(exec bin/xrun ${DRY:+--sim} --require-daemon --name second -- "$dir/remains" write $write $mib $mark) >"$dir/second" &
second=$!
pids+=("$first" "$second")
for _ in $(seq 300); do
    moved=$(bin/xcli memory stats --json | grep -o '"moved_out":[0-9]*' | cut -d: -f2 | sort -n | head -1)
    [ "${moved:-0}" -gt 0 ] && [ "$(bin/xcli memory stats --json | grep -c moved_out)" -gt 0 ] && break
    sleep 0.1
done
echo "moved to the host of each at least: ${moved:-0} bytes"
kill -9 "$first"
beside=$(run beside look $look $mib $mark </dev/null)
kill -TERM "$second"
wait "$second"
after=$(run after look $look $mib $mark </dev/null)
echo "beside one that lives: $beside; after both: $after"
[ "$beside" = "found 0" ] && [ "$after" = "found 0" ] && [ "${moved:-0}" -gt 0 ]
