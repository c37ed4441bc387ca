"""Sessions of Claude Code with the same first message: one of them is the original, the others are copies.

A folder may have thousands of copies, so everything is computed once for all of them. The time to find the
origin of each is proportional to the number of its messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ...io.files import iter_records, read_blocks, read_start, size_of, while_unchanged
from ...io.lines import BLOCK_SIZE
from .._metadata import digest
from .heads import HEAD_SIZE, ClaudeHead
from .schema import TIMES

_UUID, _UUID_LENGTH = b'"uuid":"', 36
_LINE = b'\n{"type":"'
_METADATA = (
    b'{"type":"last-prompt', b'{"type":"mode', b'{"type":"file-history', b'{"type":"queue-operation',
    b'{"type":"permission-mode',
)  # fmt: skip
"""Beginnings of lines that are not messages."""
_ANSWER = b'"type":"assistant"'
SURE, LIKELY, _GUESSED = 0.9, 0.7, 0.5
"""Confidence that a session is the origin: certain, likely by the messages that are shared, or a guess."""


class Original(NamedTuple):
    """The session of a family that the others were copied from, directly or not."""

    session: str
    evidence: str
    confidence: float


class SameStart(NamedTuple):
    """The sessions of a family that begin with the same clear or plan."""

    sessions: set[str]
    named_by: dict[str, list[str]]
    """The sessions that name another one in their first lines, by the one that is named."""

    def has_other(self, name: str | None, session: str) -> bool:
        """Whether a name is that of another session than the given one."""
        return name != session and name in self.sessions

    def is_named(self, session: str) -> bool:
        """Whether another session names the given one."""
        return any(other != session for other in self.named_by.get(session, ()))


class Family:
    """The sessions that share their first message."""

    def __init__(self, heads: dict[str, ClaudeHead]) -> None:
        self.heads = heads
        self._names = list(heads)
        self._originals: dict[str | None, Original] = {}
        self._ids: tuple[str, set[int]] = ("", set())
        """The session that others were last compared with, and the hashes of its message ids."""
        self._orphans: FileSequence | None = None

    # --- the original ---

    def original(self, typed: str | None) -> Original:
        """Return the session that came first; `typed` is the one in which the first prompt was typed, if known."""
        if typed not in self._originals:
            self._originals[typed] = self._find_original(typed)
        return self._originals[typed]

    def _find_original(self, typed: str | None) -> Original:
        """Find the original by the best evidence available."""
        if typed is not None:
            return Original(typed, "prompt history", SURE)
        signs: tuple[tuple[Callable[[ClaudeHead], bool], str], ...] = (
            (lambda head: head.lists, "form of the prompts"),
            (begins_later, "begun after its first message"),
            (lambda head: _is_contiguous(head.path), "copied at once"),
        )
        left = self._names
        evidence = "order of their own messages"
        for is_copy, sign in signs:
            originals = [id for id in left if not is_copy(self.heads[id])]
            if 0 < len(originals) < len(left):
                left, evidence = originals, sign
            if len(left) == 1:
                return Original(left[0], evidence, SURE)
        return Original(min(left, key=self._rank), evidence, _GUESSED)

    def nearest(self, session: str, original: str) -> str:
        """Return the session that another was copied from: a fork of a fork shares more with it than with the original.

        Only sessions that were started earlier are considered.
        """
        if len(self._names) == 2:
            return original
        ids = _timeline(self.heads[session].path).ids
        first, count = self._shared.longest_beginning(ids, self._rank(session))
        return self._order[first] if count > self._shared_with(original, ids) else original

    def _shared_with(self, session: str, ids: array[int]) -> int:
        """Return the number of messages at the beginning of a file that another one also has."""
        if self._ids[0] != session:
            self._ids = session, set(_timeline(self.heads[session].path).ids)
        known = self._ids[1]
        return next((count for count, id in enumerate(ids) if id not in known), len(ids))

    # --- the order in which they were started ---

    def _rank(self, session: str) -> int:
        return self._ranks[session]

    @cached_property
    def _order(self) -> list[str]:
        return sorted(self._names, key=lambda id: (self._start_time(id), id))

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {id: rank for rank, id in enumerate(self._order)}

    @cached_property
    def _holders(self) -> dict[int, tuple[int, ...]]:
        """The positions of the files that have a message, by its hash; only for messages that several files have."""
        held: dict[int, list[int]] = {}
        for position, id in enumerate(self._names):
            for message in _timeline(self.heads[id].path).ids:
                holders = held.setdefault(message, [])
                if not holders or holders[-1] != position:
                    holders.append(position)
        known: dict[tuple[int, ...], tuple[int, ...]] = {}
        found = {}
        for message, holders in held.items():
            if len(holders) > 1:
                together = tuple(holders)
                found[message] = known.setdefault(together, together)
        return found

    @cached_property
    def _shared(self) -> SharedMessages:
        ranks = [self._ranks[id] for id in self._names]
        return SharedMessages(self._holders, ranks)

    def _start_time(self, session: str) -> float:
        """Estimate when a file was started: at its first metadata, or at the first message that no other file has."""
        head = self.heads[session]
        noted = _first_noted(head.path)
        if noted is not None and begins_later(head):
            return noted.timestamp()
        ids, times = _timeline(head.path)
        own = (time for id, time in zip(ids, times, strict=True) if id not in self._holders)
        return next(own, times[-1] if times else 0.0)

    # --- for forks.py ---

    def orphans(self, is_orphan: Callable[[str], bool], paths_of: Callable[[str], Collection[Path]]) -> FileSequence:
        """Return the forks of a session that is gone, in the order in which they were started; cached."""
        if self._orphans is None:
            self._orphans = FileSequence({id: paths_of(id) for id in self._order if is_orphan(id)})
        return self._orphans

    def same_start(self, session: str) -> SameStart:
        """Return the sessions that begin with the same clear or plan."""
        return self._same_starts[self.heads[session].cleared_by]

    @cached_property
    def _same_starts(self) -> dict[str | None, SameStart]:
        found: dict[str | None, SameStart] = {}
        for id, head in self.heads.items():
            same = found.setdefault(head.cleared_by, SameStart(set(), {}))
            same.sessions.add(id)
            for name in {head.session, head.forked_from, head.process_session} - {None}:
                same.named_by.setdefault(str(name), []).append(id)
        return found


class _Group:
    """Files that have some messages in common, by their ranks."""

    def __init__(self, ranks: frozenset[int]) -> None:
        self.ranks = ranks
        self.first = min(ranks, default=-1)


class SharedMessages:
    """Which files have which messages. Files that were copied at the same point are handled together."""

    def __init__(self, holders: dict[int, tuple[int, ...]], ranks: list[int]) -> None:
        """`holders` has positions of files, and `ranks` the rank of each file."""
        self._known: dict[frozenset[int], _Group] = {}
        self._common: dict[tuple[_Group, _Group], _Group] = {}
        groups: dict[tuple[int, ...], _Group] = {}
        self._holders: dict[int, _Group] = {}
        for message, positions in holders.items():
            if positions not in groups:
                groups[positions] = self._group(frozenset(ranks[position] for position in positions))
            self._holders[message] = groups[positions]
        self._everyone = self._group(frozenset(ranks))
        self.steps = 0
        """The number of ranks that were compared."""

    def _group(self, ranks: frozenset[int]) -> _Group:
        return self._known.setdefault(ranks, _Group(ranks))

    def longest_beginning(self, ids: Iterable[int], rank: int) -> tuple[int, int]:
        """Return the first file before a rank with the longest beginning in common with a file, and its length."""
        group, count = self._everyone, 0
        for id in ids:
            holders = self._holders.get(id)
            common = self._both(group, holders) if holders is not None else group
            if holders is None or not 0 <= common.first < rank:
                break
            group, count = common, count + 1
        return group.first, count

    def _both(self, one: _Group, other: _Group) -> _Group:
        if one is other:
            return one
        if (one, other) not in self._common:
            self.steps += min(len(one.ranks), len(other.ranks))
            self._common[one, other] = self._group(one.ranks & other.ranks)
        return self._common[one, other]


class FileSequence:
    """Files in the order in which they were started. A message in several of them belongs to the first one."""

    def __init__(self, files: dict[str, Collection[Path]]) -> None:
        """`files` has the files of each session, in that order."""
        self._files = files
        self._ranks = {name: rank for rank, name in enumerate(files)}

    def before(self, name: str) -> Originals:
        """Return the files before those of a session as its originals."""
        rank = self._ranks.get(name, 0)
        return Originals((self._marks[rank],), lambda: self._ids_before(name)) if rank else Originals()

    @cached_property
    def _marks(self) -> list[str]:
        """For each session, a digest of the sizes of all files before its own."""
        marks = [""]
        for paths in self._files.values():
            marks.append(digest((marks[-1], *map(size_of, paths))))
        return marks

    @cached_property
    def _first_with(self) -> dict[int, int]:
        """The rank of the first session that has a message, by its hash."""
        found: dict[int, int] = {}
        for rank, paths in enumerate(self._files.values()):
            for id in _ids_in_files(paths):
                found.setdefault(hash(id), rank)
        return found

    def _ids_before(self, name: str) -> frozenset[str]:
        rank, first_with = self._ranks[name], self._first_with
        return frozenset(id for id in _ids_in_files(self._files[name]) if first_with.get(hash(id), rank) < rank)


class Originals(NamedTuple):
    """The files that a file was copied from."""

    mark: tuple[object, ...] = ()
    """Changes when the originals change."""
    ids: Callable[[], frozenset[str]] = frozenset
    """Returns the ids of their messages, at least of those that the copy has too."""


_last_ids: tuple[tuple[object, ...], frozenset[str]] = ((), frozenset())


def originals_at(paths: Collection[Path]) -> Originals:
    """Return some files as the originals of a copy."""
    sizes = tuple(map(size_of, paths))
    return Originals(sizes, lambda: _last_ids_in(paths, sizes))


def _last_ids_in(paths: Collection[Path], sizes: tuple[int, ...]) -> frozenset[str]:
    """Return the ids in some files, which are cached for the next copy of the same files."""
    global _last_ids
    key = (*paths, *sizes)
    if _last_ids[0] != key:
        _last_ids = key, _ids_in_files(paths)
    return _last_ids[1]


def _ids_in_files(paths: Iterable[Path]) -> frozenset[str]:
    return ids_in(block for path in paths for block in read_blocks(path))


def ids_in(blocks: Iterable[bytes]) -> frozenset[str]:
    """Return the ids of the messages in some lines."""
    found: set[str] = set()
    for block in blocks:
        # Splitting takes half the time of a regular expression.
        found.update(rest[:_UUID_LENGTH].decode("ascii", "replace") for rest in block.split(_UUID)[1:])
    return frozenset(found)


# --- evidence in a file ----------------------------------------------------------------------------------------------


class _Timeline(NamedTuple):
    """The messages of a file: hashes of their ids, and when each was written."""

    ids: array[int]
    times: array[float]


@while_unchanged
def _timeline(path: Path) -> _Timeline:
    ids, times = array("q"), array("d")
    for record in iter_records(path, TIMES, BLOCK_SIZE):
        if record.type in ("user", "assistant") and record.uuid is not None:
            ids.append(hash(record.uuid))
            times.append(record.timestamp.timestamp() if record.timestamp is not None else 0.0)
    return _Timeline(ids, times)


def begins_later(head: ClaudeHead) -> bool:
    """Whether a file begins with metadata that is newer than its first message, so the message was copied."""
    noted = _first_noted(head.path)
    return noted is not None and head.started_at is not None and noted > head.started_at


@while_unchanged
def _first_noted(path: Path) -> datetime | None:
    """Return when a prompt was queued, by the metadata before the first message."""
    block = read_start(path, HEAD_SIZE)
    for line in TIMES.batch(block).records if block is not None else ():
        if line.type in ("user", "assistant"):
            break
        if line.type == "queue-operation" and line.timestamp is not None:
            return line.timestamp
    return None


@while_unchanged
def _is_contiguous(path: Path) -> bool:
    """Whether the lines were copied at once: lines written one by one have metadata between them."""
    has_answer = False
    for block in read_blocks(path, HEAD_SIZE):
        start = 0 if has_answer else block.find(_ANSWER) + 1
        has_answer = has_answer or start > 0
        if has_answer:
            second = block.find(_ANSWER, start)
            if _has_metadata(block, start, second if second >= 0 else len(block)):
                return False
            if second >= 0:
                return True
    return False


def _has_metadata(block: bytes, start: int, end: int) -> bool:
    """Whether one of the lines that begin in a part of a block is metadata; `find` passes over long lines quickly."""
    if start == 0 and block.startswith(_METADATA, 0, end):
        return True
    position = start
    while (position := block.find(_LINE, position, end)) >= 0:
        position += 1
        if block.startswith(_METADATA, position, end):
            return True
    return False
