#!/usr/bin/env bash
# The row decision with its floor, some 20 s. It uses the machine's cores and not its card.
. "$(dirname "$0")/lib.sh"

step decision 90 bin/xbench decision --edges 2000 --results "$OUT"
finish
