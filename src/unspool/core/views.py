"""Views of a session: with or without the branches off the active path, and with unfinished calls shown or hidden.

The record itself holds everything. A view is a record too: its indices are its own, and it validates like any other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec

from . import model as m
from .events import EVENT_KINDS, EventKind
from .session import Session

Branches = Literal["active", "all"]
OrphanMode = Literal["hide", "mark", "synthesize"]

E = TypeVar("E", bound=msgspec.Struct)

_INDEX_FIELDS = ("message_index", "interrupted_message_index", "summary_message_index")
_INDEX_LISTS = (
    "replaced_message_indices",
    "preserved_message_indices",
    "dropped_message_indices",
    "lost_message_indices",
)


class View:
    """Turns a record into a view of it, one message at a time, so that it works for streams too."""

    def __init__(
        self, session: Session, dead: Iterable[int], branches: Branches = "all", orphans: OrphanMode = "mark"
    ) -> None:
        """`dead` are the messages that are not on the active path."""
        self._session = session
        self._dead = sorted(dead) if branches == "active" else []
        self._gone = frozenset(self._dead)
        self._orphans = orphans
        changed = session.orphans if orphans != "mark" else []
        self._unfinished = frozenset(orphan.tool_use_id for orphan in changed)
        self._unfinished_in = frozenset(orphan.message_index for orphan in changed)

    def message(self, message: m.Message) -> m.Message | None:
        """A message as the view shows it; None if the view leaves it out."""
        if message.index in self._gone:
            return None
        if message.index in self._unfinished_in:
            message = msgspec.structs.replace(message, blocks=self._calls(message.blocks))
        if not self._dead:
            return message
        return msgspec.structs.replace(
            message,
            index=self._moved(message.index),
            parent_index=self._new_index(message.parent_index),
            reply=self._new_index(message.reply),
        )

    def head(self) -> Session:
        """The record without its messages, with the indices of its events adjusted."""
        session = self._session
        if self._orphans == "hide":
            session = msgspec.structs.replace(session, orphans=[])
        if not self._dead:
            return msgspec.structs.replace(session)
        return msgspec.structs.replace(
            session,
            info=msgspec.structs.replace(session.info, tip=self._new_index(session.info.tip)),
            **{kind.field: self._events(session, kind) for kind in EVENT_KINDS},
        )

    def _events(self, session: Session, kind: EventKind) -> Any:
        if kind.recorded.is_off_path:
            return kind.value([])
        return kind.value(self._kept(kind.of(session)), self._kept(kind.inherited(session)))

    def whole(self) -> Session:
        """A record as the view shows it."""
        shown = [self.message(message) for message in self._session.messages]
        return msgspec.structs.replace(self.head(), messages=[message for message in shown if message is not None])

    # --- unfinished calls ---

    def _calls(self, blocks: list[m.Block]) -> list[m.Block]:
        changed: list[m.Block] = []
        for block in blocks:
            is_orphan = isinstance(block, m.ToolCall) and block.id in self._unfinished
            if not (is_orphan and self._orphans == "hide"):
                changed.append(block)
            if is_orphan and self._orphans == "synthesize" and isinstance(block, m.ToolCall):
                changed.append(m.ToolResult(block.id, m.MADE_UP_RESULT, "unknown", synthetic=True))
        return changed

    # --- indices ---

    def _moved(self, index: int) -> int:
        return index - bisect_left(self._dead, index)

    def _new_index(self, index: int | None) -> int | None:
        return None if index is None or index in self._gone else self._moved(index)

    def _last_until(self, index: int | None) -> int | None:
        """The last message of the view at or before a message."""
        if index is None:
            return None
        last = self._moved(index) - (index in self._gone)
        return last if last >= 0 else None

    def _kept(self, events: list[E]) -> list[E]:
        """The events of the messages in the view, with their indices adjusted."""
        found = []
        for event in events:
            if getattr(event, "message_index", None) in self._gone:
                continue
            changes: dict[str, object] = {}
            for name in _INDEX_FIELDS:
                if hasattr(event, name):
                    changes[name] = self._new_index(getattr(event, name))
            if hasattr(event, "after_message_index"):
                # What is cleared on another branch also left the context of the messages that follow in the view.
                changes["after_message_index"] = self._last_until(event.after_message_index)
            for name in _INDEX_LISTS:
                if hasattr(event, name):
                    changes[name] = [self._moved(index) for index in getattr(event, name) if index not in self._gone]
            found.append(msgspec.structs.replace(event, **changes))
        return found
