"""Server-sent events about running agents: entries of the run log, and streamed text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ..runs.supervisor import Supervisor
from ..store.run_log import LogEntry
from .sse import HELLO, Clients, Frame, encode_frame

_QUEUE_SIZE = 512
_REPLAY_LIMIT = 2000
"""A client that missed more entries than this reloads everything."""
WORDS = b"event: words\n"
"""The beginning of frames with streamed text."""
_encode = msgspec.json.Encoder().encode


class RunEvents:
    """Streams the events of the supervisor. Can only be used in one event loop."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._clients: Clients[None] = Clients(_resync, _QUEUE_SIZE)

    async def watch(self, since: int | None) -> AsyncIterator[bytes]:
        """Stream all events after `since`, then new ones as they arrive."""
        if self._clients.is_closed:
            return
        with self._clients.connect(None) as client:
            unsubscribe = self._supervisor.watch(lambda event: client.put(_frame(event)))
            try:
                # Read before anything is awaited, so that the next piece of text continues exactly here: pieces are
                # not numbered, and every connection starts with all the text of this turn.
                last, texts = self._supervisor.log.last_seq(), self._texts()
                yield HELLO
                for frame in self._missed(since, last):
                    yield frame.data
                for frame in texts:
                    yield frame.data
                async for data in client.frames(after=last):
                    yield data
            finally:
                unsubscribe()

    def _texts(self) -> list[Frame]:
        return [
            _frame({"seq": None, "run": run.id, "kind": "words", "thinking": False, **msgspec.to_builtins(text)})
            for run in self._supervisor.runs()
            for text in run.texts
        ]

    def _missed(self, since: int | None, last: int) -> list[Frame]:
        if since is None or since == last:
            return []
        if since > last or last - since > _REPLAY_LIMIT:
            return [_resync(last)]
        entries = self._supervisor.log.entries(since, _REPLAY_LIMIT)
        return [_frame(_event_of(entry)) for entry in entries if entry.seq <= last]

    def close(self) -> None:
        """End all streams, including those that are being opened."""
        self._clients.close()


def _event_of(entry: LogEntry) -> dict[str, Any]:
    facts = msgspec.json.decode(entry.data)
    kind = "state" if entry.kind == "run.ended" else entry.kind
    if entry.kind == "run.ended":
        facts = {"state": "ended", **facts}
    return {"seq": entry.seq, "run": entry.run, "kind": kind, **facts}


def _resync(seq: int) -> Frame:
    return _frame({"seq": seq, "kind": "resync", "run": None})


def _frame(event: dict[str, Any]) -> Frame:
    return encode_frame(event["kind"], _encode(event), event["seq"])
