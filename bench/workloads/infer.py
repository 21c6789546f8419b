"""Classifies synthetic images with a torchvision model of random weights, batch by batch.

One of the programs whose kernels' memory is predicted; it knows nothing of xmsched. One JSON object a
line on stdout: {"event": "warm"} after the first batches, then it waits for a line on stdin (end of file:
it ends), classifies until --seconds are over and prints {"event": "result", ...}. Fixed seeds and fixed
data: every run must print the same classes.
"""

import argparse
import json
import sys
import time

import torch
import torchvision


def say(**event):
    print(json.dumps(event), flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", default="resnet152", choices=["resnet152", "vgg19", "inception_v3", "densenet201"])
    p.add_argument("--seconds", type=float, default=5, help="length of the measured part")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--image", type=int, default=0, help="pixels of a side; 0: as the model was made for")
    p.add_argument("--also", default="", help="other sizes to begin with, as 12,5@320: batches, pixels of a side if others")
    p.add_argument("--warm-up", type=int, default=8, help="batches of each size before the measured part")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cuda")
    return p.parse_args()


def build(args):
    torch.manual_seed(args.seed)
    options = {"init_weights": False} if args.model == "inception_v3" else {}
    return getattr(torchvision.models, args.model)(weights=None, **options).to(args.device).eval()


def sizes(args):
    """Yields (batch, side) of all sizes, the measured one last."""
    side = args.image or (299 if args.model == "inception_v3" else 224)
    for text in filter(None, args.also.split(",")):
        batch, _, other = text.partition("@")
        yield int(batch), int(other or side)
    yield args.batch, side


@torch.inference_mode()
def main():
    args = arguments()
    torch.backends.cudnn.benchmark = False  # a benchmark could choose another algorithm in each run
    model = build(args)
    for batch, side in sizes(args):
        images = torch.randn((batch, 3, side, side), device=args.device)
        for _ in range(args.warm_up):
            classes = model(images).argmax(1).tolist()
    say(event="warm")
    if not sys.stdin.readline():
        return
    batches, differing, began = 0, 0, time.monotonic()
    while time.monotonic() - began < args.seconds:
        differing += model(images).argmax(1).tolist() != classes
        batches += 1
    say(event="result", began_s=began, ended_s=time.monotonic(), batches=batches, batch=args.batch, classes=classes, differing=differing)


if __name__ == "__main__":
    main()
