"""The two streams of server-sent events: changes to the store, and events of running agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, TypeAlias, cast

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, HeaderParameter
from litestar.response import Stream

from ...core.errors import UsageError
from ...redact import Redactor
from ..live_events import LiveEvents
from ..run_events import WORDS, RunEvents
from .params import find_redactor

LastEventId: TypeAlias = Annotated[str | None, HeaderParameter(name="Last-Event-ID")]
LIVE_EVENTS = "/api/events"
RUN_EVENTS = "/api/runs/events"


@get(LIVE_EVENTS, include_in_schema=False)
async def stream_live_events(
    request: Request[Any, Any, Any],
    live_events: NamedDependency[LiveEvents],
    since: FromQuery[int | None] = None,
    session: FromQuery[list[str] | None] = None,
    last_event_id: LastEventId = None,
    redact: FromQuery[bool] = False,
    redact_personal: FromQuery[bool] = False,
) -> Stream:
    """Stream all changes from now on, or after a number."""
    known = ("since", "session", "redact", "redact_personal")
    if unknown := set(request.query_params) - set(known):
        raise UsageError(f"Unknown parameter {', '.join(sorted(unknown))}; {LIVE_EVENTS} accepts {', '.join(known)}.")
    redactor = find_redactor(redact=redact, personal=redact_personal)
    if redactor is not None and session:
        raise UsageError("Entries as HTML cannot be redacted. Omit either session or redact.")
    if last_event_id:
        if not last_event_id.isdecimal():
            raise UsageError(f"Last-Event-ID must be the number of an event, not {last_event_id!r}.")
        since = int(last_event_id)
    return _stream(live_events.watch(since, session or []), redactor)


@get(RUN_EVENTS, include_in_schema=False)
async def stream_run_events(
    run_events: NamedDependency[RunEvents],
    since: FromQuery[int | None] = None,
    last_event_id: LastEventId = None,
    redact: FromQuery[bool] = False,
    redact_personal: FromQuery[bool] = False,
) -> Stream:
    """Stream all events of running agents from now on, or after a number."""
    if last_event_id and last_event_id.isdecimal():
        since = int(last_event_id)
    return _stream(run_events.watch(since), find_redactor(redact=redact, personal=redact_personal))


def _stream(frames: AsyncIterator[bytes], redactor: Redactor | None) -> Stream:
    if redactor is not None:
        frames = _redacted(frames, redactor)
    return Stream(frames, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _redacted(frames: AsyncIterator[bytes], redactor: Redactor) -> AsyncIterator[bytes]:
    async with aclosing(cast("AsyncGenerator[bytes]", frames)):
        async for frame in frames:
            # Streamed text arrives in pieces, and none of them may contain a secret as a whole.
            if not frame.startswith(WORDS):
                yield redactor.data(frame)


routes: list[HTTPRouteHandler] = [stream_live_events, stream_run_events]
