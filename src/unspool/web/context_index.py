"""The model's context at any message of a session, computed from the outlines of the messages."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from ..core.session import Context, Session
from ..store import Store
from ..store.message_patches import MessagePatches
from .branch_path import BranchPaths
from .recent_cache import RecentCache
from .session_query import SessionQuery
from .views import ContextSpan, ContextView, SpanState

_REASONS: dict[SpanState, str] = {
    "in": "in context",
    "reply": "written during the same reply",
    "summarised": "replaced by a summary",
    "dropped": "old results that were dropped to save space",
    "cleared": "removed when the context was cleared",
    "rewound": "on another branch",
    "gap": "before a gap: the messages that follow it are missing from the log",
    "unsent": "lost: the agent did not send it again",
    "after": "this message and later ones",
}
_CACHED_SESSIONS = 4


class ContextIndex:
    """Returns the context at any message of one session."""

    def __init__(self, store: Store, id: int, head: Session, patches: MessagePatches) -> None:
        self._session = msgspec.structs.replace(head, messages=store.messages.outlines(id, patches))
        self._branches = BranchPaths(len(self._session.messages), patches.spans, head.branches)
        self._clears = sorted(
            clear.after_message_index for clear in head.context_clears if clear.after_message_index is not None
        )
        compactions = (*head.compaction.inherited, *head.compaction.boundaries)
        boundaries = [boundary for boundary in compactions if boundary.scope == "messages"]
        self._dropped = {
            index: boundary.message_index
            for boundary in compactions
            if boundary.scope == "results"
            for index in boundary.replaced_message_indices
        }
        self._boundaries = sorted(boundary.message_index for boundary in boundaries)
        self._gaps = sorted(self._session.find_gaps())
        self._lost = {index for resume in head.resumes for index in resume.lost_message_indices}
        self._summaries = {boundary.message_index: boundary.summary for boundary in boundaries}

    def __len__(self) -> int:
        return len(self._session.messages)

    def context(self, index: int) -> Context:
        """Return the context at a message."""
        return self._session.context_at(index)

    def view(self, index: int, tokens: int | None) -> ContextView:
        """Return the context at a message, with the state of every message of the session."""
        context = self.context(index)
        inside = set(context.message_indices)
        return ContextView(
            message_index=index,
            count=len(inside),
            stretches=self._spans(index, inside),
            tokens=tokens,
            recorded=context.recorded,
            omitted_calls=context.omitted_calls,
            made_up_results=context.made_up_results,
            summaries=[text for other, text in sorted(self._summaries.items()) if other in inside and text],
        )

    def _spans(self, index: int, inside: set[int]) -> list[ContextSpan]:
        path, first = self._path(index), self._session.first_part(index)
        found: list[ContextSpan] = []
        # A log may have a parent after its child. All messages after both are later ones.
        last = max(index, max(inside, default=index))
        for other in range(last + 1):
            state = self._state(other, (first, index), inside, path)
            if found and found[-1].state == state:
                found[-1].last = other
            else:
                found.append(ContextSpan(other, other, state, _REASONS[state]))
        if last + 1 < len(self):
            if found[-1].state != "after":
                found.append(ContextSpan(last + 1, last + 1, "after", _REASONS["after"]))
            found[-1].last = len(self) - 1
        return found

    def _path(self, index: int) -> set[int]:
        """Return a message, its ancestors, and the messages attached to them."""
        tree = self._session._tree
        chain = tree.path(index)
        return {*chain, *(side for ancestor in chain for side in tree.sides(ancestor))}

    def _state(self, other: int, reply: tuple[int, int], inside: set[int], path: set[int]) -> SpanState:
        """Return the state of message `other` in the context at `reply[1]`; `reply[0]` starts the same response."""
        first, index = reply
        if other in inside:
            return "in"
        if other >= index:
            return "after"
        if other not in path and self._branches.branch_of(other) != self._branches.branch_of(index):
            return "rewound"
        own_reply, other_reply = self._session.messages[index].reply, self._session.messages[other].reply
        if other >= first or (other_reply is not None and other_reply == own_reply):
            return "reply"
        if other not in path:
            # It comes later in the conversation, although it is earlier in the log.
            return "after"
        if self._dropped.get(other, index) < index:
            return "dropped"
        cleared, compacted = _next(self._clears, other), _next(self._boundaries, other + 1)
        if cleared < min(index, compacted):
            return "cleared"
        if compacted <= index:
            return "summarised"
        return "gap" if _next(self._gaps, other + 1) <= index and other not in self._lost else "unsent"


def _next(indices: list[int], start: int) -> int:
    """Return the first of some sorted indices that is `start` or later; a very large number if there is none."""
    found = bisect_left(indices, start)
    return indices[found] if found < len(indices) else 1 << 62


# --- contexts of a session in the store ------------------------------------------------------------------------------

_cache: RecentCache[str, ContextIndex] = RecentCache(_CACHED_SESSIONS)
"""Indexes by the version of their session."""


def context_view(query: SessionQuery, index: int) -> ContextView:
    """Return what was in the model's context before a message, and why other messages were not."""
    message = query.message(index)
    return context_index(query).view(index, query.request_tokens(message))


def context_index(query: SessionQuery) -> ContextIndex:
    """Return the index of a session; the last few are cached."""
    return _cache.get(query.version(), lambda: ContextIndex(query.store, query.row.id, query.head, query.patches))
