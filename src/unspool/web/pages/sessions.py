"""The list of all sessions, which is also shown next to an open session."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler

from ...agents import AGENTS
from ...core.errors import UsageError
from ...core.events import BADGE_KINDS, find_kind
from ...repositories import repositories_of
from ...store import Store
from ...store.rows import SessionRow
from ...store.session_facts import model_counts
from ..assets import assets
from ..session_details import SessionDetails, details_of
from ..session_list import distinct_names, filter_of, list_sessions, listed_session, name_of_project
from ..templating import render
from ..views import ListedSession, ListParams
from .layout import Pool, State, html_response, layout_of, progress_of

_PAGE_SIZE = 200
_SIDEBAR_ROWS = 60
"""Rows of the list next to an open session: each one makes the page slower."""
_BADGES = [kind.name for kind in BADGE_KINDS]
_SORTS = ("recent", "started", "messages", "title")
_PERIODS = {"": "Any time", "today": "Today", "7d": "7 days", "30d": "30 days"}
_PARAMS = ("q", "agent", "project", "model", "has", "status", "after", "before", "sort")
_FILTERS = ("q", "agent", "project", "model", "has", "status", "after", "before")
_MOST_PROJECTS = 200


class PageParams(ListParams, kw_only=True):
    """The parameters in the address of a list: which sessions it shows, and how."""

    flat: bool = False
    """Whether to show one list instead of one for each project."""
    here: int | None = None
    """The session that is open next to the list."""


class SessionGroup(msgspec.Struct, kw_only=True):
    """Sessions under one heading."""

    name: str
    path: str
    is_live: bool
    sessions: list[ListedSession]
    total: int = 0
    """The number of sessions, including those on other pages of the list."""


class Choice(msgspec.Struct, kw_only=True):
    """A value of a filter, with the address of the list that it selects."""

    name: str
    url: str
    is_current: bool
    sessions: int | None = None
    """The number of sessions in that list."""
    title: str = ""
    is_worktree: bool = False


class SessionListView(msgspec.Struct, kw_only=True):
    """The list of sessions with the links that change it."""

    groups: list[SessionGroup]
    total: int
    is_reading: bool
    """Whether the first sync is still running."""
    filter: PageParams
    is_filtered: bool
    next: str | None
    all: str
    with_kind: dict[str, str]
    sorted_by: dict[str, str]
    details: dict[int, SessionDetails] = {}
    """By the number of the session; only if the list is a page of its own."""
    choices: ListChoices | None = None
    """Only if the list is a page of its own."""
    unreadable: dict[str, str] = {}
    """Files and folders that could not be read, with the reason."""
    subagents: int = 0
    """The number of sub-agents that are listed by themselves because the session that started them is missing."""

    @property
    def here(self) -> int | None:
        """The session that is open next to the list."""
        return self.filter.here

    @property
    def without_project(self) -> str:
        """The address of the list of all projects."""
        return _url(self.filter, project=None)

    @property
    def hidden_fields(self) -> dict[str, str]:
        """The parameters that a form has to repeat, apart from its own."""
        return _params(self.filter)


class ListChoices(msgspec.Struct, kw_only=True):
    """The filters to choose from on the page of the list."""

    agents: dict[str, Choice]
    projects: list[Choice]
    project: str
    """The name of the chosen project."""
    periods: list[Choice]
    has_range: bool
    """Whether the filter has dates instead of one of the periods."""
    models: str
    """The address from which the choice of models is loaded."""
    layout: Choice
    """Switches between one list and one for each project."""


# --- routes ----------------------------------------------------------------------------------------------------------


@get("/", include_in_schema=False)
async def sessions(request: Request[Any, Any, Any], pool: Pool, app_state: State) -> Response[str]:
    """The list of sessions."""
    return html_response(await pool.run(_page, _params_of(request), progress_of(app_state)))


@get("/list", include_in_schema=False)
async def session_list(request: Request[Any, Any, Any], pool: Pool, app_state: State) -> Response[str]:
    """The list without the page around it."""
    return html_response(await pool.run(_fragment, _params_of(request), progress_of(app_state)))


@get("/list/models", include_in_schema=False)
async def session_models(request: Request[Any, Any, Any], pool: Pool) -> Response[str]:
    """The models to choose from. Counting them reads more than the list does, so they are loaded on demand."""
    return html_response(await pool.run(_models, _params_of(request)))


@get("/favicon.ico", include_in_schema=False)
async def icon() -> Response[bytes]:
    """The icon that browsers request if a page does not specify one."""
    return Response(assets()["icon.svg"].data, media_type="image/svg+xml")


routes: list[HTTPRouteHandler] = [icon, sessions, session_list, session_models]


def _params_of(request: Request[Any, Any, Any]) -> PageParams:
    given = request.query_params
    known = {name: given.get(name) or None for name in _PARAMS}
    return PageParams(
        q=known["q"] or "",
        agent=known["agent"],
        project=known["project"],
        has=find_kind(known["has"]).name if known["has"] else None,
        model=known["model"],
        status=known["status"],
        after=known["after"],
        before=known["before"],
        sort=known["sort"] or "recent",
        limit=_PAGE_SIZE,
        offset=(_number(given.get("page"), "page") or 0) * _PAGE_SIZE,
        flat=given.get("view") == "flat",
        here=_number(given.get("here"), "here"),
    )


def _number(text: str | None, name: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"{name} must be a number, not {text!r}")
    return int(text)


# --- views -----------------------------------------------------------------------------------------------------------


def _page(store: Store, params: PageParams, progress: tuple[int, int] | None) -> str:
    layout = layout_of(store, "sessions", progress)
    view = _list_page(store, params, progress)
    view.unreadable = store.files.unreadable()
    return render("sessions.html", layout=layout, list=view)


def _fragment(store: Store, params: PageParams, progress: tuple[int, int] | None) -> str:
    if params.here is None:
        return render("sessions_pane.html", list=_list_page(store, params, progress))
    return render("sessions_pane.html", list=list_view(store, params, progress, store.sessions.get(params.here)))


def _models(store: Store, params: PageParams) -> str:
    counts = model_counts(store.database, filter_of(store, _changed(params, model=None)))
    choices = [_choice(params, row.model, "model", row.model, row.sessions) for row in counts]
    return render("models.html", choices=choices, all=_url(params, model=None), is_chosen=params.model is not None)


def _list_page(store: Store, params: PageParams, progress: tuple[int, int] | None) -> SessionListView:
    """Return the list as a page of its own."""
    view = list_view(store, params, progress)
    view.details = details_of(store, (listed.row for group in view.groups for listed in group.sessions))
    view.choices = _choices(store, params)
    view.subagents = store.sessions.count(msgspec.structs.replace(filter_of(store, params), kind="subagent"))
    return view


def list_view(
    store: Store, filter: ListParams, progress: tuple[int, int] | None, here: SessionRow | None = None
) -> SessionListView:
    """Return the sessions that match a filter, and `here`, the one that is open next to them."""
    params = _as_page(filter, here)
    found = list_sessions(store, params)
    shown = params.offset + len(found.sessions)
    listed = found.sessions if here is None else _with_open(store, found.sessions, here)
    repositories = repositories_of(one.row.project for one in listed if one.row.project)
    groups = _flat(listed) if params.flat else _group(listed, repositories)
    totals = _totals(store, params, repositories, listed) if len(found.sessions) < found.total else Counter()
    for group in groups:
        group.total = max(len(group.sessions), 0 if group.is_live else totals[group.path])
    return SessionListView(
        groups=groups,
        total=found.total,
        is_reading=progress is not None,
        filter=params,
        is_filtered=any(getattr(params, name) for name in _FILTERS),
        # Next to an open session, the link leads to the page of the list.
        next=_url(params, page=shown // params.limit if here is None else 0) if shown < found.total else None,
        all=_url(PageParams(sort=params.sort, flat=params.flat)),
        with_kind={kind: _url(params, has=None if params.has == kind else kind) for kind in _BADGES},
        sorted_by={sort: _url(params, sort=sort) for sort in _SORTS},
    )


def _as_page(filter: ListParams, here: SessionRow | None) -> PageParams:
    given = {name: getattr(filter, name) for name in ListParams.__struct_fields__}
    if here is not None:
        given["limit"] = min(filter.limit, _SIDEBAR_ROWS)
    flat = isinstance(filter, PageParams) and filter.flat
    return PageParams(**given, flat=flat, here=here.id if here is not None else None)


def _with_open(store: Store, sessions: list[ListedSession], here: SessionRow) -> list[ListedSession]:
    """Return the list, with the open session or the session that started it added if necessary."""
    if any(here.id in (one.row.id, *(row.id for row in one.subagents)) for one in sessions):
        return sessions
    return [listed_session(store, here), *sessions]


def _group(sessions: list[ListedSession], repositories: dict[str, str]) -> list[SessionGroup]:
    """Group sessions: live ones first, then the others by repository, in the order given."""
    found: dict[str, SessionGroup] = {}
    names = distinct_names(set(repositories.values()))
    for listed in sessions:
        project = listed.row.project or ""
        path = repositories.get(project, project)
        key = "live" if listed.live else f"project {path}"
        if key not in found:
            name = "Live" if listed.live else (names.get(path) or name_of_project(path)) if path else "No project"
            found[key] = SessionGroup(name=name, path="" if listed.live else path, is_live=listed.live, sessions=[])
        found[key].sessions.append(listed)
    return list(found.values())


def _totals(
    store: Store, params: PageParams, repositories: dict[str, str], listed: list[ListedSession]
) -> Counter[str]:
    """Return the number of matching sessions of each repository, on all pages of the list, without live ones."""
    rows = store.sessions.count_by("project", filter_of(store, params))
    known = repositories_of(row.value for row in rows if row.value) | repositories
    found: Counter[str] = Counter()
    for row in rows:
        found[known.get(row.value or "", "")] += row.sessions
    for one in listed:
        found[known.get(one.row.project or "", "")] -= one.live
    return found


def _flat(sessions: list[ListedSession]) -> list[SessionGroup]:
    return [SessionGroup(name="", path="", is_live=False, sessions=sessions)] if sessions else []


# --- choices ---------------------------------------------------------------------------------------------------------


def _choices(store: Store, params: PageParams) -> ListChoices:
    agents = {
        row.value: row.sessions
        for row in store.sessions.count_by("agent", filter_of(store, _changed(params, agent=None)))
    }
    periods = [
        _choice(params, name, "after", value, is_current=params.before is None and (params.after or "") == value)
        for value, name in _PERIODS.items()
    ]
    other = "grouped" if params.flat else "flat"
    return ListChoices(
        agents={
            name: _choice(params, agent.info.title, "agent", name, agents.get(name, 0))
            for name, agent in AGENTS.items()
        },
        projects=_project_choices(store, params),
        project=name_of_project(params.project) if params.project else "",
        periods=periods,
        has_range=not any(period.is_current for period in periods),
        models="/list/models?" + urlencode(_params(params)),
        layout=Choice(name=other, url=_url(params, view=other), is_current=False),
    )


def _project_choices(store: Store, params: PageParams) -> list[Choice]:
    """Return the repositories, the most recent first, each followed by its worktrees."""
    rows = store.sessions.count_by("project", filter_of(store, _changed(params, project=None)))
    known = {row.value: row for row in rows if row.value}
    trees: dict[str, list[str]] = {}
    for path, top in repositories_of(known).items():
        trees.setdefault(top, []).append(path)
    recent = sorted(trees, key=lambda top: max(_ended(known[path].ended_at) for path in trees[top]), reverse=True)
    found: list[Choice] = []
    names = distinct_names(trees)
    for top in recent[:_MOST_PROJECTS]:
        below = sorted(path for path in trees[top] if path != top)
        sessions = sum(known[path].sessions for path in trees[top])
        found.append(_choice(params, names[top], "project", top, sessions, title=top))
        for path in below:
            name, count = name_of_project(path), known[path].sessions
            found.append(_choice(params, name, "project", path, count, title=path, is_worktree=True))
    return found


def _ended(at: datetime | None) -> float:
    return at.timestamp() if at is not None else 0.0


def _choice(
    params: PageParams,
    name: str,
    field: str,
    value: str,
    sessions: int | None = None,
    *,
    title: str = "",
    is_worktree: bool = False,
    is_current: bool | None = None,
) -> Choice:
    """Return a value of a filter. The selected one links to the list without it."""
    is_chosen = getattr(params, field) == value if is_current is None else is_current
    changes = {field: None if is_chosen and field != "after" else value or None}
    if field == "after":
        changes["before"] = None
    url = _changed_url(params, changes)
    return Choice(name=name, url=url, is_current=is_chosen, sessions=sessions, title=title, is_worktree=is_worktree)


def _changed(params: PageParams, **changes: str | None) -> PageParams:
    return msgspec.structs.replace(params, **changes)


def _params(params: PageParams) -> dict[str, str]:
    """Return the parameters of an address, without those that have their default value."""
    values: dict[str, str | None] = {name: getattr(params, name) for name in _PARAMS}
    if values["sort"] == "recent":
        values["sort"] = None
    values["view"] = "flat" if params.flat else None
    return {name: value for name, value in values.items() if value}


def _url(params: PageParams, page: int = 0, **changes: str | None) -> str:
    return _changed_url(params, changes, page)


def _changed_url(params: PageParams, changes: dict[str, str | None], page: int = 0) -> str:
    values = {**_params(params), **changes, "page": str(page) if page else None}
    defaults = {"sort": "recent", "view": "grouped"}
    query = urlencode({name: value for name, value in values.items() if value and value != defaults.get(name)})
    return f"/?{query}" if query else "/"
