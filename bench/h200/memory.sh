#!/usr/bin/env bash
# The numbers of memory, in parts that each end within ten minutes: memory.sh PART...
# runs those, memory.sh alone lists them. First what must be right, then what must be
# fast, the cheapest first. Few files: one for each row, and plots of the curves.
#
#   correct    4 min  segments, every word of tasks that exceed the budget, what passes between tasks
#   swap       7 min  out of one process and into another, with the driver's own ways
#   oversub    3 min  read, 150 to 300 %, turns of 50 ms to 1 s
#   compare    4 min  the same at 100 ms against allocation, swap, serial and demand paging
#   patterns   8 min  that with what writes: dense, stencil
#   inside     4 min  1,000 switches inside kernels
#   sparse     7 min  tasks whose turns touch a part: sparse, experts, models
#   physical   2 min  3 x 60 GiB
#   growing    1 min  suspensions while the pool of host memory grows
#   urgent     5 min  requests of a higher class on 20 GiB beside 110 + 30 GiB
#   fits       6 min  training and decode that fit, with us and without
#   training   6 min  two trainings of 90 GiB
#   mix        6 min  decodes and trainings of 8 GiB each on 16 GiB
#   libraries  2 min  what CUDA's libraries compute on memory of the host
#   curves     9 min  turns of 50 ms to 4 s under every policy, 150 %
. "$(dirname "$0")/lib.sh"

torch() { # NAME LIMIT_S ROW...: a measurement that the simulated GPU cannot make
    if [ -n "$DRY" ]; then echo "== $1: xbench ${*:3}"; else measure "$@"; fi
}


correct() {
    if [ -z "$DRY" ]; then (XMSCHED_STATE='' OUT=$(mktemp -d) bash bench/h200/segments.sh) || failed=$((failed + 1)); fi
    local quick=(--slice "$(pick 250ms 200ms)" --span "$(pick 2s 300ms)" --cycles 1)
    measure "dense, 150 %" 90 oversub --workload dense --footprint 150 --policy predict "${quick[@]}"
    measure "read, 200 %, every policy" 120 oversub --workload read --footprint 200 "${quick[@]}" --policy predict,allocation,swap,serial
    measure "one that exceeds the budget alone" 90 oversub --workload dense --tasks 1 --task "$(pick 24GiB 96MiB)" --budget "$(pick 16GiB 64MiB)" --policy predict "${quick[@]}"
    measure "tasks that are drained" 90 oversub --workload dense --footprint 150 --level 2 --policy predict "${quick[@]}"
    step "what passes between tasks" 120 bash bench/h200/remains.sh
}

swap() {
    measure swap 480 swap --size "$(pick 8GiB,16GiB,32GiB 64MiB)" --times "$(pick 6 2)"
}

oversub() {
    measure "oversub, predict" 300 oversub --footprint "$(pick 150,200,300 150)" --policy predict --native \
        --slice "$(pick 50ms,100ms,250ms,1s 200ms)" --span "$(pick 3s 300ms)" --cycles "$(pick 2 1)" --plot "$OUT/oversub"
    measure "oversub that fits" 60 oversub --footprint 100 --policy predict --slice "$(pick 1s 200ms)" --span "$(pick 6s 300ms)"
}

compare() { against read; }

patterns() { against dense $(pick stencil ""); }

against() { # WORKLOAD...
    for workload in "$@"; do
        measure "compare, $workload" 260 oversub --workload "$workload" --footprint "$(pick 150,200,300 150)" --slice 100ms \
            --policy predict,allocation,swap,serial,paging --span "$(pick 3s 300ms)" --cycles "$(pick 3 1)"
    done
}

inside() {
    measure "switches inside kernels" 280 oversub --workload long --rounds "$(pick 1500 20)" --footprint 150 --slice 30ms --policy predict \
        --budget "$(pick 2GiB 64MiB)" --task "$(pick 1GiB 32MiB)" --piece "$(pick 64MiB 8MiB)" --span "$(pick 45s 1s)"
}

sparse() {
    measure "parts of the memory" 400 oversub --workload "$(pick sparse,experts,models sparse)" --footprint 200 --slice "$(pick 10ms,100ms 100ms)" \
        --policy predict,allocation,swap --span "$(pick 3s 300ms)" --cycles "$(pick 5 1)"
}

physical() {
    measure "3 x 60 GiB" 240 oversub --tasks 3 --task "$(pick 60GiB 48MiB)" --budget "$(pick auto 112MiB)" --slice "$(pick 2s 300ms)" \
        --policy predict --span "$(pick 18s 1s)" --cycles "$(pick 3 1)"
}

growing() {
    measure "suspensions while the pool grows" 90 preempt --level 3 --scenes busy --kernel-us "$(pick 1000,100000 5000)" \
        --requests "$(pick 100 5)" --growing "$(pick 24GiB 64MiB)"
}

urgent() {
    measure urgent 330 urgent --policy predict,swap --span "$(pick 24s 1s)" --period "$(pick 50ms 100ms)" --pause "$(pick 4s 300ms)" --burst "$(pick 40 4)"
}

fits() {
    torch "training that fits" 280 oversub --workload train --tasks 1 --budget auto --batch 256 --slice 1s --policy predict --span 20s
    torch "decode that fits" 280 oversub --workload decode --tasks 1 --budget auto --layers 32 --slice 1s --policy predict --span 20s
}

training() {
    torch "two trainings of 90 GiB" 560 oversub --workload train --tasks 2 --budget auto --batch "${BATCH:-980}" --slice 4s --policy predict --span 48s --cycles 6
}

mix() {
    torch "decodes and trainings" 560 oversub --workload mix --tasks 4 --budget 16GiB --layers 16 --batch 80 --slice 1s --policy predict,swap --span 16s
}

libraries() {
    if [ -n "$DRY" ]; then echo "== libraries: bench/h200/hostbacked.py alone and on 64 MiB"; return; fi
    step "libraries on memory of the host" 240 bash bench/h200/hostbacked.sh
}

curves() {
    measure curves 570 oversub --footprint 150 --slice "$(pick 50ms,100ms,250ms,500ms,1s,2s,4s 100ms,200ms)" --policy predict,swap,serial,paging \
        --span "$(pick 3s 300ms)" --cycles 1 --plot "$OUT/oversub-curves"
}

parts=(correct swap oversub compare patterns inside sparse physical growing urgent fits training mix libraries curves)
if [ $# -eq 0 ]; then
    sed -n '2,21p' "$0"
    [ -n "$DRY" ] || exit 2
    set -- "${parts[@]}"
fi
for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || { echo "no part $part; there are: ${parts[*]}"; exit 2; }
done
for part in "$@"; do "$part"; done
dmesg 2>/dev/null | grep -i xid || echo "no Xid in the kernel's log, or no leave to read it"
finish
