"""Two sessions side by side, page by page."""

from __future__ import annotations

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery

from ...store import Store
from ..session_list import url_name
from ..session_query import SessionQuery
from ..templating import address, render
from ..transcript_pages import TranscriptPages
from .layout import Pool, State, html_response, layout_of, progress_of
from .session_fragments import query_of, rendered


@get("/compare", include_in_schema=False)
async def sessions(
    pool: Pool, app_state: State, a: FromQuery[str], b: FromQuery[str], page: FromQuery[int] = 0
) -> Response[str]:
    """The same page of two sessions."""
    return html_response(await pool.run(_page, (a, b), max(0, page), progress_of(app_state)))


routes: list[HTTPRouteHandler] = [sessions]


def _page(store: Store, keys: tuple[str, str], page: int, progress: tuple[int, int] | None) -> str:
    queries = [query_of(store, key) for key in keys]
    view = {
        "names": [url_name(query.row) for query in queries],
        "page": page,
        "has_more": any(page + 1 < query.pages() for query in queries),
        "sides": [_side(query, page, f"s{number}.") for number, query in enumerate(queries)],
    }
    return render("side_by_side.html", layout=layout_of(store, "session", progress), view=view)


def _side(query: SessionQuery, page: int, prefix: str) -> dict[str, object]:
    is_there = page < query.pages()
    entries = TranscriptPages(query).page(page).entries if is_there else []
    return {
        "row": query.row,
        "base": address(url_name(query.row)),
        "pages": query.pages(),
        "entries": rendered(query, entries, prefix),
        "is_there": is_there,
    }
