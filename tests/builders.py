"""Logs line by line, for cases no recording has. Each builder writes what its agent writes, and no more."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from unspool.core import model as m
from unspool.core.session import Session
from unspool.library import Library

_START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
_LAST: Any = object()
"""Hang a line on the one before it."""


class Log:
    """Lines with times and ids that are the same in every run."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._seconds = 0

    def record(self, record: dict[str, Any]) -> None:
        """Add a line."""
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())

    def raw(self, line: bytes) -> None:
        """Add a line that may be anything."""
        self.lines.append(line)

    def next_time(self) -> str:
        self._seconds += 1
        return (_START + timedelta(seconds=self._seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def id(self, name: str) -> str:
        """An id of the usual form for a name."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, name))

    @property
    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)


class ClaudeLog(Log):
    """A session of Claude Code."""

    def __init__(self, session: str = "session", version: str = "2.1.325", agent: str | None = None) -> None:
        super().__init__()
        self.session = self.id(session)
        self.version = version
        self.agent = agent
        self.last: str | None = None

    def line(self, kind: str, name: str | None, parent: Any = _LAST, **fields: Any) -> str:
        """A line of the chain; `name` stands for its id, `parent` for another's."""
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
        """Something said to the model."""
        return self.line("user", name, parent, message={"role": "user", "content": content}, **fields)

    def model(self, *content: Any, name: str | None = None, parent: Any = _LAST, reply: str | None = None) -> str:
        """Something the model said: texts, or blocks."""
        blocks = [{"type": "text", "text": item} if isinstance(item, str) else item for item in content]
        message = {
            "id": f"msg_{reply or len(self.lines)}", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": blocks, "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 5},
        }  # fmt: skip
        return self.line("assistant", name, parent, message=message)

    def result(
        self, call: str, text: Any, name: str | None = None, parent: Any = _LAST, error: bool = False, **fields: Any
    ) -> str:
        """What a call gave back."""
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": error}
        return self.user([block], name, parent, **fields)

    def boundary(self, name: str | None = None, after: str | None = None, **meta: Any) -> str:
        """A compaction."""
        logical = self.last if after is None else self.id(after)
        return self.line(
            "system", name, None, subtype="compact_boundary", logicalParentUuid=logical, compactMetadata=meta,
            content="Conversation compacted",
        )  # fmt: skip

    def write(self, home: Path) -> Path:
        """Put the log where the agent would, and give its path."""
        folder = home / ".claude" / "projects" / "-home-dev-demo"
        if self.agent is not None:
            folder = folder / self.session / "subagents"
        name = f"agent-{self.agent}" if self.agent is not None else self.session
        return _written(folder / f"{name}.jsonl", self.data)

    def load(self, home: Path, **options: Any) -> Session:
        """Write it and read it."""
        return load(self.write(home), **options)


def call(id: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    """A tool call in a message of Claude."""
    return {"type": "tool_use", "id": id, "name": name, "input": given}


class CodexLog(Log):
    """A thread of Codex CLI."""

    def __init__(self, thread: str = "thread", version: str = "0.118.0") -> None:
        super().__init__()
        self.thread = self.id(thread)
        self.envelope(
            "session_meta", id=self.thread, timestamp=_START.isoformat(), cwd="/home/dev/demo", cli_version=version,
            source="cli", originator="codex_cli_rs",
        )  # fmt: skip

    def envelope(self, kind: str, **payload: Any) -> None:
        self.record({"timestamp": self.next_time(), "type": kind, "payload": payload})

    def item(self, kind: str, **payload: Any) -> None:
        self.envelope("response_item", type=kind, **payload)

    def event(self, kind: str, **payload: Any) -> None:
        self.envelope("event_msg", type=kind, **payload)

    def turn(self, prompt: str, answer: str) -> None:
        """A prompt and its answer."""
        self.event("task_started", model_context_window=272_000)
        self.item("message", role="user", content=[{"type": "input_text", "text": prompt}])
        self.event("user_message", message=prompt, images=[])
        self.event("agent_message", message=answer)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": answer}])
        self.event("task_complete", last_agent_message=answer)

    def call(self, id: str, name: str = "shell", **given: Any) -> None:
        self.item("function_call", name=name, arguments=json.dumps(given), call_id=id)

    def output(self, id: str, text: str) -> None:
        self.item("function_call_output", call_id=id, output=text)

    def write(self, home: Path) -> Path:
        """Put the log where the agent would, and give its path."""
        name = f"rollout-2026-03-01T09-00-00-{self.thread}.jsonl"
        return _written(home / ".codex" / "sessions" / "2026" / "03" / "01" / name, self.data)

    def load(self, home: Path, **options: Any) -> Session:
        """Write it and read it."""
        return load(self.write(home), **options)


class GeminiLog(Log):
    """A session of Gemini CLI."""

    def __init__(self, session: str = "session") -> None:
        super().__init__()
        self.session = self.id(session)
        self.record(
            {
                "sessionId": self.session, "projectHash": "ab" * 32, "startTime": self.next_time(),
                "lastUpdated": self.next_time(), "kind": "main",
            }
        )  # fmt: skip

    def message(self, kind: str, name: str, content: Any, **fields: Any) -> None:
        """A message, or a note of the interface."""
        self.record({"id": name, "timestamp": self.next_time(), "type": kind, "content": content} | fields)

    def user(self, name: str, text: str) -> None:
        self.message("user", name, [{"text": text}])

    def model(self, name: str, text: str, calls: list[dict[str, Any]] | None = None) -> None:
        fields: dict[str, Any] = {"model": "gemini-3-pro", "thoughts": [], "tokens": {"input": 10, "output": 5}}
        if calls:
            fields["toolCalls"] = calls
        self.message("gemini", name, text, **fields)

    def change(self, **fields: Any) -> None:
        self.record({"$set": fields})

    def rewind(self, name: str) -> None:
        self.record({"$rewindTo": name})

    def write(self, home: Path) -> Path:
        """Put the log where the agent would, and give its path."""
        folder = home / ".gemini" / "tmp" / "demo" / "chats"
        return _written(folder / f"session-2026-03-01T09-00-{self.session[:8]}.jsonl", self.data)

    def load(self, home: Path, **options: Any) -> Session:
        """Write it and read it."""
        return load(self.write(home), **options)


def load(path: Path, **options: Any) -> Session:
    """Read the session of a file."""
    library = Library(path)
    return next(library.load_all(library.ref_of(path), **options))


def texts(session: Session, chosen: Iterable[int | m.Message] | None = None) -> list[str]:
    """What was said in some messages, or in all."""
    if chosen is None:
        chosen = session.messages
    messages = [session.messages[item] if isinstance(item, int) else item for item in chosen]
    return [block.text for message in messages for block in message.blocks if hasattr(block, "text") and block.text]


def _written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
