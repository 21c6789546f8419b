#!/usr/bin/env bash
# The row pytorch, some 4 minutes: decode and training alone (twice, must be
# identical), sharing without us, under xmsched.
. "$(dirname "$0")/lib.sh"

step pytorch 420 bin/xbench pytorch --seconds 10 --results "$OUT"
finish
