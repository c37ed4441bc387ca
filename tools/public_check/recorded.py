"""Reads unspool's results from the output of its commands. Only the counts and ids of each session are stored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
_PICTURE_TOKENS = 1_500
_CHARACTERS_PER_TOKEN = 4
_NOISE = re.compile(r"Implement the following plan:|\[Request interrupted|<[a-z]|Caveat: The messages below|[{\[]\s*\"")


class Request(NamedTuple):
    """A request on the active branch, with the size of its context."""

    line: int
    reply: int
    """The first message of the response."""
    claimed: int
    """The estimated tokens of the context according to the record."""
    known: int
    """The input tokens in the log."""
    is_after_gap: bool = False
    """Whether a message is missing between the previous request and this one."""


class Context:
    """The estimated size of the context at each request on the active branch, according to the record."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._sizes: array[int] = array("q")
        self._is_live = bytearray()
        self._total = 0
        self._before_reply: dict[int, int] = {}
        self._is_after_gap = False

    def message(self, message: Json) -> None:
        """Add a message. After a gap in the log, the context may restart; the token counts show whether it did."""
        self._is_after_gap = self._is_after_gap or message.get("link") == "stitched"
        reply = message.get("reply")
        if reply == message["index"]:
            self._before_reply = {reply: self._total}
        usage = message.get("usage")
        on_path = not message.get("branch")
        if usage and on_path and reply in self._before_reply:
            known = sum(usage.get(name) or 0 for name in ("input", "cache_read", "cache_write"))
            line, claimed = message["source"]["line"], self._before_reply[reply]
            self.requests.append(Request(line, reply, claimed, known, self._is_after_gap))
            self._is_after_gap = False
        size = sum(_tokens(block) for block in message["blocks"]) if on_path else 0
        self._sizes.append(size)
        self._is_live.append(1)
        self._total += size

    def drop(self, indices: list[int]) -> None:
        """Remove messages from the context."""
        for index in indices:
            if index < len(self._sizes) and self._is_live[index]:
                self._is_live[index] = 0
                self._total -= self._sizes[index]

    def drop_before(self, index: int) -> None:
        """Remove all messages up to this one from the context."""
        self.drop(list(range(index + 1)))


def _tokens(block: Json) -> int:
    if block["type"] == "image":
        return _PICTURE_TOKENS
    if block["type"] == "attachment" and block.get("text") is None:
        return 0
    return sum(len(_flat(block.get(name))) for name in ("text", "content", "input", "summary")) // _CHARACTERS_PER_TOKEN


def _flat(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class RecordedSession:
    """A session as unspool reports it."""

    def __init__(self, info: Json) -> None:
        self.id: str = info["id"]
        self.agent: str = info["agent"]
        self.is_main: bool = info["kind"] == "main"
        self.title: str | None = info.get("title")
        self.output: int = info["usage"].get("output") or 0
        """Output tokens of the session."""
        self.paths = [Path(file["path"]) for file in info["files"]]
        self.logs = [Path(file["path"]) for file in info["files"] if file.get("role", "log") == "log"]
        self.calls: dict[str, bool] = {}
        """Whether each call was copied from another session."""
        self.orphans: set[str] = set()
        self.rejections: set[str] = set()
        self.prompts: set[str] = set()
        """Messages that a person typed."""
        self.with_text: set[str] = set()
        self.with_usage: set[str] = set()
        """Messages whose usage counts for this session."""
        self.doubts: set[int] = set()
        """Messages with a `context-doubt` problem in the record."""
        self.context = Context()

    def add(self, kind: str, line: Json) -> None:
        """Add a line of the stream."""
        if kind == "message":
            self._message(line["message"])
        elif kind == "orphan":
            self.orphans.add(line["orphan"]["tool_use_id"])
        elif kind == "rejection":
            self.rejections.add(line["rejection"]["tool_use_id"] or "")
        elif kind == "problem":
            self._problem(line["problem"])
        elif kind == "compaction":
            self.context.drop(line["compaction"].get("replaced_message_indices", []))
        elif kind == "resume":
            self.context.drop(line["resume"].get("lost_message_indices", []))
        elif kind == "context_clear":
            after = line["context_clear"].get("after_message_index")
            self.context.drop_before(-1 if after is None else after)

    def _problem(self, problem: Json) -> None:
        if problem["reason"] == "context-doubt":
            self.doubts.add(problem["message_index"])

    def _message(self, message: Json) -> None:
        self.context.message(message)
        key = self.key_of(message)
        is_inherited = message.get("inherited", False)
        for block in message["blocks"]:
            if block["type"] == "tool_call":
                self.calls[block["id"]] = is_inherited
            if block["type"] in ("unknown", "image") or block.get("text") or block.get("content"):
                self.with_text.add(key)
        if message["author"] == "human" and message["role"] == "user":
            self.prompts.add(key)
        if message.get("usage") and not is_inherited:
            self.with_usage.add(key)

    def key_of(self, message: Json) -> str:
        """Return the key of a message, in the form that raw facts use: its file, and its line or id."""
        source = message["source"]
        own = message.get("id") if self.agent == "gemini" else source["line"]
        return f"{self.paths[source['file']]}:{own}"

    @property
    def has_noise(self) -> bool:
        """Whether the title is text that was generated by a program."""
        return self.title is not None and bool(_NOISE.match(self.title.strip()))


def recorded_sessions(home: Path) -> Iterator[RecordedSession]:
    """Yield all sessions that unspool finds in a home directory, one at a time."""
    found: RecordedSession | None = None
    for line in _lines("export", "--home", str(home), "--format", "stream", "--kind", "all"):
        kind = line["type"]
        if kind == "session":
            found = RecordedSession(line["session"])
        elif kind == "end" and found is not None:
            yield found
        elif found is not None:
            found.add(kind, line)


def listed_titles(home: Path) -> dict[tuple[str, str], str | None]:
    """Return the titles that `unspool ls` shows, by id and path."""
    rows = _lines("ls", "--home", str(home), "--kind", "all", "--json")
    return {(row["name"], row["path"]): row.get("title") for row in rows}


def _lines(*arguments: str) -> Iterator[Json]:
    command = [sys.executable, "-m", "unspool", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"unspool {arguments[0]} failed with exit code {process.returncode}")
