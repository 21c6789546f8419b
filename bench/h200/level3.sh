#!/usr/bin/env bash
# The numbers of Level 3, some 6 minutes: p99 alone, native, under MPS and under
# xmsched, in turns, beside 1, 2 and 8 backgrounds and beside one kernel of 5 s; then
# preempt over kernels of 10 us to 5 s, and beside a process that pins 8 GiB.
# level3.sh p99 or level3.sh preempt runs one half. Leaves six files.
. "$(dirname "$0")/lib.sh"
part=${1:-all}

p99() { # NAME REQUEST_US COUNT GAP_US BACKGROUNDS and further flags
    local name=$1 us=$2 count=$3 gap=$4 backgrounds=$5
    shift 5
    measure "p99 $name" 100 p99 --level 3 --modes alone,native,mps,xmsched --rounds "$(pick 2 1)" --request-us "$us" \
        --count "$(pick "$count" 20)" --gap-us "$gap" --backgrounds "$backgrounds" --idle "$(pick 1s 300ms)" "$@"
}

if [ "$part" != preempt ]; then
    p99 "450 us, 1 background" 450 1000 3000 1 --plot "$OUT/p99-level3-450us"
    p99 "6 ms, 1 background" 6000 300 12000 1
    p99 "450 us, kernel of 5 s" 450 1000 3000 1 --background-us 5000000 --in-flight 1
    p99 "6 ms, kernel of 5 s" 6000 200 12000 1 --background-us 5000000 --in-flight 1
    for n in 2 8; do
        p99 "450 us, $n backgrounds" 450 600 3000 "$n"
        p99 "6 ms, $n backgrounds" 6000 200 12000 "$n"
    done
fi

if [ "$part" != p99 ]; then
    lengths=$(pick 10,100,1000,10000,100000,1000000,5000000 2000,1000000)
    measure preempt 200 preempt --level 3 --kernel-us "$lengths" --requests "$(pick 100 10)" --plot "$OUT/preempt-level3"
    measure "preempt beside pinning" 60 preempt --level 3 --kernel-us "$(pick 1000,5000000 1000)" --scenes busy,direct \
        --requests "$(pick 100 5)" --pinning "$(pick 8GiB 64MiB)"
fi
finish
