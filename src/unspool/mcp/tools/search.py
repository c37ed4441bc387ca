"""`search`: full-text search in earlier sessions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from ...core.plural import counted
from ...search.query import Name, Query, Values, parse
from ...store.search import Found
from ..request import BudgetParams, ToolRequest, offset_of
from ..response import Part, quoted

_AT_ONCE = 10
_HITS = 3
_OWN_TOOLS = (Name("mcp__unspool__", prefix=True), Name("mcp_unspool_", prefix=True))
"""Prefixes of the names that agents give these tools, if the server has the name from `unspool mcp --print-config`."""
_MOST_QUERY = 2_000
"""Maximum number of characters of a query."""


class SearchParams(BudgetParams, kw_only=True):
    """The query."""

    query: Annotated[
        str,
        msgspec.Meta(
            description='words (all must occur), "a phrase", prefix*, OR, -not; filters such as tool:bash, is:error, '
            "is:rejected, file:x.py, after:7d",
            max_length=_MOST_QUERY,
        ),
    ]


def search(request: ToolRequest, params: SearchParams) -> str:
    """Find sessions by their content."""
    query = _without_echoes(parse(params.query))
    offset = offset_of(params.cursor)
    response = request.start_response(
        params.budget, f"Matches in the sessions of {request.scope.text}, the best first:"
    )
    more = True
    while more:
        page = request.store.search.run(
            query, _AT_ONCE, _HITS, offset=offset, among=request.sessions, redactor=request.redactor
        )
        for found in page.found:
            if not response.add(_item(request, found)):
                return response.text("search", str(offset))
            offset += 1
        more = page.more and bool(page.found)
    return response.text("search", note="" if response.items else "No matches.")


def _without_echoes(query: Query) -> Query:
    """Exclude earlier calls of these tools and their results, unless the query has a filter for tools."""
    if query.filters.tool:
        return query
    return replace(query, filters=replace(query.filters, tool=Values(unwanted=_OWN_TOOLS)))


def _item(request: ToolRequest, found: Found) -> list[Part]:
    lines: list[Part] = [request.describe(found.session)]
    for hit in found.hits:
        lines.append(f"message {hit.message_index}, {hit.field}:")
        lines.append(quoted(hit.snippet.text))
    if found.more:
        lines.append(f"and {counted(found.more, 'more match')}")
    return lines
