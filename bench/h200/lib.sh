# What the scripts of this folder share; sourced by each. They run in the
# repository's root on a machine that has bin/ and lib/ and no Go, and leave the
# card's settings alone. Rows and records go to $OUT, few files.
#
# DRY=1 runs a script on the simulated GPU with little of everything: to see that it
# works, never for a number.

set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
OUT=${OUT:-$PWD/bench/results/new}
mkdir -p "$OUT"
failed=0
DRY=${DRY:-}
# The device's spec sheet is measured once for all commands of a script.
state=$(mktemp -d)
export XMSCHED_STATE=${XMSCHED_STATE:-$state}
trap 'rm -rf "$state"' EXIT

# step NAME LIMIT_S CMD…: runs a step under a time limit and goes on whatever
# came of it: device time is scarce, and one failure must not cost the rest.
step() {
    local name=$1 limit=$2 begun=$SECONDS rc
    shift 2
    echo "== $name"
    timeout --kill-after=15 "$limit" "$@"
    rc=$?
    echo "== $name: exit code $rc after $((SECONDS - begun)) s"
    [ $rc -eq 0 ] || failed=$((failed + 1))
}

export OUT DRY

# measure NAME LIMIT_S ROW…: a step of xbench with the rows kept, on the simulated GPU when
# DRY. It is told itself when its time is over: it ends what it started, and keeps what rows
# it has.
measure() {
    local name=$1 limit=$2
    shift 2
    step "$name" "$limit" bin/xbench "$@" --results "$OUT" ${DRY:+--sim}
}

# pick REAL LITTLE: one or the other, as DRY says.
pick() { if [ -n "$DRY" ]; then echo "$2"; else echo "$1"; fi; }

# finish: says which numbers the rows in $OUT reach; the exit code is the number of failed steps.
finish() {
    if compgen -G "$OUT/*.jsonl" >/dev/null; then
        bin/xbench check "$OUT"/*.jsonl
    fi
    echo "$failed steps failed"
    exit "$failed"
}
