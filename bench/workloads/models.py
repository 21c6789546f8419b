"""Decodes with two Llama-shaped models in one process and reports the latency of one of them.

The first makes a token every --gap-ms, the other makes tokens without pause, each on a stream and a thread of its own.
Phases take turns: "alone", "other" (alone), "native" (both, as PyTorch has it), "xmsched" (both behind XQueues of the
package xmsched under HPF; a command is one layer). One JSON object a line on stdout, the last is
{"event": "result", "models": {"phases": [...]}, "differing": N}: tokens that differ from those of a run alone, of both
models in every phase.
"""

import argparse
import contextlib
import json
import os
import sys
import threading
import time

# Before the first CUDA call: lets cuBLAS keep one order of summation.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

import xmsched  # noqa: E402

MODES = ("alone", "other", "native", "xmsched")


def say(**event):
    print(json.dumps(event), flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=float, default=10, help="length of each phase, all rounds together")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--hidden", type=int, default=4096)
    p.add_argument("--vocabulary", type=int, default=128256)
    p.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    p.add_argument("--tokens", type=int, default=64, help="tokens decoded before the prompt starts again")
    p.add_argument("--gap-ms", type=float, default=20, help="pause between two tokens of the first model")
    p.add_argument("--threshold", type=int, default=2, help="layers of the other that are outstanding, under xmsched")
    p.add_argument("--idle-after-ms", type=float, default=0.5, help="how long the first is without commands until it is idle")
    return p.parse_args()


class Decoder:
    """One model with its prompt and its stream."""

    def __init__(self, args, seed):
        config = LlamaConfig(
            hidden_size=args.hidden,
            intermediate_size=args.hidden * 7 // 2,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 128,
            num_key_value_heads=max(1, args.hidden // 512),
            vocab_size=args.vocabulary,
            max_position_embeddings=8192,
        )
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            self.model = LlamaForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)
        self.prompt = torch.randint(0, args.vocabulary, (1, args.prompt), device="cuda")
        self.stream = torch.cuda.Stream()
        self.count = args.tokens
        self.reference = []
        self.differing = 0
        self.hooks = []
        self.launch = None

    def parts(self):
        """The modules whose launches are one command each."""
        inner = self.model.model
        return [inner.embed_tokens, *inner.layers, inner.norm, self.model.lm_head]

    def put_behind(self, queue):
        """Every part waits for the queue before it launches."""

        def before(module, inputs):
            self.launch = queue.launch()
            self.launch.__enter__()

        def after(module, inputs, output):
            launch, self.launch = self.launch, None
            if launch is not None:
                launch.__exit__(None, None, None)

        for part in self.parts():
            self.hooks.append(part.register_forward_pre_hook(before))
            # Called as well when the part raises, so that the queue goes on.
            self.hooks.append(part.register_forward_hook(after, always_call=True))

    def take_away(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def decode(self, wanted, pause=lambda: None):
        """Yields the milliseconds of one token after the other, while wanted; the prompt's own pass is not timed."""
        while wanted():
            cache, current = None, self.prompt
            for i in range(self.count + 1):
                pause()
                if not wanted():
                    return
                began = time.perf_counter()
                out = self.model(input_ids=current, past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                current = out.logits[:, -1:].argmax(-1)
                token = current.item()
                ended = time.perf_counter()
                if len(self.reference) <= i:
                    self.reference.append(token)
                self.differing += token != self.reference[i]
                if i > 0:
                    yield (ended - began) * 1e3

    @contextlib.contextmanager
    def here(self):
        """What this thread needs: both are a thread's own."""
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            yield


class Phase:
    def __init__(self, mode):
        self.mode, self.latency_us, self.tokens, self.span_s = mode, [], 0, 0.0

    def result(self):
        return {"mode": self.mode, "latency_us": self.latency_us, "tokens": self.tokens, "span_s": self.span_s}


def work(other, phase, stop, failed):
    try:
        with other.here():
            for _ in other.decode(lambda: not stop.is_set()):
                phase.tokens += 1
    except BaseException as e:
        failed.append(e)


def queues(args, first, other, stack):
    for decoder, options in (
        (first, {"priority": 10, "idle_after": args.idle_after_ms / 1e3}),
        (other, {"threshold": args.threshold, "batch_size": 1}),
    ):
        queue = stack.enter_context(xmsched.XQueue(decoder.stream, **options))
        decoder.put_behind(queue)
        stack.callback(decoder.take_away)


def run(args, phase, first, other, seconds):
    with contextlib.ExitStack() as stack:
        if phase.mode == "xmsched":
            queues(args, first, other, stack)
        stop, failed = threading.Event(), []
        worker = threading.Thread(target=work, args=(other, phase, stop, failed))
        if phase.mode != "alone":
            worker.start()
        began = time.monotonic()
        try:
            if phase.mode == "other":
                time.sleep(seconds)
            else:
                with first.here():
                    wanted = lambda: not failed and time.monotonic() < began + seconds  # noqa: E731
                    for ms in first.decode(wanted, lambda: time.sleep(args.gap_ms / 1e3)):
                        phase.latency_us.append(ms * 1e3)
        finally:
            phase.span_s += time.monotonic() - began
            stop.set()
            if phase.mode != "alone":
                worker.join()
        if failed:
            raise failed[0]


def main():
    args = arguments()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # costs time and changes no result here
    first, other = Decoder(args, 0), Decoder(args, 1)
    torch.cuda.synchronize()
    for decoder in (first, other):  # warm, and for the tokens that all later ones must be
        with decoder.here():
            for _ in zip(range(args.tokens), decoder.decode(lambda: True)):
                pass
    xmsched.set_policy("HPF")
    say(event="ready")
    phases = [Phase(mode) for mode in MODES]
    for round_number in range(args.rounds):
        for phase in phases:
            run(args, phase, first, other, args.seconds / args.rounds)
        say(event="progress", count=round_number + 1)
    say(event="result", models={"phases": [p.result() for p in phases]}, differing=first.differing + other.differing)


if __name__ == "__main__":
    try:
        main()
    except Exception as e:
        say(event="error", message=f"{type(e).__name__}: {e}")
        sys.exit(1)
