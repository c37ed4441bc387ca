"""Calls of a Claude Code conversation that start sub-agents, with their results and notifications."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from ...core import model as m
from .schema import ToolUseResult
from .tools import SUBAGENT_TOOLS

_NOTIFIER = re.compile(r"<(?:task|agent)-id>([^<]+)</(?:task|agent)-id>")
_STATUS = re.compile(r"<status>([^<]+)</status>")


class SubagentCall(NamedTuple):
    """A call that starts a sub-agent."""

    message: int
    call_id: str
    prompt: str | None
    agent_type: str | None
    description: str | None
    timestamp: datetime | None


class SubagentCalls:
    """The calls that started sub-agents, by call id."""

    def __init__(self) -> None:
        self.started_by: str | None = None
        """The call that started the conversation itself, if a record of the parent session names it."""
        self.started: dict[str, SubagentCall] = {}
        self.results: dict[str, ToolUseResult] = {}
        self.stopped: set[str] = set()
        """Calls that an interruption stopped."""
        self.notified: dict[str, str] = {}
        """The status in the notification of each sub-agent that ran in the background."""
        self.all_killed = False

    def called(self, index: int, blocks: Iterable[m.Block], timestamp: datetime | None) -> None:
        """Remember the calls of a message that start sub-agents."""
        for block in blocks:
            if type(block) is m.ToolCall and block.name in SUBAGENT_TOOLS:
                given = block.input if isinstance(block.input, dict) else {}
                prompt, kind, about = (_text(given.get(key)) for key in ("prompt", "subagent_type", "description"))
                self.started[block.id] = SubagentCall(index, block.id, prompt, kind, about, timestamp)

    def read_notification(self, text: str) -> None:
        """Read the message with which a sub-agent reports its end."""
        notifier = _NOTIFIER.search(text)
        status = _STATUS.search(text, notifier.end()) if notifier is not None else None
        if notifier is not None and status is not None:
            self.notified[notifier[1]] = status[1]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
