"""The scheduler that a process has for its own queues."""

from __future__ import annotations

import ctypes
from typing import List

from . import _library

_APP_MANAGED = 1


def policies() -> List[str]:
    """The names that set_policy takes."""
    names = ctypes.create_string_buffer(1024)
    _library.call("XPolicyNames", names, len(names))
    return names.value.decode().split()


def set_policy(name: str) -> None:
    """Has a policy schedule all queues of this process, present and future. It takes effect at once, and hints stay."""
    _library.call("XHintSetPolicy", name.encode())


def unset_policy() -> None:
    """Leaves scheduling to the program, as it is at first: every queue runs unless the program suspends it."""
    _library.call("XHintSetScheduler", _APP_MANAGED, 0)


def set_timeslice(seconds: float) -> None:
    """The length of a turn of all queues: 0.0001 to 10 s."""
    _library.tell("XHintTimeslice", _library.micros(seconds))


def set_k_deadline(k: int) -> None:
    """How many queues KEDF runs at once on a device."""
    _library.tell("XHintKDeadline", k)
