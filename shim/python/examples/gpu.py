"""What the examples share: a device, and models that are chains of kernels on a stream of their own.

With PyTorch none of this is needed: give XQueue a torch.cuda.Stream. The kernels' text is in the file that XM_PTX names
(hal/kernels/kernels.ptx).
"""

import ctypes
import os
import struct

THREADS, BLOCKS = 64, 4


class GPU:
    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        device, self.context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.kernel = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.use()
        with open(os.environ["XM_PTX"], "rb") as f:
            self.call("cuModuleLoadData", ctypes.byref(module), f.read())
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"xm_spin")

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: the driver's error {result}")

    def use(self):
        """Makes the context current on this thread."""
        self.call("cuCtxSetCurrent", self.context)


class Model:
    """A chain of layers, each one kernel. It has a cuda_stream, which is all that an XQueue asks for."""

    def __init__(self, gpu, layers, iterations):
        self.gpu, self.layers, self.iterations = gpu, layers, iterations
        stream, out = ctypes.c_void_p(), ctypes.c_uint64()
        gpu.call("cuStreamCreate", ctypes.byref(stream), 1)
        gpu.call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(4 * THREADS * BLOCKS))
        self.cuda_stream = stream.value
        self.out, self.count = out, ctypes.c_uint64(iterations)
        self.arguments = (ctypes.c_void_p * 2)(ctypes.addressof(self.out), ctypes.addressof(self.count))

    def layer(self):
        """Launches one layer."""
        self.gpu.call(
            "cuLaunchKernel", self.gpu.kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, ctypes.c_void_p(self.cuda_stream),
            self.arguments, None,
        )

    def synchronize(self):
        self.gpu.call("cuStreamSynchronize", ctypes.c_void_p(self.cuda_stream))

    def verify(self):
        """Compares what the last layer computed with what it must be."""
        got = ctypes.create_string_buffer(4 * THREADS * BLOCKS)
        self.gpu.call("cuMemcpyDtoH_v2", got, self.out, ctypes.c_size_t(len(got.raw)))
        mul, add, step_mul, step_add, n = 1, 0, 1664525, 1013904223, self.iterations
        while n:  # so many steps of x -> step_mul * x + step_add as one
            if n & 1:
                mul, add = mul * step_mul, add * step_mul + step_add
            step_mul, step_add, n = step_mul * step_mul, step_add * step_mul + step_add, n >> 1
        want = [(mul * i + add) & 0xFFFFFFFF for i in range(THREADS * BLOCKS)]
        assert list(struct.unpack(f"<{THREADS * BLOCKS}I", got.raw)) == want, "a word is wrong"
