#!/usr/bin/env bash
# What CUDA's libraries compute while nearly all memory is the host's: hostbacked.py alone,
# and under a budget of 64 MiB; the lines must be the same. Needs PyTorch.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
dir=$(mktemp -d)
export XMSCHED_DIR=$dir/run
mkdir -m 700 "$XMSCHED_DIR"
daemon=
trap '[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null; wait; rm -rf "$dir"' EXIT

python3 bench/h200/hostbacked.py | tee "$dir/alone" || exit 1
bin/xserver --no-probe --hbm-budget 64MiB 2>"$dir/xserver.log" &
daemon=$!
for _ in $(seq 100); do bin/xcli status >/dev/null 2>&1 && break; sleep 0.1; done
bin/xrun --require-daemon --name libraries -- python3 bench/h200/hostbacked.py | tee "$dir/hosted" &
python=$!
sleep 25
bin/xcli memory stats
wait "$python"
# Times differ, digests must not.
diff <(cut -d' ' -f1,2 "$dir/alone") <(cut -d' ' -f1,2 "$dir/hosted") && [ -s "$dir/alone" ] && echo "the same"
