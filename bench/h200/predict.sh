#!/usr/bin/env bash
# The row predict, workload by workload as named (all without arguments): what is learnt
# from runs with some sizes foretells runs with others. PyTorch's take 2 to 4 minutes
# each; science under one.
. "$(dirname "$0")/lib.sh"

workloads=("$@")
[ $# -gt 0 ] || workloads=(science resnet152 vgg19 inception_v3 densenet201 training llama)
for w in "${workloads[@]}"; do
    if [ -n "$DRY" ] && [ "$w" != science ]; then
        echo "xbench predict --workloads $w"
        continue
    fi
    measure "predict-$w" 290 predict --workloads "$w" $(pick "" "--rounds 2 --mib 4")
done
finish
