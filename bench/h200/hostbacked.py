"""What kernels compute that memory of the host could hurt: a line each, with a digest and milliseconds.

Scans that look back at what other blocks wrote, atomics (on integers, so that their order changes
nothing), sorting, and products of matrices whose kernels load by tensor maps. Fixed seeds: two runs
must print the same digests wherever the memory lies.
"""

import hashlib
import time

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.manual_seed(3)
N = 1 << 24


def say(name, work):
    work()
    torch.cuda.synchronize()
    began = time.perf_counter()
    out = work()
    torch.cuda.synchronize()
    ms = (time.perf_counter() - began) * 1e3
    print(name, hashlib.sha256(out.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16], f"{ms:.1f}", flush=True)


values = torch.randint(-1000, 1000, (N,), device="cuda")
places = torch.randint(0, N // 16, (N,), device="cuda")
say("scan", lambda: torch.cumsum(values, 0))
say("scan-of-max", lambda: torch.cummax(values, 0).indices)
say("select", lambda: values[values > 17])
say("atomics-spread", lambda: torch.zeros(N // 16, dtype=torch.int64, device="cuda").scatter_add_(0, places, values))
say("atomics-few", lambda: torch.zeros(8, dtype=torch.int64, device="cuda").scatter_add_(0, places % 8, values))
say("histogram", lambda: torch.bincount(places, minlength=N // 16))
say("sort", lambda: torch.sort(values, stable=True).indices)
a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
say("product", lambda: a @ b)
say("product-batched", lambda: torch.bmm(a.view(64, 128, 8192), b.view(64, 8192, 128)))
