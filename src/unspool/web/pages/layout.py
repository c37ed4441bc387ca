"""The parts that all pages share: the bar at the top, and HTML responses."""

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
"""The `AppState`. This package cannot import it, because its module imports the pages."""


class Layout(msgspec.Struct, kw_only=True):
    """The data that is shown around the content of a page."""

    kind: str
    events: str = ""
    """The kind of event, on the pages that list events."""
    query: str = ""
    seq: int = 0
    live: int = 0
    progress: tuple[int, int] | None = None
    """Sessions read so far and in total, while they are read for the first time."""
    delay: str | None = None
    """The reason why changes of files are noticed late, if they are."""


def progress_of(app_state: Any) -> tuple[int, int] | None:
    """Return the progress of the first sync: sessions done and in total; None if it is not running."""
    progress = app_state.progress
    return (int(progress.get("done", 0)), int(progress.get("total", 0))) if progress else None


def layout_of(
    store: Store, kind: str, progress: tuple[int, int] | None = None, *, events: str = "", query: str = ""
) -> Layout:
    """Return the data around the content of a page, from the current state of the store."""
    rows = store.sessions.select(SessionFilter(kind="main", maybe_live_since=time.time() - 300), limit=200)
    live = sum(is_live(row) for row in rows)
    # An agent that has been idle for a long time is also live.
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
    """Return a response with a page, or a fragment of one."""
    return Response(html, media_type=MediaType.HTML, headers={"cache-control": "no-cache"})


def html(template: str, **values: object) -> Response[str]:
    """Render a template as a response."""
    return html_response(render(template, **values))
