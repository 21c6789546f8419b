"""workers.py METHOD cold|warm: four workers that launch, started by a
multiprocessing method from a parent that has used CUDA (warm) or not."""
import ctypes
import multiprocessing
import sys


def use():
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(1000):
        assert cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    assert cuda.cuCtxSynchronize() == 0


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    if sys.argv[2] == "warm":
        use()
    workers = [multiprocessing.Process(target=use) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    print("exit codes", [worker.exitcode for worker in workers])
