"""Actions: what a tool call does, or would have done. Agents and drivers build them for the session record."""

from __future__ import annotations

from typing import Any

import msgspec

from ..io.decode import decode_any


class Question(msgspec.Struct, omit_defaults=True):
    """A question from the model to the user."""

    question: str
    """The question."""
    options: list[str] = []
    """The answers to choose from."""


class Task(msgspec.Struct):
    """An item of the model's list of tasks."""

    text: str
    """The task in words."""
    status: str
    """The status, in the agent's own words: often `pending`, `in_progress` or `completed`."""


class Action(msgspec.Struct, omit_defaults=True, rename={"raw_input": "input"}):
    """What a call does, or would have done: its input, and the parts of it that are shown to people."""

    raw_input: msgspec.Raw
    """The input as JSON, byte for byte as the model gave it; in Python, `input` decodes it."""
    path: str | None = None
    """The file it is about."""
    diff: str | None = None
    """Unified diff of an edit, rebuilt from the input."""
    command: str | None = None
    """The command that it runs."""
    questions: list[Question] = []
    """The questions to the user."""
    plan: str | None = None
    """The plan that it presents."""
    tasks: list[Task] = []
    """The list of tasks that the call writes."""

    @property
    def input(self) -> Any:
        """The decoded input."""
        return decode_any(self.raw_input)
