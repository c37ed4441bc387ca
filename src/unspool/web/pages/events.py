"""The events of one kind in all sessions: rejections, interruptions, compactions, clears, errors, unfinished calls."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ...core import model as m
from ...core import typed_json
from ...core.events import BY_NAME, find_listed_kind
from ...core.model import Event
from ...core.plural import counted
from ...core.timestamps import parse_time
from ...render.event_text import describe_event
from ...render.sanitize import one_line
from ...store import Store
from ...store.filters import EventFilter, SessionFilter
from ...store.rows import EventRow, SessionRow
from ..failure_groups import group_failures
from ..session_list import url_name
from ..session_query import SessionQuery
from ..templating import address, render
from .layout import Pool, State, html_response, layout_of, progress_of

_PAGE_SIZE = 100
_LONGEST_COMMAND = 60
"""A command up to this length is part of the description of its event."""


class EventItemView(msgspec.Struct, kw_only=True):
    """An event with the session it happened in."""

    session: SessionRow
    text: str
    href: str
    index: int | None
    timestamp: datetime | None
    diff: str | None = None
    path: str = ""
    details: str = ""
    details_name: str = ""
    details_line: str = ""
    """The beginning of the details; empty if the text already contains it."""


@get("/events/{kind:str}", include_in_schema=False)
async def events(
    pool: Pool,
    app_state: State,
    kind: FromPath[str],
    agent: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    tool: FromQuery[str | None] = None,
    after: FromQuery[str | None] = None,
    before: FromQuery[str | None] = None,
    view: FromQuery[str] = "",
    page: FromQuery[int] = 0,
) -> Response[str]:
    """The events of one kind, one by one or in groups."""
    params = {"agent": agent, "project": project, "tool": tool, "after": after, "before": before, "view": view}
    filter = {name: value or None for name, value in params.items()}
    return html_response(await pool.run(_page, kind, filter, max(0, page), progress_of(app_state)))


routes: list[HTTPRouteHandler] = [events]


def _page(store: Store, kind: str, filter: dict[str, str | None], page: int, progress: tuple[int, int] | None) -> str:
    listed = find_listed_kind(kind)
    listing = listed.listing
    assert listing is not None
    wanted = EventFilter(
        kinds=(listed.name,),
        sessions=SessionFilter(agent=filter["agent"], project_contains=filter["project"]),
        tool=filter["tool"],
        since=parse_time(filter["after"]),
        until=parse_time(filter["before"]),
    )
    kind = listed.plural
    can_group = issubclass(listed.struct, m.Failure)
    grouped = can_group and filter["view"] == "groups"
    offset = page * _PAGE_SIZE
    rows, total = ([], 0) if grouped else store.events.page(wanted, _PAGE_SIZE, offset)
    view = {
        "kind": kind,
        "name": listing.title,
        "about": listing.about,
        "empty": listing.empty,
        "filter": filter,
        "total": total,
        "count": counted(total, listing.title.lower().removesuffix("s")),
        "is_filtered": any(value for name, value in filter.items() if name != "view"),
        "failures": group_failures(store, wanted) if grouped else None,
        "views": _views(kind, filter) if can_group else [],
        "has_tools": listed.has_tool,
        "sign_class": listed.name,
        "entries": [_item(store, row) for row in rows],
        "previous": _url(kind, filter, page - 1) if page > 0 else None,
        "next": _url(kind, filter, page + 1) if offset + len(rows) < total else None,
    }
    return render("events.html", layout=layout_of(store, "events", progress, events=kind), view=view)


def _views(kind: str, filter: dict[str, str | None]) -> list[tuple[str, str, bool]]:
    """Return the ways to show the events: name, address, and whether it is the current one."""
    named = {"one by one": None, "grouped": "groups"}
    return [(name, _url(kind, {**filter, "view": view}, 0), filter["view"] == view) for name, view in named.items()]


def _url(kind: str, filter: dict[str, str | None], page: int) -> str:
    query = urlencode({name: value for name, value in {**filter, "page": page or None}.items() if value})
    return f"/events/{kind}" + (f"?{query}" if query else "")


def _item(store: Store, row: EventRow) -> EventItemView:
    kind = BY_NAME[row.kind]
    event: Event = typed_json.decode(row.event, type=kind.struct)
    if isinstance(event, m.Orphan):
        (event,) = SessionQuery(store, row.session).with_open_calls([event])
    index = row.message_index if row.message_index is not None else kind.index_of(event)
    base = address(url_name(row.session))
    item = EventItemView(
        session=row.session,
        text=describe_event(event),
        index=index,
        timestamp=row.timestamp,
        href=f"{base}?at={index}#m{index}" if index is not None else base,
    )
    match event:
        case m.Rejection(action=m.Action() as action):
            item.diff, item.path = action.diff, action.path or ""
            details = action.command or action.plan or ""
            if len(details) > _LONGEST_COMMAND:
                item.details = details
                item.details_name = "rejected command" if action.command else "rejected plan"
                item.details_line = details
        case m.Boundary():
            item.details, item.details_name, item.details_line = event.summary or "", "summary", event.summary or ""
        case m.Failure() if one_line(event.text, len(event.text)) not in item.text or "\n" in event.text.strip():
            item.details, item.details_name = event.text, "whole message"
    return item
