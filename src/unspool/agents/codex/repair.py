"""Repairs rollouts of Codex CLI: adds a first line that identifies the thread, and a result for every call.

Codex continues a file even if its ordinals have gaps or duplicates; it only needs the first line, and an ordinal in
the last. So ordinals are never changed, because forks refer to them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path, PurePosixPath
from typing import Any

from ...core import model as m
from ...core.errors import UnspoolError
from ...core.session import Session
from ...core.timestamps import parse_moment
from ...io.decode import decode_object
from .._repair import HEAD, RESULT, CleanLog, Piece, encode, intact, joined, path_in_layout, unanswered
from ..base import strings_at
from .discovery import rollout_file
from .schema import BARE_RECORDS, RECORDS, CodexRecord

_LAYOUT = re.compile(r"/(?P<folders>sessions/\d{4}/\d\d/\d\d|archived_sessions)$")
_OUTPUT_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}


class CodexRepair:
    """Repairs rollouts of Codex CLI."""

    def clean(self, name: str, folders: Sequence[str], data: bytes) -> CleanLog | None:
        """Keep every intact line."""
        name = name.removesuffix(".zst")
        if not name.endswith(".jsonl"):
            raise UnspoolError(f"{name}: no version of Codex can continue a document of version 0.1")
        pieces, changes = intact(data, RECORDS)
        if not pieces or not any(piece.record.payload.type for piece in pieces):
            return self._clean_bare(name, folders, data)
        lines = [piece.data for piece in pieces]
        if pieces[0].record.type != "session_meta":
            meta = _meta(name, pieces)
            if meta is None:
                return None
            lines.insert(0, meta)
            changes[HEAD] += 1
        return CleanLog(_path_in_folder(name, folders, lines[0]), joined(lines), changes)

    def _clean_bare(self, name: str, folders: Sequence[str], data: bytes) -> CleanLog | None:
        pieces, changes = intact(data, BARE_RECORDS)
        if not any(piece.record.type for piece in pieces):
            return None
        lines = [piece.data for piece in pieces]
        return CleanLog(_path_in_folder(name, folders, lines[0]), joined(lines), changes)

    def complete(self, sessions: list[Session], logs: list[bytes]) -> tuple[list[bytes], Counter[str]]:
        """Give every call a result, right after the call."""
        lines = [log.split(b"\n")[:-1] for log in logs]
        changes: Counter[str] = Counter()
        calls = [
            (source.file, source.line, call)
            for session in sessions
            for call, index in unanswered(session).items()
            for source in [session.messages[index].source]
        ]
        for file, number, call in sorted(calls, reverse=True):
            result = _result(call, lines[file], number - 1)
            if result is not None:
                lines[file].insert(number, encode(result))
                changes[RESULT] += 1
        return _with_offsets([joined(each) for each in lines]), changes


def _path_in_folder(name: str, folders: Sequence[str], first: bytes) -> PurePosixPath:
    file = rollout_file(Path(name)) or rollout_file(Path(_original_name(first)))
    if file is None:
        raise UnspoolError(f"cannot repair {name}: neither its name nor its first line has the id of a thread")
    inside = path_in_layout(_LAYOUT, file.path.name, folders)
    return inside or PurePosixPath("sessions", *file.time[:10].split("-"), file.path.name)


def _original_name(first: bytes) -> str:
    """Return the name that Codex gave to a renamed file, except that the time is in UTC; it finds threads by it."""
    record = decode_object(first)
    id = next(iter(strings_at(record, ("payload", "id"), ("id",))), "")
    times = strings_at(record, ("payload", "timestamp"), ("timestamp",))
    at = next((moment for time in times if (moment := parse_moment(time)) is not None), None)
    day = at.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S").zfill(19) if at is not None else "0000-00-00"
    return f"rollout-{day}-{id}.jsonl"


def _meta(name: str, pieces: list[Piece[CodexRecord]]) -> bytes | None:
    """Build the first line from the file name and the other lines; None if they do not have enough facts."""
    file = rollout_file(Path(name))
    first = decode_object(pieces[0].data)
    contexts = (decode_object(piece.data) for piece in pieces if piece.record.type == "turn_context")
    folder = next((folder for context in contexts for folder in strings_at(context, ("payload", "cwd"))), None)
    if file is None or folder is None:
        return None
    payload = {"id": file.thread, "timestamp": first.get("timestamp"), "cwd": folder, "originator": "unspool"}
    payload |= {"cli_version": "0.0.0", "source": "cli"}
    record: dict[str, Any] = {"timestamp": first.get("timestamp")}
    if "ordinal" in first:
        payload |= {"session_id": file.thread, "history_mode": "paginated"}
        record["ordinal"] = 0
    return encode(record | {"type": "session_meta", "payload": payload})


def _result(call: str, lines: list[bytes], index: int) -> dict[str, Any] | None:
    """Build a placeholder result for the call in the line at `index`; None if it needs no result."""
    record = decode_object(lines[index])
    payload = record.get("payload", record)
    kind = next((_OUTPUT_OF.get(name) for name in strings_at(payload, ("type",))), None)
    if kind is None:
        return None
    body: dict[str, Any] = {"type": kind, "call_id": call, "output": m.MADE_UP_RESULT}
    if kind == "tool_search_output":
        body = {"type": kind, "call_id": call, "status": "completed", "execution": "client", "tools": []}
    if payload is record:
        return body
    head = {name: record[name] for name in ("timestamp", "ordinal") if name in record}
    if isinstance(head.get("ordinal"), int):
        later = decode_object(lines[index + 1]).get("ordinal") if index + 1 < len(lines) else None
        is_free = later is None or (isinstance(later, int) and later > head["ordinal"] + 1)
        head["ordinal"] += is_free
    return head | {"type": "response_item", "payload": body}


def _with_offsets(logs: list[bytes]) -> list[bytes]:
    """Correct the byte at which the part of another file that a fork shares ends: added lines may have moved it."""
    heads = [decode_object(log[: log.find(b"\n")]) for log in logs]
    bodies = [head["payload"] if isinstance(head.get("payload"), dict) else {} for head in heads]
    # If a thread has several files, its id refers to the first; the others have their own ids in their names.
    ids = {id: file for file, body in reversed(list(enumerate(bodies))) for id in strings_at(body, ("id",))}
    for file, head in enumerate(heads):
        base = bodies[file].get("history_base")
        if not isinstance(base, dict) or not isinstance(base.get("end_byte_offset"), int):
            continue
        at = next((ids.get(id) for id in strings_at(base, ("thread_id",))), None)
        if at is None or at == file:
            continue
        offset = _offset(logs[at], base.get("end_ordinal_exclusive"))
        if offset != base["end_byte_offset"]:
            base["end_byte_offset"] = offset
            logs[file] = encode(head) + logs[file][logs[file].find(b"\n") :]
    return logs


def _offset(log: bytes, ordinal: Any) -> int:
    """Return the offset of the first line with this ordinal or a later one, or the end of the log."""
    position = 0
    for line in log.split(b"\n")[:-1]:
        found = decode_object(line).get("ordinal")
        if isinstance(found, int) and isinstance(ordinal, int) and found >= ordinal:
            break
        position += len(line) + 1
    return position
