"""The progress and the result of a sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec


class Progress(NamedTuple):
    """The progress of a run."""

    done: int
    total: int
    bytes_done: int
    bytes_total: int
    name: str


class Report(msgspec.Struct):
    """The result of a run."""

    files: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0
    bytes: int = 0
    failures: dict[str, str] = {}
    """Why sessions could not be read, by session."""
    seconds: float = 0.0


class ReportCounts:
    """Removes what was rolled back from the counts of a report."""

    def __init__(self, report: Report, committed: Callable[[], None] | None) -> None:
        self._report = report
        self._committed = committed
        self._saved = (0, 0, 0)

    def save(self) -> None:
        """Note that everything counted so far is committed."""
        self._saved = (self._report.new, self._report.changed, self._report.gone)
        if self._committed is not None:
            self._committed()

    def restore(self) -> None:
        """Reset the counts to those of the last commit."""
        self._report.new, self._report.changed, self._report.gone = self._saved
