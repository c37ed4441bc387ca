"""Tokens and cost of one session: of each turn, of each model, and of its sub-agents."""

from __future__ import annotations

from datetime import UTC, date, datetime

import msgspec

from ..core import model as m
from ..core.timestamps import from_seconds
from ..usage.cost import TOKEN_NAMES, Cost, TokenCount, cost_of, total_cost
from ..usage.prices import PriceTable, request_size
from .database import Database, Row
from .filters import SessionFilter
from .rows import SessionRow
from .sessions import Sessions
from .usage_report import UNKNOWN, UsageEntry, UsageFilter, UsageReporter

_DEEPEST = 8
"""The largest number of levels of sub-agents."""
_FIRST, _LAST = -1, 2**31 - 1
"""The range of all messages. Tokens that belong to the session as a whole have the message -1."""


class TurnUsage(msgspec.Struct, kw_only=True):
    """The requests from one prompt to the next."""

    message_index: int | None
    """The prompt; None for requests before the first one, or that belong to no message."""
    replies: int = 0
    models: list[str]
    tokens: TokenCount
    cost: Cost


class SubagentUsage(msgspec.Struct, kw_only=True):
    """The usage of a sub-agent, without the sub-agents that it started itself."""

    session: str
    title: str | None
    replies: int
    tokens: TokenCount
    cost: Cost


class SessionUsage(msgspec.Struct, kw_only=True):
    """The usage of a session. Messages copied from another session count there."""

    models: list[UsageEntry]
    """By model, without sub-agents."""
    subagents: list[SubagentUsage]
    """All sub-agents, including those started by other sub-agents."""
    tokens: TokenCount
    """Without sub-agents, like `cost`."""
    cost: Cost
    total: Cost
    """With sub-agents."""
    total_tokens: TokenCount
    unpriced_models: list[str]


def session_usage(database: Database, sessions: Sessions, prices: PriceTable, row: SessionRow) -> SessionUsage:
    """The usage of a session and its sub-agents."""
    reporter = UsageReporter(database, prices)
    own = reporter.report(UsageFilter(sessions=SessionFilter(ids=(row.id,))), ("model",))
    below = subagents_of(sessions, row)
    titles = {one.name: one.title for one in below}
    filter = UsageFilter(sessions=SessionFilter(ids=tuple(one.id for one in below)))
    inside = reporter.report(filter, ("session",))
    subagents = [
        SubagentUsage(
            session=entry.session or "",
            title=titles.get(entry.session or ""),
            replies=entry.replies,
            tokens=entry.tokens,
            cost=entry.cost,
        )
        for entry in inside.entries
    ]
    together = TokenCount()
    for part in (own, inside):
        together.add(part.total.tokens)
    return SessionUsage(
        models=own.entries,
        subagents=sorted(subagents, key=lambda one: (-one.cost.usd, -one.tokens.total)),
        tokens=own.total.tokens,
        cost=own.total.cost,
        total=total_cost((own.total.cost, inside.total.cost)),
        total_tokens=together,
        unpriced_models=sorted({*own.unpriced_models, *inside.unpriced_models}),
    )


def subagents_of(sessions: Sessions, row: SessionRow) -> list[SessionRow]:
    """The sub-agents of a session, including nested ones."""
    found: dict[int, SessionRow] = {}
    parents: tuple[str, ...] = (row.name,)
    for _ in range(_DEEPEST):
        kind: m.Kind = "subagent"
        rows = sessions.select(SessionFilter(kind=kind, agent=row.agent, parents=parents), order="oldest")
        new = [one for one in rows if one.machine == row.machine and one.id not in found and one.id != row.id]
        if not new:
            break
        found |= {one.id: one for one in new}
        parents = tuple(one.name for one in new)
    return list(found.values())


def turn_usage(database: Database, prices: PriceTable, session: int) -> list[TurnUsage]:
    """The usage of each turn of a session, in the order of the log and without sub-agents."""
    return _turns_between(database, prices, session, _FIRST, _LAST)


def turn_usage_at(database: Database, prices: PriceTable, session: int, message: int) -> TurnUsage | None:
    """The usage of the turn that a message belongs to; None if it made no request. Other turns are not read."""
    prompts = "SELECT message FROM act WHERE session = ? AND kind = 'prompt'"
    before = database.rows(f"{prompts} AND message <= ? ORDER BY message DESC LIMIT 1", session, message)
    after = database.rows(f"{prompts} AND message > ? ORDER BY message LIMIT 1", session, message)
    first = int(before[0][0]) if before else _FIRST
    last = int(after[0][0]) - 1 if after else _LAST
    return next((turn for turn in _turns_between(database, prices, session, first, last) if turn.replies), None)


def _turns_between(database: Database, prices: PriceTable, session: int, first: int, last: int) -> list[TurnUsage]:
    columns = ", ".join(f"coalesce(act.{name}, 0)" for name in TOKEN_NAMES)
    sql = f"""SELECT act.message, act.kind, name.text, act.at, {columns} FROM act LEFT JOIN name ON name.id = act.name
        WHERE act.session = ? AND act.message BETWEEN ? AND ? AND act.kind IN ('prompt', 'reply', 'other')
        ORDER BY act.message, act.place"""
    turns: list[TurnUsage] = []
    for row in database.rows(sql, session, first, last):
        message, kind = row[:2]
        if kind == "prompt":
            turns.append(_turn(int(message)))
            continue
        if not turns:
            turns.append(_turn(None))
        _add(turns[-1], row, prices)
    return [turn for turn in turns if turn.replies or turn.tokens.total or turn.message_index is not None]


def _turn(message: int | None) -> TurnUsage:
    return TurnUsage(message_index=message, models=[], tokens=TokenCount(), cost=Cost())


def _add(turn: TurnUsage, row: Row, prices: PriceTable) -> None:
    _, kind, model, at, *counts = row
    tokens = TokenCount(*map(int, counts))
    size = request_size(tokens.all_input) if kind == "reply" else 0
    turn.replies += kind == "reply"
    turn.tokens.add(tokens)
    turn.cost.add(cost_of(prices, model or UNKNOWN, _day(at), tokens, size))
    if model and model not in turn.models:
        turn.models.append(model)


def _day(at: int | None) -> date:
    return datetime.now(UTC).date() if at is None else from_seconds(at).date()
