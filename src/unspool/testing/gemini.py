"""Builds logs of Gemini CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .builders import Log, write_file


class GeminiLog(Log):
    """A session of Gemini CLI."""

    def __init__(self, session: str = "session") -> None:
        super().__init__()
        self.session = self.id(session)
        self.record(
            {
                "sessionId": self.session,
                "projectHash": "ab" * 32,
                "startTime": self.next_time(),
                "lastUpdated": self.next_time(),
                "kind": "main",
            }
        )

    def message(self, kind: str, name: str, content: Any, **fields: Any) -> None:
        """Add a message, or a notice of the user interface."""
        self.record({"id": name, "timestamp": self.next_time(), "type": kind, "content": content} | fields)

    def user(self, name: str, text: str) -> None:
        """Add a prompt."""
        self.message("user", name, [{"text": text}])

    def model(self, name: str, text: str, calls: list[dict[str, Any]] | None = None) -> None:
        """Add a message of the model."""
        fields: dict[str, Any] = {"model": "gemini-3-pro", "thoughts": [], "tokens": {"input": 10, "output": 5}}
        if calls:
            fields["toolCalls"] = calls
        self.message("gemini", name, text, **fields)

    def change(self, **fields: Any) -> None:
        """Add a record that changes fields of the session."""
        self.record({"$set": fields})

    def rewind(self, name: str) -> None:
        """Add a record that rewinds to a message."""
        self.record({"$rewindTo": name})

    def write(self, home: Path) -> Path:
        """Write the log to the agent's folder in a home directory, and return its path."""
        folder = home / ".gemini" / "tmp" / "demo" / "chats"
        return write_file(folder / f"session-2026-03-01T09-00-{self.session[:8]}.jsonl", self.data)
