"""Hardware queues: CUDA streams, and those of a program's own."""

from __future__ import annotations

import ctypes
import itertools
import threading
import traceback
from typing import Any, Dict, Protocol, Tuple, runtime_checkable

from . import _library
from ._errors import InvalidValue

_FAILED = 1  # the C interface's hardware error


@runtime_checkable
class HardwareQueue(Protocol):
    """A queue of any accelerator, as its user sees it: commands are worked off in their order.

    The methods are called from threads of the library. An exception means that the queue is broken.
    """

    device: str
    """Queues of one name share a device."""

    def mark(self) -> Any:
        """Put a marker behind everything launched so far. Never beside a launch or another mark."""

    def wait(self, marker: Any) -> None:
        """Wait until the queue has passed the marker, which is not used again."""

    def synchronize(self) -> None:
        """Wait until everything in the queue is done."""


class _Custom:
    """Holds what the library calls for one HardwareQueue; markers are numbers there."""

    def __init__(self, queue: HardwareQueue) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        self.markers: Dict[int, Any] = {}
        self.numbers = itertools.count(1)
        self.ops = _library.HardwareOps(
            ctypes.sizeof(_library.HardwareOps),
            str(queue.device).encode(),
            _library.MarkCallback(self.mark),
            _library.WaitCallback(self.wait),
            _library.SynchronizeCallback(self.synchronize),
        )

    def mark(self, _data: Any, out: Any) -> int:
        try:
            marker = self.queue.mark()
        except Exception:
            traceback.print_exc()
            return _FAILED
        with self.lock:
            number = next(self.numbers)
            self.markers[number] = marker
        out[0] = number
        return 0

    def wait(self, _data: Any, number: int) -> int:
        with self.lock:
            marker = self.markers.pop(number)
        try:
            self.queue.wait(marker)
        except Exception:
            traceback.print_exc()
            return _FAILED
        return 0

    def synchronize(self, _data: Any) -> int:
        try:
            self.queue.synchronize()
        except Exception:
            traceback.print_exc()
            return _FAILED
        return 0


def make(stream: Any) -> Tuple[int, Any]:
    """Makes a hardware queue of a stream: the handle, and what must live as long as it."""
    if isinstance(stream, HardwareQueue):
        custom = _Custom(stream)
        return _library.handle("HwQueueCreate", ctypes.byref(custom.ops), None), custom
    number = getattr(stream, "cuda_stream", stream)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidValue(2, f"stream: {stream!r} is no number, has no cuda_stream, and is no HardwareQueue")
    return _library.handle("CudaQueueCreate", number), stream
