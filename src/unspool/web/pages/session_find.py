"""Find in session: the matches as a page, and as a list for the find bar of the transcript."""

from __future__ import annotations

from urllib.parse import urlencode

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ...store import Store
from ..session_find import find_in_session
from ..session_list import url_name
from ..templating import address, render
from .layout import Pool, State, html_response, layout_of, progress_of
from .session_fragments import query_of


@get("/sessions/{key:str}/find", include_in_schema=False)
async def find(
    pool: Pool, app_state: State, key: FromPath[str], q: FromQuery[str] = "", branch: FromQuery[int] = 0
) -> Response[str]:
    """The matches as a separate page."""
    return html_response(await pool.run(_page, key, q, branch, progress_of(app_state)))


@get("/sessions/{key:str}/found", include_in_schema=False)
async def found(pool: Pool, key: FromPath[str], q: FromQuery[str] = "", branch: FromQuery[int] = 0) -> Response[str]:
    """The matches without the page around them."""
    return html_response(await pool.run(_fragment, key, q, branch))


routes: list[HTTPRouteHandler] = [find, found]


def _page(store: Store, key: str, q: str, branch: int, progress: tuple[int, int] | None) -> str:
    view = _view(store, key, q, branch)
    return render("find.html", layout=layout_of(store, "find", progress), **view)


def _fragment(store: Store, key: str, q: str, branch: int) -> str:
    return render("find_results.html", **_view(store, key, q, branch))


def _view(store: Store, key: str, q: str, branch: int) -> dict[str, object]:
    query = query_of(store, key)
    base = address(url_name(query.row))
    at = urlencode({**({"branch": branch} if branch else {}), "find": q})
    return {
        "row": query.row,
        "base": base,
        "branch": branch,
        "found": find_in_session(query, q, branch),
        "link": f"{base}?{at}&at=",
    }
