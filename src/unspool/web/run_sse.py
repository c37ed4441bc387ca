"""What happens to running agents, as server-sent events: from the supervisor's book, and words as they are said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ..runs.log import LogEntry
from ..runs.supervisor import Supervisor

_QUEUE = 512
_WORDS_UP_TO = 256
"""In a queue that is fuller than this there is no room for words: the page has them from the log soon."""
_REPLAY = 2000
_PING_SECONDS = 15.0
_encode = msgspec.json.Encoder().encode


class _Client:
    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[int | None, bytes] | None] = asyncio.Queue(_QUEUE)

    def hear(self, event: dict[str, Any]) -> None:
        seq = event["seq"]
        if seq is None and self.queue.qsize() > _WORDS_UP_TO:
            return
        try:
            self.queue.put_nowait((seq, frame(event)))
        except asyncio.QueueFull:
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait((seq, frame({"seq": seq, "kind": "resync", "run": None})))


class RunEvents:
    """Passes on what the supervisor tells. It belongs to one event loop."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._clients: set[_Client] = set()
        self._closed = False

    async def watch(self, since: int | None) -> AsyncIterator[bytes]:
        """All events after a number, and then those that come."""
        if self._closed:
            return
        client = _Client()
        leave = self._supervisor.watch(client.hear)
        self._clients.add(client)
        try:
            passed = self._supervisor.log.last_seq()
            yield b"retry: 1000\n\n"
            for missed in self._missed(since, passed):
                yield missed
            async for one in _coming(client, passed):
                yield one
        finally:
            leave()
            self._clients.discard(client)

    def _missed(self, since: int | None, until: int) -> list[bytes]:
        if since is None or since == until:
            return []
        if since > until or until - since > _REPLAY:
            return [frame({"seq": until, "kind": "resync", "run": None})]
        return [frame(_told(entry)) for entry in self._supervisor.log.entries(since, _REPLAY) if entry.seq <= until]

    def close(self) -> None:
        """End all streams, also those that are opened from now on."""
        self._closed = True
        for client in self._clients:
            while client.queue.full():
                client.queue.get_nowait()
            client.queue.put_nowait(None)


async def _coming(client: _Client, passed: int) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(_PING_SECONDS):
                item = await client.queue.get()
        except TimeoutError:
            yield b": still here\n\n"
            continue
        if item is None:
            return
        if item[0] is None or item[0] > passed:
            yield item[1]


def _told(entry: LogEntry) -> dict[str, Any]:
    facts = msgspec.json.decode(entry.data)
    kind = "state" if entry.kind == "run.ended" else entry.kind
    if entry.kind == "run.ended":
        facts = {"state": "ended", **facts}
    return {"seq": entry.seq, "run": entry.run, "kind": kind, **facts}


def frame(event: dict[str, Any]) -> bytes:
    """An event as it goes over the wire."""
    number = b"id: %d\n" % event["seq"] if event["seq"] is not None else b""
    return b"%sevent: %s\ndata: %s\n\n" % (number, event["kind"].encode(), _encode(event))
