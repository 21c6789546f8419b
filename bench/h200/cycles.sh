#!/usr/bin/env bash
# The row cycles, under 2 minutes: 10,000 suspensions at random moments of compute
# groups, and as many of all groups, over every kind of work. Leaves one file.
. "$(dirname "$0")/lib.sh"

for hold in compute all; do
    measure "cycles, $hold groups" 150 cycles --cycles "$(pick 10000 30)" --hold "$hold" --run-for 1ms --hold-for 500us --seed 7
done
finish
