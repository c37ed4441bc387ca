"""Changes to the store as server-sent events: what the ingest process writes is streamed to all open pages.

A change is read and encoded once for all clients that receive it in the same form.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from ..core import model as m
from ..core import typed_json
from ..core.errors import NotFoundError
from ..store import Store
from ..store.rows import Change
from .session_list import find
from .session_query import SessionQuery
from .sse import HELLO, Clients, Frame, encode_frame
from .store_pool import StorePool
from .views import LiveEntry, LiveEvent, LiveEventKind

_QUEUE_SIZE = 256
_REPLAY_LIMIT = 5000
"""A client that missed more changes than this reloads everything."""
_BATCH = 500
_POLL_SECONDS = 1.0
_MOST_MESSAGES = 100
_MOST_BYTES = 1 << 20
_encode = msgspec.json.Encoder().encode
_decode = typed_json.decoder(dict[str, object]).decode
_log = logging.getLogger("unspool.web")

RenderEntries = Callable[[SessionQuery, int, int], list[LiveEntry]]
"""Renders the entries that new messages add to a page, given the first message and the one after the last."""


class LiveEvents:
    """Streams changes to the store. Can only be used in one event loop."""

    def __init__(self, pool: StorePool, render: RenderEntries) -> None:
        self._pool = pool
        self._render = render
        # The subject of a client: the numbers of the sessions whose entries it receives as HTML.
        self._clients: Clients[frozenset[int]] = Clients(
            lambda seq: _resync(seq, "too many changes at once"), _QUEUE_SIZE
        )
        self._wake = asyncio.Event()
        self._sent = 0
        self._ready = asyncio.Event()

    @property
    def clients(self) -> int:
        """Number of open connections."""
        return len(self._clients)

    def wake(self) -> None:
        """Look for new changes at once."""
        self._wake.set()

    async def run(self) -> None:
        """Stream new changes until cancelled."""
        while not await self._tried(self._skip_old):
            pass
        self._ready.set()
        while True:
            # Not `wait_for`: in Python 3.11 it can lose a cancellation that arrives together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            await self._tried(self._publish_new)

    async def _tried(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Return whether it succeeded. If the store is unavailable, it can be tried again when this returns."""
        try:
            await work()
        except Exception as error:
            _log.warning("The changes of the store cannot be read at the moment: %s", error)
            await asyncio.sleep(_POLL_SECONDS)
            return False
        return True

    async def _skip_old(self) -> None:
        self._sent = await self._pool.run(_last_seq)

    async def _publish_new(self) -> None:
        while rows := await self._pool.run(_changes, self._sent, _BATCH):
            for row in rows:
                await self._publish(row)

    async def _publish(self, row: Change) -> None:
        frames: dict[bool, Frame] = {}
        # Clients may connect while a frame is created, including some that need the other one.
        while missing := {row.session in client.subject for client in self._clients} - frames.keys():
            for is_watched in missing:
                frames[is_watched] = await self._frame_of(row, is_watched)
        # Nothing is awaited here: a client that connects earlier is sent the change, a later one reads it from the log.
        for client in self._clients:
            client.put(frames[row.session in client.subject])
        self._sent = row.seq

    async def _frame_of(self, row: Change, is_watched: bool) -> Frame:
        try:
            return await self._pool.run(_frame_of, row, self._render if is_watched else None)
        except Exception as error:
            # If the whole store is unavailable, this fails as well, and the change is sent later.
            await self._pool.run(_last_seq)
            # Otherwise only this session is affected. It must not block the changes of all others.
            _log.warning("change %d, %s of session %s, cannot be shown: %s", row.seq, row.kind, row.session, error)
            return _resync(row.seq, "a change cannot be shown")

    def announce(self, kind: LiveEventKind, **facts: int | str) -> None:
        """Send an event that is not in the change log to all clients."""
        event = LiveEvent(seq=self._sent, at=datetime.now(UTC), kind=kind, **facts)  # type: ignore[arg-type]
        frame = encode_frame(kind, _encode(event), None)
        for client in self._clients:
            client.put(frame)

    async def watch(self, since: int | None, keys: Iterable[str]) -> AsyncIterator[bytes]:
        """Stream all changes after `since`, then new ones as they arrive; those of sessions in `keys` with HTML."""
        await self._ready.wait()
        watched = frozenset(await self._pool.run(_ids_of, list(keys)))
        if self._clients.is_closed:
            return
        with self._clients.connect(watched) as client:
            sent = self._sent
            yield HELLO
            if since is not None:
                async for data in self._missed(since, sent, watched):
                    yield data
            async for data in client.frames(after=sent):
                yield data

    async def _missed(self, since: int, until: int, watched: frozenset[int]) -> AsyncIterator[bytes]:
        if since > until or until - since > _REPLAY_LIMIT or since + 1 < await self._pool.run(_first_seq):
            if since != until:
                reason = "too many changes were missed" if since < until else "this is a different store"
                yield _resync(until, reason).data
            return
        while since < until:
            rows = await self._pool.run(_changes, since, min(_BATCH, until - since))
            if not rows:
                return
            for row in rows:
                if row.seq <= until:
                    yield (await self._frame_of(row, row.session in watched)).data
                since = row.seq

    def close(self) -> None:
        """End all streams, including those that are being opened."""
        self._ready.set()
        self._clients.close()


