"""The results of the C interface as exceptions."""

from __future__ import annotations

from typing import Dict, Type


class Error(RuntimeError):
    """A call was refused or a command failed; ``code`` is the result of the C interface (shim/include/xmsched.h)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class HardwareError(Error):
    """The hardware queue failed, and its XQueue is broken."""


class InvalidValue(Error, ValueError):
    """A value is out of range; the message names the range."""


class NotFound(Error, LookupError):
    """The handle is not known: the queue has been closed."""


class NotAllowed(Error):
    """Not in this state, or not in a forked child."""


class NotSupported(Error):
    """This cannot be had; the message says why."""


class Timeout(Error, TimeoutError):
    """The time was over first."""


class Dropped(Error):
    """The command was dropped before its launch."""


SUCCESS, TIMEOUT = 0, 100
_KINDS: Dict[int, Type[Error]] = {
    1: HardwareError,
    2: InvalidValue,
    3: NotFound,
    4: NotAllowed,
    5: NotSupported,
    TIMEOUT: Timeout,
    101: Dropped,
}


def error(code: int, message: str) -> Error:
    return _KINDS.get(code, Error)(code, message)
