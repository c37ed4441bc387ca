"""One session: its page, two of its branches side by side, and its images."""

from __future__ import annotations

from typing import Literal

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery
from markupsafe import Markup

from ...core.errors import NotFoundError
from ...core.session import Session
from ...core.views import OrphanMode
from ...render.html import picture_bytes
from ...render.transcript import pictures_of
from ...store import Store
from ...store.rows import SessionRow
from ...usage.cost import Cost
from ..branch_path import BranchPath
from ..problem_view import ProblemsView, problems_view
from ..relatives import Relatives, find_relatives
from ..run_review import has_review
from ..run_states import shown_counts
from ..session_list import is_live, url_name
from ..session_query import PAGE_SIZE, SessionQuery
from ..templating import address, render
from ..transcript_pages import TranscriptPages
from ..usage_view import usage_of
from ..views import ListParams
from .layout import Pool, State, html_response, layout_of, progress_of
from .session_fragments import (
    MOST_COMPARED,
    annotations_section,
    query_of,
    rendered,
    timeline_view,
    transcript_section,
)
from .sessions import list_view

NoteMode = Literal["hide", "show"]
_PAGES_AT_ONCE = 2
"""Pages of the transcript that are rendered with the session's page."""
_IMAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cache-control": "private, max-age=3600",
}


class Choices(msgspec.Struct, kw_only=True):
    """The display options that the reader chose."""

    orphans: OrphanMode = "mark"
    """How unfinished calls are shown."""
    notes: NoteMode = "hide"
    """Whether notes of the agent program are shown."""


class SessionView(msgspec.Struct, kw_only=True):
    """The data that the page of a session shows around the transcript."""

    row: SessionRow
    head: Session
    relatives: Relatives
    key: str
    base: str
    branch: int
    reason: str | None
    count: int
    pages: int
    page_size: int
    number: int
    last_shown: int
    live: bool
    run_state: str | None
    """The state of the agent that this server runs on the session, or ran last."""
    counts: dict[str, int]
    tip: int | None
    """The last message of the branch."""
    resume: str | None
    seconds: float | None
    tokens_in: int
    tokens_out: int
    cost: Cost
    """At list prices, with sub-agents."""
    cost_includes_subagents: bool
    choices: Choices
    unfinished: int
    has_review: bool
    """Whether the session ran or changed anything, or has a decision."""
    problems: ProblemsView


class Position(msgspec.Struct, kw_only=True):
    """The part of a session that an address requests."""

    branch: int | None
    at: int | None
    page: int | None


# --- routes ----------------------------------------------------------------------------------------------------------


@get("/sessions/{key:str}", include_in_schema=False)
async def session(
    pool: Pool,
    app_state: State,
    key: FromPath[str],
    branch: FromQuery[int | None] = None,
    at: FromQuery[int | None] = None,
    page: FromQuery[int | None] = None,
    orphans: FromQuery[OrphanMode] = "mark",
    notes: FromQuery[NoteMode] = "hide",
) -> Response[str]:
    """A session, opened at a message, at a page, or at the beginning."""
    position = Position(branch=branch, at=at, page=page)
    choices = Choices(orphans=orphans, notes=notes)
    return html_response(await pool.run(session_page, key, position, choices, progress_of(app_state)))


@get("/sessions/{key:str}/head", include_in_schema=False)
async def head(
    pool: Pool,
    key: FromPath[str],
    branch: FromQuery[int | None] = None,
    at: FromQuery[int | None] = None,
    orphans: FromQuery[OrphanMode] = "mark",
    notes: FromQuery[NoteMode] = "hide",
) -> Response[str]:
    """The head of a session, for a page that shows an outdated one."""
    position = Position(branch=branch, at=at, page=None)
    return html_response(await pool.run(_head, key, position, Choices(orphans=orphans, notes=notes)))


@get("/sessions/{key:str}/compare", include_in_schema=False)
async def compare(
    pool: Pool, app_state: State, key: FromPath[str], a: FromQuery[int] = 0, b: FromQuery[int] = 0
) -> Response[str]:
    """Two branches side by side, from the point where they diverge."""
    return html_response(await pool.run(_compare_page, key, a, b, progress_of(app_state)))


@get("/sessions/{key:str}/images/{index:int}/{position:int}", include_in_schema=False)
async def image(pool: Pool, key: FromPath[str], index: FromPath[int], position: FromPath[int]) -> Response[bytes]:
    """An image of the conversation, with headers that prevent browsers from interpreting it as anything else."""
    data, media_type = await pool.run(_image, key, index, position)
    return Response(data, media_type=media_type, headers=_IMAGE_HEADERS)


routes: list[HTTPRouteHandler] = [session, head, compare, image]