def _ids_of(store: Store, keys: list[str]) -> list[int]:
    found = []
    for key in keys:
        try:
            found.append(find(store, key).id)
        except NotFoundError:
            continue
    return found


def _last_seq(store: Store) -> int:
    return store.changes.last_seq()


def _first_seq(store: Store) -> int:
    return store.changes.first_seq()


def _changes(store: Store, since: int, limit: int) -> list[Change]:
    return store.changes.since(since, limit)


# --- a change as an event --------------------------------------------------------------------------------------------


def _frame_of(store: Store, row: Change, render: RenderEntries | None) -> Frame:
    return _frame(event_of(store, row, render))


def event_of(store: Store, row: Change, render: RenderEntries | None = None) -> LiveEvent:
    """Return a change as an event, completed with the current state of its session."""
    session = store.sessions.get(row.session) if row.session is not None else None
    facts = _decode(row.data)
    known = {name: value for name, value in facts.items() if name in LiveEvent.__struct_fields__}
    event = typed_json.convert({"seq": row.seq, "at": row.at, "kind": row.kind, **known}, LiveEvent)
    if session is not None:
        event.session = session
        _complete(event, SessionQuery(store, session), render)
    return event


def _complete(event: LiveEvent, query: SessionQuery, render: RenderEntries | None) -> None:
    if event.kind == "messages.appended" and event.first is not None and event.count is not None:
        _add_messages(event, query, event.first, event.first + event.count, render)
    elif event.kind == "branches.changed":
        event.branches, event.tip = query.head.branches, query.head.info.tip
    elif event.kind == "subagents.changed":
        event.subagents = query.head.subagents
    elif event.kind == "session.changed":
        event.status, event.title, event.counts = query.row.status, query.row.title, query.row.counts


def _add_messages(event: LiveEvent, query: SessionQuery, first: int, last: int, render: RenderEntries | None) -> None:
    path = query.path()
    # More messages may have been appended since, so their position does not follow from the length of the path.
    event.pages, event.trail_length, event.position = query.pages(), len(path), path.position_of(first)
    if last - first > _MOST_MESSAGES:
        return
    messages = query.messages(first, last)
    if _size(messages) <= _MOST_BYTES:
        event.messages = messages
    if render is not None:
        event.entries = render(query, first, last)
        for entry in event.entries:
            entry.position = path.position_of(entry.index)


def _size(messages: list[m.Message]) -> int:
    return sum(message.source.length for message in messages)


def _resync(seq: int, reason: str) -> Frame:
    return _frame(LiveEvent(seq=seq, at=datetime.now(UTC), kind="resync", reason=reason))


def _frame(event: LiveEvent) -> Frame:
    return encode_frame(event.kind, _encode(event), event.seq)
