"""Assembles the record of a session: the active path, the branches, the context, and unfinished calls."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from datetime import datetime
from typing import Any, Literal

from . import model as m
from .builder import SessionBuilder
from .context import ContextMap
from .errors import NotFoundError
from .events import EVENT_KINDS, EventKind
from .session import Session
from .timestamps import parse_moment
from .tree import COMMAND, INHERITED, MODEL, NONE, PROMPT, STANDIN, UNANSWERED, Line, Tree

TipRule = Literal["agent", "newest", "longest"] | str
"""Which message ends the active path: by the agent's own rule, the newest, the longest chain, or a message's id."""

_STATES: tuple[m.ContextState, ...] = ("live", "cleared", "compacted", "abandoned")


class SessionAssembler:
    """Everything about a session except the text of its messages."""

    def __init__(self, draft: SessionBuilder, tip: TipRule = "agent") -> None:
        draft.settle()
        self.draft = draft
        self.tip, self.tip_rule = _choose_tip(draft, tip)
        self.tree = Tree(draft.parents, draft.flags, NONE if self.tip is None else self.tip)
        self.branch, lines = self.tree.lay_out()
        self._members = self._list_members()
        self.branches = draft.branches = [self._branch(number, line) for number, line in enumerate(lines, 1)]
        self._find_rewinds()
        self._find_abandoned()
        self._all_boundaries = [*draft.inherited_boundaries, *draft.boundaries]
        self._contexts = ContextMap(self.tree, self._all_boundaries, draft.clears, draft.resumes)
        self._find_replaced()
        self._dead: dict[int, m.ContextState] = {
            branch.id: "rewound" if branch.reason == "rewind" else "abandoned" for branch in self.branches
        }
        self.gone = self._find_gone()
        self._close_orphans()

    # --- messages ---

    def complete(self, message: m.Message) -> None:
        """Set the branch and the context state of a message."""
        message.branch, message.context = self.place_of(message.index)

    def place_of(self, index: int) -> tuple[int, m.ContextState]:
        """The branch of a message, and its context state."""
        if index in self.branch:
            branch = self.branch[index]
            return branch, self._dead[branch]
        return 0, _STATES[self.gone[index]] if self.gone else "live"

    # --- the record ---

    def session(self) -> Session:
        """The record, from a builder that kept its messages."""
        messages = self.draft.messages
        for index in self.branch:
            self.complete(messages[index])
        for message, state in zip(messages, self.gone, strict=False):
            if state:
                self.complete(message)
        return self.header(messages)

    def header(self, messages: list[m.Message]) -> Session:
        """The record with these messages."""
        return Session(
            info=self._info(),
            messages=messages,
            **{kind.field: self._events(kind) for kind in EVENT_KINDS},
        )

    def _events(self, kind: EventKind) -> Any:
        """What the record holds of a kind of event, in the order of the messages."""
        events = self.draft.events(kind)
        if kind.recorded.index is not None and not kind.recorded.is_off_path:
            events = sorted(events, key=lambda event: _rank(kind.index_of(event)))
        return kind.value(events, self.draft.inherited_boundaries)

    def _info(self) -> m.SessionInfo:
        draft = self.draft
        started_at, ended_at = self._span()
        return m.SessionInfo(
            id=draft.id,
            agent=draft.agent,
            kind=draft.kind,
            versions=list(draft.versions),
            project=draft.project,
            title=draft.title,
            started_at=started_at,
            ended_at=ended_at,
            models=list(draft.models),
            origin=draft.origin,
            status=self._status(),
            tip=self.tip,
            tip_rule=self.tip_rule,
            usage=draft.usage,
            files=draft.files,
            git=draft.git,
            parent=draft.parent,
            archived=draft.archived,
            unanswered=draft.unanswered,
        )

    def _span(self) -> tuple[datetime | None, datetime | None]:
        """The earliest and the latest time in the log, in whatever order its lines are."""
        if self.draft.messages:
            times = [message.timestamp for message in self.draft.messages if message.timestamp is not None]
            return (min(times), max(times)) if times else (None, None)
        first = min((time for time in self.draft.times if time), default=0.0)
        return _instant(first), _instant(max(self.draft.times, default=0.0))

    def _status(self) -> m.Status:
        draft = self.draft
        if draft.live_status is not None:
            return draft.live_status
        last = self.tree.tip
        while last >= 0 and not draft.flags[last] & (PROMPT | MODEL):
            last = draft.parents[last]
        if last < 0:
            return "empty"
        if any((i.message_index or 0) >= last and i.type == "user" for i in draft.interruptions):
            return "interrupted"
        if draft.flags[last] & (PROMPT | UNANSWERED):
            return "killed"
        return "complete"

    # --- branches ---

    def _branch(self, number: int, line: Line) -> m.Branch:
        parent = self.tree.parents[line.root]
        return m.Branch(
            id=number,
            root_index=line.root,
            tip_index=line.tip,
            length=line.length,
            reason=self.draft.branch_reasons.get(line.root) or self._reason(self._members[number]),
            parent_index=parent if parent >= 0 else None,
        )

    def _list_members(self) -> dict[int, list[int]]:
        members: dict[int, list[int]] = {}
        for index in sorted(self.branch):
            members.setdefault(self.branch[index], []).append(index)
        return members

    def _reason(self, members: list[int]) -> m.BranchReason:
        """Why a branch was left: judged by how it begins and whether the model answered on it."""
        flags = self.tree.flags
        first = next((index for index in members if flags[index] & (PROMPT | MODEL)), members[0])
        if flags[first] & PROMPT:
            return "rewind" if any(flags[index] & (MODEL | STANDIN) for index in members) else "interrupted"
        return "resumed" if flags[first] & UNANSWERED else "retry"

    def _find_rewinds(self) -> None:
        """Add rollbacks for branches that were rewound, at the prompt that the conversation continued with."""
        if not self.branches:
            return
        flags = self.tree.flags
        known = {index for rollback in self.draft.rollbacks for index in rollback.dropped_message_indices}
        prompts = [index for index, flag in enumerate(flags) if flag & PROMPT]
        for branch in self.branches:
            dropped = self._members[branch.id]
            later = bisect_right(prompts, dropped[-1])
            if branch.reason != "rewind" or branch.root_index in known or later == len(prompts):
                continue
            went_on = prompts[later]
            if not flags[went_on] & INHERITED:
                self.draft.rollbacks.append(
                    m.Rollback(
                        message_index=went_on,
                        dropped_message_indices=dropped,
                        timestamp=_instant(self.draft.times[went_on]),
                        evidence="branch",
                    )
                )

    def _find_abandoned(self) -> None:
        """Add interruptions for prompts without an answer that were replaced by another prompt."""
        told = {interruption.interrupted_message_index for interruption in self.draft.interruptions}
        flags = self.tree.flags
        for branch in self.branches:
            members = self._members[branch.id]
            prompt = next((index for index in members if flags[index] & PROMPT), None)
            inferred = branch.reason == "interrupted" and branch.root_index not in self.draft.branch_reasons
            if not inferred or prompt is None or flags[prompt] & (COMMAND | INHERITED) or told & set(members):
                continue
            self.draft.interruptions.append(
                m.Interruption(
                    message_index=prompt,
                    interrupted_message_index=prompt,
                    type="user",
                    during="response",
                    timestamp=_instant(self.draft.times[prompt]),
                    evidence="abandoned prompt",
                    confidence=0.7,
                )
            )

    # --- context ---

    def _find_replaced(self) -> None:
        for boundary in sorted(self._all_boundaries, key=lambda b: b.message_index):
            before = self._contexts.before(boundary.message_index).indices
            kept = set(boundary.preserved_message_indices)
            boundary.replaced_message_indices = [index for index in before if index not in kept]

    def _find_gone(self) -> bytes:
        """The context state of each message of the active path; empty if all of them are still in context.

        One byte per message, because long sessions have many.
        """
        if self.tip is None:
            return b""
        last_clear = max((c.after_message_index or -1 for c in self.draft.clears), default=-1)
        last_boundary = max((b.message_index for b in self._all_boundaries), default=-1)
        if last_clear < 0 and last_boundary < 0 and not self.draft.resumes and not self.draft.problems:
            return b""
        cleared = min(last_clear + 1, len(self.tree))
        compacted = min(max(last_boundary, cleared), len(self.tree))
        gone = bytearray(b"\1" * cleared + b"\2" * (compacted - cleared) + b"\3" * (len(self.tree) - compacted))
        for index in self._contexts.upto(self.tip).indices:
            gone[index] = 0
        for index in self.branch:
            gone[index] = 0
        return bytes(gone)

    # --- calls ---

    def _close_orphans(self) -> None:
        draft = self.draft
        known = {orphan.tool_use_id for orphan in draft.orphans}
        last = len(draft) - 1
        for call_id, call in draft.open_calls.items():
            if call_id in known or draft.flags[call.message] & INHERITED:
                continue
            running = draft.live_status in ("running", "waiting") and call.message >= last - 1
            draft.orphans.append(
                m.Orphan(
                    message_index=call.message,
                    tool_use_id=call_id,
                    tool_name=call.name,
                    reason="running" if running else "killed",
                )
            )


def _choose_tip(draft: SessionBuilder, rule: TipRule) -> tuple[int | None, str]:
    if not len(draft):
        return None, "no messages"
    tree = Tree(draft.parents, draft.flags, NONE)
    if rule == "agent":
        return (draft.tip if draft.tip is not None else len(draft) - 1), draft.tip_rule
    if rule == "newest":
        return _best(tree, draft.times), "caller: newest message"
    if rule == "longest":
        return _best(tree, tree.depths()), "caller: longest chain"
    index = draft.find(rule)
    if index is None and rule.isdigit() and int(rule) < len(draft):
        index = int(rule)
    if index is None:
        raise NotFoundError(f"session {draft.id} has no message {rule!r}; --tip takes agent, newest, longest or an id")
    return index, f"caller: message {rule}"


def _best(tree: Tree, values: array[float] | array[int]) -> int:
    return max(tree.leaves(), key=lambda index: (values[index], index))


def _rank(index: int | None) -> int:
    """Events that belong to no message come last."""
    return sys.maxsize if index is None else index


def _instant(seconds: float) -> datetime | None:
    return parse_moment(seconds) if seconds else None
