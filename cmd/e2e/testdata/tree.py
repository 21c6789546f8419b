"""A job of several processes: one forked, one spawned, one executed, each of
which keeps a GPU busy. The parent itself does not use it. Prints how many kernels
all of them have completed.

    tree.py PTX ITERATIONS
"""

import ctypes
import multiprocessing
import subprocess
import sys
import time


def check(result):
    if result:
        raise RuntimeError(f"error {result}")


def spin(ptx, iterations, complete):
    cuda = ctypes.CDLL("libcuda.so.1")
    device = ctypes.c_int()
    context, module, kernel, stream = (ctypes.c_void_p() for _ in range(4))
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    with open(ptx, "rb") as f:
        check(cuda.cuModuleLoadData(ctypes.byref(module), f.read() + b"\0"))
    check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"xm_spin"))
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    out, count = ctypes.c_uint64(0), ctypes.c_uint64(iterations)
    args = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(count))
    while True:
        for _ in range(4):
            check(cuda.cuLaunchKernel(kernel, 132, 1, 1, 128, 1, 1, 0, stream, args, None))
        check(cuda.cuStreamSynchronize(stream))
        with complete.get_lock():
            complete.value += 4


def main():
    ptx, iterations = sys.argv[1], int(sys.argv[2])
    counts = []
    for method in "fork", "spawn":
        run = multiprocessing.get_context(method)
        complete = run.Value("Q", 0)
        run.Process(target=spin, args=(ptx, iterations, complete), daemon=True).start()
        counts.append(complete)
    child = subprocess.Popen([sys.executable, __file__, ptx, str(iterations), "alone"])
    while child.poll() is None:
        print(sum(c.value for c in counts), flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        spin(sys.argv[1], int(sys.argv[2]), multiprocessing.Value("Q", 0))
    main()
