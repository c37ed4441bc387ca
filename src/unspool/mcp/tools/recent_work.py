"""`recent_work`: the latest sessions, with their status and the last prompt and answer of each."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from ...core import model as m
from ...core.events import BADGE_KINDS
from ...core.plural import counted
from ...core.timestamps import parse_time
from ...store.rows import SessionRow
from ...store.touched_files import TouchedFiles
from ..request import BudgetParams, ToolRequest, moment, offset_of
from ..response import Part, quoted

_AT_ONCE = 10
_LATEST = 40
"""Number of messages at the end of a session to search for the last answer."""
_PROMPT, _ANSWER = 60, 160
"""Maximum number of tokens of the last prompt and the last answer."""


class RecentWorkParams(BudgetParams, kw_only=True):
    """The period."""

    since: Annotated[str, msgspec.Meta(description="such as 7d, 12h, today, 2026-11-01", max_length=100)] = ""


def recent_work(request: ToolRequest, params: RecentWorkParams) -> str:
    """List sessions, the most recent first."""
    wanted = replace(request.sessions, kind="main", active_since=parse_time(params.since))
    offset = offset_of(params.cursor)
    total = request.store.sessions.count(wanted)
    response = request.start_response(
        params.budget, f"{counted(total, 'session')} in {request.scope.text}, the most recent first:"
    )
    while rows := request.store.sessions.select(wanted, limit=_AT_ONCE, offset=offset):
        for row in rows:
            if not response.add(_item(request, row)):
                return response.text("recent_work", str(offset))
            offset += 1
    return response.text("recent_work", note="" if response.items else "No sessions.")


def _item(request: ToolRequest, row: SessionRow) -> list[Part]:
    files = TouchedFiles(request.store.database, request.store.sessions).count_of(row.id)
    events = [f"{count:,} {kind.look.badge}" for kind in BADGE_KINDS if (count := row.counts.get(kind.name))]
    facts = (
        f"from {moment(row.started_at)}", counted(row.messages, "message"), row.status, counted(files, "file"), *events,
    )  # fmt: skip
    parts: list[Part] = [request.describe(row), ", ".join(facts)]
    prompts = request.store.usage.prompts(row.id)
    for message in request.each(row, prompts[-1:]).values():
        parts += _quotation(f"last prompt, message {message.index}:", message, _PROMPT)
    latest = request.messages(row, row.messages - _LATEST, row.messages)
    answers = [each for each in latest if each.author == "model" and not each.branch and each.text.strip()]
    for message in answers[-1:]:
        parts += _quotation(f"last answer, message {message.index}:", message, _ANSWER)
    return parts


def _quotation(label: str, message: m.Message, tokens: int) -> list[Part]:
    return [label, quoted(message.text, tokens)] if message.text.strip() else []
