"""Details of a session that lists show in addition to its row: turns, models, tokens and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from ..usage.cost import TOKEN_NAMES, Cost, TokenCount, cost_of
from ..usage.prices import PriceTable
from .database import Database, Row
from .filters import SessionFilter
from .usage_report import UNKNOWN, date_of, day_of


class SessionFacts(msgspec.Struct, kw_only=True):
    """The turns, models, tokens and cost of a session."""

    turns: int = 0
    """The number of prompts."""
    models: list[str] = msgspec.field(default_factory=list)
    """The models that replied."""
    tokens: TokenCount = msgspec.field(default_factory=TokenCount)
    cost: Cost = msgspec.field(default_factory=Cost)


class ModelCount(msgspec.Struct):
    """A model, and the number of sessions in which it replied."""

    model: str
    sessions: int


def session_facts(database: Database, prices: PriceTable, ids: Sequence[int]) -> dict[int, SessionFacts]:
    """The facts of the given sessions by id, without those of their sub-agents."""
    found = {id: SessionFacts() for id in ids}
    sums = ", ".join(f"sum(usage_slot.{name})" for name in TOKEN_NAMES)
    sql = f"""SELECT usage_slot.session, usage_slot.model, {day_of("usage_slot.slot", 0)}, usage_slot.size,
            sum(usage_slot.prompts), {sums}
        FROM usage_slot WHERE usage_slot.session IN ({", ".join("?" * len(found))})
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 3, 2"""
    rows = database.rows(sql, *found) if found else []
    names = database.names.texts(row[1] for row in rows)
    for row in rows:
        _add(found[row[0]], prices, names.get(row[1]), row)
    return found


def _add(facts: SessionFacts, prices: PriceTable, model: str | None, row: Row) -> None:
    _, _, day, size, prompts, *given = row
    facts.turns += int(prompts)
    if model and model not in facts.models:
        facts.models.append(model)
    tokens = TokenCount(**dict(zip(TOKEN_NAMES, map(int, given), strict=True)))
    facts.tokens.add(tokens)
    spent_on = date.today() if day is None else date.fromisoformat(date_of(day))
    facts.cost.add(cost_of(prices, model or UNKNOWN, spent_on, tokens, int(size)))


def last_prompt(database: Database, id: int) -> tuple[int, bool] | None:
    """The index of the last prompt of a session, and whether it is the only one; None if there is none."""
    sql = "SELECT message FROM act WHERE session = ? AND kind = 'prompt' ORDER BY message DESC LIMIT 2"
    found = [int(message) for (message,) in database.rows(sql, id)]
    return (found[0], len(found) == 1) if found else None


def model_counts(database: Database, filter: SessionFilter) -> list[ModelCount]:
    """The models of the sessions that match, the most used first."""
    where, values = filter.condition()
    sql = f"""SELECT name.text, count(DISTINCT usage_slot.session) FROM usage_slot
            JOIN session ON session.id = usage_slot.session JOIN name ON name.id = usage_slot.model
        WHERE {where} GROUP BY name.text ORDER BY 2 DESC, 1"""
    return [ModelCount(model, int(count)) for model, count in database.rows(sql, *values) if model]
