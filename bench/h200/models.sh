#!/usr/bin/env bash
# The row models: two models in one process by the Go, C and Python interfaces, under 4 minutes.
. "$(dirname "$0")/lib.sh"

step models 60 bin/xbench models --seconds 4 --interfaces go,c --results "$OUT"
step models-python 150 bin/xbench models --seconds 8 --interfaces python --results "$OUT"
finish
