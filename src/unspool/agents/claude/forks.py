"""How a Claude Code session started, and which session a fork was copied from."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ...core import model as m
from ...io.files import iter_records, read_blocks, read_start, stem_of, while_unchanged
from ...io.lines import BLOCK_SIZE
from .discovery import ClaudeFolder, ClaudeHead, Surroundings
from .schema import HEAD_RECORDS, RECORDS

_UUID, _UUID_LENGTH = b'"uuid":"', 36
_METADATA_LINE = re.compile(
    rb'^\{"type":"(?:last-prompt|mode|file-history|queue-operation|permission-mode)', re.MULTILINE
)
_ANSWER = b'"type":"assistant"'
COPIES = frozenset(("fork", "branch"))
"""Kinds of origins whose lines the session begins with."""
_SAME_MOMENT = timedelta(seconds=30)
_HEAD_SIZE = 1 << 16
_SURE, _LIKELY, _GUESSED = 0.9, 0.7, 0.5
"""Confidence that a session is the origin: by what its file shows; by the order of messages; otherwise."""


def find_origin(session: str, folder: ClaudeFolder, around: Surroundings) -> m.Origin:
    """Find out how a session started, if not with a cleared context."""
    files = folder.sessions.get(session)
    if files is None:
        return m.Origin(kind="new")
    head = files.head
    if session in around.fork_parents:
        return m.Origin(kind="fork", session=around.fork_parents[session], evidence="job state")
    if head.forked_from is not None:
        return _named("branch", head.forked_from)
    if head.process_session is not None:
        return _named("fork", head.process_session)
    if head.session not in (None, session):
        return _named("fork", _last_writer(head.path))
    return _copy_origin(session, head, folder, around) or m.Origin(kind="new")


def copied_start(session: str, folder: ClaudeFolder, around: Surroundings) -> m.Origin | None:
    """Find the origin of a fork that begins with a copy of a clear or a plan; None if the session was started by it.

    The first message alone does not show a copy: 1.0.60 writes the caveat before `/clear` with one id for all sessions
    of a process.
    """
    head = folder.sessions[session].head
    family = folder.by_first_uuid.get(head.first_uuid or "", ())
    others = [id for id in family if id != session and folder.sessions[id].head.cleared_by == head.cleared_by]
    if not others:
        return None
    heads = [folder.sessions[id].head for id in others]
    if session in around.fork_parents or head.forked_from in others or head.process_session in others:
        return find_origin(session, folder, around)
    if head.session in others:
        return _named("fork", _last_writer(head.path))
    if any(session in (one.session, one.forked_from, one.process_session) for one in heads):
        return None
    return _copy_origin(session, head, folder, around)


def _named(kind: m.OriginKind, session: str | None) -> m.Origin:
    return m.Origin(kind=kind, session=session, evidence="named by its lines")


@while_unchanged
def _last_writer(path: Path) -> str | None:
    """Return the session that wrote the last copied message of a fork: in a fork of a fork, not the first one does."""
    writer = None
    for record in iter_records(path, HEAD_RECORDS, _HEAD_SIZE):
        if record.type in ("user", "assistant"):
            if record.session_id == stem_of(path):
                break
            writer = record.session_id or writer
    return writer


# --- forks that name nothing -----------------------------------------------------------------------------------------


class _Original(NamedTuple):
    """The session of a family that the others were copied from, directly or not."""

    session: str
    evidence: str
    confidence: float


def _copy_origin(session: str, head: ClaudeHead, folder: ClaudeFolder, around: Surroundings) -> m.Origin | None:
    """Recognise a fork by lines that its original has too: versions before 2.1.3xx record nothing else."""
    family = folder.by_first_uuid.get(head.first_uuid or "", [])
    if len(family) < 2:
        return None
    heads = {id: folder.sessions[id].head for id in family}
    original = _original_in(heads, _typed_in(head, around))
    if session == original.session:
        return None
    if original.session not in heads:
        return _copy_of(original)
    # A fork of a fork shares more with it than with the original.
    order = sorted(heads, key=lambda id: (id != original.session, _born(heads, id), id))
    lines = _timeline(head.path).ids
    earlier = order[: order.index(session)]
    nearest = max(earlier, key=lambda id: _shared_beginning(lines, _timeline(heads[id].path).ids))
    if nearest == original.session:
        return _copy_of(original)
    confidence = _SURE if _begins_later(head) else _LIKELY
    return _copy_of(_Original(nearest, "longest shared beginning", confidence))


def _original_in(heads: dict[str, ClaudeHead], typed: str | None) -> _Original:
    """Return the session that was there first, by the best evidence there is."""
    if typed is not None:
        return _Original(typed, "prompt history", _SURE)
    signs: tuple[tuple[Callable[[ClaudeHead], bool], str], ...] = (
        (lambda head: head.lists, "form of the prompts"),
        (_begins_later, "begun after its first message"),
        (lambda head: _is_contiguous(head.path), "copied at once"),
    )
    left = list(heads)
    evidence = "order of their own messages"
    for is_copy, sign in signs:
        originals = [id for id in left if not is_copy(heads[id])]
        if 0 < len(originals) < len(left):
            left, evidence = originals, sign
        if len(left) == 1:
            return _Original(left[0], evidence, _SURE)
    return _Original(min(left, key=lambda id: (_born(heads, id), id)), evidence, _GUESSED)


def _copy_of(original: _Original) -> m.Origin:
    evidence = f"same message ids; {original.evidence}"
    return m.Origin(kind="fork", session=original.session, evidence=evidence, confidence=original.confidence)


def _born(heads: dict[str, ClaudeHead], session: str) -> float:
    """Return about when a file was begun: by its first note, or else when its first message of its own was written."""
    head = heads[session]
    noted = _first_noted(head.path)
    if noted is not None and _begins_later(head):
        return noted.timestamp()
    others = {id for other, twin in heads.items() if other != session for id in _timeline(twin.path).ids}
    ids, times = _timeline(head.path)
    return next((time for id, time in zip(ids, times, strict=True) if id not in others), times[-1] if times else 0.0)


class _Timeline(NamedTuple):
    """The messages of a file: hashes of their ids, and when each was written."""

    ids: array[int]
    times: array[float]


@while_unchanged
def _timeline(path: Path) -> _Timeline:
    ids, times = array("q"), array("d")
    for record in iter_records(path, RECORDS, BLOCK_SIZE):
        if record.type in ("user", "assistant") and record.uuid is not None:
            ids.append(hash(record.uuid))
            times.append(record.timestamp.timestamp() if record.timestamp is not None else 0.0)
    return _Timeline(ids, times)


def _shared_beginning(ids: array[int], others: array[int]) -> int:
    """Return how many messages at the beginning of a file another file has too."""
    known = set(others)
    return next((count for count, id in enumerate(ids) if id not in known), len(ids))


def _typed_in(head: ClaudeHead, around: Surroundings) -> str | None:
    """Return the session in which the first prompt was typed, by the prompt history."""
    if head.prompt is None or head.prompt_at is None:
        return None
    for entry in around.history:
        if (
            entry.session
            and entry.text.strip() == head.prompt.strip()
            and abs(entry.at - head.prompt_at) < _SAME_MOMENT
        ):
            return entry.session
    return None


def _begins_later(head: ClaudeHead) -> bool:
    """Whether a file begins with metadata that is newer than its first message, so that the message was copied."""
    noted = _first_noted(head.path)
    return noted is not None and head.started_at is not None and noted > head.started_at


@while_unchanged
def _first_noted(path: Path) -> datetime | None:
    """Return when something was typed, by the metadata before the first message."""
    block = read_start(path, _HEAD_SIZE)
    for line in RECORDS.batch(block).records if block is not None else ():
        if line.type in ("user", "assistant"):
            break
        if line.type == "queue-operation" and line.timestamp is not None:
            return line.timestamp
    return None


@while_unchanged
def _is_contiguous(path: Path) -> bool:
    """Whether the lines were copied at once: lines written one by one have metadata between them."""
    data = b""
    for block in read_blocks(path, _HEAD_SIZE):
        data += block
        first = data.find(_ANSWER)
        second = data.find(_ANSWER, first + 1)
        if 0 <= first < second:
            return _METADATA_LINE.search(data, first, second) is None
        data = data[first:] if first >= 0 else b""
    return False


def originals_of(session: str, folder: ClaudeFolder, around: Surroundings, origin: m.Origin) -> tuple[Path, ...]:
    """Return the files that a fork was copied from: those of its origin or, if that is gone, of older forks of it."""
    if origin.kind not in COPIES:
        return ()
    is_there = origin.session is not None and origin.session in folder.sessions
    ids = [str(origin.session)] if is_there else _older_twins(session, folder, around)
    return tuple(path for id in ids for path in (folder.sessions[id].head.path, *folder.sessions[id].more))


def _older_twins(session: str, folder: ClaudeFolder, around: Surroundings) -> list[str]:
    """Return the forks of a session that is gone which were begun before this one.

    What they share counts in the first of them. Forks whose origin is still there have inherited it from that.
    """
    files = folder.sessions.get(session)
    family = folder.by_first_uuid.get(files.head.first_uuid or "", []) if files is not None else []
    if len(family) < 2:
        return []
    heads = {id: folder.sessions[id].head for id in family}
    origins = {id: find_origin(id, folder, around).session for id in family}
    twins = [id for id, origin in origins.items() if origin is not None and origin not in folder.sessions]
    order = sorted(twins, key=lambda id: (_born(heads, id), id))
    return order[: order.index(session)] if session in order else []


def ids_in(blocks: Iterable[bytes]) -> frozenset[str]:
    """Return the ids of the messages in some lines."""
    found: set[str] = set()
    for block in blocks:
        # Splitting takes half the time of a regular expression.
        found.update(rest[:_UUID_LENGTH].decode("ascii", "replace") for rest in block.split(_UUID)[1:])
    return frozenset(found)
