"""Repairing a log of Claude Code: results for calls that have none, and parents that exist.

Since 2.1 each result hangs on its own call; before, the results of parallel calls form a chain. A result that is made
up goes where the version would have put it, so that its own resume finds it.
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
from .._repair import RESULT, STITCHED, Clean, below, encode, intact, joined, unanswered
from ..base import strings_at
from .discovery import AGENT_FILE
from .schema import HEAD_RECORDS, HeadRecord

_FAN_OUT_FROM = (2, 1)
_ENVELOPE = (
    "isSidechain", "userType", "entrypoint", "cwd", "sessionId", "session_id", "version", "gitBranch", "slug",
    "agentId",
)  # fmt: skip
"""What every line repeats."""

Place = tuple[int, int]
"""A file, and the number of a line in it."""


class ClaudeRepair:
    """Repairs logs of Claude Code."""

    def clean(self, name: str, folders: Sequence[str], data: bytes) -> Clean | None:
        """Keep every intact line."""
        pieces, changes = intact(data, HEAD_RECORDS)
        if not any(piece.record.type in ("user", "assistant") for piece in pieces):
            return None
        inside = below(folders, "projects")
        place = PurePosixPath(*inside, name) if inside else _place(name, [piece.record for piece in pieces])
        return Clean(place, joined([piece.data for piece in pieces]), changes)

    def complete(self, sessions: list[Session], logs: list[bytes]) -> tuple[list[bytes], Counter[str]]:
        """Give every call a result, and every message a parent."""
        edit = _Edit([log.split(b"\n")[:-1] for log in logs])
        for session in sessions:
            _Stitching(session, edit).run()
        return edit.logs(), edit.changes


def _place(name: str, lines: Iterable[HeadRecord]) -> PurePosixPath:
    """Where a log belongs that lies somewhere else: its own lines name the project and the session."""
    head = next((line for line in lines if line.session_id and line.cwd), None)
    if head is None or head.session_id is None or AGENT_FILE.match(name):
        return PurePosixPath("projects", "repaired", name)
    folder = re.sub(r"[^A-Za-z0-9]", "-", head.cwd or "")
    # The id comes from a log, so it must not lead out of the folder.
    return PurePosixPath("projects", folder, re.sub(r"[^A-Za-z0-9_.-]", "-", head.session_id) + ".jsonl")


class _Edit:
    """Changes to lines, and lines between them."""

    def __init__(self, lines: list[list[bytes]]) -> None:
        self._lines = lines
        self._before: dict[Place, list[bytes]] = {}
        self._after: dict[Place, list[bytes]] = {}
        self._changed: dict[Place, dict[str, Any]] = {}
        self.changes: Counter[str] = Counter()

    def record(self, message: m.Message) -> dict[str, Any]:
        """The line of a message, with what was changed in it."""
        place = message.source.file, message.source.line
        return decode_object(self._lines[place[0]][place[1] - 1]) | self._changed.get(place, {})

    def change(self, message: m.Message, **fields: Any) -> None:
        self._changed.setdefault((message.source.file, message.source.line), {}).update(fields)

    def insert(self, message: m.Message, record: dict[str, Any], before: bool) -> None:
        """Put a line beside that of a message."""
        beside = self._before if before else self._after
        beside.setdefault((message.source.file, message.source.line), []).append(encode(record))

    def repoint(self, old: str, new: str) -> None:
        """Notes of where the conversation stands follow it to the line that was added."""
        for file, lines in enumerate(self._lines):
            for number, line in enumerate(lines, 1):
                if b'"last-prompt"' in line and old.encode() in line and decode_object(line).get("leafUuid") == old:
                    self._changed.setdefault((file, number), {})["leafUuid"] = new

    def logs(self) -> list[bytes]:
        """The files as they are to be."""
        return [
            joined([line for number in range(1, len(lines) + 1) for line in self._around(file, number)])
            for file, lines in enumerate(self._lines)
        ]

    def _around(self, file: int, number: int) -> list[bytes]:
        place = file, number
        line = self._lines[file][number - 1]
        if place in self._changed:
            line = encode(decode_object(line) | self._changed[place])
        return [*self._before.get(place, ()), line, *self._after.get(place, ())]


class _Stitching:
    """What one conversation lacks."""

    def __init__(self, session: Session, edit: _Edit) -> None:
        self._session = session
        self._messages = session.messages
        self._edit = edit
        self._open = unanswered(session)

    def run(self) -> None:
        """Lost parents first: where one of them was a result, it comes back under its old id."""
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
        """The calls without a result of the reply that ends at a message, or whose results do."""
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
        """The last result of a reply's calls, on which a further one is to hang; or the reply itself."""
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
        beside = self._edit.record(last)
        blocks = [
            {"type": "tool_result", "tool_use_id": call, "content": m.MADE_UP_RESULT, "is_error": True}
            for call in calls
        ]
        record = {"parentUuid": parent.id} | {name: beside[name] for name in _ENVELOPE if name in beside}
        record |= {"type": "user", "message": {"role": "user", "content": blocks}, "uuid": id}
        record |= {"timestamp": _just_after(self._edit.record(parent)), "toolUseResult": m.MADE_UP_RESULT}
        if self._fans_out(last):
            record["sourceToolAssistantUUID"] = last.id
        return record


def _answered(message: m.Message) -> set[str]:
    return {block.call_id for block in message.blocks if isinstance(block, m.ToolResult)}


def _just_after(record: dict[str, Any]) -> Any:
    """Old versions go on from the newest line: the one that was added must not be newer than what came later."""
    at = parse_moment(record.get("timestamp"))
    if at is None or at.year >= MAXYEAR:
        return record.get("timestamp")
    return (at + timedelta(milliseconds=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
