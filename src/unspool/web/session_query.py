"""What a page or a program needs of one session, read from the store piece by piece.

A page of a very long session costs what a page of a short one does.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import chain

import msgspec
import zstandard

from ..agents import AGENTS
from ..core import model as m
from ..core.errors import NotFoundError
from ..core.events import iter_events
from ..core.session import Session
from ..render.event_text import timeline_label
from ..render.transcript import Entry, Transcript, problem_entry
from ..store import Store
from ..store.message_patches import MessagePatches
from ..store.messages import BLOCK, unpack_head
from ..store.rows import SessionRow
from .branch_path import BranchPath, Lines, Run
from .context_index import ContextIndex
from .session_list import is_live
from .views import ContextView, EntryPage, Mark

PAGE = 50
"""Messages of a trail on one page."""
_MOST_MARKS = 300
"""Of one kind: more cannot be told apart on a screen."""
_BLOCKS_BACK = 65
"""How many blocks before a page are searched for the call of a result."""


class SessionQuery:
    """One session in the store. It is made for one answer; what is costly to decode is remembered between them."""

    def __init__(self, store: Store, row: SessionRow) -> None:
        self._store = store
        self.row = row

    @cached_property
    def _packed(self) -> tuple[bytes, bytes]:
        return self._store.messages.packed_head(self.row.id)

    @cached_property
    def _known(self) -> tuple[Session, MessagePatches]:
        return _unpacked(*self._packed)

    @cached_property
    def head(self) -> Session:
        """The record without its messages."""
        head = self._known[0]
        if not head.orphans or not is_live(self.row):
            return head
        # What the agent is doing just now looks, in its log, as if it had been killed in the middle of it.
        begin = max(self._store.usage.prompts(self.row.id), default=0)
        orphans = [
            msgspec.structs.replace(orphan, reason="running") if orphan.message_index >= begin else orphan
            for orphan in head.orphans
        ]
        return msgspec.structs.replace(head, orphans=orphans)

    @property
    def patches(self) -> MessagePatches:
        """The corrections to its messages."""
        return self._known[1]

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.row.messages, self.patches.spans, self.head.branches)

    def version(self) -> str:
        """Another one when anything in the session is different."""
        digest = hashlib.blake2b(digest_size=9)
        for part in (*self._packed, msgspec.json.encode(self.row)):
            digest.update(part)
        return digest.hexdigest()

    # --- lines of the conversation ---

    def trail(self, branch: int = 0) -> BranchPath:
        """A line from the beginning to its tip."""
        self._check_branch(branch)
        return self._lines.trail(branch)

    def branch_of(self, index: int) -> int:
        """The line a message belongs to."""
        return self._lines.branch_of(index)

    def pages(self, branch: int = 0) -> int:
        """How many pages a line has: one at least."""
        return max(1, -(-len(self.trail(branch)) // PAGE))

    def page_of(self, index: int, branch: int = 0) -> int:
        """The page a message is on."""
        return self.trail(branch).position_of(index) // PAGE

    def _check_branch(self, branch: int) -> None:
        if branch and all(other.id != branch for other in self.head.branches):
            last = max((other.id for other in self.head.branches), default=0)
            raise NotFoundError(f"session {self.row.name} has branches 0 to {last}; there is no branch {branch}")

    # --- messages ---

    def message(self, index: int) -> m.Message:
        """One message."""
        found = self.messages(index, index + 1) if index >= 0 else []
        if not found:
            last = self.row.messages - 1
            raise NotFoundError(f"session {self.row.name} has messages 0 to {last}; there is no message {index}")
        return found[0]

    def messages(self, first: int, last: int) -> list[m.Message]:
        """Messages in the order of the log, the last one not included."""
        return self._store.messages.read(self.row.id, first, last, patches=self.patches)

    def page(self, number: int, branch: int = 0) -> EntryPage:
        """A page of a line."""
        trail = self.trail(branch)
        if not 0 <= number < max(1, -(-len(trail) // PAGE)):
            raise NotFoundError(f"session {self.row.name} has {self.pages(branch)} pages; there is no page {number}")
        return self._page(number, trail)

    def only(self, branch: int, number: int = 0) -> EntryPage:
        """A page of the messages that a line does not share with the one it left."""
        self._check_branch(branch)
        return self._page(number, self._lines.own(branch))

    def entries(self, first: int, last: int) -> list[Entry]:
        """What there is to show of some messages."""
        return list(self._entries([(first, last - 1)]))

    def news(self, first: int, last: int) -> list[Entry]:
        """What new messages add to the active line: their own entries, and earlier calls that have got their result."""
        shown = [message for message in self.messages(first, last) if not message.branch]
        if not shown:
            return []
        company = list(self._with_company(shown))
        transcript = self._transcript(company)
        answered = {block.call_id for message in shown for block in message.blocks if isinstance(block, m.ToolResult)}
        found = [
            entry
            for message in company
            if message.index < first
            for entry in transcript.of(message)
            if entry.call is not None and entry.call.id in answered
        ]
        return found + [entry for message in shown for entry in transcript.of(message)]

    def _page(self, number: int, trail: BranchPath) -> EntryPage:
        runs = trail.part(number * PAGE, (number + 1) * PAGE)
        entries = list(self._entries(runs, is_first=number == 0))
        if (number + 1) * PAGE >= len(trail):
            entries += self._transcript([]).without_place()
            entries += [
                problem_entry(place, problem)
                for place, problem in enumerate(self.head.problems)
                if problem.source is None or not runs
            ]
        return EntryPage(number, runs[0][0] if runs else None, runs[-1][1] if runs else None, entries)

    def _entries(self, runs: list[Run], is_first: bool = False) -> Iterator[Entry]:
        shown = [message for first, last in runs for message in self.messages(first, last + 1)]
        if not shown:
            return
        transcript = self._transcript(list(self._with_company(shown)))
        if is_first:
            yield from transcript.beginning()
        # One more, so that damage between this page and the next is told here.
        following: list[m.Message | None] = [*self.messages(shown[-1].index + 1, shown[-1].index + 2)] or [None]
        problems = self._problems(None if is_first else shown[0], following[0])
        yield from _between(problems, None, shown[0])
        for message, after in zip(shown, chain(shown[1:], following), strict=True):
            yield from transcript.of(message)
            yield from _between(problems, message, after)

    def _transcript(self, messages: list[m.Message]) -> Transcript:
        describe = AGENTS[self.row.agent].describe
        return Transcript(self.head, describe, messages=messages, branch_of=self.branch_of)

    def _problems(self, before: m.Message | None, after: m.Message | None) -> list[tuple[int, m.Problem]]:
        """What could not be read between two messages, with the number it has in the record."""
        return [
            (number, problem)
            for number, problem in enumerate(self.head.problems)
            if problem.source is not None and _is_between(problem.source, before, after)
        ]

    # --- calls and results that are on different pages ---

    def _with_company(self, shown: list[m.Message]) -> Iterator[m.Message]:
        """The messages, the results of their calls and the calls of their results, wherever those are."""
        calls = {block.id for message in shown for block in message.blocks if isinstance(block, m.ToolCall)}
        results = {block.call_id for message in shown for block in message.blocks if isinstance(block, m.ToolResult)}
        orphans = {orphan.tool_use_id for orphan in self.head.orphans}
        inside = {message.index for message in shown}
        if early := results - calls:
            yield from self._holding(shown[-1].index, early, inside, backwards=True)
        yield from shown
        if open := calls - results - orphans:
            yield from self._holding(shown[0].index, open, inside, backwards=False)

    def _holding(self, index: int, ids: set[str], inside: set[int], *, backwards: bool) -> Iterator[m.Message]:
        """Messages from one on, or back from it, that hold the other half of some calls; those inside are known."""
        left = set(ids)
        messages = self._store.messages.scan(
            self.row.id, lambda data: any(id.encode() in data for id in left), index, backwards=backwards,
            most_blocks=_BLOCKS_BACK if backwards else None, patches=self.patches,
        )  # fmt: skip
        for message in messages:
            halves = {_half(block, backwards) for block in message.blocks} & left
            if halves and message.index not in inside:
                left -= halves
                yield message
                if not left:
                    return

    # --- the time line ---

    @cached_property
    def _prompts(self) -> list[int]:
        return list(self._store.usage.prompts(self.row.id))

    def turn_starts(self, branch: int = 0) -> list[int]:
        """The prompts on a branch."""
        trail = self.trail(branch)
        return [index for index in self._prompts if index in trail]

    def turns(self, branch: int = 0) -> int:
        """How many turns a line has; with very many, not all of them are marked."""
        return len(self.turn_starts(branch))

    def marks(self, branch: int = 0) -> list[Mark]:
        """Turns and events along a line."""
        trail = self.trail(branch)
        length = max(1, len(trail))
        found: dict[str, list[tuple[int, str]]] = {}
        for number, index in enumerate(self._prompts):
            found.setdefault("turn", []).append((index, f"turn {number + 1}"))
        for index, kind, label in self._happened():
            found.setdefault(kind, []).append((index, label))
        marks = [
            Mark(index, round(trail.position_of(index) / length, 4), kind, label)
            for kind, places in found.items()
            for index, label in _thinned([place for place in places if place[0] in trail])
        ]
        return sorted(marks, key=lambda mark: (mark.index, mark.kind))

    def _happened(self) -> Iterator[tuple[int, str, str]]:
        for kind, event in iter_events(self.head):
            index = kind.timeline_index(event)
            if kind.mark is not None and index is not None:
                yield index, kind.mark.name or kind.name, timeline_label(event)

    # --- context ---

    def context(self, index: int) -> ContextView:
        """What the model had before it at a message, and what became of all others."""
        message = self.message(index)
        return self.skeleton().view(index, self._tokens(message))

    def skeleton(self) -> ContextIndex:
        """The session without its words."""
        return _skeletons.get(self)

    def _tokens(self, message: m.Message) -> int | None:
        """How much went into the request that a message answered."""
        if message.reply is None:
            return None
        for other in self.messages(message.reply, message.reply + BLOCK):
            if other.reply == message.reply and other.usage is not None:
                usage = other.usage
                return sum(part or 0 for part in (usage.input, usage.cache_read, usage.cache_write))
        return None

    # --- the log ---

    def raw(self, index: int) -> bytes:
        """A record as it stands in the log."""
        source = self.message(index).source
        path = self.head.info.files[source.file].path if source.file < len(self.head.info.files) else ""
        file = self._store.files.find_for_session(self.row.id, path)
        if file is None:
            raise NotFoundError(f"the bytes of message {index} of session {self.row.name} are not kept in the store")
        if path.endswith(".zst"):
            data = b"".join(self._store.files.chunks(file))
            with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
                return reader.read(source.offset + source.length)[source.offset :]
        return self._bytes(file, source.offset, source.length)

    def _bytes(self, file: int, offset: int, length: int) -> bytes:
        begins = self._store.files.chunk_start(file, offset)
        found = bytearray()
        for chunk in self._store.files.chunks(file, offset):
            found += chunk
            if len(found) >= offset - begins + length:
                break
        return bytes(found[offset - begins : offset - begins + length])

    def resume_command(self) -> str | None:
        """What to type in order to go on with the session."""
        if self.row.kind != "main":
            return None
        command = shlex.join(part.format(id=self.row.name) for part in AGENTS[self.row.agent].info.resume)
        project = self.head.info.project
        return f"cd {shlex.quote(project.path)} && {command}" if project is not None and project.path else command


def _thinned(places: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return places[:: -(-len(places) // _MOST_MARKS) or 1]


def _half(block: m.Block, backwards: bool) -> str | None:
    if backwards:
        return block.id if isinstance(block, m.ToolCall) else None
    return block.call_id if isinstance(block, m.ToolResult) else None


def _between(
    problems: list[tuple[int, m.Problem]], before: m.Message | None, after: m.Message | None
) -> Iterator[Entry]:
    for number, problem in problems:
        if problem.source is not None and _is_between(problem.source, before, after):
            yield problem_entry(number, problem)


def _is_between(source: m.Source, before: m.Message | None, after: m.Message | None) -> bool:
    place = source.file, source.line
    if before is not None and (before.source.file, before.source.line) >= place:
        return False
    return after is None or place <= (after.source.file, after.source.line)


@lru_cache(maxsize=32)
def _unpacked(head: bytes, patches: bytes) -> tuple[Session, MessagePatches]:
    return unpack_head(head, patches)


class _ContextIndexes:
    """The last few sessions of which contexts were asked."""

    def __init__(self) -> None:
        self._found: dict[str, ContextIndex] = {}

    def get(self, reader: SessionQuery) -> ContextIndex:
        version = reader.version()
        skeleton = self._found.pop(version, None)
        if skeleton is None:
            skeleton = ContextIndex(reader._store, reader.row.id, reader.head, reader.patches)
        self._found[version] = skeleton
        while len(self._found) > 4:
            self._found.pop(next(iter(self._found)), None)
        return skeleton


_skeletons = _ContextIndexes()
