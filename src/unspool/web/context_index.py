"""A session without its words: parents, authors, calls and results of all messages, to tell what was in context where.

It is decoded from the stored messages with everything else skipped, which takes a fraction of reading them.
"""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from ..core import model as m
from ..core.session import Context, Session
from ..store.base import Store
from ..store.message_patches import Facts
from .views import ContextView, State, Stretch

_NOTHING = msgspec.Raw(b"null")
_NOWHERE = m.Source(0, 0, 0, 0)
_WHY: dict[State, str] = {
    "in": "in context",
    "summarised": "replaced by a summary",
    "cleared": "removed when the context was cleared",
    "rewound": "on a branch that was left, or not yet taken",
    "unsent": "lost: the agent did not send it again",
    "after": "said later",
}


class _Block(msgspec.Struct):
    type: str
    id: str | None = None
    call_id: str | None = None


class _Bone(msgspec.Struct):
    index: int
    role: m.Role
    author: m.Author
    blocks: list[_Block]
    parent_index: int | None = None
    reply: int | None = None
    link: m.Link = "recorded"
    queued: bool = False


_BONES = msgspec.json.Decoder(list[_Bone])


class ContextIndex:
    """Answers what was in context at any message of one session."""

    def __init__(self, store: Store, id: int, head: Session, facts: Facts) -> None:
        messages = [_fleshless(bone) for _, data in store.packed_blocks(id) for bone in _BONES.decode(data)]
        for message in messages:
            facts.apply(message)
        self._session = msgspec.structs.replace(head, messages=messages)
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


def _fleshless(bone: _Bone) -> m.Message:
    blocks: list[m.Block] = []
    for block in bone.blocks:
        if block.type == "tool_call":
            blocks.append(m.ToolCall(block.id or "", "", _NOTHING))
        elif block.type == "tool_result":
            blocks.append(m.ToolResult(block.call_id or "", "", "ok"))
    return m.Message(
        bone.index, bone.role, bone.author, blocks, _NOWHERE, parent_index=bone.parent_index, reply=bone.reply,
        link=bone.link, queued=bone.queued,
    )  # fmt: skip
