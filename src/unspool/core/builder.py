"""Builds one session while its log is read: messages, tool calls, token usage, and the events found on the way.

A builder keeps numbers about the messages and passes the messages themselves to a sink (see `sinks`), so that the same
parser serves programs that want a whole session, a stream, or only the events.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

import msgspec

from ..io.decode import INVALID, Damage, LineParts, repair_line
from . import model as m
from .columns import MessageColumns
from .events import EVENT_KINDS
from .open_calls import Call, OpenCalls
from .recent import Recent
from .replies import Replies
from .sinks import KeepMessages, MessageSink, ReplaySink, apply_outcome
from .tree import (
    COMMAND,
    CONTINUED,
    INHERITED,
    MODEL,
    PROMPT,
    QUEUED,
    STANDIN,
    STITCHED,
    UNANSWERED,
    USAGE_MOVED,
)


class SessionDetails(msgspec.Struct):
    """Facts about a session other than its messages and events."""

    files: list[m.LogFile] = []
    versions: dict[str, None] = {}
    """Versions of the agent that wrote it, in order."""
    models: dict[str, None] = {}
    project: m.Project | None = None
    git: m.Git | None = None
    title: str | None = None
    parent: str | None = None
    archived: bool = False
    unanswered: m.Unanswered = "omitted"
    plan: str | None = None
    live_status: m.Status | None = None
    """Set if the agent reports that the session is open."""
    origin: m.Origin = msgspec.field(default_factory=lambda: m.Origin(kind="new"))
    tip: int | None = None
    """The message that ends the active path, by the agent's own rule."""
    tip_rule: str = "last message"


MOST_PROBLEMS = 20_000
"""The maximum number of problems with lines that a record lists."""
_REPLACEMENT = "\ufffd".encode()
_COLLECTED = tuple(kind.collected for kind in EVENT_KINDS)


class EventLists:
    """The events found so far, in the order in which they were found: a list for each kind in the table."""

    # Created from the table; declared here for type checkers.
    boundaries: list[m.Boundary]
    context_clears: list[m.ContextClear]
    interruptions: list[m.Interruption]
    rejections: list[m.Rejection]
    input_changes: list[m.InputChange]
    rollbacks: list[m.Rollback]
    errors: list[m.Failure]
    orphans: list[m.Orphan]
    subagents: list[m.Subagent]
    resumes: list[m.Resume]
    branches: list[m.Branch]
    problems: list[m.Problem]

    def __init__(self) -> None:
        self.__dict__.update({name: [] for name in _COLLECTED})
        self._more_problems = 0
        self._checked: Recent[m.Source, bool] = Recent()
        """Lines that were checked for invalid UTF-8."""
        self.inherited_boundaries: list[m.Boundary] = []
        self.branch_reasons: dict[int, m.BranchReason] = {}
        """The reason why a branch was abandoned, by its first message, if the log gives one."""

    def add_problem(self, problem: m.Problem) -> None:
        """Add a problem with a line. Above a limit, problems are only counted, so that a file full of them does not
        fill the memory."""
        if problem.reason == INVALID and problem.source is not None:
            self._checked.put(problem.source, True)
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self._more_problems += 1

    def needs_check(self, source: m.Source) -> bool:
        """Whether a line was not checked for invalid UTF-8 before; it counts as checked from now on."""
        is_new = not self._checked.get(source)
        if is_new:
            self._checked.put(source, True)
        return is_new

    def add_uncounted(self) -> None:
        """Add a problem that says how many others were only counted."""
        count, self._more_problems = self._more_problems, 0
        if count:
            self.problems.append(m.Problem(reason="more-problems", detail=f"{count:,} more problems, not listed"))

    def add_boundary(self, boundary: m.Boundary, inherited: bool) -> None:
        """Add a compaction; `inherited` if it happened in the session this one was forked from."""
        (self.inherited_boundaries if inherited else self.boundaries).append(boundary)


class Corrections(msgspec.Struct):
    """Corrections of earlier messages, found in later lines."""

    authors: dict[int, m.Author] = {}
    outcomes: dict[int, dict[str, m.Outcome]] = {}
    usages: dict[int, m.Usage] = {}
    final_records: dict[int, int] = {}
    """The record with the final content of each message that the log repeats in full."""


class StoredOriginals(Protocol):
    """Stored data about sessions that others were copied from, after their logs were deleted."""

    def origin(self) -> m.Origin | None:
        """Return the stored origin of the session, if it continues one that only the store still has."""
        ...

    def origin_of(self, session: str) -> m.Origin | None:
        """Return the stored origin of another session."""
        ...

    def lines_of(self, session: str) -> Iterator[bytes]:
        """Yield the log of a session that only the store still has, in pieces of whole lines; nothing for others."""
        ...


