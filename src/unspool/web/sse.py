"""Server-sent events: framing, one bounded queue per client, resync for slow clients, pings.

The events themselves come from other modules: `live_events` streams changes to the store, and `run_events` the events
of running agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

HELLO = b"retry: 1000\n\n"
"""Sent first, so that the client knows it is connected."""
PING = b": still here\n\n"
PING_SECONDS = 15.0

T = TypeVar("T")


class Frame(NamedTuple):
    """An encoded event, with its number, if it has one."""

    seq: int | None
    data: bytes


def encode_frame(kind: str, data: bytes, seq: int | None) -> Frame:
    """Encode an event. Events without a number are not replayed after a reconnect."""
    number = b"id: %d\n" % seq if seq is not None else b""
    return Frame(seq, b"%sevent: %s\ndata: %s\n\n" % (number, kind.encode(), data))


class Client(Generic[T]):
    """One connection. Can only be used in one event loop."""

    def __init__(self, subject: T, resync: Callable[[int], Frame], queue_size: int) -> None:
        """`subject` is what the client requested; `resync` creates the frame that makes it reload."""
        self.subject = subject
        self._resync = resync
        self._queue: asyncio.Queue[Frame | None] = asyncio.Queue(queue_size)

    def __len__(self) -> int:
        return self._queue.qsize()

    def put(self, frame: Frame) -> None:
        """Queue a frame. When the queue is full, everything in it is replaced by one request to reload."""
        if frame.seq is None:
            # A slow client can do without frames that are not replayed.
            if len(self) <= self._queue.maxsize // 2:
                self._queue.put_nowait(frame)
            return
        try:
            self._queue.put_nowait(frame)
        except asyncio.QueueFull:
            while not self._queue.empty():
                self._queue.get_nowait()
            self._queue.put_nowait(self._resync(frame.seq))

    def end(self) -> None:
        """End the stream after the frames that are already queued."""
        while self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def frames(self, after: int) -> AsyncIterator[bytes]:
        """Yield frames as they arrive, until the stream ends. The client already has those numbered up to `after`."""
        while True:
            try:
                # Not `wait_for`: in Python 3.11 it can lose a cancellation that arrives together with the item.
                async with asyncio.timeout(PING_SECONDS):
                    frame = await self._queue.get()
            except TimeoutError:
                yield PING
                continue
            if frame is None:
                return
            if frame.seq is None or frame.seq > after:
                yield frame.data


class Clients(Generic[T]):
    """The open connections to one stream of events."""

    def __init__(self, resync: Callable[[int], Frame], queue_size: int) -> None:
        self._resync = resync
        self._queue_size = queue_size
        self._open: set[Client[T]] = set()
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Client[T]]:
        return iter(list(self._open))

    @contextmanager
    def connect(self, subject: T) -> Iterator[Client[T]]:
        """Add a client for as long as the block runs."""
        client = Client(subject, self._resync, self._queue_size)
        self._open.add(client)
        try:
            yield client
        finally:
            self._open.discard(client)

    def close(self) -> None:
        """End all streams. A server cannot shut down while one is open, so no new ones may be opened either."""
        self.is_closed = True
        for client in self._open:
            client.end()
