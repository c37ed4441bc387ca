"""The whole record of a session, with methods to query it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from . import model as m
from .annotations import Annotation
from .context import ContextMap, Span
from .convert import to_builtins, to_json
from .errors import NotFoundError
from .events import event_fields, find_kind, iter_events
from .gaps import find_ends, request_tokens
from .tree import COMMAND, CONTINUED, MODEL, NONE, PROMPT, QUEUED, UNANSWERED, Tree

if TYPE_CHECKING:
    import pyarrow as pa

E = TypeVar("E")


class Context(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What the model had in its context at one point of a session."""

    message_indices: list[int]
    """Messages in context, in the order in which the model saw them."""
    omitted_calls: list[str] = []
    """Tool calls in those messages that the agent left out because they had no result."""
    made_up_results: list[str] = []
    """Tool calls without a result for which the agent made one up."""
    recorded: bool = True
    """False: the agent replaced the context with something that is not in the log."""


class Reply(msgspec.Struct, kw_only=True):
    """One response of the model, which may be written as several messages."""

    message_indices: list[int]
    """The messages of the response."""
    texts: list[str]
    """Its texts."""
    calls: list[str]
    """The ids of its tool calls."""


class ToolUse(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A tool call together with its result."""

    message_index: int
    """The message that contains the call."""
    branch: int = 0
    """The branch of that message; 0 is the active path."""
    call: m.ToolCall
    """The call."""
    result: m.ToolResult | None = None
    """The result; None if the call has none."""
    result_index: int | None = None
    """The message that contains the result."""
    outcome: m.Outcome
    """How the call ended; `unknown` if nothing in the log says so."""
    rejection: m.Rejection | None = None
    """Set if the call was rejected: who rejected it, why, and what it would have done."""

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.call.id

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.call.name

    @property
    def input(self) -> Any:
        """The decoded input of the call: usually a dict."""
        return self.call.input


class SessionEvent(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An event, with its kind and where it happened."""

    kind: str
    """The name of the kind, such as `rejection`."""
    message_index: int | None = None
    """The message at which it happened; None if it belongs to no message."""
    timestamp: datetime | None = None
    """When it happened, or else when that message was written."""
    event: m.Event
    """The event itself."""


class _Conversation(msgspec.Struct, kw_only=True, rename={"info": "session"}):
    """The fields of a record before its events."""

    schema: str = msgspec.field(default_factory=lambda: m.SCHEMA)  # Never left out, as a plain default would be.
    """Name and version of the schema."""
    info: m.SessionInfo
    """Facts about the session; called `session` in JSON."""
    messages: list[m.Message]
    """All messages of all branches, in the order of the log."""


if TYPE_CHECKING:
    _Record = _Conversation
else:
    _FIELDS = event_fields(msgspec.field(default_factory=list))
    _Record = msgspec.defstruct("_Record", _FIELDS, bases=(_Conversation,), kw_only=True, omit_defaults=True)


class Session(_Record, kw_only=True, tag="session", dict=True):
    """One session: what it is, all of its messages, and every event in it.

    `len(session)` is the number of messages, and iterating over a session gives them in the order of the log.
    """

    if TYPE_CHECKING:
        # These fields come from the table of event kinds.
        compaction: m.Compaction
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

    annotations: list[Annotation] = []
    """Pins, notes and tags that people added. Only exported sessions have them: the agents' files have none."""

    def __len__(self) -> int:
        return len(self.messages)

    def __bool__(self) -> bool:
        # A session without messages is still a session.
        return True

    def __iter__(self) -> Iterator[m.Message]:
        return iter(self.messages)

    def __repr__(self) -> str:
        return f"<Session {self.agent} {self.id} {self.title!r}: {len(self):,} messages, {self.info.status}>"

    def _repr_html_(self) -> str:
        from .notebook import session_card

        return session_card(self)

    @property
    def id(self) -> str:
        """The session's id."""
        return self.info.id

    @property
    def agent(self) -> str:
        """The short name of the agent."""
        return self.info.agent

    @property
    def title(self) -> str | None:
        """The title given by the agent or the user, or else the first prompt."""
        return self.info.title

    # --- messages ---

    def active_path(self) -> list[m.Message]:
        """The conversation as the agent itself would show it: everything up to the tip, without abandoned branches."""
        return self.branch(0)

    def branch(self, id: int) -> list[m.Message]:
        """The messages of one branch; 0 is the active path, and `branches` lists the others."""
        if id and all(branch.id != id for branch in self.branches):
            raise NotFoundError(f"session {self.id} has no branch {id}; it has branches 0 to {len(self.branches)}")
        return [message for message in self.messages if message.branch == id]

    def prompts(self) -> Iterator[m.Message]:
        """Everything the user typed, on all branches, in the order of the log."""
        return (message for message in self.messages if message.author == "human" and message.role == "user")

    def replies(self) -> Iterator[Reply]:
        """Every response of the model, on all branches, in the order of the log."""
        groups: dict[int, list[m.Message]] = {}
        for message in self.messages:
            if message.reply is not None:
                groups.setdefault(message.reply, []).append(message)
        for group in groups.values():
            blocks = [block for message in group for block in message.blocks]
            yield Reply(
                message_indices=[message.index for message in group],
                texts=[block.text for block in blocks if isinstance(block, m.Text)],
                calls=[block.id for block in blocks if isinstance(block, m.ToolCall)],
            )

    def tool_calls(self) -> Iterator[ToolUse]:
        """Every tool call with its result, on all branches, in the order of the log."""
        results: dict[str, list[tuple[int, m.ToolResult]]] = {}
        for message in self.messages:
            for block in message.blocks:
                if isinstance(block, m.ToolResult):
                    results.setdefault(block.call_id, []).append((message.index, block))
        rejections: dict[str, list[tuple[int, m.Rejection]]] = {}
        for rejection in self.rejections:
            rejections.setdefault(rejection.tool_use_id or "", []).append((rejection.message_index, rejection))
        interrupted = {id for interruption in self.interruptions for id in interruption.tool_use_ids}
        for message in self.messages:
            for block in message.blocks:
                if isinstance(block, m.ToolCall):
                    result_index, result = first_from(results.get(block.id, []), message.index)
                    _, rejection_found = first_from(rejections.get(block.id, []), message.index)
                    yield ToolUse(
                        message_index=message.index,
                        branch=message.branch,
                        call=block,
                        result=result,
                        result_index=result_index,
                        outcome=_outcome(result, rejection_found, block.id in interrupted),
                        rejection=rejection_found,
                    )

    def events(self, *kinds: str) -> list[SessionEvent]:
        """The events of these kinds, or all events, in the order of the messages at which they happened.

        A kind can be named by any of its synonyms: `rejection`, `rejections` and `rejected` are the same.
        """
        wanted = {find_kind(kind).name for kind in kinds}
        found = []
        for kind, event in iter_events(self):
            if not wanted or kind.name in wanted:
                index = kind.index_of(event)
                timestamp = getattr(event, "timestamp", None)
                if timestamp is None and index is not None:
                    timestamp = self.messages[index].timestamp
                found.append(SessionEvent(kind=kind.name, message_index=index, timestamp=timestamp, event=event))
        return sorted(found, key=lambda each: len(self) if each.message_index is None else each.message_index)

    # --- context ---

    def context_at(self, index: int) -> Context:
        """Return what the model had in its context when the message at `index` was written.

        For a prompt, that is what the model had when the prompt reached it, without the prompt itself. `len(session)`
        means the next message, which is not written yet: see `context_now`.
        """
        if not 0 <= index <= len(self.messages):
            raise IndexError(f"message index {index} is out of range; session {self.id} has {len(self)} messages")
        if index == len(self.messages):
            return self.context_now()
        return self._context_of(self.context_map.before(self.first_part(index)))

    def first_part(self, index: int) -> int:
        """Return the first message of the response that a message is part of, whatever the order of the log."""
        reply = self.messages[index].reply
        if reply is None:
            return index
        first = reply
        while (above := self.messages[first].parent_index) is not None and self.messages[above].reply == reply:
            first = above
        return first

    def context_now(self) -> Context:
        """Return what the model would have in its context if the session were continued at its tip."""
        if self.info.tip is None:
            return Context(message_indices=[])
        return self._context_of(self.context_map.upto(self.info.tip))

    def _context_of(self, span: Span) -> Context:
        unanswered = self._unanswered(span.indices)
        treatment = self.info.unanswered
        return Context(
            message_indices=span.indices,
            omitted_calls=unanswered if treatment == "omitted" else [],
            made_up_results=unanswered if treatment == "made_up" else [],
            recorded=span.recorded,
        )

    # --- other forms ---

    def to_dict(self) -> dict[str, Any]:
        """The whole record as dicts, lists, strings and numbers: what `json.loads(session.to_json())` gives."""
        found: dict[str, Any] = to_builtins(self)
        return found

    def to_json(self) -> bytes:
        """The whole record as one line of JSON, as `unspool export` writes it."""
        return to_json(self)

    def to_arrow(self) -> dict[str, pa.Table]:
        """All tables of this session, as Arrow tables by name. Needs the extra `unspool[data]`."""
        # Imported by name: the core does not depend on the packages that use it.
        made: dict[str, pa.Table] = import_module("unspool.data.tables").session_tables(self)
        return made

    @cached_property
    def context_map(self) -> ContextMap:
        """The context at each message, as sets of messages."""
        boundaries = [*self.compaction.inherited, *self.compaction.boundaries]
        return ContextMap(self._tree, boundaries, self.context_clears, self.resumes, self.find_gaps())

    def find_gaps(self) -> frozenset[int]:
        """The gaps of the log at which the context starts over."""
        gaps = [message.index for message in self.messages if message.link == "stitched"]
        return find_ends(gaps, self._billed, lambda: [message.source.length for message in self.messages])

    def _billed(self) -> dict[int, int]:
        """The input tokens of the requests, by the first message of their responses."""
        billed = ((message.reply, message.usage) for message in self.messages)
        return {
            reply: tokens
            for reply, usage in billed
            if reply is not None and usage is not None and (tokens := request_tokens(usage)) > 0
        }

    @cached_property
    def _tree(self) -> Tree:
        parents = array("i", [NONE if x.parent_index is None else x.parent_index for x in self.messages])
        flags = array("H", [self._flag(message) for message in self.messages])
        return Tree(parents, flags, NONE if self.info.tip is None else self.info.tip)

    def _flag(self, message: m.Message) -> int:
        flag = 0
        if message.author == "human" and message.role == "user":
            flag |= PROMPT | QUEUED if message.queued else PROMPT
            if message.blocks and isinstance(message.blocks[0], m.Attachment):
                flag |= COMMAND
        elif message.reply is not None:
            flag |= MODEL if message.reply == message.index else MODEL | CONTINUED
            if message.index in self._with_orphans:
                flag |= UNANSWERED
        return flag

    @cached_property
    def _with_orphans(self) -> frozenset[int]:
        return frozenset(orphan.message_index for orphan in self.orphans)

    def _unanswered(self, indices: list[int]) -> list[str]:
        """Return the calls in these messages that have no result in them."""
        blocks = [block for index in indices for block in self.messages[index].blocks]
        answered = {block.call_id for block in blocks if isinstance(block, m.ToolResult)}
        return [block.id for block in blocks if isinstance(block, m.ToolCall) and block.id not in answered]


def first_from(found: Sequence[tuple[int, E]], index: int) -> tuple[int | None, E | None]:
    """Return the first item at or after a message, else the last one before it: a log may have the result first.

    There may be several, because an id may be used again on another branch.
    """
    position = bisect_left(found, index, key=lambda pair: pair[0])
    return found[min(position, len(found) - 1)] if found else (None, None)


def _outcome(result: m.ToolResult | None, rejection: m.Rejection | None, interrupted: bool) -> m.Outcome:
    if rejection is not None:
        return "rejected"
    if result is not None:
        return result.outcome
    return "interrupted" if interrupted else "unknown"
