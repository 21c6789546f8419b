#!/usr/bin/env bash
# The row p99 at Level 1, some 4 minutes: requests of 0.45 and 6 ms beside 1 and 4
# background programs. The last one shows what a small bound does for bursts.
. "$(dirname "$0")/lib.sh"

for backgrounds in 1 4; do
    step "p99 450 us, $backgrounds" 100 bin/xbench p99 --request-us 450 --count 1000 --gap-us 3000 --backgrounds "$backgrounds" --results "$OUT"
    step "p99 6 ms, $backgrounds" 130 bin/xbench p99 --request-us 6000 --count 500 --gap-us 12000 --backgrounds "$backgrounds" --results "$OUT"
done
step "p99 bursts" 90 bin/xbench p99 --request-us 450 --count 2400 --gap-us 50 --burst 400 --pause-us 200000 --rounds 2 \
    --background-us 1000 --threshold 2 --batch 1 --results "$OUT" --plot "$OUT/p99-bursts"
finish
