"""Separates the lines that a Codex thread copied from another thread from its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeGuard

from ...io.files import log_of, read_batches
from .discovery import CodexHead
from .schema import RECORDS, CodexRecord

_LOOK_AHEAD = 50
"""Number of lines of the original to compare a line with, as a copy may omit some."""
_VERSION_DIGIT = 14
"""Index of the version in a UUID; ids of version 7 sort by creation time."""


class CopiedHistory(Protocol):
    """The copied lines at the beginning of a thread."""

    def has(self, record: CodexRecord) -> bool:
        """Whether a record was copied; the records are passed in the order of the file."""


class OriginalCopy:
    """The copy at the beginning of a fork (up to 0.147), found by comparing it with the original."""

    def __init__(self, path: Path) -> None:
        self._lines = self._originals(path)
        self._done = False

    @staticmethod
    def _originals(path: Path) -> Iterator[CodexRecord]:
        for batch in read_batches(path, RECORDS, log_of(path)):
            for line in batch.records:
                if line.type != "session_meta":
                    yield line

    def has(self, record: CodexRecord) -> bool:
        """Whether a record is in the original too, in the same order."""
        if record.type == "session_meta" or self._done:
            return not self._done
        for _ in range(_LOOK_AHEAD):
            original = next(self._lines, None)
            if original is None:
                break
            if original.type == record.type and original.payload == record.payload:
                return True
        self._done = True
        return False


class ParentCopy:
    """The copy at the beginning of a forked sub-agent (0.118 to 0.147): all lines before its first own turn.

    A sub-agent gets a selection of its parent's lines, with another result for the call that started it. But turns
    have ids that sort by time, and those that were copied are older than the thread.
    """

    def __init__(self, thread: str) -> None:
        self._thread = thread
        self._done = False

    def has(self, record: CodexRecord) -> bool:
        """Whether the thread has had no turn of its own so far."""
        if not self._done and record.payload.type == "task_started":
            turn = record.payload.turn_id
            self._done = not (_is_sortable(turn) and _is_sortable(self._thread) and turn < self._thread)
        return not self._done


class NumberedCopy:
    """The copy at the beginning of a forked sub-agent that records where its own lines begin (0.148 and later)."""

    def __init__(self, own_from: int) -> None:
        self._own_from = own_from

    def has(self, record: CodexRecord) -> bool:
        """Whether a record comes before the first own line."""
        return record.ordinal is not None and record.ordinal < self._own_from


def parent_copy(head: CodexHead) -> CopiedHistory | None:
    """Return a filter for the lines that a sub-agent copied from its parent; None if all lines are its own."""
    if head.own_from_ordinal is not None:
        return NumberedCopy(head.own_from_ordinal)
    is_forked = head.subagent is not None and head.forked_from is not None
    return ParentCopy(head.id) if is_forked and head.id is not None else None


def _is_sortable(id: str | None) -> TypeGuard[str]:
    """Whether an id begins with its creation time."""
    return id is not None and id[_VERSION_DIGIT : _VERSION_DIGIT + 1] == "7"
