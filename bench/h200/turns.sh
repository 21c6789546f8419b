#!/usr/bin/env bash
# Where a turn goes while memory moves, a minute: oversub with turns of 250 and 100 ms, with a
# line of $OUT/moves.log for each move (XMSCHED_MEMORY_LOG) and, every second or so, a trace
# of 700 ms of what the daemon has the tasks do ($OUT/turns.tgz; ui.perfetto.dev shows them).
. "$(dirname "$0")/lib.sh"

export TMPDIR=$state XMSCHED_MEMORY_LOG=$OUT/moves.log
traces=$state/traces
mkdir "$traces"
{
    for i in $(seq 60); do
        sleep 0.3
        for run in "$TMPDIR"/xbench-*/run; do
            [ -d "$run" ] && bin/xcli --dir "$run" trace -o "$traces/$i.json" --for 700ms
        done
    done
} >/dev/null 2>&1 &
watcher=$!
measure turns 90 oversub --footprint 150 --policy predict --slice "$(pick 250ms,100ms 300ms)" --span "$(pick 2s 1s)" --cycles "$(pick 2 1)"
kill "$watcher" 2>/dev/null
wait
tar czf "$OUT/turns.tgz" -C "$traces" .
finish
