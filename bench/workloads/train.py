"""Trains a ResNet on synthetic images and reports losses and when each step ended.

The background half of the pytorch row, as a program that knows nothing of xmsched. One JSON object
a line on stdout: {"event": "warm"} after the warm-up steps, those of other batches (--also) before its
own, then it waits for a line on stdin (end of file: it ends), trains for --seconds, or until the end of
stdin, and at least until --losses losses are known, and prints {"event": "result", ...}. Fixed seeds
and fixed data: every run must print the same losses, whatever else the card does. Times are in seconds
of CLOCK_MONOTONIC, so that they compare with other processes'.
"""

import argparse
import json
import os
import sys
import threading
import time

# Before the first CUDA call: lets cuBLAS keep one order of summation.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torchvision  # noqa: E402


def say(**event):
    print(json.dumps(event), flush=True)


def told_to_end():
    """An event that is set at the end of stdin, which cuts the measured part short."""
    ended = threading.Event()

    def watch():
        while os.read(0, 4096):  # not by sys.stdin, whose lock a thread must not hold at exit
            pass
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=float, default=20, help="length of the measured part")
    p.add_argument("--depth", type=int, default=152, choices=[18, 34, 50, 101, 152])
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--also", default="", help="other batches to begin with, as 20,32")
    p.add_argument("--image", type=int, default=224, help="pixels of a side")
    p.add_argument("--warm-up", type=int, default=3, help="steps of each batch before the measured part")
    p.add_argument("--losses", type=int, default=8, help="losses to print, the warm-up's included")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cuda")
    return p.parse_args()


class Trainer:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        make = getattr(torchvision.models, f"resnet{args.depth}")
        self.model = make().to(args.device).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.device, self.side = args.device, args.image
        self.kind = args.device.split(":")[0]

    def feed(self, batch):
        size = (batch, 3, self.side, self.side)
        self.images = torch.randn(size, device=self.device).to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 1000, (batch,), device=self.device)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.kind, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    args = arguments()
    torch.backends.cudnn.benchmark = False  # a benchmark could choose another algorithm in each run
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # costs time and changes no result here
    trainer = Trainer(args)
    losses = []
    for batch in [*map(int, filter(None, args.also.split(","))), args.batch]:
        trainer.feed(batch)
        losses += [trainer.step() for _ in range(args.warm_up)]
    say(event="warm")
    if not sys.stdin.readline():
        return
    end = told_to_end()
    step_ends = []
    began = said = time.monotonic()
    while (time.monotonic() - began < args.seconds and not end.is_set()) or len(losses) < args.losses:
        losses.append(trainer.step())
        step_ends.append(time.monotonic())
        if step_ends[-1] - said >= 1:
            said = step_ends[-1]
            say(event="progress", count=len(step_ends), at_s=said)
    ended = time.monotonic()
    memory = torch.cuda.max_memory_allocated() if args.device.startswith("cuda") else 0
    say(event="result", began_s=began, ended_s=ended, batch=args.batch, step_ends_s=step_ends,
        losses=losses[:args.losses], memory_bytes=memory)


if __name__ == "__main__":
    main()
