"""Builds logs of Codex CLI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .builders import START, Log, write_file


class CodexLog(Log):
    """A thread of Codex CLI."""

    def __init__(self, thread: str = "thread", version: str = "0.118.0") -> None:
        super().__init__()
        self.thread = self.id(thread)
        self.envelope(
            "session_meta",
            id=self.thread,
            timestamp=START.isoformat(),
            cwd="/home/dev/demo",
            cli_version=version,
            source="cli",
            originator="codex_cli_rs",
        )

    def envelope(self, kind: str, /, **payload: Any) -> None:
        """Add a record with a payload."""
        self.record({"timestamp": self.next_time(), "type": kind, "payload": payload})

    def item(self, kind: str, /, **payload: Any) -> None:
        """Add an item of the conversation."""
        self.envelope("response_item", type=kind, **payload)

    def event(self, kind: str, /, **payload: Any) -> None:
        """Add an event."""
        self.envelope("event_msg", type=kind, **payload)

    def turn(self, prompt: str, answer: str) -> None:
        """Add a prompt and its answer."""
        self.event("task_started", model_context_window=272_000)
        self.item("message", role="user", content=[{"type": "input_text", "text": prompt}])
        self.event("user_message", message=prompt, images=[])
        self.event("agent_message", message=answer)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": answer}])
        self.event("task_complete", last_agent_message=answer)

    def call(self, id: str, name: str = "shell", **given: Any) -> None:
        """Add a tool call."""
        self.item("function_call", name=name, arguments=json.dumps(given), call_id=id)

    def output(self, id: str, text: str) -> None:
        """Add the output of a tool call."""
        self.item("function_call_output", call_id=id, output=text)

    def write(self, home: Path) -> Path:
        """Write the log to the agent's folder in a home directory, and return its path."""
        name = f"rollout-2026-03-01T09-00-00-{self.thread}.jsonl"
        return write_file(home / ".codex" / "sessions" / "2026" / "03" / "01" / name, self.data)
