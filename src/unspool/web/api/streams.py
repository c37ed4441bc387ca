"""The two streams of server-sent events: changes of the store, and what happens to running agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeAlias

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, HeaderParameter
from litestar.response import Stream

from ...core.errors import UsageError
from ..live_events import LiveEvents
from ..run_events import RunEvents

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
) -> Stream:
    """All changes from now on, or since a number."""
    unknown = set(request.query_params) - {"since", "session"}
    if unknown:
        raise UsageError(f"Unknown parameter {', '.join(sorted(unknown))}; {LIVE_EVENTS} accepts since and session.")
    if last_event_id:
        if not last_event_id.isdecimal():
            raise UsageError(f"Last-Event-ID must be the number of an event, not {last_event_id!r}.")
        since = int(last_event_id)
    return _stream(live_events.watch(since, session or []))


@get(RUN_EVENTS, include_in_schema=False)
async def stream_run_events(
    run_events: NamedDependency[RunEvents],
    since: FromQuery[int | None] = None,
    last_event_id: LastEventId = None,
) -> Stream:
    """Everything that happens to running agents from now on, or since a number."""
    if last_event_id and last_event_id.isdecimal():
        since = int(last_event_id)
    return _stream(run_events.watch(since))


def _stream(frames: AsyncIterator[bytes]) -> Stream:
    return Stream(frames, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


routes: list[HTTPRouteHandler] = [stream_live_events, stream_run_events]
