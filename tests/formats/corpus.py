"""What the tests of formats share: recorded sessions, and the events that have to be found again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from unspool.core.session import Session
from unspool.core.stream import EventLine, iter_stream

from ..recordings import sampled_versions


def recorded_sessions() -> Iterator[Session]:
    """The sessions of the sampled recordings."""
    for group in sampled_versions():
        for recording in group:
            yield from recording.sessions()


def event_lines(session: Session) -> list[str]:
    """All events of a session as the stream form has them, in an order that can be compared."""
    lines = (line for line in iter_stream(session) if isinstance(line, EventLine))
    return ordered(json.loads(msgspec.json.encode(line)) for line in lines)


def ordered(lines: Iterable[dict[str, Any]]) -> list[str]:
    """Lines in an order that can be compared."""
    return sorted(json.dumps(line, sort_keys=True) for line in lines)
