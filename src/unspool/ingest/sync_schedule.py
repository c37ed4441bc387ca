"""Decides when a watcher syncs everything: soon after a change, with pauses, and now and then without a change."""

from __future__ import annotations

import time

QUIET_SECONDS = 1.0
"""Time without changes after which a session is read as a whole."""
SOON_SECONDS = 0.2
"""Delay of a sync after a change outside the sessions, because such changes rarely come alone."""
_MAX_WAIT_SECONDS = 5.0
"""A session that keeps changing is read as a whole after this time."""
_PAUSE = 20
"""The pause after a sync, as a multiple of its duration."""
_FULL_SYNC_SECONDS = 20.0
_FULL_SYNC_PAUSE = 300
"""The interval, as a multiple of the duration, of syncs without a reported change: not every change is reported."""


class SyncSchedule:
    """The time of the next sync."""

    def __init__(self) -> None:
        self.due: float | None = None
        self.deadline: float | None = None
        """The latest time to which more changes can delay a sync."""
        self.next_full_sync = 0.0
        self._not_before = 0.0

    def add(self, seconds: float) -> None:
        """Schedule a sync after some seconds; more changes delay it, up to a limit."""
        now = time.monotonic()
        if self.deadline is None:
            self.deadline = now + _MAX_WAIT_SECONDS
        due = now + seconds
        if seconds < QUIET_SECONDS and self.due is not None:
            due = min(due, self.due)
        self.due = max(min(due, self.deadline), self._not_before)

    @property
    def is_due(self) -> bool:
        """Whether it is time to sync."""
        return self.due is not None and time.monotonic() >= self.due

    @property
    def is_full_due(self) -> bool:
        """Whether it is time to sync although nothing was reported."""
        return time.monotonic() > self.next_full_sync

    def begin(self) -> None:
        """Note that a sync has started."""
        self.due = self.deadline = None

    def finish(self, seconds: float) -> None:
        """Note that a sync has ended, and how long it took."""
        now = time.monotonic()
        self._not_before = now + seconds * _PAUSE
        self.next_full_sync = now + max(_FULL_SYNC_SECONDS, seconds * _FULL_SYNC_PAUSE)
