#!/usr/bin/env bash
# The numbers of Level 2, some 4 minutes: preempt, launch free, bounded and gated, and
# p99 in bursts, so that requests find the background already gated. Leaves five files.
. "$(dirname "$0")/lib.sh"

step preempt 60 bin/xbench preempt --level 1,2 --kernel-us 10,100,1000 --closings 100 --results "$OUT"
step "preempt 10 ms" 40 bin/xbench preempt --level 2 --kernel-us 10000 --closings 100 --results "$OUT"
step "launch free" 60 bin/xbench launch --modes free --results "$OUT"
for us in 100 1000; do
    step "launch $us us" 60 bin/xbench launch --modes bounded,gated --threads 1 --kernel-us "$us" --rounds 5 --reps 3 --results "$OUT"
done

# At Level 1 what four backgrounds have queued runs on for 0.3 s and more, hence the
# length of the bursts. Sharing beside four is left to p99.sh: it takes its time.
for backgrounds in 1 4; do
    modes=alone,xmsched
    plot=()
    if [ "$backgrounds" -eq 1 ]; then
        modes=alone,native,xmsched
        plot=(--plot "$OUT/p99-450us-1-background")
    fi
    common=(--gap-us 50 --pause-us 200000 --backgrounds "$backgrounds" --modes "$modes" --level 1,2 --rounds 2 --results "$OUT")
    step "p99 450 us, $backgrounds" 60 bin/xbench p99 --request-us 450 --count 3600 --burst 900 "${common[@]}" "${plot[@]}"
    step "p99 6 ms, $backgrounds" 60 bin/xbench p99 --request-us 6000 --count 600 --burst 150 "${common[@]}"
done
finish
