"""Repairs logs of Gemini CLI: closes documents, puts the header first, and adds a result for every call."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from ...core import model as m
from ...core.session import Session
from ...io.decode import decode_any, decode_object
from ...io.documents import split_document
from .._repair import ENDED, HEAD, LEFT_OUT, RESULT, CleanLog, Piece, encode, intact, joined, path_in_layout, records_in
from .schema import MESSAGES, RECORDS, GeminiRecord

Json = dict[str, Any]

_LAYOUT = re.compile(r"/(?P<folders>tmp/[^/]+/chats(?:/[^/]+)?)$")
"""A project's folder, and in it one for the sub-agents of each session."""


class GeminiRepair:
    """Repairs logs of Gemini CLI."""

    def clean(self, name: str, folders: Sequence[str], data: bytes) -> CleanLog | None:
        """Keep every intact record."""
        cleaned = _document(data) if name.endswith(".json") else _lines(data)
        if cleaned is None:
            return None
        inside = path_in_layout(_LAYOUT, name, folders)
        return CleanLog(inside or PurePosixPath("tmp", "repaired", "chats", name), *cleaned)

    def complete(self, sessions: list[Session], logs: list[bytes]) -> tuple[list[bytes], Counter[str]]:  # noqa: ARG002
        """Return the logs unchanged: a call and its result are in one record, so `clean` adds results."""
        return logs, Counter()


def _lines(data: bytes) -> tuple[bytes, Counter[str]] | None:
    """Repair an append-only log; None if it has no header."""
    pieces, changes = intact(data, RECORDS)
    header = next((piece for piece in pieces if _is_header(piece.record)), None)
    if header is None:
        return None
    lines = [_answered(piece, changes) for piece in pieces]
    if header is not pieces[0]:
        # The agent only looks for it in the first line; a repeated header has the same content.
        lines.insert(0, header.data)
        changes[HEAD] += 1
    return joined(lines), changes


def _is_header(record: GeminiRecord) -> bool:
    return record.session_id is not None and record.project_hash is not None


def _answered(piece: Piece[GeminiRecord], changes: Counter[str]) -> bytes:
    """Return a line with a result for every call."""
    if b'"toolCalls"' not in piece.data:
        return piece.data
    record = decode_object(piece.data)
    return encode(record) if _answer(record, changes) else piece.data


def _answer(record: Json, changes: Counter[str]) -> bool:
    """Add placeholder results to the calls without one in a message or a change, and return whether there were any."""
    found = False
    for call in _calls_in(record):
        if not call.get("result"):
            response = {"id": call.get("id"), "name": call.get("name"), "response": {"error": m.MADE_UP_RESULT}}
            call |= {"result": [{"functionResponse": response}], "status": "error"}
            changes[RESULT] += 1
            found = True
    return found


def _calls_in(record: Json) -> Iterator[Json]:
    patch = record.get("$set")
    listed = patch.get("messages") if isinstance(patch, dict) else None
    for message in [record, *(listed if isinstance(listed, list) else ())]:
        calls = message.get("toolCalls") if isinstance(message, dict) else None
        yield from (call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else ()


def _document(data: bytes) -> tuple[bytes, Counter[str]] | None:
    """Repair a document: if it is torn, a new one is built from what is intact."""
    changes: Counter[str] = Counter()
    is_whole = isinstance(decode_any(data), dict)
    parts = split_document(data.rstrip(b"\0 \n\r\t"), "messages")
    # Some documents have `id` instead.
    if not isinstance(parts.head.get("sessionId", parts.head.get("id")), str) or not parts.elements:
        return None
    pieces = [piece for element in parts.elements for piece in records_in(element.data, MESSAGES, changes)]
    messages = [decode_object(piece.data) for piece in pieces]
    answered = [_answer(message, changes) for message in messages]
    if is_whole and not changes and not any(answered):
        return data, changes
    if not is_whole:
        changes[ENDED] += 1
    changes[LEFT_OUT] += sum(damage.reason == "torn" and damage.lost for damage in parts.damages)
    head = {name: value for name, value in parts.head.items() if name != "messages"}
    text = json.dumps(head | {"messages": messages}, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "replace"), changes
