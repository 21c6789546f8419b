#!/usr/bin/env bash
# The numbers of the policies, some 6 minutes: share, laxity, and decision with 256
# tasks. share.sh POLICY takes another policy of shares than PUP. Leaves three files.
. "$(dirname "$0")/lib.sh"
policy=${1:-PUP}

measure decision 90 decision --clients "$(pick 256 16)" --edges "$(pick 2000 50)" --idle "$(pick 4s 1s)" --edges-per-s "$(pick 10000 500)"
measure "decision, looking instead of sleeping" 60 decision --clients "$(pick 256 16)" --edges "$(pick 2000 50)" --idle 1s --edges-per-s 0 --spin 5ms
measure share 330 share --policy "$policy" --target "$(pick 75:25,90:10,50:30:20 75:25)" --kernel-us "$(pick 50,5000,50+5000 2000)" \
    --span "$(pick 10s 1s)"
measure laxity 120 laxity --jobs "$(pick 3 1)"
finish
