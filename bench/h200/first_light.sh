#!/usr/bin/env bash
# The first look on a GPU machine, some 3 minutes: what is there, the driver's
# transcript, the demonstration, and the rows launch and startup.
. "$(dirname "$0")/lib.sh"

demo=$(mktemp -d)
trap 'rm -rf "$demo" "$state"' EXIT

step doctor 20 bash -c 'bin/xcli doctor || true' # it misses a daemon, rightly
step conformance 90 bin/xbench conformance --out "$OUT/conformance.txt"
step demo 90 bin/xbench demo --out "$demo"
step startup 60 bin/xbench startup --results "$OUT"
step launch 180 bin/xbench launch --results "$OUT"
cp "$demo"/latency.png "$demo"/background.png "$OUT"/ 2>/dev/null
finish
