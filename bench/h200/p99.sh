#!/usr/bin/env bash
# The row p99 at Level 1 and 2 as users meet it, some 4 minutes: single requests of 0.45
# and 6 ms beside 1 and 4 background programs. Bursts are in level2.sh.
. "$(dirname "$0")/lib.sh"

for backgrounds in 1 4; do
    step "p99 450 us, $backgrounds" 100 bin/xbench p99 --request-us 450 --count 1000 --gap-us 3000 --rounds 2 \
        --backgrounds "$backgrounds" --level 1,2 --results "$OUT"
    step "p99 6 ms, $backgrounds" 130 bin/xbench p99 --request-us 6000 --count 500 --gap-us 12000 --rounds 1 \
        --backgrounds "$backgrounds" --level 1,2 --results "$OUT"
done
finish
