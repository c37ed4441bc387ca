"""Repairs logs of Claude Code: adds results to calls that have none, and replaces parents that are gone.

Since 2.1 the parent of each result is its own call; before, the results of parallel calls form a chain. A placeholder
result is added where the version would have put it, so that a resume with that version finds it.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import MAXYEAR, timedelta
from pathlib import PurePosixPath
from typing import Any

from ...core import model as m
from ...core.session import Session
from ...core.timestamps import parse_moment
from ...io.decode import decode_object
from .._metadata import version_of
from .._repair import RESULT, STITCHED, CleanLog, encode, intact, joined, path_in_layout, unanswered
from ..base import strings_at
from .discovery import AGENT_FILE
from .schema import HEAD_RECORDS, HeadRecord

_FAN_OUT_FROM = (2, 1)
_LAYOUT = re.compile(
    r"/(?P<folders>(?:(?<=/\.claude/)projects/[^/]+|projects/(?:-|[A-Za-z]--)[^/]*)"
    r"(?:/[^/]+/subagents(?:/workflows/[^/]+)?)?)$"
)
"""A project's folder is named after its path, like `-home-dev-demo`; sub-agents may have folders in it."""
_ENVELOPE = (
    "isSidechain", "userType", "entrypoint", "cwd", "sessionId", "session_id", "version", "gitBranch", "slug",
    "agentId",
)  # fmt: skip
"""Fields that every line repeats."""

LineKey = tuple[int, int]
"""The index of a file, and the number of a line in it."""


class ClaudeRepair:
    """Repairs logs of Claude Code."""

    def clean(self, name: str, folders: Sequence[str], data: bytes) -> CleanLog | None:
        """Keep every intact line."""
        pieces, changes = intact(data, HEAD_RECORDS)
        if not any(piece.record.type in ("user", "assistant") for piece in pieces):
            return None
        inside = path_in_layout(_LAYOUT, name, folders)
        return CleanLog(
            inside or _path_from_lines(name, [piece.record for piece in pieces]),
            joined([piece.data for piece in pieces]),
            changes,
        )

    def complete(self, sessions: list[Session], logs: list[bytes]) -> tuple[list[bytes], Counter[str]]:
        """Give every call a result, and every message a parent."""
        edit = _Edit([log.split(b"\n")[:-1] for log in logs])
        for session in sessions:
            _Stitching(session, edit).run()
        return edit.logs(), edit.changes


def _path_from_lines(name: str, lines: Iterable[HeadRecord]) -> PurePosixPath:
    """Return the path for a log outside of an agent's folder: its lines name the project and the session."""
    head = next((line for line in lines if line.session_id and line.cwd), None)
    if head is None or head.session_id is None or AGENT_FILE.match(name):
        return PurePosixPath("projects", "repaired", name)
    folder = re.sub(r"[^A-Za-z0-9]", "-", head.cwd or "")
    # The id comes from a log, so it must not lead out of the folder.
    return PurePosixPath("projects", folder, re.sub(r"[^A-Za-z0-9_.-]", "-", head.session_id) + ".jsonl")


class _Edit:
    """Changes to the lines of some files, and lines to insert."""

    def __init__(self, lines: list[list[bytes]]) -> None:
        self._lines = lines
        self._before: dict[LineKey, list[bytes]] = {}
        self._after: dict[LineKey, list[bytes]] = {}
        self._changed: dict[LineKey, dict[str, Any]] = {}
        self.changes: Counter[str] = Counter()

    def record(self, message: m.Message) -> dict[str, Any]:
        """Return the line of a message with its changes."""
        file, line = message.source.file, message.source.line
        return decode_object(self._lines[file][line - 1]) | self._changed.get((file, line), {})

    def change(self, message: m.Message, **fields: Any) -> None:
        self._changed.setdefault((message.source.file, message.source.line), {}).update(fields)

    def insert(self, message: m.Message, record: dict[str, Any], before: bool) -> None:
        """Insert a line before or after that of a message."""
        inserted = self._before if before else self._after
        inserted.setdefault((message.source.file, message.source.line), []).append(encode(record))

    def repoint(self, old: str, new: str) -> None:
        """Change records that name the end of the conversation, which is now an added line."""
        for file, lines in enumerate(self._lines):
            for number, line in enumerate(lines, 1):
                if b'"last-prompt"' in line and old.encode() in line and decode_object(line).get("leafUuid") == old:
                    self._changed.setdefault((file, number), {})["leafUuid"] = new

    def logs(self) -> list[bytes]:
        """Return the edited files."""
        return [
            joined([line for number in range(1, len(lines) + 1) for line in self._edited(file, number)])
            for file, lines in enumerate(self._lines)
        ]

    def _edited(self, file: int, number: int) -> list[bytes]:
        key = file, number
        line = self._lines[file][number - 1]
        if key in self._changed:
            line = encode(decode_object(line) | self._changed[key])
        return [*self._before.get(key, ()), line, *self._after.get(key, ())]


