"""The addresses that answer in HTML. What they show is made elsewhere, on a thread that may wait for the store."""

from __future__ import annotations

from typing import Any, TypeAlias

from litestar import MediaType, Request, Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ..core.errors import UsageError
from ..core.views import OrphanMode
from . import overviews, session_pages
from .overviews import Frame
from .store_pool import StorePool
from .templating import HERE, render
from .views import Filter

TheDesk: TypeAlias = NamedDependency[StorePool]
TheRoom: TypeAlias = NamedDependency[Any]

_TITLES = {
    400: "This makes no sense here",
    401: "Not allowed",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible",
}
_PICTURE_HEADERS = {"content-security-policy": "default-src 'none'; sandbox", "x-content-type-options": "nosniff"}


def _page(html: str, status: int = 200) -> Response[str]:
    return Response(html, status_code=status, media_type=MediaType.HTML, headers={"cache-control": "no-cache"})


def error_response(status: int, sentence: str) -> Response[str]:
    """A page that says what is wrong."""
    title = _TITLES.get(status, "This cannot be shown" if status < 500 else "Something went wrong")
    html = render("error.html", frame=Frame(kind="error"), error={"title": title, "message": sentence})
    return _page(html, status)


def _base(room: Any) -> Frame:
    """What is known without asking the store."""
    progress = getattr(room, "progress", None)
    told = (int(progress.get("done", 0)), int(progress.get("total", 0))) if progress else None
    return Frame(kind="", progress=told)


# --- all sessions ----------------------------------------------------------------------------------------------------


def _filter(request: Request[Any, Any, Any]) -> Filter:
    """Which sessions are asked for."""
    given = request.query_params
    asked = {name: given.get(name) for name in ("q", "agent", "project", "has", "status", "sort")}
    page = given.get("page", "0")
    if not (page.isascii() and page.isdecimal() and len(page) < 10):
        raise UsageError(f"page is a number, not {page!r}")
    return overviews.filter_from({**asked, "q": asked["q"] or ""}, int(page))


@get("/", include_in_schema=False)
async def sessions(request: Request[Any, Any, Any], desk: TheDesk, room: TheRoom) -> Response[str]:
    """The list of sessions."""
    return _page(await desk.ask(overviews.sessions_page, _filter(request), _base(room)))


@get("/list", include_in_schema=False)
async def session_list(request: Request[Any, Any, Any], desk: TheDesk, room: TheRoom) -> Response[str]:
    """The list alone."""
    return _page(await desk.ask(overviews.list_piece, _filter(request), _base(room)))


@get("/events/{kind:str}", include_in_schema=False)
async def events(
    desk: TheDesk,
    room: TheRoom,
    kind: FromPath[str],
    agent: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    tool: FromQuery[str | None] = None,
    after: FromQuery[str | None] = None,
    before: FromQuery[str | None] = None,
    page: FromQuery[int] = 0,
) -> Response[str]:
    """A ledger."""
    asked = {"agent": agent, "project": project, "tool": tool, "after": after, "before": before}
    return _page(await desk.ask(overviews.events_page, kind, asked, page, _base(room)))


@get("/search", include_in_schema=False)
async def search(desk: TheDesk, room: TheRoom, q: FromQuery[str] = "", regex: FromQuery[str] = "") -> Response[str]:
    """What was said, done or printed."""
    return _page(await desk.ask(overviews.search_page, q, bool(regex), _base(room)))


@get("/results", include_in_schema=False)
async def results(desk: TheDesk, q: FromQuery[str] = "", regex: FromQuery[str] = "") -> Response[str]:
    """What was found, alone."""
    return _page(await desk.ask(overviews.results_piece, q, bool(regex)))


@get("/stats", include_in_schema=False)
async def stats(
    desk: TheDesk,
    room: TheRoom,
    agent: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    after: FromQuery[str | None] = None,
    before: FromQuery[str | None] = None,
) -> Response[str]:
    """The numbers."""
    asked = {"agent": agent, "project": project, "after": after, "before": before}
    return _page(await desk.ask(overviews.stats_page, asked, _base(room)))


@get("/favicon.ico", include_in_schema=False)
async def icon() -> Response[bytes]:
    """What a browser asks for by itself where a piece of a page is opened alone."""
    return Response((HERE / "static" / "icon.svg").read_bytes(), media_type="image/svg+xml")


# --- one session -----------------------------------------------------------------------------------------------------


