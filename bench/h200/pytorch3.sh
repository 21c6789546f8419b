#!/usr/bin/env bash
# The row pytorch with everything in one run, some 3 minutes: decode and training
# alone, sharing without us, under MPS, under xmsched at Level 3, and under xmsched as
# clients of MPS. SECONDS_EACH=6 makes it shorter, ONCE=1 leaves out the second run alone. Leaves one file. The simulated
# GPU cannot run PyTorch: DRY says only what would be run.
. "$(dirname "$0")/lib.sh"

command=(pytorch --seconds "${SECONDS_EACH:-10}" --level 3 --modes alone,native,mps,xmsched,xmsched-mps ${ONCE:+--once})
if [ -n "$DRY" ]; then
    echo "xbench ${command[*]}"
    exit 0
fi
measure pytorch 360 "${command[@]}"
finish