class _Stitching:
    """Adds what one conversation lacks."""

    def __init__(self, session: Session, edit: _Edit) -> None:
        self._session = session
        self._messages = session.messages
        self._edit = edit
        self._open = unanswered(session)

    def run(self) -> None:
        """Replace lost parents, then add results; a lost parent that was a result is added with its old id."""
        cut = {problem.source: problem.reason for problem in self._session.problems if problem.source is not None}
        for message in self._messages:
            if message.link == "stitched":
                self._stitch(message, is_lost=cut.get(message.source) == "missing-parent")
        while self._open:
            self._answer(next(iter(self._open)))

    # --- parents ---

    def _stitch(self, message: m.Message, is_lost: bool) -> None:
        above = self._messages[message.parent_index] if message.parent_index is not None else None
        lost = self._edit.record(message).get("parentUuid")
        calls = self._open_calls_above(above) if is_lost and above is not None else []
        if above is not None and calls and isinstance(lost, str):
            last = self._messages[self._open[calls[-1]]]
            parent = last if self._fans_out(last) else above
            self._edit.insert(message, self._result(calls, parent, last, lost), before=True)
            return
        while above is not None and above.id is None:
            above = self._messages[above.parent_index] if above.parent_index is not None else None
        self._edit.change(message, parentUuid=above.id if above is not None else None)
        self._edit.changes[STITCHED] += 1

    def _open_calls_above(self, message: m.Message | None) -> list[str]:
        """Return the calls without a result of the last reply up to a message; none if a prompt came after it."""
        while message is not None and message.author not in ("model", "human"):
            message = self._messages[message.parent_index] if message.parent_index is not None else None
        return self._calls_of(message)

    def _calls_of(self, message: m.Message | None) -> list[str]:
        if message is None or message.author != "model":
            return []
        return [id for id, index in self._open.items() if self._messages[index].reply == message.reply]

    # --- results ---

    def _answer(self, call: str) -> None:
        last = self._messages[self._open[call]]
        calls = [id for id, index in self._open.items() if index == last.index]
        parent = last
        if not self._fans_out(last):
            calls = self._calls_of(last) or calls
            last = self._messages[max(self._open[id] for id in calls)]
            parent = self._end_of(last)
        id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._session.id} {calls[0]}"))
        followers = [each for each in self._messages[parent.index + 1 :] if self._follows(each, parent)]
        for each in followers:
            self._edit.change(each, parentUuid=id)
        if not followers and parent.id is not None:
            self._edit.repoint(parent.id, id)
        self._edit.insert(parent, self._result(calls, parent, last, id), before=False)

    def _end_of(self, last: m.Message) -> m.Message:
        """Return the parent for another result of a reply: the last result of its calls, or the reply itself."""
        pieces = [each for each in self._messages if each.reply == last.reply]
        ids = {block.id for each in pieces for block in each.blocks if isinstance(block, m.ToolCall)}
        results = [each for each in self._messages if not ids.isdisjoint(_answered(each))]
        return max([*pieces, *results], key=lambda each: each.index)

    def _follows(self, message: m.Message, parent: m.Message) -> bool:
        """Whether the conversation continues from a call without its result."""
        if message.parent_index != parent.index or _answered(message):
            return False
        return message.reply is None or message.reply != parent.reply

    def _fans_out(self, message: m.Message) -> bool:
        return version_of(next(iter(strings_at(self._edit.record(message), ("version",))), None)) >= _FAN_OUT_FROM

    def _result(self, calls: list[str], parent: m.Message, last: m.Message, id: str) -> dict[str, Any]:
        for call in calls:
            del self._open[call]
        self._edit.changes[RESULT] += len(calls)
        line = self._edit.record(last)
        blocks = [
            {"type": "tool_result", "tool_use_id": call, "content": m.MADE_UP_RESULT, "is_error": True}
            for call in calls
        ]
        record = {"parentUuid": parent.id} | {name: line[name] for name in _ENVELOPE if name in line}
        record |= {"type": "user", "message": {"role": "user", "content": blocks}, "uuid": id}
        record |= {"timestamp": _just_after(self._edit.record(parent)), "toolUseResult": m.MADE_UP_RESULT}
        if self._fans_out(last):
            record["sourceToolAssistantUUID"] = last.id
        return record


def _answered(message: m.Message) -> set[str]:
    return {block.call_id for block in message.blocks if isinstance(block, m.ToolResult)}


def _just_after(record: dict[str, Any]) -> Any:
    """Return a time just after a record, so that later lines stay newer: old versions resume from the newest line."""
    at = parse_moment(record.get("timestamp"))
    if at is None or at.year >= MAXYEAR:
        return record.get("timestamp")
    return (at + timedelta(milliseconds=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