class SessionBuilder:
    """One session while it is being read."""

    def __init__(self, agent: str, id: str, kind: m.Kind = "main", sink: MessageSink | None = None) -> None:
        """Messages are passed to `sink`; by default they are kept in memory."""
        self.agent = agent
        self.id = id
        self.kind: m.Kind = kind
        self.sink: MessageSink = sink if sink is not None else KeepMessages()
        self.details = SessionDetails()
        self.events = EventLists()
        self.columns = MessageColumns()
        self.calls = OpenCalls()
        self.replies = Replies()
        self.corrections = Corrections()
        self._lines = LineParts(_no_bytes)
        self.originals: StoredOriginals | None = None
        """Set while a session is read into a store."""

    def __len__(self) -> int:
        return len(self.columns.parents)

    def __bool__(self) -> bool:
        return True

    @property
    def bytes_at(self) -> Callable[[int, int], bytes]:
        """Returns bytes of the block that is being read, by offset and length."""
        return self._lines.bytes_at

    @bytes_at.setter
    def bytes_at(self, bytes_at: Callable[[int, int], bytes]) -> None:
        self._lines = LineParts(bytes_at)

    @property
    def messages(self) -> list[m.Message]:
        """All messages, if they are kept."""
        return self.sink.messages

    @property
    def times(self) -> array[float]:
        """When each message was written, in seconds; 0.0 if that is unknown."""
        return self.sink.times

    # --- messages ---

    def add(
        self,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        source: m.Source,
        id: str | None,
        parent: int,
        timestamp: datetime | None,
        inherited: bool = False,
        queued: bool = False,
    ) -> int:
        """Add a message that is not from the model; returns its index."""
        flag = INHERITED if inherited else 0
        if author == "human":
            if role == "user":
                flag |= PROMPT | QUEUED if queued else PROMPT
                if blocks and type(blocks[0]) is m.Attachment and only_attachments(blocks):
                    flag |= COMMAND
        elif role == "assistant":
            flag |= STANDIN
        index = self.columns.append(parent, flag, id)
        sink = self.sink
        if sink.skip is not None:
            sink.skip(timestamp, id, source.length)
            return index
        message = m.Message(index, role, author, blocks, source, id, parent if parent >= 0 else None, timestamp)
        if inherited or queued:
            message.inherited, message.queued = inherited, queued
        sink.add(message)
        return index

    def add_reply(
        self,
        blocks: list[m.Block],
        source: m.Source,
        id: str | None,
        parent: int,
        timestamp: datetime | None,
        model: str | None,
        key: str,
        usage: m.Usage | None = None,
        inherited: bool = False,
    ) -> int:
        """Add a message of the model; `key` is the agent's id of the response that it is part of."""
        index = len(self.columns.parents)
        flag = MODEL | INHERITED if inherited else MODEL
        reply = self.replies.current
        if key != reply.key:
            reply = self.replies.switch_to(key, index)
            if model is not None and model not in self.details.models:
                self.details.models[model] = None
        if reply.first != index:
            flag |= CONTINUED
            moved_from = self.replies.extend(reply, index, usage, model, inherited)
            if moved_from is not None:
                self.columns.flags[moved_from] |= USAGE_MOVED
                self.sink.set_usage(moved_from, None)
        elif usage is not None:
            self.replies.bill(reply, usage, model, inherited)
        for block in blocks:
            if type(block) is m.ToolCall:
                if not (given := bytes(block.raw_input)).isascii():
                    self.check_text(given, source)
                if self.calls.add(index, block, timestamp):
                    flag |= UNANSWERED
        self.columns.append(parent, flag, id)
        sink = self.sink
        if sink.skip is not None:
            sink.skip(timestamp, id, source.length)
            return index
        above = parent if parent >= 0 else None
        message = m.Message(
            index, "assistant", "model", blocks, source, id, above, timestamp, model, reply.first, usage
        )
        if inherited:
            message.inherited = True
        sink.add(message)
        return index

    def replace(self, index: int, blocks: list[m.Block], record: int, usage: m.Usage | None = None) -> None:
        """Replace the content of a message; `record` numbers the replacements."""
        self.corrections.final_records[index] = record
        self.sink.set_blocks(index, blocks, usage, record)

    def set_author(self, index: int, author: m.Author) -> None:
        """Correct who wrote a message."""
        flags = self.columns.flags
        flags[index] = flags[index] | PROMPT if author == "human" else flags[index] & ~PROMPT
        self.corrections.authors[index] = author
        self.sink.set_author(index, author)

    def set_parent(self, index: int, parent: int) -> None:
        """Correct the parent of a message."""
        self.columns.relink(index, parent)
        self.sink.set_parent(index, parent, is_stitched=False)

    def set_outcome(self, index: int, call_id: str, outcome: m.Outcome) -> None:
        """Correct how a call ended."""
        self.corrections.outcomes.setdefault(index, {})[call_id] = outcome
        self.sink.set_outcome(index, call_id, outcome)

    def set_usage(self, index: int, usage: m.Usage) -> None:
        """Set the usage of a response, which the log has in a later line."""
        parents, flags = self.columns.parents, self.columns.flags
        self.replies.count(usage, bool(flags[index] & INHERITED))
        first = index
        while flags[first] & CONTINUED and parents[first] >= 0:
            first = parents[first]
        self.replies.billed.add(first, usage, None)
        self.corrections.usages[index] = usage
        self.sink.set_usage(index, usage)

    def add_usage(self, usage: m.Usage) -> None:
        """Count tokens that belong to the session but to none of its messages."""
        self.replies.count(usage, inherited=False)

    def find(self, id: str | None) -> int | None:
        """Return the index of the latest message with an id."""
        return self.columns.ids.get(id) if id is not None else None

    def contains(self, id: str) -> bool:
        """Whether the session has a message with an id."""
        return self.columns.ids.get(id) is not None

    def last_before(self, moment: datetime) -> int | None:
        """Return the last message that was written before or at a point in time."""
        seconds = moment.timestamp()
        return max((index for index, time in enumerate(self.times) if 0.0 < time <= seconds), default=None)

    def close_call(self, call_id: str) -> Call | None:
        """Return the call that a result belongs to, if the log has it; its input is only available the first time."""
        call, answered = self.calls.close(call_id, len(self.columns.parents))
        for message in answered:
            self.columns.flags[message] &= ~UNANSWERED
        return call

    # --- the log ---

    def raw_at(self, source: m.Source, *path: str | int) -> msgspec.Raw:
        """Return a part of a line as it is in the log, to keep what no schema describes."""
        return self._lines.part(source.offset, source.length, *path)

    def unknown_record(self, detail: str, source: m.Source) -> None:
        """Report a record that is intact but of no known kind."""
        record = self.raw_at(source)
        self.events.add_problem(m.Problem(reason="unknown-record", detail=detail, source=source, record=record))

    def check_text(self, text: bytes, source: m.Source) -> None:
        """Report invalid UTF-8 in a part of a line that is decoded later than the rest, if it was replaced there."""
        if _REPLACEMENT not in text or not self.events.needs_check(source):
            return
        line = self.bytes_at(source.offset, source.length)
        if line.startswith(b"{") and line.endswith(b"}") and repair_line(line)[1] == INVALID:
            detail = "bytes that are not UTF-8 were replaced"
            self.events.add_problem(m.Problem(reason=INVALID, detail=detail, source=source))

    def damage(self, file: int, damage: Damage) -> None:
        """Report a problem with a line, or with part of one."""
        source = m.Source(file, *damage.location)
        self.events.add_problem(m.Problem(reason=damage.reason, detail=damage.detail, source=source))
        self.details.files[file].damaged += damage.lost or damage.reason == "salvaged"

    # --- after the last line ---

    def settle(self) -> None:
        """Find the parents that were unknown when their messages were read."""
        resolved, problems = self.columns.resolve_parents(self.sink.find_ids)
        for problem in problems:
            self.events.add_problem(problem)
        self.events.add_uncounted()
        parents, flags = self.columns.parents, self.columns.flags
        for index in resolved:
            self.sink.set_parent(index, parents[index], bool(flags[index] & STITCHED))

    def complete(self, message: m.Message) -> None:
        """Add to a message what the rest of the log reveals about it."""
        index, flag, known = message.index, self.columns.flags[message.index], self.corrections
        parent = self.columns.parents[index]
        message.parent_index = parent if parent >= 0 else None
        if flag & STITCHED:
            message.link = "stitched"
        if index in known.authors:
            message.author = known.authors[index]
        if flag & USAGE_MOVED:
            message.usage = None
        elif index in known.usages:
            message.usage = known.usages[index]
        for call_id, outcome in known.outcomes.get(index, {}).items():
            apply_outcome(message, call_id, outcome)

    def forget(self) -> None:
        """Free the memory that is only needed while reading."""
        self.columns.ids = Recent()
        self.calls.forget_closed()
        self.replies.forget()

    def replay(self, emit: Callable[[m.Message], None]) -> SessionBuilder:
        """Return a builder for a second pass over the same log, which passes each message on to `emit`."""
        sink = ReplaySink(self.times, self.corrections.final_records, emit)
        return SessionBuilder(self.agent, self.id, self.kind, sink)


def only_attachments(blocks: list[m.Block]) -> bool:
    """Whether a message contains only attachments."""
    return all(type(block) is m.Attachment for block in blocks)


def _no_bytes(offset: int, length: int) -> bytes:
    raise LookupError(f"bytes {offset} to {offset + length} are not available")
