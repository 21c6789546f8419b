#!/usr/bin/env bash
# The row predict, workload by workload as named (all without arguments): what is learnt
# from runs with some sizes foretells runs with others. PyTorch's take 1.5 to 3 minutes
# each; science under two. TOGETHER=1 has them run at the same time, each with a daemon of
# its own, so that none of them waits: learn_s says less then. What was seen and learnt is
# kept in $OUT/predict-logs.tgz, to learn from again without a GPU.
. "$(dirname "$0")/lib.sh"

workloads=("$@")
[ $# -gt 0 ] || workloads=(science resnet152 vgg19 inception_v3 densenet201 training llama)
logs=$state/logs
mkdir "$logs"
one() { measure "predict-$1" 420 predict --workloads "$1" --logs "$logs" $(pick "" "--rounds 2 --mib 4"); }
for w in "${workloads[@]}"; do
    if [ -n "$DRY" ] && [ "$w" != science ]; then
        echo "xbench predict --workloads $w"
        continue
    fi
    if [ -n "${TOGETHER:-}" ]; then (one "$w"; exit "$failed") & else one "$w"; fi
done
for job in $(jobs -p); do wait "$job" || failed=$((failed + 1)); done
tar czf "$OUT/predict-logs.tgz" -C "$logs" .
finish
