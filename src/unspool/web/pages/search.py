"""The search over all sessions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery
from markupsafe import Markup

from ...agents import AGENTS
from ...core.errors import UnspoolError, UsageError
from ...repositories import repositories_of
from ...search.query import Query, parse, sought
from ...store import Store
from ...store.facets import FacetValue, count_facets
from ...store.rows import SessionRow
from ...store.search import SEARCH_ORDERS, Found, SearchOrder
from ..api.search import search_regex
from ..session_list import distinct_names, name_of_project
from ..templating import highlight, render
from .layout import Pool, State, html_response, layout_of, progress_of

_MOST_SESSIONS = 30
_MOST_HITS = 5
_BRIEF_SESSIONS, _BRIEF_HITS = 8, 2
_MOST_VALUES = 12
"""Values of a facet that are offered."""
_FACETS = ("agent", "project", "role", "tool", "after")
_TITLES = {"agent": "Agent", "project": "Project", "role": "Written by", "tool": "Tool", "after": "Time"}
_ROLES = {"human": "you", "model": "model", "harness": "harness", "subagent": "sub-agent", "hook": "hook"}
_PERIODS = {"today": "today", "7d": "7 days", "30d": "30 days", "365d": "a year"}


class SearchRequest(msgspec.Struct, kw_only=True, frozen=True):
    """The parameters in the address of a search."""

    q: str = ""
    regex: bool = False
    offset: int = 0
    sort: SearchOrder = "relevance"
    agent: str = ""
    project: str = ""
    role: str = ""
    tool: str = ""
    after: str = ""
    is_brief: bool = False
    """Whether to return only the best matches, without facets: the palette sends a request for every keystroke."""

    @property
    def filters(self) -> str:
        """The selected facets, as filters of the query language."""
        chosen = {name: getattr(self, name) for name in _FACETS}
        return " ".join(f'{name}:"{value}"' for name, value in chosen.items() if value)

    def url(self, **changes: str | int) -> str:
        """Return the address with some parameters changed, starting at the first result."""
        values = {
            "q": self.q, "regex": "1" if self.regex else "", **{name: getattr(self, name) for name in _FACETS},
            "sort": self.sort if self.sort != "relevance" else "", **changes,
        }  # fmt: skip
        return "/search?" + urlencode({name: value for name, value in values.items() if value})


class FacetChoice(msgspec.Struct, kw_only=True):
    """A value to narrow the search by."""

    name: str
    title: str
    url: str
    sessions: int | None
    is_current: bool


class FacetView(msgspec.Struct, kw_only=True):
    """The values of one filter."""

    title: str
    choices: list[FacetChoice]


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

    request: SearchRequest
    results: list[ResultView] = []
    is_truncated: bool = False
    error: str = ""
    milliseconds: int | None = None
    facets: list[FacetView] = []
    counts_all: bool = True
    """Whether the facets count all matches."""
    marks: str = ""
    """Parameters for the links of hits, which highlight the words in the transcript."""

    @property
    def last(self) -> int:
        """The number of the last session on the page."""
        return self.request.offset + len(self.results)

    @property
    def next_page(self) -> str:
        """The address of the next page; empty if there is none."""
        return self.request.url(offset=self.last) if self.is_truncated and not self.request.regex else ""

    @property
    def orders(self) -> list[tuple[str, str, bool]]:
        """The orders of results: name, address, and whether it is the current one."""
        return [(order, self.request.url(sort=order), order == self.request.sort) for order in SEARCH_ORDERS]

    @property
    def chosen(self) -> dict[str, str]:
        """The parameters that the form has to repeat."""
        given = {name: getattr(self.request, name) for name in (*_FACETS, "sort")}
        return {name: value for name, value in given.items() if value and value != "relevance"}


@get("/search", include_in_schema=False)
async def search(
    pool: Pool,
    app_state: State,
    q: FromQuery[str] = "",
    regex: FromQuery[str] = "",
    offset: FromQuery[int] = 0,
    sort: FromQuery[str] = "",
    agent: FromQuery[str] = "",
    project: FromQuery[str] = "",
    role: FromQuery[str] = "",
    tool: FromQuery[str] = "",
    after: FromQuery[str] = "",
) -> Response[str]:
    """The search page."""
    facets = {"agent": agent, "project": project, "role": role, "tool": tool, "after": after}
    request = _request(q, regex, offset, sort, facets)
    return html_response(await pool.run(_page, request, progress_of(app_state)))


@get("/results", include_in_schema=False)
async def results(
    pool: Pool,
    q: FromQuery[str] = "",
    regex: FromQuery[str] = "",
    sort: FromQuery[str] = "",
    agent: FromQuery[str] = "",
    project: FromQuery[str] = "",
    role: FromQuery[str] = "",
    tool: FromQuery[str] = "",
    after: FromQuery[str] = "",
    brief: FromQuery[str] = "",
) -> Response[str]:
    """The results without the page around them."""
    facets = {"agent": agent, "project": project, "role": role, "tool": tool, "after": after}
    request = msgspec.structs.replace(_request(q, regex, 0, sort, facets), is_brief=bool(brief))
    return html_response(await pool.run(_fragment, request))


routes: list[HTTPRouteHandler] = [search, results]


def _request(q: str, regex: str, offset: int, sort: str, facets: dict[str, str]) -> SearchRequest:
    order = next((order for order in SEARCH_ORDERS if order == (sort or "relevance")), None)
    if order is None:
        raise UsageError(f"Unknown sort {sort!r}; choose from {', '.join(SEARCH_ORDERS)}")
    # A quote would end the value in the query.
    values: dict[str, Any] = {name: value.replace('"', "") for name, value in facets.items()}
    return SearchRequest(q=q, regex=bool(regex), offset=0 if regex else max(0, offset), sort=order, **values)


def _page(store: Store, request: SearchRequest, progress: tuple[int, int] | None) -> str:
    layout = layout_of(store, "search", progress, query="" if request.regex else request.q)
    return render("search.html", layout=layout, search=_search(store, request))


def _fragment(store: Store, request: SearchRequest) -> str:
    return render("results.html", search=_search(store, request))


def _search(store: Store, request: SearchRequest) -> SearchView:
    """Search. An error is part of the view: queries are sent while they are typed, and are often incomplete."""
    view = SearchView(request=request)
    if not request.q.strip():
        return view
    began = time.perf_counter()
    try:
        if request.regex:
            answer = search_regex(store, request.q, request.filters, _MOST_SESSIONS, _MOST_HITS)
            found, view.is_truncated = answer.found, not answer.complete
            view.facets = _facets(request, {})
        else:
            found, view.is_truncated = _search_words(store, view)
    except UnspoolError as error:
        view.error = str(error)
        return view
    view.results = [_result(each) for each in found]
    view.milliseconds = round((time.perf_counter() - began) * 1000)
    return view


def _search_words(store: Store, view: SearchView) -> tuple[list[Found], bool]:
    request = view.request
    # The query is parsed on its own first, so that errors point into what was typed.
    query = parse(request.q)
    if request.filters:
        query = parse(f"{request.q} {request.filters}")
    view.marks = _marks(query)
    if request.is_brief:
        return store.search.run(query, _BRIEF_SESSIONS, _BRIEF_HITS)
    counted = count_facets(store.database, query)
    view.facets = _facets(request, {name: getattr(counted, name) for name in _FACETS})
    view.counts_all = counted.is_complete
    return store.search.run(query, _MOST_SESSIONS, _MOST_HITS, offset=request.offset, order=request.sort)


def _facets(request: SearchRequest, counted: dict[str, list[FacetValue]]) -> list[FacetView]:
    """Return the values to choose from, and the selected ones even if nothing matches them."""
    views = []
    for name in _FACETS:
        values: dict[str, int | None] = {facet.value: facet.sessions for facet in counted.get(name, [])[:_MOST_VALUES]}
        chosen = getattr(request, name)
        if chosen:
            values = {chosen: values.get(chosen)} if name != "after" else {chosen: None, **values}
        names = _names(name, values)
        choices = [
            FacetChoice(
                name=names[value],
                title=value,
                sessions=sessions,
                is_current=value == chosen,
                url=request.url(**{name: "" if value == chosen else value}),
            )
            for value, sessions in values.items()
        ]
        if choices:
            views.append(FacetView(title=_TITLES[name], choices=choices))
    return views


def _names(facet: str, values: Iterable[str]) -> dict[str, str]:
    if facet == "project":
        repositories = repositories_of(values)
        names = distinct_names(repositories.values())
        # The folder of a worktree is often only a number.
        return {
            path: names[top] if path == top else f"{names[top]} · {name_of_project(path)}"
            for path, top in repositories.items()
        }
    agents = {name: agent.info.title for name, agent in AGENTS.items()}
    known = {"agent": agents, "role": _ROLES, "after": _PERIODS}.get(facet, {})
    return {value: known.get(value, value) for value in values}


def _marks(query: Query) -> str:
    """Return the words of a query as parameters of an address."""
    if query.match is None:
        return ""
    phrases = [" ".join(words.words) + "*" * words.prefix for words in sought(query.match)]
    return "".join("&" + urlencode({"mark": phrase}) for phrase in dict.fromkeys(phrases))


def _result(found: Found) -> ResultView:
    hits = [HitView(hit.message_index, hit.field, highlight(hit.snippet)) for hit in found.hits]
    return ResultView(found.session, hits, found.more)
