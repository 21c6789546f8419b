"""Decodes tokens with a Llama-3-8B-shaped model of random weights and reports the latency of each.

The latency-critical half of the pytorch row, as a program that knows nothing of xmsched. One JSON
object a line on stdout: {"event": "warm"} after each prompt once, others (--also) before its own,
then it waits for a line on stdin (end of file: it ends), decodes for --seconds, or until the end of
stdin, and prints {"event": "result", ...}. Greedy decoding of one fixed prompt from fixed seeds: every
run must print the same tokens, whatever else the card does. Times are in seconds of CLOCK_MONOTONIC,
so that they compare with other processes'.
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
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402


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
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--hidden", type=int, default=4096)
    p.add_argument("--vocabulary", type=int, default=128256)
    p.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    p.add_argument("--also", default="", help="tokens of other prompts to begin with, as 20,700")
    p.add_argument("--tokens", type=int, default=128, help="tokens decoded before the prompt starts again")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cuda")
    return p.parse_args()


def build(args):
    config = LlamaConfig(
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 7 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=max(1, args.hidden // 512),
        vocab_size=args.vocabulary,
        max_position_embeddings=8192,
    )
    torch.manual_seed(args.seed)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(args.device):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    return model


def sequence(model, prompt, count, until=None):
    """Yields (token, milliseconds) of up to count decoded tokens; the prompt's own pass is not timed."""
    cache, current = None, prompt
    for i in range(count + 1):
        began = time.perf_counter()
        out = model(input_ids=current, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        current = out.logits[:, -1:].argmax(-1)
        token = current.item()
        ended = time.perf_counter()
        if i > 0:
            yield token, (ended - began) * 1e3
        if until is not None and time.monotonic() >= until:
            return


def main():
    args = arguments()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # costs time and changes no result here
    with torch.inference_mode():
        model = build(args)
        for length in [*map(int, filter(None, args.also.split(","))), args.prompt]:
            prompt = torch.randint(0, args.vocabulary, (1, length), device=args.device)
            reference = [token for token, _ in sequence(model, prompt, args.tokens)]
        say(event="warm")
        if not sys.stdin.readline():
            return
        end = told_to_end()
        latency, token_ends, differing = [], [], 0
        began = time.monotonic()
        until, said = began + args.seconds, began
        while time.monotonic() < until and not end.is_set():
            for i, (token, ms) in enumerate(sequence(model, prompt, args.tokens, until)):
                latency.append(ms)
                token_ends.append(time.monotonic())
                differing += token != reference[i]
                if end.is_set():
                    break
            if time.monotonic() - said >= 1:
                said = time.monotonic()
                say(event="progress", count=len(latency), at_s=said)
        ended = time.monotonic()
    memory = torch.cuda.max_memory_allocated() if args.device.startswith("cuda") else 0
    say(event="result", began_s=began, ended_s=ended, latency_ms=latency, token_ends_s=token_ends, tokens=reference,
        differing=differing, memory_bytes=memory)


if __name__ == "__main__":
    main()
