# What CUDA's libraries compute: one line a library, with a digest of the result.
# Run twice, without and with the preload library, it must print the same.
import hashlib
import os

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.manual_seed(7)


def say(name, t):
    print(name, hashlib.sha256(t.detach().float().cpu().numpy().tobytes()).hexdigest()[:16])


a, b = torch.randn(512, 512).cuda(), torch.randn(512, 512).cuda()
for _ in range(50):
    c = torch.mm(a, b)
say("cublas", c)
say("cublaslt", torch.addmm(torch.ones(512, device="cuda", dtype=torch.bfloat16), a.bfloat16(), b.bfloat16()))
image, weight = torch.randn(8, 16, 64, 64).cuda(), torch.randn(32, 16, 3, 3).cuda()
say("cudnn", torch.nn.functional.conv2d(image, weight, padding=1))
say("cufft", torch.view_as_real(torch.fft.fft2(image)))
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    d = torch.mm(a, b) + 1
for _ in range(20):
    graph.replay()
torch.cuda.synchronize()
say("graph", d)

import torch.distributed as dist  # noqa: E402

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29617")
dist.init_process_group("nccl", rank=0, world_size=1)
e = a.clone()
dist.all_reduce(e)
say("nccl", e)
dist.destroy_process_group()
