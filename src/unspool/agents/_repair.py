"""The shared part of repairing logs. The rest is in the `repair.py` of each agent.

A repair has two steps. The first makes a log readable: each line of the copy is an intact record. The second reads
that copy and adds what the conversation lacks: results that were never recorded, and new parents for messages whose
parent is gone. Neither step changes an intact record.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..core.session import Session
from ..io.decode import Damage, Location, RecordDecoder, decode_any, decode_object, repair_line
from ..io.lines import block_of

T = TypeVar("T")

LEFT_OUT = "lines left out"
"""Lines, or elements of a document, that contain no intact record."""
SPLIT = "lines split"
"""Damaged lines that contained several records; each record now has its own line."""
MENDED = "lines mended"
"""Lines from which bytes that are not text were removed."""
RESULT = "results added"
"""Placeholder results for calls that have none."""
STITCHED = "parents stitched"
"""Messages whose parent is gone, attached to the message before them."""
ENDED = "documents closed"
"""Documents that ended too early, or had bytes after their end."""
HEAD = "headers added"
"""First lines that were lost, reconstructed from the other lines."""


class CleanLog(NamedTuple):
    """A log in which every line is an intact record."""

    path: PurePosixPath
    """Its path in the agent's folder."""
    data: bytes
    changes: Counter[str]


class RepairStrategy(Protocol):
    """Repairs the logs of one agent."""

    def clean(self, name: str, folders: Sequence[str], data: bytes) -> CleanLog | None:
        """Make a log readable, given its name, the folders above it and its bytes; None if no record is intact."""
        ...

    def complete(self, sessions: list[Session], logs: list[bytes]) -> tuple[list[bytes], Counter[str]]:
        """Add what the conversations lack to the clean logs of a session, in order; also returns what was added."""
        ...


class Piece(NamedTuple, Generic[T]):
    """An intact record and its bytes."""

    record: T
    data: bytes


def intact(data: bytes, decoder: RecordDecoder[T]) -> tuple[list[Piece[T]], Counter[str]]:
    """All records of a log, including those in damaged lines, and the repairs that this took."""
    pieces: list[Piece[T]] = []
    changes: Counter[str] = Counter()
    for line in block_of(data).lines() if data else ():
        if line.strip():
            pieces += records_in(line, decoder, changes)
    return pieces, changes


def records_in(line: bytes, decoder: RecordDecoder[T], changes: Counter[str]) -> list[Piece[T]]:
    """The records of one line; also counts the repair in `changes`, if one was needed."""
    whole = line
    if b"\0" in line and isinstance(decode_any(without := line.replace(b"\0", b"")), dict):
        # Null bytes that a crash left in the line were inserted: they replaced nothing.
        whole = without
    found: list[Piece[T]] = []
    reasons = set()
    for item in decoder.line(whole, Location(1, 0, len(whole))):
        if isinstance(item, Damage):
            reasons.add(item.reason)
        else:
            record, location = item
            found.append(Piece(record, _plain(whole[location.offset : location.offset + location.length])))
    if not found:
        changes[LEFT_OUT] += 1
    elif "salvaged" in reasons:
        changes[SPLIT] += 1
    elif found[0].data != line.strip():
        changes[MENDED] += 1
    return found


def _plain(line: bytes) -> bytes:
    """A record in a form that any JSON parser accepts: no lone surrogates, no NaN, no number of thousands of digits."""
    line = repair_line(line)[0]
    if decode_any(line) is None:
        line = encode(decode_object(line))
    return line


def encode(record: Any) -> bytes:
    """Encode a record as a line of a log."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def joined(lines: Sequence[bytes]) -> bytes:
    """Join lines into a log."""
    return b"".join(line + b"\n" for line in lines)


def path_in_layout(layout: re.Pattern[str], name: str, folders: Sequence[str]) -> PurePosixPath | None:
    """The path in an agent's folder of a file that is in one; None if the folders above it have another layout.

    The group `folders` of `layout` matches the folders. A single name, such as `tmp`, may be that of any folder.
    """
    found = layout.search("/".join(folders))
    return PurePosixPath(found["folders"], name) if found else None


def unanswered(session: Session) -> dict[str, int]:
    """Calls without any result, with their message; some agents add a result to an unfinished call on resume."""
    answered = {block.call_id for message in session.messages for block in message.blocks if hasattr(block, "call_id")}
    return {o.tool_use_id: o.message_index for o in session.orphans if o.tool_use_id not in answered}
