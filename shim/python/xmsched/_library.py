"""The shared library: where it is, and its functions' types.

Every call releases the interpreter's lock, so that a thread that waits for its queue keeps no other from running.
"""

from __future__ import annotations

import ctypes
import math
import os
import pathlib
import threading
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint64, c_void_p
from typing import Any, List, Optional

from ._errors import SUCCESS, InvalidValue, NotSupported, error

NAME = "libxmsched_api.so"

LaunchCallback = CFUNCTYPE(c_int, c_uint64, c_void_p)
MarkCallback = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
WaitCallback = CFUNCTYPE(c_int, c_void_p, c_void_p)
SynchronizeCallback = CFUNCTYPE(c_int, c_void_p)


class HardwareOps(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("mark", MarkCallback),
        ("wait", WaitCallback),
        ("synchronize", SynchronizeCallback),
    ]


class QueueInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("suspended", c_int32),
        ("open", c_int32),
        ("submitted", c_uint64),
        ("launched", c_uint64),
        ("completed", c_uint64),
        ("threshold", c_int64),
        ("batch_size", c_int64),
        ("device", c_char * 64),
    ]


_ARGUMENTS = {
    "CudaQueueCreate": [POINTER(c_uint64), c_void_p],
    "HwQueueCreate": [POINTER(c_uint64), POINTER(HardwareOps), c_void_p],
    "HwQueueDestroy": [c_uint64],
    "HwQueueSynchronize": [c_uint64],
    "HwCommandCreateCallback": [POINTER(c_uint64), LaunchCallback, c_void_p],
    "HwCommandDestroy": [c_uint64],
    "XQueueCreate": [POINTER(c_uint64), c_uint64, c_int64, c_int64],
    "XQueueDestroy": [c_uint64],
    "XQueueGet": [POINTER(c_uint64), c_uint64],
    "XQueueSetLaunchConfig": [c_uint64, c_int64, c_int64],
    "XQueueSubmit": [c_uint64, c_uint64],
    "XQueueLaunchBegin": [c_uint64, POINTER(c_uint64)],
    "XQueueLaunchEnd": [c_uint64, c_uint64, c_int],
    "XQueueWaitCommand": [c_uint64, c_uint64],
    "XQueueWaitTimeout": [c_uint64, c_uint64, c_int64],
    "XQueueSuspend": [c_uint64, c_int64],
    "XQueueResume": [c_uint64, c_int64],
    "XQueueGetInfo": [c_uint64, POINTER(QueueInfo)],
    "XHintText": [c_uint64, c_char_p],
    "XHintGetText": [c_uint64, c_char_p, c_size_t],
    "XHintTimeslice": [c_int64],
    "XHintKDeadline": [c_size_t],
    "XHintSetScheduler": [c_int, c_int],
    "XHintSetPolicy": [c_char_p],
    "XPolicyNames": [c_char_p, c_size_t],
}

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def _places() -> List[str]:
    chosen = os.environ.get("XMSCHED_API_LIBRARY")
    if chosen:
        return [chosen]
    here = pathlib.Path(__file__).resolve().parent
    near = [here / NAME, here.parents[2] / "lib" / NAME if len(here.parents) > 2 else here / NAME]
    return [str(p) for p in near if p.exists()] + [NAME]


def library() -> ctypes.CDLL:
    """Loads the library, once. NotSupported says where it was looked for."""
    global _loaded
    with _lock:
        if _loaded is None:
            failures = []
            for place in _places():
                try:
                    _loaded = _typed(ctypes.CDLL(place))
                    break
                except (OSError, AttributeError) as e:
                    failures.append(f"{place}: {e}")
            else:
                raise NotSupported(5, "xmsched's library cannot be loaded: " + "; ".join(failures))
        return _loaded


def _typed(loaded: ctypes.CDLL) -> ctypes.CDLL:
    for name, arguments in _ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, c_int
    loaded.XLastError.argtypes, loaded.XLastError.restype = [], c_char_p
    return loaded


def call(name: str, *arguments: Any) -> None:
    """Calls a function and raises what it refuses."""
    loaded = _loaded or library()
    code = getattr(loaded, name)(*arguments)
    if code != SUCCESS:
        raise error(code, (loaded.XLastError() or b"").decode(errors="replace"))


_LEAST_AND_MOST = {
    c_int32: (-(1 << 31), (1 << 31) - 1),
    c_int64: (-(1 << 63), (1 << 63) - 1),
    c_size_t: (0, (1 << 64) - 1),
}


def tell(name: str, *arguments: Any) -> None:
    """As call, with numbers of the user's: ctypes would cut those that do not fit; the nearest that does is refused
    as they are."""
    fitting = list(arguments)
    for i, (kind, value) in enumerate(zip(_ARGUMENTS[name], arguments)):
        if isinstance(value, int) and kind in _LEAST_AND_MOST:
            least, most = _LEAST_AND_MOST[kind]
            fitting[i] = max(least, min(value, most))
    call(name, *fitting)


def micros(seconds: float) -> int:
    """A length of time as the library takes it; below 0 never -1, which is none there."""
    if math.isnan(seconds):
        raise InvalidValue(2, f"{seconds} is no length of time")
    if math.isinf(seconds):
        return (1 << 63) - 1 if seconds > 0 else -2
    us = round(seconds * 1e6)
    return us if us >= 0 else min(us, -2)


def handle(name: str, *arguments: Any) -> int:
    """Calls a function whose first argument is where it stores a handle."""
    out = c_uint64()
    call(name, byref(out), *arguments)
    return out.value
