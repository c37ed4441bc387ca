"""Waiting for conditions instead of seconds, and bounding work by CPU time instead of the clock.

A healthy run never reaches `PATIENCE`: it is the last net under a test that would otherwise hang, and generous enough
for a machine on which many other programs run. Nothing may be asserted about how long something took by the clock.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds after which a condition counts as failed. Only a failing test ever waits this long."""
_POLL_SECONDS = 0.02
_SLOWEST_POLL_SECONDS = 0.5


def wait_until(condition: Callable[[], T], what: str, *, detail: Callable[[], object] = lambda: "") -> T:
    """Wait until a condition is true and return its value. `what` and `detail()` are in the message if it never is."""
    end = time.monotonic() + PATIENCE
    pause = _POLL_SECONDS
    while not (value := condition()):
        assert time.monotonic() < end, _message(what, detail)
        time.sleep(pause)
        # A slow condition on a busy machine should not compete with what it waits for.
        pause = min(pause * 1.2, _SLOWEST_POLL_SECONDS)
    return value


async def wait_until_async(condition: Callable[[], T], what: str, *, detail: Callable[[], object] = lambda: "") -> T:
    """Wait in an event loop until a condition is true and return its value."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, _message(what, detail)
        await asyncio.sleep(_POLL_SECONDS)
    return value


async def finished(awaitable: Awaitable[T], what: str, *, detail: Callable[[], object] = lambda: "") -> T:
    """Await something that should end by itself; if it does not, say what."""
    limit = asyncio.timeout(PATIENCE)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(_message(what, detail)) from None


def _message(what: str, detail: Callable[[], object]) -> str:
    return f"waited {PATIENCE:.0f} s for: {what}. {detail()}".rstrip(". ")


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Fail if the block takes more CPU time of this process than that. Other programs on the machine do not count.

    Choose a limit at least ten times what the block needs: it tells linear from quadratic work, not fast from slow.
    """
    before = time.process_time()
    yield
    took = time.process_time() - before
    assert took < seconds, f"took {took:.1f} s of CPU time, which should be well under {seconds} s"


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far."""
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        pytest.skip("needs /proc to tell the CPU time of another process")
    fields = path.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_running(pid: int) -> bool:
    """Whether a process is still there, and not just waiting to be reaped."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False
