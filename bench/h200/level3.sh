#!/usr/bin/env bash
# The numbers of Level 3, under 6 minutes: p99 alone, native, under MPS and under
# xmsched, in turns, beside 1, 2 and 8 backgrounds and beside one kernel of 5 s (some
# 3.5 minutes); then preempt over kernels of 10 us to 5 s, and beside a process that
# pins 8 GiB (some 2). level3.sh p99 or level3.sh preempt runs one half. Leaves six
# files.
. "$(dirname "$0")/lib.sh"
part=${1:-all}

p99() { # NAME REQUEST_US COUNT GAP_US BACKGROUNDS and further flags
    local name=$1 us=$2 count=$3 gap=$4 backgrounds=$5
    shift 5
    measure "p99 $name" 90 p99 --level 3 --modes alone,native,mps,xmsched --request-us "$us" \
        --count "$(pick "$count" 20)" --gap-us "$gap" --backgrounds "$backgrounds" --idle "$(pick 1s 300ms)" "$@"
}

if [ "$part" != preempt ]; then
    twice=(--rounds "$(pick 2 1)")
    p99 "450 us, 1 background" 450 1000 3000 1 "${twice[@]}" --plot "$OUT/p99-level3-450us"
    p99 "6 ms, 1 background" 6000 300 12000 1 "${twice[@]}"
    long=(--background-us 5000000 --in-flight 1 --rounds 1)
    p99 "450 us, kernel of 5 s" 450 600 3000 1 "${long[@]}"
    p99 "6 ms, kernel of 5 s" 6000 150 12000 1 "${long[@]}"
    for n in 2 8; do
        p99 "450 us, $n backgrounds" 450 500 3000 "$n" --rounds 1
        p99 "6 ms, $n backgrounds" 6000 150 12000 "$n" --rounds 1
    done
fi

if [ "$part" != p99 ]; then
    measure preempt 170 preempt --level 3 --scenes alone,native,armed,busy,idle --requests "$(pick 80 10)" \
        --kernel-us "$(pick 10,100,1000,10000,100000,1000000,5000000 2000,1000000)" --plot "$OUT/preempt-level3"
    measure "preempt, suspending itself" 40 preempt --level 3 --scenes direct,beside --requests "$(pick 80 10)" \
        --kernel-us "$(pick 1000,5000000 2000)"
    measure "preempt beside pinning" 60 preempt --level 3 --scenes busy,direct --requests "$(pick 80 5)" \
        --kernel-us "$(pick 1000,5000000 1000)" --pinning "$(pick 8GiB 64MiB)"
fi
finish
