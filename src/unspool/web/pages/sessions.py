"""The list of all sessions, which is also shown beside an open session."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler

from ...agents import AGENTS
from ...core.errors import UsageError
from ...core.events import BADGE_KINDS, find_kind
from ...store import Store
from ...store.rows import SessionRow
from ..assets import assets
from ..session_list import list_sessions, name_of_project
from ..templating import render
from ..views import ListedSession, ListParams
from .layout import Pool, State, html_response, layout_of, progress_of

_PAGE_SIZE = 200
_BADGES = [kind.name for kind in BADGE_KINDS]
_SORTS = ("recent", "started", "messages", "title")
_PARAMS = ("q", "agent", "project", "has", "status", "sort")


class SessionGroup(msgspec.Struct, kw_only=True):
    """Sessions under one heading."""

    name: str
    path: str
    is_live: bool
    sessions: list[ListedSession]


class SessionListView(msgspec.Struct, kw_only=True):
    """The list of sessions with the links that change it."""

    groups: list[SessionGroup]
    total: int
    is_reading: bool
    """The sessions are being read for the first time."""
    here: int | None
    """The session that is open beside the list."""
    filter: ListParams
    is_filtered: bool
    next: str | None
    all: str
    with_agent: dict[str, str]
    with_kind: dict[str, str]
    sorted_by: dict[str, str]
    unreadable: dict[str, str] = {}
    """Files and folders that could not be read, with the reason."""


# --- routes ----------------------------------------------------------------------------------------------------------


@get("/", include_in_schema=False)
async def sessions(request: Request[Any, Any, Any], pool: Pool, app_state: State) -> Response[str]:
    """The list of sessions."""
    return html_response(await pool.run(_page, _filter_of(request), progress_of(app_state)))


@get("/list", include_in_schema=False)
async def session_list(request: Request[Any, Any, Any], pool: Pool, app_state: State) -> Response[str]:
    """The list without the page around it."""
    return html_response(await pool.run(_fragment, _filter_of(request), progress_of(app_state)))


@get("/favicon.ico", include_in_schema=False)
async def icon() -> Response[bytes]:
    """The icon that browsers ask for when a page does not name one."""
    return Response(assets()["icon.svg"].data, media_type="image/svg+xml")


routes: list[HTTPRouteHandler] = [icon, sessions, session_list]


def _filter_of(request: Request[Any, Any, Any]) -> ListParams:
    given = request.query_params
    page = given.get("page", "0")
    if not (page.isascii() and page.isdecimal() and len(page) < 10):
        raise UsageError(f"page must be a number, not {page!r}")
    known = {name: given.get(name) or None for name in _PARAMS}
    return ListParams(
        q=known["q"] or "",
        agent=known["agent"],
        project=known["project"],
        has=find_kind(known["has"]).name if known["has"] else None,
        status=known["status"],
        sort=known["sort"] or "recent",
        limit=_PAGE_SIZE,
        offset=int(page) * _PAGE_SIZE,
    )


# --- views -----------------------------------------------------------------------------------------------------------


def _page(store: Store, filter: ListParams, progress: tuple[int, int] | None) -> str:
    layout = layout_of(store, "sessions", progress)
    view = list_view(store, filter, progress)
    view.unreadable = store.files.unreadable()
    return render("sessions.html", layout=layout, list=view)


def _fragment(store: Store, filter: ListParams, progress: tuple[int, int] | None) -> str:
    return render("sessions_pane.html", list=list_view(store, filter, progress))


def list_view(
    store: Store, filter: ListParams, progress: tuple[int, int] | None, here: SessionRow | None = None
) -> SessionListView:
    """The sessions that match a filter."""
    found = list_sessions(store, filter)
    shown = filter.offset + len(found.sessions)
    return SessionListView(
        groups=_group(found.sessions),
        total=found.total,
        is_reading=progress is not None,
        here=here.id if here is not None else None,
        filter=filter,
        is_filtered=bool(filter.q or filter.agent or filter.project or filter.has or filter.status),
        next=_url(filter, page=shown // filter.limit) if shown < found.total else None,
        all=_url(ListParams(sort=filter.sort)),
        with_agent={name: _url(filter, agent=None if filter.agent == name else name) for name in AGENTS},
        with_kind={kind: _url(filter, has=None if filter.has == kind else kind) for kind in _BADGES},
        sorted_by={sort: _url(filter, sort=sort) for sort in _SORTS},
    )


def _group(sessions: list[ListedSession]) -> list[SessionGroup]:
    """Live sessions first, then the others by project, in the order given."""
    found: dict[str, SessionGroup] = {}
    for listed in sessions:
        path = listed.row.project or ""
        key = "live" if listed.live else f"project {path}"
        if key not in found:
            name = "Live" if listed.live else name_of_project(path) if path else "No project"
            found[key] = SessionGroup(name=name, path="" if listed.live else path, is_live=listed.live, sessions=[])
        found[key].sessions.append(listed)
    return list(found.values())


def _url(filter: ListParams, page: int = 0, **changes: str | None) -> str:
    values: dict[str, str | int | None] = {name: getattr(filter, name) for name in _PARAMS}
    values |= {"page": page or None, **changes}
    if values["sort"] == "recent":
        values["sort"] = None
    query = urlencode({name: value for name, value in values.items() if value})
    return f"/?{query}" if query else "/"
