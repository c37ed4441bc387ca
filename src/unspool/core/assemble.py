"""Turns a builder into a session: the active path, the branches, what is in context, and unfinished calls."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal

from . import model as m
from .builder import SessionBuilder
from .context import ContextMap
from .context_check import find_contradictions
from .errors import NotFoundError
from .events import EVENT_KINDS, EventKind
from .gaps import find_ends
from .session import Session
from .sinks import seconds
from .timestamps import from_seconds
from .tree import COMMAND, INHERITED, MODEL, NONE, PROMPT, STANDIN, UNANSWERED, BranchShape, Tree

TipRule = Literal["agent", "newest", "longest"] | str
"""Which message ends the active path: `agent` (the agent's own rule), `newest`, `longest`, or the id of a message."""

SUPERVISED = "supervisor"
"""The evidence of events that unspool itself has recorded starts with this."""
_STATES: tuple[m.ContextState, ...] = ("live", "cleared", "compacted", "abandoned")
_timestamp = attrgetter("timestamp")
_FIELDS = tuple((kind, kind.field, kind.collected, bool(kind.recorded.group_name)) for kind in EVENT_KINDS)
"""Each kind of event, with its field in the record, its list in the builder, and whether it is part of a group."""


class SessionAssembler:
    """Derives everything about a session that can only be known from its whole log."""

    def __init__(self, builder: SessionBuilder, tip: TipRule = "agent") -> None:
        builder.settle()
        events = builder.events
        self.builder = builder
        self.tip, self.tip_rule = _choose_tip(builder, tip)
        self.tree = Tree(builder.columns.parents, builder.columns.flags, NONE if self.tip is None else self.tip)
        self.branch, shapes = self.tree.find_branches()
        """The branch of each message that is not on the active path."""
        self._members = self._list_members()
        self.branches = events.branches = [self._branch(number, shape) for number, shape in enumerate(shapes, 1)]
        self._find_rewinds()
        self._find_abandoned()
        self._all_boundaries = [*events.inherited_boundaries, *events.boundaries]
        ends = find_ends(builder.columns.gaps, builder.replies.billed.by_response, lambda: builder.sink.lengths)
        self.contexts = ContextMap(self.tree, self._all_boundaries, events.context_clears, events.resumes, ends)
        """The context at each message."""
        self._find_replaced()
        self._branch_states: dict[int, m.ContextState] = {
            branch.id: "rewound" if branch.reason == "rewind" else "abandoned" for branch in self.branches
        }
        self.gone = self._find_gone()
        """The context state of each message, as an index into the states; empty if all are live."""
        self._find_unfinished_calls()
        self._find_doubts()

    # --- messages ---

    def complete(self, message: m.Message) -> None:
        """Set the branch and the context state of a message."""
        message.branch, message.context = self.branch_and_context(message.index)

    def branch_and_context(self, index: int) -> tuple[int, m.ContextState]:
        """Return the branch of a message, and whether the model still has it in context."""
        if index in self.branch:
            branch = self.branch[index]
            return branch, self._branch_states[branch]
        return 0, _STATES[self.gone[index]] if self.gone else "live"

    # --- the session ---

    def session(self) -> Session:
        """Return the session of a builder that kept its messages."""
        messages = self.builder.messages
        for index in self.branch:
            self.complete(messages[index])
        for message, state in zip(messages, self.gone, strict=False):
            if state:
                self.complete(message)
        return self.header(messages)

    def header(self, messages: list[m.Message]) -> Session:
        """Return the session with some messages, or none."""
        lists = self.builder.events.__dict__
        # Most sessions have events of a few kinds only.
        events = {
            name: self._events(kind, lists[held]) if lists[held] or grouped else lists[held]
            for kind, name, held, grouped in _FIELDS
        }
        return Session(info=self._info(), messages=messages, **events)

    def _events(self, kind: EventKind, events: list[Any]) -> Any:
        """Return the events of a kind as the session has them, in the order of the messages."""
        recorded = kind.recorded
        if events and recorded.index is not None and not recorded.is_off_path:
            events = sorted(events, key=lambda event: _rank(kind.index_of(event))) if len(events) > 1 else events[:]
        return kind.value(events, self.builder.events.inherited_boundaries) if recorded.group_name else events

    def _info(self) -> m.SessionInfo:
        builder, details = self.builder, self.builder.details
        started_at, ended_at = _span(builder)
        return m.SessionInfo(
            id=builder.id,
            agent=builder.agent,
            kind=builder.kind,
            versions=list(details.versions),
            project=details.project,
            title=details.title,
            started_at=started_at,
            ended_at=ended_at,
            models=list(details.models),
            origin=details.origin,
            status=self._status(),
            tip=self.tip,
            tip_rule=self.tip_rule,
            usage=builder.replies.usage,
            files=details.files,
            git=details.git,
            parent=details.parent,
            archived=details.archived,
            unanswered=details.unanswered,
            plan=details.plan,
        )

    def _status(self) -> m.Status:
        live_status = self.builder.details.live_status
        if live_status is not None:
            return live_status
        tree, last = self.tree, self.tree.last_said()
        if last < 0:
            return "empty"
        at_end = [i for i in self.builder.events.interruptions if (i.message_index or 0) >= last]
        if any(i.type == "user" for i in at_end):
            return "interrupted"
        if tree.flags[last] & (PROMPT | UNANSWERED):
            return "killed"
        # Even if the log looks complete, the agent or the server ended before the turn did.
        return "interrupted" if any(i.evidence.startswith(SUPERVISED) for i in at_end) else "complete"

    # --- branches ---

    def _branch(self, number: int, shape: BranchShape) -> m.Branch:
        parent = self.tree.parents[shape.root]
        return m.Branch(
            id=number,
            root_index=shape.root,
            tip_index=shape.tip,
            length=shape.length,
            reason=self.builder.events.branch_reasons.get(shape.root) or self._reason(self._members[number]),
            parent_index=parent if parent >= 0 else None,
        )

    def _list_members(self) -> dict[int, list[int]]:
        members: dict[int, list[int]] = {}
        for index in sorted(self.branch):
            members.setdefault(self.branch[index], []).append(index)
        return members

    def _reason(self, members: list[int]) -> m.BranchReason:
        """Infer why a branch was abandoned from how it begins and whether the model answered in it."""
        flags = self.tree.flags
        first = next((index for index in members if flags[index] & (PROMPT | MODEL)), members[0])
        if flags[first] & PROMPT:
            return "rewind" if any(flags[index] & (MODEL | STANDIN) for index in members) else "interrupted"
        return "resumed" if flags[first] & UNANSWERED else "retry"

    def _find_rewinds(self) -> None:
        """Add a rollback for each rewound branch: the next prompt is where the conversation continued."""
        if not self.branches:
            return
        flags = self.tree.flags
        known = {index for rollback in self.builder.events.rollbacks for index in rollback.dropped_message_indices}
        prompts = [index for index, flag in enumerate(flags) if flag & PROMPT]
        for branch in self.branches:
            dropped = self._members[branch.id]
            later = bisect_right(prompts, dropped[-1])
            if branch.reason != "rewind" or branch.root_index in known or later == len(prompts):
                continue
            next_prompt = prompts[later]
            if not flags[next_prompt] & INHERITED:
                self.builder.events.rollbacks.append(
                    m.Rollback(
                        message_index=next_prompt,
                        dropped_message_indices=dropped,
                        timestamp=_instant(self.builder.sink.time_of(next_prompt)),
                        evidence="branch",
                    )
                )

    def _find_abandoned(self) -> None:
        """Add an interruption for each unanswered prompt that another prompt replaced: a person stopped it early."""
        known = {interruption.interrupted_message_index for interruption in self.builder.events.interruptions}
        flags = self.tree.flags
        for branch in self.branches:
            members = self._members[branch.id]
            prompt = next((index for index in members if flags[index] & PROMPT), None)
            inferred = branch.reason == "interrupted" and branch.root_index not in self.builder.events.branch_reasons
            if not inferred or prompt is None or flags[prompt] & (COMMAND | INHERITED) or known & set(members):
                continue
            self.builder.events.interruptions.append(
                m.Interruption(
                    message_index=prompt,
                    interrupted_message_index=prompt,
                    type="user",
                    during="response",
                    timestamp=_instant(self.builder.sink.time_of(prompt)),
                    evidence="abandoned prompt",
                    confidence=0.7,
                )
            )

    # --- context ---

    @property
    def _full_boundaries(self) -> list[m.Boundary]:
        """The compactions that replaced messages."""
        return [boundary for boundary in self._all_boundaries if boundary.scope == "messages"]

    def _find_replaced(self) -> None:
        for boundary in sorted(self._full_boundaries, key=lambda b: b.message_index):
            before = self.contexts.before(boundary.message_index).indices
            kept = set(boundary.preserved_message_indices)
            boundary.replaced_message_indices = [index for index in before if index not in kept]

    def _find_gone(self) -> bytes:
        """Return why each message of the active path left the context, one byte per message; empty if none did."""
        events, count = self.builder.events, len(self.tree)
        if self.tip is None:
            return b""
        clears = (clear.after_message_index for clear in events.context_clears)
        last_clear = max((index for index in clears if index is not None), default=-1)
        last_boundary = max((b.message_index for b in self._full_boundaries), default=-1)
        is_whole = not (self._all_boundaries or events.resumes or events.problems or self.tree.has_bypassed)
        if last_clear < 0 and is_whole:
            return b""
        cleared = min(last_clear + 1, count)
        compacted = min(max(last_boundary, cleared), count)
        gone = bytearray(b"\1" * cleared + b"\2" * (compacted - cleared) + b"\3" * (count - compacted))
        for index in self.contexts.upto(self.tip).indices:
            gone[index] = 0
        for index in self.branch:
            gone[index] = 0
        return bytes(gone)

    def _find_doubts(self) -> None:
        """Report contexts that contradict the tokens of the requests."""
        builder = self.builder
        contradictions = find_contradictions(
            self.tree, self.contexts, builder.replies.billed, lambda: builder.sink.lengths
        )
        for contradiction in contradictions:
            builder.events.problems.append(
                m.Problem(
                    reason="context-doubt",
                    detail=contradiction.detail,
                    message_index=contradiction.message_index,
                )
            )

    # --- calls ---

    def _find_unfinished_calls(self) -> None:
        builder, orphans = self.builder, self.builder.events.orphans
        known = {(orphan.message_index, orphan.tool_use_id) for orphan in orphans}
        is_live = builder.details.live_status in ("running", "waiting")
        last = len(builder) - 1
        for call_id, call in builder.calls.unanswered():
            if (call.message, call_id) in known or self.tree.flags[call.message] & INHERITED:
                continue
            running = is_live and call.message >= last - 1
            orphans.append(
                m.Orphan(
                    message_index=call.message,
                    tool_use_id=call_id,
                    tool_name=call.name,
                    reason="running" if running else "killed",
                )
            )


def _choose_tip(builder: SessionBuilder, rule: TipRule) -> tuple[int | None, str]:
    if not len(builder):
        return None, "no messages"
    if rule == "agent":
        details = builder.details
        return (details.tip if details.tip is not None else len(builder) - 1), details.tip_rule
    tree = Tree(builder.columns.parents, builder.columns.flags, NONE)
    if rule == "newest":
        return _best(tree, builder.times), "caller: newest message"
    if rule == "longest":
        return _best(tree, tree.depths()), "caller: longest chain"
    index = builder.find(rule)
    if index is None and rule.isdecimal() and len(rule) < 10 and int(rule) < len(builder):
        index = int(rule)
    if index is None:
        raise NotFoundError(
            f"session {builder.id} has no message {rule!r}; --tip takes agent, newest, longest or an id"
        )
    return index, f"caller: message {rule}"


def _best(tree: Tree, values: array[float] | array[int]) -> int:
    return max(tree.leaves(), key=lambda index: (values[index], index))


def _rank(index: int | None) -> int:
    """Sort events that belong to no message last."""
    return sys.maxsize if index is None else index


def _span(builder: SessionBuilder) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and the latest time in the log; its lines need not be in order."""
    if builder.messages:
        times = list(filter(None, map(_timestamp, builder.messages)))
        first, last = (seconds(min(times)), seconds(max(times))) if times else (0.0, 0.0)
        # A timestamp of 0 means unknown, as a missing one does.
        if first and last:
            return _instant(first), _instant(last)
    known = [time for time in builder.times if time]
    return _instant(min(known, default=0.0)), _instant(max(known, default=0.0))


def _instant(at: float) -> datetime | None:
    return from_seconds(at) if at else None