# --- the page --------------------------------------------------------------------------------------------------------


def session_page(store: Store, key: str, position: Position, choices: Choices, progress: tuple[int, int] | None) -> str:
    """Render the page of a session."""
    query = query_of(store, key)
    branch, shown = _shown(query, position)
    return render(
        "session.html",
        layout=layout_of(store, "session", progress),
        view=_view(query, branch, shown, choices),
        list=list_view(store, ListParams(), progress, query.row),
        sections=[Markup(transcript_section(query, number, branch)) for number in shown],
        rail=timeline_view(query, branch),
        annotations=annotations_section(query),
    )


def _head(store: Store, key: str, position: Position, choices: Choices) -> str:
    query = query_of(store, key)
    branch, shown = _shown(query, position)
    return render("session_head.html", view=_view(query, branch, shown, choices))


def _shown(query: SessionQuery, position: Position) -> tuple[int, range]:
    """Return the branch and the pages that an address requests."""
    branch, at = position.branch or 0, position.at
    if at is not None and 0 <= at < query.row.messages and at not in query.path(branch):
        # A link to a message leads to the branch it is on: branch numbers may have changed since the link was created.
        branch = query.branch_of(at)
    pages = query.pages(branch)
    number = query.page_of(at, branch) if at is not None else position.page or 0
    first = max(0, min(number, pages - 1) - (1 if at is not None else 0))
    return branch, range(first, min(first + _PAGES_AT_ONCE + (1 if at is not None else 0), pages))


def _view(query: SessionQuery, branch: int, shown: range, choices: Choices) -> SessionView:
    head, row, path = query.head, query.row, query.path(branch)
    started, ended, usage = head.info.started_at, head.info.ended_at, head.info.usage
    cost = usage_of(query)
    return SessionView(
        row=row,
        head=head,
        relatives=find_relatives(query.store, row, head),
        key=url_name(row),
        base=address(url_name(row)),
        branch=branch,
        reason=next((other.reason for other in head.branches if other.id == branch), None),
        count=len(path),
        pages=query.pages(branch),
        page_size=PAGE_SIZE,
        number=shown[0],
        last_shown=shown[-1],
        live=is_live(row),
        run_state=query.run.state if query.run is not None else None,
        counts=shown_counts(row),
        tip=path.index_at(len(path) - 1) if len(path) else None,
        resume=query.resume_command(),
        seconds=(ended - started).total_seconds() if started is not None and ended is not None else None,
        tokens_in=sum(part or 0 for part in (usage.input, usage.cache_read, usage.cache_write)),
        tokens_out=usage.output or 0,
        cost=cost.total,
        cost_includes_subagents=bool(cost.subagents),
        choices=choices,
        unfinished=sum(not one.is_open for one in head.orphans),
        has_review=has_review(query),
        problems=problems_view(query, branch),
    )


# --- two branches ----------------------------------------------------------------------------------------------------


def _compare_page(store: Store, key: str, a: int, b: int, progress: tuple[int, int] | None) -> str:
    query = query_of(store, key)
    one, other = query.path(a), query.path(b)
    shared = _shared_length(one, other)
    view = {
        "row": query.row,
        "base": address(url_name(query.row)),
        "a": a,
        "b": b,
        "fork": one.index_at(shared - 1) if shared else None,
        "sides": [_side(query, a, one, shared), _side(query, b, other, shared)],
    }
    return render("compare.html", layout=layout_of(store, "session", progress), view=view)


def _shared_length(one: BranchPath, other: BranchPath) -> int:
    """Return the number of messages that two branches have in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.index_at(middle - 1) == other.index_at(middle - 1):
            low = middle
        else:
            high = middle - 1
    return low


def _side(query: SessionQuery, branch: int, path: BranchPath, shared: int) -> dict[str, object]:
    ranges = path.slice(shared, shared + MOST_COMPARED)
    transcript = TranscriptPages(query)
    entries = [entry for first, last in ranges for entry in transcript.entries(first, last + 1)]
    count = len(path) - shared
    return {
        "branch": branch,
        "name": f"Branch {branch}" if branch else "Active branch",
        "count": count,
        "shown": min(count, MOST_COMPARED),
        "first": ranges[0][0] if ranges else None,
        "entries": rendered(query, entries, f"b{branch}."),
    }


# --- images ----------------------------------------------------------------------------------------------------------


def _image(store: Store, key: str, index: int, number: int) -> tuple[bytes, str]:
    query = query_of(store, key)
    pictures = pictures_of(query.message(index))
    data = picture_bytes(pictures[number]) if 0 <= number < len(pictures) else None
    if data is None:
        raise NotFoundError(f"message {index} of session {query.row.name} has no image {number} that can be shown")
    return data, pictures[number].media_type or ""
