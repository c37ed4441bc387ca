"""Builds logs of Claude Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .builders import Log, write_file

_LAST: Any = object()
"""The default parent of a line: the previous line."""


class ClaudeLog(Log):
    """A session of Claude Code."""

    def __init__(self, session: str = "session", version: str = "2.1.325", agent: str | None = None) -> None:
        super().__init__()
        self.session = self.id(session)
        self.version = version
        self.agent = agent
        self.last: str | None = None

    def line(self, kind: str, name: str | None, parent: Any = _LAST, **fields: Any) -> str:
        """Add a line of the conversation; `name` makes its id, `parent` refers to another line by name."""
        id = self.id(name or f"line {len(self.lines)}")
        above = self.last if parent is _LAST else None if parent is None else self.id(parent)
        record = {
            "parentUuid": above, "isSidechain": self.agent is not None, "type": kind, "uuid": id,
            "timestamp": self.next_time(), "sessionId": self.session, "version": self.version, "cwd": "/home/dev/demo",
            "userType": "external",
        }  # fmt: skip
        if self.agent is not None:
            record["agentId"] = self.agent
        self.record(record | fields)
        self.last = id
        return id

    def user(self, content: Any, name: str | None = None, parent: Any = _LAST, **fields: Any) -> str:
        """Add a message to the model."""
        return self.line("user", name, parent, message={"role": "user", "content": content}, **fields)

    def model(
        self,
        *content: Any,
        name: str | None = None,
        parent: Any = _LAST,
        reply: str | None = None,
        tokens: int = 10,
        **fields: Any,
    ) -> str:
        """Add a message of the model with texts or blocks. `tokens` is the size of the request."""
        blocks = [{"type": "text", "text": item} if isinstance(item, str) else item for item in content]
        message = {
            "id": f"msg_{reply or len(self.lines)}", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": blocks, "stop_reason": None, "usage": {"input_tokens": tokens, "output_tokens": 5},
        }  # fmt: skip
        return self.line("assistant", name, parent, message=message, **fields)

    def result(
        self, call: str, text: Any, name: str | None = None, parent: Any = _LAST, error: bool = False, **fields: Any
    ) -> str:
        """Add the result of a call."""
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": error}
        return self.user([block], name, parent, **fields)

    def boundary(self, name: str | None = None, after: str | None = None, **meta: Any) -> str:
        """Add a compaction."""
        logical = self.last if after is None else self.id(after)
        return self.line(
            "system",
            name,
            None,
            subtype="compact_boundary",
            logicalParentUuid=logical,
            compactMetadata=meta,
            content="Conversation compacted",
        )

    def write(self, home: Path) -> Path:
        """Write the log to the agent's folder in a home directory, and return its path."""
        folder = home / ".claude" / "projects" / "-home-dev-demo"
        if self.agent is not None:
            folder = folder / self.session / "subagents"
        name = f"agent-{self.agent}" if self.agent is not None else self.session
        return write_file(folder / f"{name}.jsonl", self.data)


def call(id: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    """Return a tool call, as a block for `ClaudeLog.model`."""
    return {"type": "tool_use", "id": id, "name": name, "input": given}
