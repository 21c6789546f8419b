"""Stands for PyTorch where there is none: as much of it as models.py uses, over the simulated driver.

A module launches one kernel on the current stream; tokens are a count.
"""

import contextlib
import ctypes
import os
import threading
import types

_local = threading.local()


class _Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        device, self.context, module, self.kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        with open(os.environ["XM_PTX"], "rb") as f:
            self.call("cuModuleLoadData", ctypes.byref(module), f.read())
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"xm_spin")
        self.arguments = (ctypes.c_uint64(0), ctypes.c_uint64(20_000))
        self.pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(a) for a in self.arguments))

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: {result}")

    def launch(self):
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuLaunchKernel", self.kernel, 1, 1, 1, 32, 1, 1, 0, ctypes.c_void_p(_local.stream), self.pointers, None)


_driver = _Driver()


class Module:
    def __init__(self):
        self._before, self._after = [], []

    def register_forward_pre_hook(self, hook):
        return _Handle(self._before, hook)

    def register_forward_hook(self, hook, *, always_call=False):
        assert always_call
        return _Handle(self._after, hook)

    def __call__(self):
        for hook in self._before:
            hook(self, ())
        try:
            _driver.launch()
        finally:
            for hook in self._after:
                hook(self, (), None)


class _Handle:
    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        self.hooks.remove(self.hook)


class Logits:
    def __init__(self, token):
        self.token = token

    def __getitem__(self, _):
        return self

    def argmax(self, _):
        return self

    def item(self):
        _driver.call("cuStreamSynchronize", ctypes.c_void_p(_local.stream))
        return self.token


class _Stream:
    def __init__(self):
        handle = ctypes.c_void_p()
        _driver.call("cuStreamCreate", ctypes.byref(handle), 1)
        self.cuda_stream = handle.value


@contextlib.contextmanager
def _stream(stream):
    before = getattr(_local, "stream", 0)
    _local.stream = stream.cuda_stream
    try:
        yield
    finally:
        _local.stream = before


cuda = types.SimpleNamespace(Stream=_Stream, stream=_stream, synchronize=lambda: _driver.call("cuCtxSynchronize"))
utils = types.SimpleNamespace(deterministic=types.SimpleNamespace(fill_uninitialized_memory=True))
inference_mode = contextlib.nullcontext
bfloat16 = float32 = object()


def manual_seed(_):
    pass


def set_default_dtype(_):
    pass


def use_deterministic_algorithms(_, warn_only):
    assert warn_only


def device(_):
    return contextlib.nullcontext()


def randint(_low, _high, _size, device):
    return device
