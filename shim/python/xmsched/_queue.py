"""XQueues and their commands."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import sys
import time
from types import TracebackType
from typing import Any, Callable, ContextManager, Dict, Iterator, NamedTuple, Optional, Set, Tuple, Type

from . import _hardware, _library
from ._errors import Dropped, Error, InvalidValue, Timeout

_LAUNCH_FAILED = 999
_BLOCK = 1
_PATIENCE = 0.1  # s; between two looks whether a signal has come


class Info(NamedTuple):
    """An XQueue at one moment."""

    device: str
    suspended: bool
    """By the program."""
    open: bool
    """The scheduler's word; the queue runs if it is open and not suspended."""
    submitted: int
    launched: int
    completed: int
    threshold: int
    batch_size: int


class Command:
    """One submitted piece of work."""

    def __init__(self, queue: XQueue, handle: int) -> None:
        self._queue = queue
        self._handle = handle
        self._ended = False
        self._raised: Optional[BaseException] = None
        self._result: Any = None

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Wait until the hardware has worked the command off; returns what its function returned, or raises what that
        raised, what the hardware did, or Timeout after so many seconds. It may be called again."""
        if not self._ended:
            try:
                self._queue._wait(self._handle, timeout)
            except Timeout:
                raise
            except Error:
                if self._raised is None:
                    raise
            self._ended = True
        if self._raised is not None:
            raise self._raised
        return self._result

    def _run(self, function: Callable[[], Any]) -> int:
        try:
            with self._queue._current():
                self._result = function()
        except BaseException as e:  # belongs to whoever waits
            self._raised = e
            return _LAUNCH_FAILED
        return 0

    def __del__(self) -> None:
        if self._handle and not sys.is_finalizing():
            with contextlib.suppress(Error):
                _library.call("HwCommandDestroy", self._handle)


# Functions that have been submitted and not been run, by a number that the library passes on.
_waiting: Dict[int, Tuple[Command, Callable[[], Any]]] = {}
_number = iter(range(1, 1 << 62)).__next__


def _launch(_hardware_queue: int, data: Optional[int]) -> int:
    command, function = _waiting.pop(data or 0)
    return command._run(function)


_launch_callback = _library.LaunchCallback(_launch)

# Queues that are open, whether or not the program still holds them: the library calls what is theirs, and must not
# enter an interpreter that has ended.
_open: Set[XQueue] = set()


@atexit.register
def _close_all() -> None:
    for queue in list(_open):
        with contextlib.suppress(Error):
            queue.close(drop=True)


class XQueue:
    """A preemptible queue over a CUDA stream, or over a HardwareQueue of the program's own.

    stream is an object with a ``cuda_stream`` (a torch.cuda.Stream), a stream's handle as a number, or a HardwareQueue.
    The hints are those of ``hint``. A queue is closed by ``close`` or at the end of its ``with``, and lives until then.
    """

    def __init__(
        self,
        stream: Any,
        *,
        threshold: Optional[int] = None,
        batch_size: Optional[int] = None,
        **hints: Any,
    ) -> None:
        self._stream = stream
        self._handle = 0
        self._hardware, self._keep = _hardware.make(stream)
        try:
            try:
                _library.handle("XQueueGet", self._hardware)
            except Error:
                pass
            else:
                raise InvalidValue(2, "the stream has an XQueue already")
            self._handle = _library.handle("XQueueCreate", self._hardware, _BLOCK, 0)
            self.configure(threshold=threshold, batch_size=batch_size)
            self.hint(**hints)
        except BaseException:
            self._give_up()
            raise
        _open.add(self)

    def _give_up(self) -> None:
        if self._handle:
            handle, self._handle = self._handle, 0
            with contextlib.suppress(Error):
                _library.call("XQueueDestroy", handle)
            with contextlib.suppress(Error):
                _library.call("HwQueueDestroy", self._hardware)

    def submit(self, function: Callable[[], Any], *, after: Optional[Command] = None) -> Command:
        """Append a command: function launches its work, on a thread of the queue, when the queue may run and, if after
        is given, that command of another queue is over. A torch stream is current while it runs. It must not wait
        for commands of its own queue."""
        if after is not None:
            self.wait_for(after)
        command = Command(self, 0)
        number = _number()
        command._handle = _library.handle("HwCommandCreateCallback", _launch_callback, number)
        _waiting[number] = (command, function)
        try:
            _library.call("XQueueSubmit", self._handle, command._handle)
        except BaseException:
            _waiting.pop(number, None)
            raise
        return command

    @contextlib.contextmanager
    def launch(self) -> Iterator[Command]:
        """Launch on this thread: waits until the queue may run; what is launched inside is one command. A torch stream
        is current inside. Nothing else of the queue is launched meanwhile, so do not wait for it inside."""
        handle = ctypes.c_uint64()
        _library.call("XQueueLaunchBegin", self._handle, ctypes.byref(handle))
        command = Command(self, handle.value)
        failed = _LAUNCH_FAILED
        try:
            with self._current():
                yield command
            failed = 0
        except BaseException as e:
            command._raised = e
            raise
        finally:
            _library.call("XQueueLaunchEnd", self._handle, command._handle, failed)

    def _current(self) -> ContextManager[Any]:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(self._stream, torch.cuda.Stream):
            stream: ContextManager[Any] = torch.cuda.stream(self._stream)
            return stream
        return contextlib.nullcontext()

    def wait_for(self, command: Command) -> None:
        """Commands submitted from now on are launched when a command of another queue is over. The scheduler knows:
        what a running queue waits for runs, too. It does not know of waits made on the device."""
        _library.call("XQueueWaitCommand", self._handle, command._handle)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Wait until everything submitted so far is over, or raise Timeout."""
        self._wait(0, timeout)

    def _wait(self, command: int, timeout: Optional[float]) -> None:
        if timeout is not None and math.isnan(timeout):
            raise InvalidValue(2, f"timeout {timeout} is no length of time")
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            patience = _PATIENCE if end is None else min(_PATIENCE, max(0.0, end - time.monotonic()))
            try:
                _library.call("XQueueWaitTimeout", self._handle, command, _library.micros(patience))
                return
            except Timeout:
                if end is not None and time.monotonic() >= end:
                    raise

    def suspend(self, *, sync: bool = False, wait_all: bool = False, wait_idle: bool = False) -> None:
        """Let no further command out until ``resume``. sync: return when the hardware queue is empty. wait_all: begin
        when all commands so far are over. wait_idle: begin at a moment without any command."""
        _library.call("XQueueSuspend", self._handle, sync * 1 | wait_all * 2 | wait_idle * 4)

    def resume(self, *, drop: bool = False) -> None:
        """Undo ``suspend``. drop: forget the commands that have not been launched."""
        self._resume(self._handle, drop)

    def _resume(self, handle: int, drop: bool) -> None:
        _library.call("XQueueResume", handle, int(drop))
        if drop:
            self._forget_dropped(handle)

    def _forget_dropped(self, handle: int) -> None:
        for number, (command, _) in list(_waiting.items()):
            if command._queue is self:
                try:
                    _library.call("XQueueWaitTimeout", handle, command._handle, 0)
                except Dropped:
                    _waiting.pop(number, None)
                except Error:
                    pass  # it is still to run

    def suspended(self) -> ContextManager[None]:
        """``with queue.suspended():`` suspends for a while, with an empty hardware queue."""
        return self._suspended()

    @contextlib.contextmanager
    def _suspended(self) -> Iterator[None]:
        self.suspend(sync=True)
        try:
            yield
        finally:
            self.resume()

    def configure(self, *, threshold: Optional[int] = None, batch_size: Optional[int] = None) -> None:
        """At most threshold commands (1 to 65536) are outstanding; batch_size of them share a completion marker. What
        is not given stays as it is."""
        for name, value in (("threshold", threshold), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise InvalidValue(2, f"{name} {value} is out of range: 1 to 65536")
        _library.tell("XQueueSetLaunchConfig", self._handle, threshold or 0, batch_size or 0)

    def hint(
        self,
        *,
        priority: Optional[int] = None,
        execute: Optional[bool] = None,
        utilization: Optional[int] = None,
        weight: Optional[int] = None,
        deadline: Optional[float] = None,
        laxity: Optional[float] = None,
        laxity_priorities: Tuple[int, int] = (0, 1),
        idle_after: Optional[float] = None,
        quantum: Optional[float] = None,
        min_share: Optional[float] = None,
    ) -> None:
        """Change the hints that are given. Times are in seconds. They belong to the queue, whatever the policy.

        priority: -255 to 255, the larger one wins. execute False: not at all, until a priority is given.
        utilization: percent, under UP, PUP, SPUP. weight: 1 to 1000, under CFS and WRR. deadline: after turning ready,
        under KEDF. laxity: after so long the second of laxity_priorities instead of the first, under LAX. idle_after:
        how long without commands until the queue counts as idle. quantum: length of a turn. min_share: 0 to 0.9. Of times
        and numbers 0 is the default.

        All of them are changed, or none: InvalidValue says which one is out of range."""
        if execute is True and priority is None:
            raise InvalidValue(2, "execute: give the priority to run with")
        if priority is not None and not -255 <= priority <= 255:
            raise InvalidValue(2, f"priority {priority} is out of range: -255 to 255")
        words = []
        if execute is False or priority is not None:
            words.append("priority=" + ("off" if execute is False else str(int(priority or 0))))
        for name, number in (("utilization", utilization), ("weight", weight)):
            if number is not None:
                words.append(f"{name}={int(number)}")
        for name, seconds in (("deadline", deadline), ("idle-after", idle_after), ("quantum", quantum)):
            if seconds is not None:
                words.append(f"{name}={_library.micros(seconds)}us")
        if laxity is not None:
            low, high = laxity_priorities
            words.append(f"laxity={_library.micros(laxity)}us:{int(low)}:{int(high)}")
        if min_share is not None:
            words.append(f"min-share={float(min_share)!r}")
        _library.call("XHintText", self._handle, " ".join(words).encode())

    def hints(self) -> Dict[str, str]:
        """The hints that differ from the default, by name and as text: {"priority": "5", "quantum": "10ms"}."""
        buffer = ctypes.create_string_buffer(1024)
        _library.call("XHintGetText", self._handle, buffer, len(buffer))
        words = buffer.value.decode(errors="replace").split()
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    def info(self) -> Info:
        """The queue as it stands."""
        raw = _library.QueueInfo(size=ctypes.sizeof(_library.QueueInfo))
        _library.call("XQueueGetInfo", self._handle, ctypes.byref(raw))
        return Info(
            raw.device.decode(errors="replace"), bool(raw.suspended), bool(raw.open), raw.submitted, raw.launched, raw.completed,
            raw.threshold, raw.batch_size,
        )

    @property
    def idle(self) -> bool:
        """Whether every submitted command is over."""
        info = self.info()
        return info.submitted == info.completed

    def close(self, *, drop: bool = False) -> None:
        """Take no more commands, let those that are in the queue out (drop: only those that have been launched), and
        wait for them. Closing again does nothing."""
        if not self._handle:
            return
        handle, self._handle = self._handle, 0  # first: other threads may be submitting
        _open.discard(self)
        try:
            if drop:
                with contextlib.suppress(Error):  # a broken queue has no commands
                    self._resume(handle, True)
            _library.call("XQueueDestroy", handle)
        finally:
            _library.call("HwQueueDestroy", self._hardware)
            for number, (command, _) in list(_waiting.items()):
                if command._queue is self:  # the queue broke before it ran
                    _waiting.pop(number, None)

    def __enter__(self) -> XQueue:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close(drop=kind is not None)

    def __repr__(self) -> str:
        if not self._handle:
            return "<XQueue closed>"
        return f"<XQueue {self._handle:#x} of {self._stream!r}>"
