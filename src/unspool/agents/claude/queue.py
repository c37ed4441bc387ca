"""Prompts that were typed while a turn of Claude Code ran."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...core import model as m
from ...core.builder import SessionBuilder
from .authors import HARNESS_TEXT, SUBAGENT_TEXT, TASK_TEXT
from .content import flat_text
from .schema import ClaudeRecord

_TASK_CALL = re.compile(r'"tool_use_id":"([^"]+)"')
_TAKEN = (None, "absorbed_mid_turn")
"""Reasons for a removal that mean that a turn took the prompt; 2.1.219 and earlier give none."""


class Queued(NamedTuple):
    """An entry of the queue."""

    text: str
    source: m.Source

    @property
    def author(self) -> m.Author:
        """The author of the entry."""
        return "subagent" if self.text.startswith(SUBAGENT_TEXT) else "harness" if self._is_internal else "human"

    @property
    def _is_internal(self) -> bool:
        return self.is_task or self.text.startswith(HARNESS_TEXT)

    @property
    def is_task(self) -> bool:
        """Whether it is an internal note of the agent about a slow call (2.1.37 to 2.1.49)."""
        return self.text.startswith(TASK_TEXT)


class PromptQueue:
    """Follows the queue of prompts.

    When a running turn takes a prompt from the queue, 2.0.x records only its removal. Later versions also write a
    record with the prompt.
    """

    def __init__(self, builder: SessionBuilder) -> None:
        self.taken: list[Queued] = []
        """Entries that a turn took from the queue, until another record has them."""
        self._builder = builder
        self._waiting: list[Queued] = []

    def read(self, record: ClaudeRecord, source: m.Source) -> None:
        """Read a change of the queue."""
        text = flat_text(record.content)[0]
        if record.operation == "enqueue":
            self._waiting.append(Queued(text, source))
        elif record.operation == "remove":
            entry = self._remove(text)
            if entry is not None and not entry.is_task and record.reason in _TAKEN:
                self.taken.append(entry)
        elif record.operation == "dequeue":
            self._drop(next((entry for entry in self._waiting if not entry.is_task), None))
        elif record.operation == "popAll" and self._drop(self._find(text)) is None:
            self._waiting = [entry for entry in self._waiting if entry.is_task]

    def _find(self, text: str) -> Queued | None:
        return next((entry for entry in self._waiting if text and entry.text == text), None)

    def _drop(self, entry: Queued | None) -> Queued | None:
        if entry is not None:
            self._waiting.remove(entry)
        return entry

    def _remove(self, text: str) -> Queued | None:
        """Remove and return the entry that a removal names; up to 2.1.150 it names none, so the most likely one."""
        if text:
            return self._drop(self._find(text))
        ended = next((entry for entry in self._waiting if self._has_ended(entry)), None)
        typed = next((entry for entry in self._waiting if not entry.is_task), None)
        return self._drop(ended or typed or next(iter(self._waiting), None))

    def _has_ended(self, entry: Queued) -> bool:
        """Whether an entry is about a call that has its result."""
        call = _TASK_CALL.search(entry.text) if entry.is_task else None
        return call is not None and call[1] not in self._builder.calls.open

    def recorded(self, text: str) -> None:
        """Note that another record has the prompt."""
        self.taken = [entry for entry in self.taken if entry.text != text]

    def add_taken(self, record: ClaudeRecord, parent: int) -> None:
        """Add the entries that no other record has, before the next message."""
        for entry in self.taken:
            if entry.text:
                self._builder.add(
                    "user",
                    entry.author,
                    [m.Text(entry.text)],
                    entry.source,
                    None,
                    parent,
                    record.timestamp,
                    queued=entry.author == "human",
                )
        self.taken.clear()
