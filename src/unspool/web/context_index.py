"""What was in context at any message of a session, computed from the outlines of its messages."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from ..core.session import Context, Session
from ..store import Store
from ..store.message_patches import MessagePatches
from .views import ContextView, State, Stretch

_WHY: dict[State, str] = {
    "in": "in context",
    "summarised": "replaced by a summary",
    "cleared": "removed when the context was cleared",
    "rewound": "on a branch that was left, or not yet taken",
    "unsent": "lost: the agent did not send it again",
    "after": "said later",
}


class ContextIndex:
    """Answers what was in context at any message of one session."""

    def __init__(self, store: Store, id: int, head: Session, patches: MessagePatches) -> None:
        self._session = msgspec.structs.replace(head, messages=store.messages.outlines(id, patches))
        self._clears = sorted(
            clear.after_message_index for clear in head.context_clears if clear.after_message_index is not None
        )
        boundaries = (*head.compaction.inherited, *head.compaction.boundaries)
        self._boundaries = sorted(boundary.message_index for boundary in boundaries)
        self._summaries = {boundary.message_index: boundary.summary for boundary in boundaries}

    def __len__(self) -> int:
        return len(self._session.messages)

    def context(self, index: int) -> Context:
        """What the model had before it at a message."""
        return self._session.context_at(index)

    def view(self, index: int, tokens: int | None) -> ContextView:
        """The same, told for all messages of the session, stretch by stretch."""
        context = self.context(index)
        inside = set(context.message_indices)
        return ContextView(
            message_index=index, count=len(inside), stretches=self._stretches(index, inside), tokens=tokens,
            recorded=context.recorded, omitted_calls=context.omitted_calls, made_up_results=context.made_up_results,
            summaries=[text for place, text in sorted(self._summaries.items()) if place in inside and text],
        )  # fmt: skip

    def _stretches(self, index: int, inside: set[int]) -> list[Stretch]:
        path = self._path(index)
        found: list[Stretch] = []
        for place in range(len(self)):
            state = self._state(place, index, inside, path)
            if found and found[-1].state == state:
                found[-1].last = place
            else:
                found.append(Stretch(place, place, state, _WHY[state]))
        return found

    def _path(self, index: int) -> set[int]:
        """The message, what it goes back to, and what hangs beside it."""
        tree = self._session._tree
        chain = tree.path(index)
        return {*chain, *(side for place in chain for side in tree.sides(place))}

    def _state(self, place: int, index: int, inside: set[int], path: set[int]) -> State:
        if place in inside:
            return "in"
        if place >= index:
            return "after"
        if place not in path:
            return "rewound"
        cleared, compacted = _next(self._clears, place), _next(self._boundaries, place + 1)
        if cleared < min(index, compacted):
            return "cleared"
        return "summarised" if compacted <= index else "unsent"


def _next(places: list[int], after: int) -> int:
    """The first of some places that is not before one."""
    found = bisect_left(places, after)
    return places[found] if found < len(places) else 1 << 62
