"""Pages about all sessions: the list, the ledgers, the search and the numbers."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from ..core import model as m
from ..core.errors import UnspoolError
from ..core.events import BADGE_KINDS, BY_NAME, Event, find_kind, find_listed_kind
from ..core.timestamps import parse_time, zone_seconds
from ..render.event_text import describe_event
from ..render.sanitize import harmless
from ..search.query import parse
from ..search.snippet import Snippet
from ..store import Store
from ..store.filters import EventFilter, SessionFilter
from ..store.rows import EventRow, SessionRow
from ..store.search import Found
from ..store.stats import Stats, compute_stats
from . import charts
from .api.search import search_regex
from .session_list import is_live, list_sessions, name_of_project, url_name
from .templating import AGENTS, address, render
from .views import Filter, Listed

_SESSIONS = 200
_EVENTS = 100
_FOUND = 30
_HITS = 5
_TOLD = 60
"""So much of a command is told with the event."""


class Frame(msgspec.Struct, kw_only=True):
    """What surrounds every page."""

    kind: str
    place: str = ""
    query: str = ""
    seq: int = 0
    live: int = 0
    progress: tuple[int, int] | None = None


class Group(msgspec.Struct, kw_only=True):
    """Sessions under one heading."""

    name: str
    path: str
    is_live: bool
    sessions: list[Listed]


class ListView(msgspec.Struct, kw_only=True):
    """The list of sessions with the ways to change it."""

    groups: list[Group]
    total: int
    is_reading: bool
    """The sessions are being read for the first time."""
    here: int | None
    filter: Filter
    is_filtered: bool
    next: str | None
    all: str
    with_agent: dict[str, str]
    with_kind: dict[str, str]
    sorted_by: dict[str, str]


def frame_of(store: Store, kind: str, base: Frame, **more: str) -> Frame:
    """The frame of a page, as things stand."""
    rows = store.sessions.select(SessionFilter(kind="main", maybe_live_since=time.time() - 300), limit=200)
    live = sum(is_live(row) for row in rows)
    return Frame(kind=kind, seq=store.changes.last_seq(), live=live, progress=base.progress, **more)


# --- the list --------------------------------------------------------------------------------------------------------


def listing(store: Store, filter: Filter, base: Frame, here: SessionRow | None = None) -> ListView:
    """The sessions that fit a filter."""
    found = list_sessions(store, filter)
    shown = filter.offset + len(found.sessions)
    is_filtered = bool(filter.q or filter.agent or filter.project or filter.has or filter.status)
    return ListView(
        groups=_groups(found.sessions), total=found.total, is_reading=base.progress is not None,
        here=here.id if here is not None else None, filter=filter,
        is_filtered=is_filtered,
        next=_list_address(filter, page=shown // filter.limit) if shown < found.total else None,
        all=_list_address(Filter(sort=filter.sort)),
        with_agent={name: _list_address(filter, agent=None if filter.agent == name else name) for name in AGENTS},
        with_kind={
            kind.name: _list_address(filter, has=None if filter.has == kind.name else kind.name) for kind in BADGE_KINDS
        },
        sorted_by={sort: _list_address(filter, sort=sort) for sort in ("recent", "started", "messages", "title")},
    )  # fmt: skip


def _groups(sessions: list[Listed]) -> list[Group]:
    """Those at work first, the others by project, in the order in which they come."""
    found: dict[str, Group] = {}
    for listed in sessions:
        path = listed.row.project or ""
        key = "live" if listed.live else f"project {path}"
        if key not in found:
            name = "Live" if listed.live else name_of_project(path) if path else "No project"
            found[key] = Group(name=name, path="" if listed.live else path, is_live=listed.live, sessions=[])
        found[key].sessions.append(listed)
    return list(found.values())


def _list_address(filter: Filter, page: int = 0, **changes: str | None) -> str:
    values: dict[str, Any] = {
        "q": filter.q, "agent": filter.agent, "project": filter.project, "has": filter.has, "status": filter.status,
        "sort": filter.sort if filter.sort != "recent" else None, "page": page or None, **changes,
    }  # fmt: skip
    if values["sort"] == "recent":
        values["sort"] = None
    query = urlencode({name: value for name, value in values.items() if value})
    return f"/?{query}" if query else "/"


def filter_from(asked: dict[str, str | None], page: int) -> Filter:
    """What somebody wants to see of the list."""
    given = {name: value or None for name, value in asked.items() if name in ("agent", "project", "has", "status")}
    if given.get("has"):
        given["has"] = find_kind(given["has"] or "").name
    return Filter(
        q=asked.get("q") or "", sort=asked.get("sort") or "recent", limit=_SESSIONS, offset=max(0, page) * _SESSIONS,
        **given,
    )  # fmt: skip


def sessions_page(store: Store, filter: Filter, base: Frame) -> str:
    """All sessions."""
    return render("sessions.html", frame=frame_of(store, "sessions", base), list=listing(store, filter, base))


def list_piece(store: Store, filter: Filter, base: Frame) -> str:
    """The list alone."""
    return render("sessions_pane.html", list=listing(store, filter, base))


# --- ledgers ---------------------------------------------------------------------------------------------------------


class LedgerRow(msgspec.Struct, kw_only=True):
    """An event in a ledger."""

    session: SessionRow
    text: str
    href: str
    index: int | None
    timestamp: Any
    diff: str | None = None
    path: str = ""
    words: str = ""
    words_kind: str = ""


def events_page(store: Store, kind: str, asked: dict[str, str | None], page: int, base: Frame) -> str:
    """The ledger of one kind of event."""
    listed = find_listed_kind(kind)
    listing = listed.listing
    assert listing is not None
    filter = {name: asked.get(name) or None for name in ("agent", "project", "tool", "after", "before")}
    wanted = EventFilter(
        kinds=(listed.name,),
        sessions=SessionFilter(agent=filter["agent"], project_contains=filter["project"]),
        tool=filter["tool"], since=parse_time(filter["after"]), until=parse_time(filter["before"]),
    )  # fmt: skip
    offset = max(0, page) * _EVENTS
    rows, total = store.events.page(wanted, _EVENTS, offset)
    kind = listed.plural
    view = {
        "kind": kind, "name": listing.title, "about": listing.about, "nothing": listing.empty,
        "filter": filter, "total": total,
        "is_filtered": any(filter.values()), "has_tools": listed.has_tool,
        "sign_class": listed.name, "rows": [_ledger_row(row) for row in rows],
        "previous": _page_address(kind, filter, page - 1) if page > 0 else None,
        "next": _page_address(kind, filter, page + 1) if offset + len(rows) < total else None,
    }  # fmt: skip
    return render("events.html", frame=frame_of(store, "events", base, place=kind), ledger=view)


def _page_address(kind: str, filter: dict[str, str | None], page: int) -> str:
    query = urlencode({name: value for name, value in {**filter, "page": page or None}.items() if value})
    return f"/events/{kind}" + (f"?{query}" if query else "")


def _ledger_row(row: EventRow) -> LedgerRow:
    kind = BY_NAME[row.kind]
    event: Event = msgspec.json.decode(row.event, type=kind.struct)
    index = row.message_index if row.message_index is not None else kind.index_of(event)
    base = address(url_name(row.session))
    found = LedgerRow(
        session=row.session, text=describe_event(event), index=index, timestamp=row.timestamp,
        href=f"{base}?at={index}#m{index}" if index is not None else base,
    )  # fmt: skip
    match event:
        case m.Rejection(action=m.Action() as action):
            found.diff, found.path = action.diff, action.path or ""
            words = action.command or action.plan or ""
            if len(words) > _TOLD:
                found.words, found.words_kind = words, "the refused command" if action.command else "the refused plan"
        case m.Boundary():
            found.words, found.words_kind = event.summary or "", "summary"
        case m.Failure():
            found.words, found.words_kind = event.text, "what it said"
    return found


# --- search ----------------------------------------------------------------------------------------------------------


class HitView(msgspec.Struct):
    """A place where something was found, ready to be shown."""

    index: int
    field: str
    words: Markup


class FoundView(msgspec.Struct):
    """A session in which something was found."""

    session: SessionRow
    hits: list[HitView]
    more: int


class SearchView(msgspec.Struct, kw_only=True):
    """What was looked for and found."""

    q: str
    regex: bool
    found: list[FoundView] = []
    is_cut: bool = False
    error: str = ""
    milliseconds: int | None = None


def search_view(store: Store, q: str, regex: bool) -> SearchView:
    """Search; a query that makes no sense is told as part of the answer, for people type it letter by letter."""
    view = SearchView(q=q, regex=regex)
    if not q.strip():
        return view
    began = time.perf_counter()
    try:
        if regex:
            answer = search_regex(store, q, "", _FOUND, _HITS)
            found, view.is_cut = answer.found, not answer.complete
        else:
            found = store.search.run(parse(q), _FOUND, _HITS)
            view.is_cut = len(found) == _FOUND
    except UnspoolError as error:
        view.error = str(error)
        return view
    view.found = [_found_view(entry) for entry in found]
    view.milliseconds = round((time.perf_counter() - began) * 1000)
    return view


def _found_view(found: Found) -> FoundView:
    hits = [HitView(hit.message_index, hit.field, marked(hit.snippet)) for hit in found.hits]
    return FoundView(found.session, hits, found.more)


def marked(snippet: Snippet) -> Markup:
    """A snippet with what was looked for marked."""
    parts, begin = [], 0
    for start, end in snippet.marks:
        parts += [Markup.escape(harmless(snippet.text[begin:start]))]
        parts += [Markup("<mark>{}</mark>").format(harmless(snippet.text[start:end]))]
        begin = end
    parts.append(Markup.escape(harmless(snippet.text[begin:])))
    return Markup("").join(parts)


def search_page(store: Store, q: str, regex: bool, base: Frame) -> str:
    """The page of the search."""
    frame = frame_of(store, "search", base, query="" if regex else q)
    return render("search.html", frame=frame, search=search_view(store, q, regex))


def results_piece(store: Store, q: str, regex: bool) -> str:
    """What was found, alone."""
    return render("results.html", search=search_view(store, q, regex))


# --- numbers ---------------------------------------------------------------------------------------------------------


def stats_page(store: Store, asked: dict[str, str | None], base: Frame) -> str:
    """How much was done, how it ended, and what it cost."""
    filter = {name: asked.get(name) or None for name in ("agent", "project", "after", "before")}
    wanted = SessionFilter(
        agent=filter["agent"], project_contains=filter["project"], active_since=parse_time(filter["after"]),
        started_before=parse_time(filter["before"]),
    )  # fmt: skip
    found = compute_stats(store.database, wanted, zone_seconds())
    view = {
        "filter": filter, "numbers": _numbers(found), "plots": _plots(found),
        "projects": [(p.path, p.sessions, p.turns, p.rejections, p.interruptions) for p in found.projects],
    }  # fmt: skip
    return render("stats.html", frame=frame_of(store, "stats", base), view=view)


def _numbers(found: Stats) -> list[tuple[int, str]]:
    return [
        (sum(found.sessions.values()), "sessions"), (found.subagents, "sub-agents"),
        (sum(day.turns for day in found.days), "turns"), (sum(tool.calls for tool in found.tools), "tool calls"),
        (found.events.get("rejection", 0), "refused"), (found.events.get("interruption", 0), "interrupted"),
        (sum(t.input + t.cache_read + t.cache_write for t in found.tokens), "tokens in"),
        (sum(t.output for t in found.tokens), "tokens out"),
    ]  # fmt: skip


def _plots(found: Stats) -> list[dict[str, object]]:
    days, tokens, tools = found.days, found.tokens, found.tools
    return [
        {
            "name": "Activity", "drawing": charts.activity_plot(days),
            "columns": ("Day", "Sessions", "Turns", "Calls"),
            "rows": [(day.day, day.sessions, day.turns, day.calls) for day in days],
        },
        {
            "name": "Tokens", "drawing": charts.token_plot(tokens),
            "columns": ("Day", "Model", "Replies", "Input", "Output", "Cache read", "Cache write", "Reasoning"),
            "rows": [
                (t.day, t.model, t.replies, t.input, t.output, t.cache_read, t.cache_write, t.reasoning) for t in tokens
            ],
        },
        {
            "name": "Refusals and interruptions", "drawing": charts.stop_plot(days),
            "columns": ("Day", "Refused", "Interrupted"),
            "rows": [(day.day, day.rejections, day.interruptions) for day in days],
        },
        {
            "name": "Tools", "drawing": charts.tool_plot(tools),
            "columns": ("Tool", "Calls", "Failed", "Refused", "Interrupted"),
            "rows": [(tool.name, tool.calls, tool.failed, tool.rejected, tool.interrupted) for tool in tools],
        },
    ]  # fmt: skip
