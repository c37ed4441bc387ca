"""Helper processes of a sync: forks of the process that writes, which end with it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PR_SET_PDEATHSIG = 1


def can_share() -> bool:
    """Whether other processes may help: forking is not safe if other threads hold locks."""
    threads = [thread for thread in threading.enumerate() if not getattr(thread, "is_fork_safe", False)]
    return sys.platform == "linux" and (os.cpu_count() or 1) > 1 and len(threads) == 1


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl+C while processes start: it reaches them too, and each would print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with(parent: int) -> None:
    """Have the system kill this process when its parent ends, for whatever reason; signals are left to the parent."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
