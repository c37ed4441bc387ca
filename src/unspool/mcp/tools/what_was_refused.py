"""`what_was_refused`: actions that a person, a rule or a hook rejected, with the reason."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...core import model as m
from ...core.plural import counted
from ...core.timestamps import parse_time
from ...store.filters import EventFilter
from ...store.rows import EventRow
from ..message_text import described
from ..quoting import name
from ..request import BudgetParams, ToolRequest, moment, offset_of
from ..response import Part, quoted

_AT_ONCE = 20
_ACTION, _REASON = 120, 160
"""Maximum number of tokens of a rejected action and of the reason."""


class RefusedParams(BudgetParams, kw_only=True):
    """Filters for rejections."""

    tool: Annotated[str, msgspec.Meta(description="only calls of this tool", max_length=200)] = ""
    since: Annotated[str, msgspec.Meta(description="such as 7d, today, 2026-11-01", max_length=100)] = ""


def what_was_refused(request: ToolRequest, params: RefusedParams) -> str:
    """List rejections, the most recent first."""
    wanted = EventFilter(
        kinds=("rejection",), sessions=request.sessions, tool=params.tool or None, since=parse_time(params.since)
    )
    offset = offset_of(params.cursor)
    rows, total = request.store.events.page(wanted, _AT_ONCE, offset)
    response = request.start_response(
        params.budget, f"{counted(total, 'rejected action')} in {request.scope.text}, the most recent first:"
    )
    while rows:
        for row in rows:
            if not response.add(_item(request, row)):
                return response.text("what_was_refused", str(offset))
            offset += 1
        rows, _ = request.store.events.page(wanted, _AT_ONCE, offset)
    return response.text("what_was_refused", note="" if response.items else "Nothing was rejected.")


def _item(request: ToolRequest, row: EventRow) -> list[Part]:
    event = request.decoded(bytes(row.event), m.Rejection)
    tool = name(event.tool_name) if event.tool_name else "a tool"
    sure = "" if event.confidence >= 1 else f", {event.confidence:.0%} sure"
    asked = "; the user wanted to talk about the question first" if event.asked_to_clarify else ""
    parts: list[Part] = [
        f"{moment(row.timestamp)} {tool} was rejected by {event.by}{sure}{asked}; "
        f"session {name(row.session.name)}, message {event.message_index}"
    ]
    if what := described(event.action):
        parts.append(quoted(what, _ACTION))
    if event.reason:
        parts += ["reason:", quoted(event.reason, _REASON)]
    return parts
