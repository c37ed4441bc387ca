"""The search over all sessions."""

from __future__ import annotations

import time
from urllib.parse import urlencode

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery
from markupsafe import Markup

from ...core.errors import UnspoolError
from ...render.sanitize import harmless
from ...search.query import parse
from ...search.snippet import Snippet
from ...store import Store
from ...store.rows import SessionRow
from ...store.search import Found
from ..api.search import search_regex
from ..templating import render
from .layout import Pool, State, html_response, layout_of, progress_of

_MOST_SESSIONS = 30
_MOST_HITS = 5


class HitView(msgspec.Struct):
    """A match in a message, ready to be shown."""

    index: int
    field: str
    snippet: Markup


class ResultView(msgspec.Struct):
    """A session with matches."""

    session: SessionRow
    hits: list[HitView]
    more: int


class SearchView(msgspec.Struct, kw_only=True):
    """A query and its results."""

    q: str
    regex: bool
    results: list[ResultView] = []
    offset: int = 0
    """How many of the best sessions were on earlier pages."""
    is_truncated: bool = False
    error: str = ""
    milliseconds: int | None = None

    @property
    def last(self) -> int:
        """The number of the last session on the page."""
        return self.offset + len(self.results)

    @property
    def next_page(self) -> str:
        """The address of the next page; empty if there is none."""
        if not self.is_truncated or self.regex:
            return ""
        return "/search?" + urlencode({"q": self.q, "offset": self.last})


@get("/search", include_in_schema=False)
async def search(
    pool: Pool, app_state: State, q: FromQuery[str] = "", regex: FromQuery[str] = "",
    offset: FromQuery[int] = 0,
) -> Response[str]:  # fmt: skip
    """The search page."""
    return html_response(await pool.run(_page, q, bool(regex), offset, progress_of(app_state)))


@get("/results", include_in_schema=False)
async def results(pool: Pool, q: FromQuery[str] = "", regex: FromQuery[str] = "") -> Response[str]:
    """The results without the page around them."""
    return html_response(await pool.run(_fragment, q, bool(regex)))


routes: list[HTTPRouteHandler] = [search, results]


def _page(store: Store, q: str, regex: bool, offset: int, progress: tuple[int, int] | None) -> str:
    layout = layout_of(store, "search", progress, query="" if regex else q)
    return render("search.html", layout=layout, search=_search(store, q, regex, offset))


def _fragment(store: Store, q: str, regex: bool) -> str:
    return render("results.html", search=_search(store, q, regex))


def _search(store: Store, q: str, regex: bool, offset: int = 0) -> SearchView:
    """Search. An invalid query is part of the answer, because it is sent with every letter that is typed."""
    view = SearchView(q=q, regex=regex, offset=0 if regex else max(0, offset))
    if not q.strip():
        return view
    began = time.perf_counter()
    try:
        if regex:
            answer = search_regex(store, q, "", _MOST_SESSIONS, _MOST_HITS)
            found, view.is_truncated = answer.found, not answer.complete
        else:
            found, view.is_truncated = store.search.run(parse(q), _MOST_SESSIONS, _MOST_HITS, offset=view.offset)
    except UnspoolError as error:
        view.error = str(error)
        return view
    view.results = [_result(each) for each in found]
    view.milliseconds = round((time.perf_counter() - began) * 1000)
    return view


def _result(found: Found) -> ResultView:
    hits = [HitView(hit.message_index, hit.field, highlight(hit.snippet)) for hit in found.hits]
    return ResultView(found.session, hits, found.more)


def highlight(snippet: Snippet) -> Markup:
    """A snippet with its matches marked."""
    parts, begin = [], 0
    for start, end in snippet.marks:
        parts += [Markup.escape(harmless(snippet.text[begin:start]))]
        parts += [Markup("<mark>{}</mark>").format(harmless(snippet.text[start:end]))]
        begin = end
    parts.append(Markup.escape(harmless(snippet.text[begin:])))
    return Markup("").join(parts)
