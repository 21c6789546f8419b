"""Schedule your own work on an accelerator: preemptible queues, hints and policies inside one process."""

from ._errors import (
    Dropped,
    Error,
    HardwareError,
    InvalidValue,
    NotAllowed,
    NotFound,
    NotSupported,
    Timeout,
)
from ._hardware import HardwareQueue
from ._queue import Command, Info, XQueue
from ._scheduler import policies, set_k_deadline, set_policy, set_timeslice, unset_policy

__all__ = [
    "Command",
    "Dropped",
    "Error",
    "HardwareError",
    "HardwareQueue",
    "Info",
    "InvalidValue",
    "NotAllowed",
    "NotFound",
    "NotSupported",
    "Timeout",
    "XQueue",
    "policies",
    "set_k_deadline",
    "set_policy",
    "set_timeslice",
    "unset_policy",
]