@get("/sessions/{key:str}", include_in_schema=False)
async def session(
    desk: TheDesk,
    room: TheRoom,
    key: FromPath[str],
    branch: FromQuery[int | None] = None,
    at: FromQuery[int | None] = None,
    page: FromQuery[int | None] = None,
    orphans: FromQuery[OrphanMode] = "mark",
) -> Response[str]:
    """A session."""
    asked = {"branch": branch, "at": at, "page": page}
    return _page(await desk.ask(session_pages.session_page, key, asked, _base(room), orphans))


@get("/sessions/{key:str}/compare", include_in_schema=False)
async def compare(
    desk: TheDesk, room: TheRoom, key: FromPath[str], a: FromQuery[int] = 0, b: FromQuery[int] = 0
) -> Response[str]:
    """Two branches."""
    return _page(await desk.ask(session_pages.compare_page, key, a, b, _base(room)))


@get("/sessions/{key:str}/pages/{number:int}", include_in_schema=False)
async def page(desk: TheDesk, key: FromPath[str], number: FromPath[int], branch: FromQuery[int] = 0) -> Response[str]:
    """One page of the transcript."""
    return _page(await desk.ask(session_pages.page_piece, key, number, branch))


@get("/sessions/{key:str}/branches/{number:int}", include_in_schema=False)
async def branch(desk: TheDesk, key: FromPath[str], number: FromPath[int]) -> Response[str]:
    """A line that was left."""
    return _page(await desk.ask(session_pages.branch_piece, key, number))


@get("/sessions/{key:str}/embedded", include_in_schema=False)
async def embedded(desk: TheDesk, key: FromPath[str]) -> Response[str]:
    """A sub-agent in the transcript of another."""
    return _page(await desk.ask(session_pages.embedded_piece, key))


@get("/sessions/{key:str}/outputs/{index:int}/{place:int}", include_in_schema=False)
async def output(desk: TheDesk, key: FromPath[str], index: FromPath[int], place: FromPath[int]) -> Response[str]:
    """All of a long text."""
    return _page(await desk.ask(session_pages.output_piece, key, index, place))


@get("/sessions/{key:str}/replaced/{index:int}", include_in_schema=False)
async def replaced(desk: TheDesk, key: FromPath[str], index: FromPath[int]) -> Response[str]:
    """What a compaction replaced."""
    return _page(await desk.ask(session_pages.replaced_piece, key, index))


@get("/sessions/{key:str}/context/{index:int}", include_in_schema=False)
async def context(desk: TheDesk, key: FromPath[str], index: FromPath[int]) -> Response[str]:
    """What was in context."""
    return _page(await desk.ask(session_pages.context_piece, key, index))


@get("/sessions/{key:str}/rail", include_in_schema=False)
async def rail(desk: TheDesk, key: FromPath[str], branch: FromQuery[int] = 0) -> Response[str]:
    """The time line."""
    return _page(await desk.ask(session_pages.rail_piece, key, branch))


@get("/sessions/{key:str}/tree", include_in_schema=False)
async def tree(desk: TheDesk, key: FromPath[str]) -> Response[str]:
    """The branches."""
    return _page(await desk.ask(session_pages.tree_piece, key))


@get("/sessions/{key:str}/images/{index:int}/{place:int}", include_in_schema=False)
async def image(desk: TheDesk, key: FromPath[str], index: FromPath[int], place: FromPath[int]) -> Response[bytes]:
    """A picture of the conversation, and nothing that could be anything else."""
    data, media_type = await desk.ask(session_pages.picture, key, index, place)
    headers = _PICTURE_HEADERS | {"cache-control": "private, max-age=3600"}
    return Response(data, media_type=media_type, headers=headers)


@get("/sessions/{key:str}/export/{format:str}", include_in_schema=False)
async def export(
    desk: TheDesk, key: FromPath[str], format: FromPath[str], orphans: FromQuery[OrphanMode] = "mark"
) -> Response[bytes]:
    """The session as a file."""
    file = await desk.ask(session_pages.export, key, format, orphans)
    safe = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "-" for sign in file.name)
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(file.data, media_type=file.media_type, headers=headers)


routes: list[HTTPRouteHandler] = [
    icon, sessions, session_list, events, search, results, stats, session, compare, page, branch, embedded, output,
    replaced, context, rail, tree, image, export,
]  # fmt: skip
