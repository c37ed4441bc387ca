"""Answers about one session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import msgspec
from msgspec import UNSET

from ...core import model as m
from ...core.events import iter_events
from ...core.views import OrphanMode
from ...render.event_text import describe_event
from ...render.transcript import CallView, Entry
from ..branch_path import BranchPath, Lines
from ..session_list import url_name
from ..session_query import SessionQuery
from ..views import ContextView
from .errors import RefusedError
from .params import About, Endpoint
from .schemas import (
    MOST_MESSAGES,
    EventItem,
    Head,
    History,
    HistoryAsked,
    HistoryItem,
    ItemKind,
    Line,
    MessageAsked,
    Messages,
    MessagesAsked,
    Picture,
    SessionAsked,
    SessionEvents,
    SessionEventsAsked,
    Tree,
)

_SHOWN = frozenset(get_args(ItemKind))


def head(about: About, _: SessionAsked) -> Head:
    """The record of a session without its messages."""
    record = about.reader.head
    shared = {name: getattr(record, name) for name in Head.__struct_fields__ if hasattr(record, name)}
    return Head(seq=about.seq, stored=about.reader.row, **shared)


def messages(about: About, asked: MessagesAsked) -> Messages:
    """Messages in the order of the log, those of dead branches too."""
    total = about.reader.row.messages
    last = min(asked.first + MOST_MESSAGES, max(total, asked.first)) if asked.last is UNSET else asked.last
    if not asked.first <= last <= asked.first + MOST_MESSAGES:
        raise RefusedError(
            f"There is no answer for the messages from {asked.first} to {last}.",
            f"last is not less than first, and at most {MOST_MESSAGES:,} more.",
        )
    found = about.reader.messages(asked.first, last)
    return Messages(first=asked.first, last=asked.first + len(found), total=total, messages=found)


def history(about: About, asked: HistoryAsked) -> History:
    """The conversation from its end backwards: without dead branches and machinery, calls with their results."""
    reader = about.reader
    trail = reader.trail(asked.branch)
    stop = len(trail)
    if asked.before is not UNSET:
        stop = trail.position_of(asked.before)
        if stop < len(trail) and trail.index_at(stop) < asked.before:
            stop += 1
    start = max(0, stop - asked.limit)
    entries = (entry for first, last in trail.part(start, stop) for entry in reader.entries(first, last + 1))
    return History(
        seq=about.seq, session=reader.row, branch=asked.branch, length=len(trail),
        items=list(_items(reader, trail, entries, asked.orphans)), before=trail.index_at(start) if start else None,
    )  # fmt: skip


def _items(
    reader: SessionQuery, trail: BranchPath, entries: Iterator[Entry], orphans: OrphanMode
) -> Iterator[HistoryItem]:
    for entry in entries:
        if entry.kind not in _SHOWN or entry.index is None or (orphans == "hide" and _never_finished(entry.call)):
            continue
        if orphans == "synthesize" and entry.call is not None and _never_finished(entry.call):
            made_up = m.ToolResult(entry.call.id, m.MADE_UP_RESULT, "unknown", synthetic=True)
            entry = msgspec.structs.replace(entry, call=msgspec.structs.replace(entry.call, result=made_up))
        yield HistoryItem(
            kind=entry.kind, index=entry.index, key=entry.key, text=entry.text, label=entry.label,  # type: ignore[arg-type]
            context=entry.context, timestamp=entry.timestamp, model=entry.model, call=_of_line(entry.call, trail),
            image=_picture(reader, entry),
        )  # fmt: skip


def _never_finished(call: CallView | None) -> bool:
    return call is not None and call.orphan is not None and call.orphan.reason != "running"


def _of_line(call: CallView | None, trail: BranchPath) -> CallView | None:
    """A call without a result that another line got, and without pictures: those have items of their own."""
    if call is None or call.result is None:
        return call
    if call.result_index is not None and call.result_index not in trail:
        return msgspec.structs.replace(call, result=None, result_index=None, result_place=0, seconds=None)
    parts = [
        msgspec.structs.replace(part, data=None) if isinstance(part, m.Image) else part for part in call.result.parts
    ]
    return msgspec.structs.replace(call, result=msgspec.structs.replace(call.result, parts=parts))


def _picture(reader: SessionQuery, entry: Entry) -> Picture | None:
    image = entry.image
    if image is None:
        return None
    path = None
    if image.data is not None and entry.picture is not None:
        index, place = entry.picture
        path = f"/sessions/{url_name(reader.row)}/images/{index}/{place}"
    return Picture(media_type=image.media_type, path=path, url=image.url)


def tree(about: About, _: SessionAsked) -> Tree:
    """The lines of a conversation, and where each of them left another."""
    reader = about.reader
    info, branches, count = reader.head.info, reader.head.branches, reader.row.messages
    lines = Lines(count, reader.patches.spans, branches)
    active = lines.own(0)
    found = [Line(id=0, length=len(active), runs=active.ranges, tip_index=info.tip)]
    for branch in branches:
        parent = lines.branch_of(branch.parent_index) if branch.parent_index is not None else None
        own = lines.own(branch.id)
        found.append(
            Line(
                id=branch.id, length=len(own), runs=own.ranges, tip_index=branch.tip_index, reason=branch.reason,
                parent=parent, parent_index=branch.parent_index,
            )
        )  # fmt: skip
    return Tree(messages=count, tip=info.tip, lines=found)


def context(about: About, asked: MessageAsked) -> ContextView:
    """What the model had before it when a message was said, and why the rest was not there."""
    return about.reader.context(asked.index)


def session_events(about: About, asked: SessionEventsAsked) -> SessionEvents:
    """Everything that happened in a session."""
    found = [
        EventItem(
            kind=kind.name, message_index=kind.index_of(event), timestamp=getattr(event, "timestamp", None),
            text=describe_event(event), event=event,
        )
        for kind, event in iter_events(about.reader.head)
        if asked.kind in (UNSET, kind.name)
    ]  # fmt: skip
    nowhere = about.reader.row.messages
    found.sort(key=lambda item: nowhere if item.message_index is None else item.message_index)
    return SessionEvents(events=found)


def raw(about: About, asked: MessageAsked) -> bytes:
    """The record of a message as it stands in the log."""
    return about.reader.raw(asked.index)


ENDPOINTS = [
    Endpoint.of("/sessions/{key}", head),
    Endpoint.of("/sessions/{key}/messages", messages),
    Endpoint.of("/sessions/{key}/history", history),
    Endpoint.of("/sessions/{key}/tree", tree),
    Endpoint.of("/sessions/{key}/context/{index}", context),
    Endpoint.of("/sessions/{key}/events", session_events),
    Endpoint.of("/sessions/{key}/raw/{index}", raw),
]
