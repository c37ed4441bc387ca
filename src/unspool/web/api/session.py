"""Endpoints about one session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import msgspec
from msgspec import UNSET

from ...core import model as m
from ...core.events import iter_events
from ...core.explain import Explanation
from ...core.views import OrphanMode
from ...render.event_text import describe_event
from ...render.transcript import CallView, Entry
from ..branch_path import BranchPath
from ..context_index import context_view
from ..errors import InvalidRequestError
from ..session_list import url_name
from ..session_query import SessionQuery
from ..transcript_pages import TranscriptPages
from ..views import ContextView
from .params import Endpoint, SessionContext
from .schemas import (
    MOST_MESSAGES,
    BranchLine,
    BranchTree,
    EventItem,
    History,
    HistoryItem,
    HistoryParams,
    ImageLink,
    ItemKind,
    MessageParams,
    MessageRange,
    MessagesParams,
    SessionEvents,
    SessionEventsParams,
    SessionHead,
    SessionParams,
)

_SHOWN = frozenset(get_args(ItemKind))


def head(context: SessionContext, _: SessionParams) -> SessionHead:
    """The record of a session without its messages."""
    record = context.query.head
    shared = {name: getattr(record, name) for name in SessionHead.__struct_fields__ if hasattr(record, name)}
    return SessionHead(seq=context.seq, stored=context.query.row, **shared)


def messages(context: SessionContext, params: MessagesParams) -> MessageRange:
    """Messages in the order of the log, including those of abandoned branches."""
    total = context.query.row.messages
    last = min(params.first + MOST_MESSAGES, max(total, params.first)) if params.last is UNSET else params.last
    if not params.first <= last <= params.first + MOST_MESSAGES:
        raise InvalidRequestError(
            f"Invalid range of messages: {params.first} to {last}.",
            f"last must be at least first, and at most {MOST_MESSAGES:,} more.",
        )
    found = context.query.messages(params.first, last)
    return MessageRange(first=params.first, last=params.first + len(found), total=total, messages=found)


def history(context: SessionContext, params: HistoryParams) -> History:
    """One branch of the conversation, read backwards from its end: calls with their results, without internals."""
    query = context.query
    path = query.path(params.branch)
    stop = len(path)
    if params.before is not UNSET:
        stop = path.position_of(params.before)
        if stop < len(path) and path.index_at(stop) < params.before:
            stop += 1
    start = max(0, stop - params.limit)
    transcript = TranscriptPages(query)
    entries = (entry for first, last in path.slice(start, stop) for entry in transcript.entries(first, last + 1))
    return History(
        seq=context.seq,
        session=query.row,
        branch=params.branch,
        length=len(path),
        items=list(_items(query, path, entries, params.orphans)),
        before=path.index_at(start) if start else None,
    )


def _items(
    query: SessionQuery, path: BranchPath, entries: Iterator[Entry], orphans: OrphanMode
) -> Iterator[HistoryItem]:
    for entry in entries:
        if entry.kind not in _SHOWN or entry.index is None or (orphans == "hide" and _is_unfinished(entry.call)):
            continue
        call = entry.call
        if orphans == "synthesize" and call is not None and _is_unfinished(call):
            result = m.ToolResult(call.id, m.MADE_UP_RESULT, "unknown", synthetic=True)
            call = msgspec.structs.replace(call, result=result)
        yield HistoryItem(
            kind=entry.kind,
            index=entry.index,
            key=entry.key,
            text=entry.text,
            label=entry.label,
            context=entry.context,
            timestamp=entry.timestamp,
            model=entry.model,
            call=_on_path(call, path),
            image=_image_link(query, entry),
        )


def _is_unfinished(call: CallView | None) -> bool:
    return call is not None and call.orphan is not None and not call.orphan.is_open


def _on_path(call: CallView | None, path: BranchPath) -> CallView | None:
    """Remove the result from a call if it is on another branch, and the data of images, which have their own items."""
    if call is None or call.result is None:
        return call
    if call.result_index is not None and call.result_index not in path:
        return msgspec.structs.replace(call, result=None, result_index=None, result_place=0, seconds=None)
    parts = [
        msgspec.structs.replace(part, data=None) if isinstance(part, m.Image) else part for part in call.result.parts
    ]
    return msgspec.structs.replace(call, result=msgspec.structs.replace(call.result, parts=parts))


def _image_link(query: SessionQuery, entry: Entry) -> ImageLink | None:
    image = entry.image
    if image is None:
        return None
    url = None
    if image.data is not None and entry.picture is not None:
        index, number = entry.picture
        url = f"/sessions/{url_name(query.row)}/images/{index}/{number}"
    return ImageLink(media_type=image.media_type, path=url, url=image.url)


def tree(context: SessionContext, _: SessionParams) -> BranchTree:
    """The branches of a conversation, and the message after which each of them forked."""
    query = context.query
    info, paths = query.head.info, query.paths
    active = paths.own(0)
    found = [BranchLine(id=0, length=len(active), runs=active.ranges, tip_index=info.tip)]
    for branch in query.head.branches:
        parent = paths.branch_of(branch.parent_index) if branch.parent_index is not None else None
        own = paths.own(branch.id)
        found.append(
            BranchLine(
                id=branch.id,
                length=len(own),
                runs=own.ranges,
                tip_index=branch.tip_index,
                reason=branch.reason,
                parent=parent,
                parent_index=branch.parent_index,
            )
        )
    return BranchTree(messages=query.row.messages, tip=info.tip, lines=found)


def context(context: SessionContext, params: MessageParams) -> ContextView:
    """What was in the model's context before a message, and why other messages were not."""
    return context_view(context.query, params.index)


def explanation(context: SessionContext, params: MessageParams) -> Explanation:
    """The rules and the log lines behind what the record says about a message."""
    return context.query.explanation(params.index)


def session_events(context: SessionContext, params: SessionEventsParams) -> SessionEvents:
    """All events of a session."""
    found = [
        EventItem(
            kind=kind.name,
            message_index=kind.index_of(event),
            timestamp=getattr(event, "timestamp", None),
            text=describe_event(event),
            event=event,
        )
        for kind, event in iter_events(context.query.head)
        if params.kind in (UNSET, kind.name)
    ]
    end = context.query.row.messages
    found.sort(key=lambda item: end if item.message_index is None else item.message_index)
    return SessionEvents(events=found)


def raw(context: SessionContext, params: MessageParams) -> bytes:
    """The bytes of the log record that a message was read from."""
    return context.query.raw(params.index)


ENDPOINTS = [
    Endpoint.of("/sessions/{key}", head),
    Endpoint.of("/sessions/{key}/messages", messages),
    Endpoint.of("/sessions/{key}/history", history),
    Endpoint.of("/sessions/{key}/tree", tree),
    Endpoint.of("/sessions/{key}/context/{index}", context),
    Endpoint.of("/sessions/{key}/explanation/{index}", explanation),
    Endpoint.of("/sessions/{key}/events", session_events),
    Endpoint.of("/sessions/{key}/raw/{index}", raw),
]
