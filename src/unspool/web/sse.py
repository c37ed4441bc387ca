"""Live events: the change log of the store, passed on to everybody who watches.

A change is read and encoded once, however many watch. Each client has a queue of bounded length; one that falls behind
is told to load again what it shows, and goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from ..core import model as m
from ..core.errors import NotFoundError, UnspoolError
from ..store import Store
from ..store.rows import Change
from .session_list import find
from .session_query import SessionQuery
from .store_pool import StorePool
from .views import LiveEntry, LiveEvent, LiveEventKind

_QUEUE = 256
_REPLAY = 5000
"""A client that missed more than this loads everything anew."""
_BATCH = 500
_POLL_SECONDS = 1.0
_PING_SECONDS = 15.0
_MOST_MESSAGES = 100
_MOST_BYTES = 1 << 20
_PING = b": still here\n\n"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode

Draw = Callable[[SessionQuery, int, int], list[LiveEntry]]
"""Entries of new messages, as they look in the page."""


class _Client:
    def __init__(self, watched: frozenset[int]) -> None:
        self.watched = watched
        self.queue: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(_QUEUE)

    def put(self, seq: int, frame: bytes, last: int) -> None:
        try:
            self.queue.put_nowait((seq, frame))
        except asyncio.QueueFull:
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait((last, _resync(last, "too much happened at once")))


class LiveEvents:
    """Passes changes on. It belongs to one event loop."""

    def __init__(self, desk: StorePool, draw: Draw) -> None:
        self._desk = desk
        self._draw = draw
        self._clients: set[_Client] = set()
        self._wake = asyncio.Event()
        self._seen = 0
        self._ready = asyncio.Event()
        self._closed = False

    @property
    def clients(self) -> int:
        """How many watch."""
        return len(self._clients)

    def wake(self) -> None:
        """Something has been written into the change log."""
        self._wake.set()

    async def run(self) -> None:
        """Pass on what happens, until this is cancelled."""
        self._seen = await self._desk.ask(_last_seq)
        self._ready.set()
        while True:
            # Not `wait_for`: in Python 3.11 that loses a cancellation which comes together with what is waited for.
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._pass_on()
            except UnspoolError:
                # The store cannot be asked just now; it is asked again in a moment.
                await asyncio.sleep(_POLL_SECONDS)

    async def _pass_on(self) -> None:
        while rows := await self._desk.ask(_changes, self._seen, _BATCH):
            for row in rows:
                await self._publish(row)
                self._seen = row.seq

    async def _publish(self, row: Change) -> None:
        watching = [client for client in self._clients if row.session in client.watched]
        others = [client for client in self._clients if row.session not in client.watched]
        for clients, draw in ((watching, self._draw), (others, None)):
            if clients:
                frame = await self._desk.ask(_frame_of, row, draw)
                for client in clients:
                    client.put(row.seq, frame, row.seq)

    def tell(self, kind: LiveEventKind, **facts: int) -> None:
        """Tell everybody something that is not in the change log."""
        event = LiveEvent(seq=self._seen, at=datetime.now(UTC), kind=kind, **facts)  # type: ignore[arg-type]
        for client in self._clients:
            if not client.queue.full():
                client.put(self._seen, _frame(event, numbered=False), self._seen)

    async def watch(self, since: int | None, keys: Iterable[str]) -> AsyncIterator[bytes]:
        """All events after a number, and then those that come."""
        await self._ready.wait()
        client = _Client(frozenset(await self._desk.ask(_numbers_of, list(keys))))
        if self._closed:
            return
        self._clients.add(client)
        try:
            passed = self._seen
            # At once, so that the other side knows that it is heard.
            yield b"retry: 1000\n\n"
            if since is not None:
                async for frame in self._missed(since, passed, client.watched):
                    yield frame
            async for frame in self._coming(client, passed):
                yield frame
        finally:
            self._clients.discard(client)

    async def _missed(self, since: int, until: int, watched: frozenset[int]) -> AsyncIterator[bytes]:
        if since > until or until - since > _REPLAY or since + 1 < await self._desk.ask(_first_seq):
            if since != until:
                yield _resync(until, "too much happened meanwhile" if since < until else "another store is shown now")
            return
        while since < until:
            rows = await self._desk.ask(_changes, since, min(_BATCH, until - since))
            if not rows:
                return
            for row in rows:
                if row.seq <= until:
                    yield await self._desk.ask(_frame_of, row, self._draw if row.session in watched else None)
                since = row.seq

    async def _coming(self, client: _Client, passed: int) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(_PING_SECONDS):
                    item = await client.queue.get()
            except TimeoutError:
                yield _PING
                continue
            if item is None:
                return
            if item[0] > passed or not item[1].startswith(b"id:"):
                yield item[1]

    def close(self) -> None:
        """End all streams, also those that are only just being opened."""
        self._closed = True
        self._ready.set()
        for client in self._clients:
            while client.queue.full():
                client.queue.get_nowait()
            client.queue.put_nowait(None)


def _numbers_of(store: Store, keys: list[str]) -> list[int]:
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


# --- an entry of the change log as an event --------------------------------------------------------------------------


def _frame_of(store: Store, row: Change, draw: Draw | None) -> bytes:
    return _frame(event_of(store, row, draw))


def event_of(store: Store, row: Change, draw: Draw | None = None) -> LiveEvent:
    """An entry of the change log, with the data that viewers need."""
    session = store.sessions.get(row.session) if row.session is not None else None
    facts = _decode(row.data)
    known = {name: value for name, value in facts.items() if name in LiveEvent.__struct_fields__}
    event = msgspec.convert({"seq": row.seq, "at": row.at, "kind": row.kind, **known}, LiveEvent)
    if session is not None:
        event.session = session
        _add(event, SessionQuery(store, session), draw)
    return event


def _add(event: LiveEvent, reader: SessionQuery, draw: Draw | None) -> None:
    if event.kind == "messages.appended" and event.first is not None and event.count is not None:
        _add_messages(event, reader, event.first, event.first + event.count, draw)
    elif event.kind == "branches.changed":
        event.branches, event.tip = reader.head.branches, reader.head.info.tip
    elif event.kind == "subagents.changed":
        event.subagents = reader.head.subagents
    elif event.kind == "session.changed":
        event.status, event.title, event.counts = reader.row.status, reader.row.title, reader.row.counts


def _add_messages(event: LiveEvent, reader: SessionQuery, first: int, last: int, draw: Draw | None) -> None:
    trail = reader.trail()
    # More may have been said since: the length of the line does not tell where these messages are in it.
    event.pages, event.trail_length, event.position = reader.pages(), len(trail), trail.position_of(first)
    if last - first > _MOST_MESSAGES:
        return
    messages = reader.messages(first, last)
    if _size(messages) <= _MOST_BYTES:
        event.messages = messages
    if draw is not None:
        event.entries = draw(reader, first, last)
        for entry in event.entries:
            entry.position = trail.position_of(entry.index)


def _size(messages: list[m.Message]) -> int:
    return sum(message.source.length for message in messages)


def _resync(seq: int, reason: str) -> bytes:
    return _frame(LiveEvent(seq=seq, at=datetime.now(UTC), kind="resync", reason=reason))


def _frame(event: LiveEvent, *, numbered: bool = True) -> bytes:
    number = b"id: %d\n" % event.seq if numbered else b""
    return b"%sevent: %s\ndata: %s\n\n" % (number, event.kind.encode(), _encode(event))
