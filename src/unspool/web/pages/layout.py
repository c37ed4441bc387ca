"""What all pages have in common: the bar at the top, and how HTML is sent."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import msgspec
from litestar import MediaType, Response
from litestar.di import NamedDependency

from ...store import Store
from ...store.filters import SessionFilter
from ..run_states import current_runs
from ..session_list import is_live
from ..store_pool import StorePool
from ..templating import render
from ..update_delay import delay_reason

Pool: TypeAlias = NamedDependency[StorePool]
State: TypeAlias = NamedDependency[Any]
"""The `AppState`, which this package cannot import: it knows the pages."""


class Layout(msgspec.Struct, kw_only=True):
    """What the surroundings of a page show."""

    kind: str
    events: str = ""
    """The kind of event, on the pages that list events."""
    query: str = ""
    seq: int = 0
    live: int = 0
    progress: tuple[int, int] | None = None
    """Sessions read so far and in total, while they are read for the first time."""
    delay: str | None = None
    """Why changes of files are noticed late."""


def progress_of(app_state: Any) -> tuple[int, int] | None:
    """How far the first reading of all sessions is."""
    progress = app_state.progress
    return (int(progress.get("done", 0)), int(progress.get("total", 0))) if progress else None


def layout_of(
    store: Store, kind: str, progress: tuple[int, int] | None = None, *, events: str = "", query: str = ""
) -> Layout:
    """The surroundings of a page, from the current state of the store."""
    rows = store.sessions.select(SessionFilter(kind="main", maybe_live_since=time.time() - 300), limit=200)
    live = sum(is_live(row) for row in rows)
    # An agent that has been idle for long is live, too.
    known = {(row.agent, row.name) for row in rows}
    live += sum(run.is_active for key, run in current_runs().items() if key not in known)
    return Layout(
        kind=kind,
        seq=store.changes.last_seq(),
        live=live,
        progress=progress,
        delay=delay_reason(),
        events=events,
        query=query,
    )


def html_response(html: str) -> Response[str]:
    """A page, or a fragment of one."""
    return Response(html, media_type=MediaType.HTML, headers={"cache-control": "no-cache"})


def html(template: str, **values: object) -> Response[str]:
    """A template, rendered and sent."""
    return html_response(render(template, **values))
