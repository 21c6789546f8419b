#!/usr/bin/env bash
# The row pytorch at Level 2, under 3 minutes: decode and training alone (twice, must be
# identical), sharing without us, under xmsched.
. "$(dirname "$0")/lib.sh"

step pytorch 175 bin/xbench pytorch --seconds 8 --level 2 --results "$OUT"
finish
