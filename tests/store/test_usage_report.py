"""Tokens by group: by the time they were used, at the price of that time, and of models without a price."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.core.errors import UsageError
from unspool.store.database import Row
from unspool.store.filters import SessionFilter
from unspool.store.session_usage import session_usage, turn_usage, turn_usage_at
from unspool.store.stats import compute_stats
from unspool.store.store import Store
from unspool.store.usage_report import UsageFilter, UsageReporter, parse_dimensions
from unspool.testing import ClaudeLog, CodexLog
from unspool.usage.prices import shipped_prices

from .conftest import Open
from .contents import synced

HOUR = 3600


@pytest.fixture
def store(open_again: Open, tmp_path: Path) -> Store:
    """A session over two days, and a fork's worth of models."""
    log = ClaudeLog()
    for number, (at, model, tokens) in enumerate(
        [
            ("2026-03-01T23:50:00.000Z", "claude-opus-4-6", 1_000),
            ("2026-03-02T00:20:00.000Z", "claude-sonnet-4-5", 150_000),
            ("2026-03-02T00:20:01.000Z", "claude-sonnet-4-5", 250_000),
            ("2026-03-09T12:00:00.000Z", "house-model", 7),
            (None, "claude-opus-4-6", 3),
        ]
    ):
        log.user(f"prompt {number}")
        log.model("answer", tokens=tokens)
        record = json.loads(log.lines[-1])
        record["message"]["model"] = model
        record |= {"timestamp": at} if at else {"timestamp": "never"}
        log.lines[-1] = json.dumps(record, separators=(",", ":")).encode()
    log.write(tmp_path / "home")
    store = open_again()
    synced(store, tmp_path / "home")
    return store


def inputs(store: Store, by: str, zone_seconds: int = 0, **filter: object) -> dict[str, int]:
    """The input tokens of each group."""
    reporter = UsageReporter(store.database, shipped_prices(), zone_seconds)
    report = reporter.report(UsageFilter(**filter), parse_dimensions(by))  # type: ignore[arg-type]
    return {" ".join(entry.key(report.by)): entry.tokens.input for entry in report.entries}


def test_days_are_those_of_the_user(store: Store) -> None:
    """They begin at midnight in the user's zone."""
    assert inputs(store, "day") == {"2026-03-01": 1_000, "2026-03-02": 400_000, "2026-03-09": 7, "?": 3}
    assert inputs(store, "day", HOUR) == {"2026-03-02": 401_000, "2026-03-09": 7, "?": 3}
    assert inputs(store, "day", -HOUR // 2) == {"2026-03-01": 401_000, "2026-03-09": 7, "?": 3}
    assert inputs(store, "week") == {"2026-02-23": 1_000, "2026-03-02": 400_000, "2026-03-09": 7, "?": 3}
    assert inputs(store, "month") == {"2026-03": 401_007, "?": 3}


def test_times_limit_what_is_counted(store: Store) -> None:
    """And not only the sessions: this one began before, and ended after."""
    day = datetime(2026, 3, 2, tzinfo=UTC)
    assert inputs(store, "day", since=day) == {"2026-03-02": 400_000, "2026-03-09": 7}
    assert inputs(store, "day", until=day) == {"2026-03-01": 1_000}
    assert inputs(store, "model", since=day, model="house-model") == {"house-model": 7}


def test_large_requests_have_their_own_price(store: Store) -> None:
    """Two requests of one model in the same second: one of them is above the limit."""
    report = UsageReporter(store.database, shipped_prices()).report(UsageFilter(model="claude-sonnet-4-5"), ())
    assert report.total.cost.usd == pytest.approx((150_000 * 3 + 5 * 15 + 250_000 * 6 + 5 * 22.5) / 1e6)


def test_models_without_a_price_are_named(store: Store) -> None:
    """Their tokens are counted, and their cost is not zero but unknown."""
    report = UsageReporter(store.database, shipped_prices()).report(UsageFilter(), ("model",))
    assert report.unpriced_models == ["house-model"]
    (entry,) = [entry for entry in report.entries if entry.model == "house-model"]
    assert (entry.cost.usd, entry.cost.unpriced_tokens, entry.cost.is_known) == (0, 12, False)
    assert report.total.cost.unpriced_tokens == 12
    assert report.total.cost.is_known


def test_turns_have_the_cost_of_the_session(store: Store) -> None:
    """Each prompt begins one."""
    (row,) = store.sessions.select()
    turns = turn_usage(store.database, shipped_prices(), row.id)
    found = session_usage(store.database, store.sessions, shipped_prices(), row)
    assert [turn.tokens.input for turn in turns] == [1_000, 150_000, 250_000, 7, 3]
    assert sum(turn.cost.usd for turn in turns) == pytest.approx(found.cost.usd)
    assert [turn.models for turn in turns][3] == found.unpriced_models == ["house-model"]


def test_the_usage_of_one_turn_is_read_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other turns are not read: a session may have very many."""
    (row,) = store.sessions.select()
    turns = turn_usage(store.database, shipped_prices(), row.id)
    rows, read = store.database.rows, 0

    def counted(sql: str, *values: object) -> list[Row]:
        nonlocal read
        found = rows(sql, *values)
        read += len(found)
        return found

    monkeypatch.setattr(store.database, "rows", counted)
    for index in range(row.messages):
        read = 0
        expected = [turn for turn in turns if turn.message_index is None or turn.message_index <= index][-1]
        assert turn_usage_at(store.database, shipped_prices(), row.id, index) == expected
        assert read <= 4


def test_subscriptions_are_named(open_again: Open, tmp_path: Path) -> None:
    """Codex CLI records the plan of the account; a key of the API has none."""
    for plan in ("pro", None):
        log = CodexLog(f"with {plan}")
        log.turn("hello", "hi")
        counts = {"input_tokens": 10, "output_tokens": 5}
        info = {"last_token_usage": counts, "total_token_usage": counts}
        log.event("token_count", info=info, rate_limits={"plan_type": plan})
        log.write(tmp_path / "codex")
    store = open_again()
    synced(store, tmp_path / "codex")
    assert inputs(store, "plan") == {"?": 10, "pro": 10}


def test_statistics_read_only_sums(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long sessions are: no statement reads their single rows, and their number does not depend on them."""
    statements: list[str] = []
    rows = store.database.rows

    def recorded(sql: str, *values: object) -> list[Row]:
        statements.append(sql)
        return rows(sql, *values)

    monkeypatch.setattr(store.database, "rows", recorded)
    assert compute_stats(store.database, SessionFilter()).tokens
    assert len(statements) <= 15
    assert [sql for sql in statements if re.search(r"\b(FROM|JOIN) (act|block|part)\b", sql)] == []


def test_dimensions_are_parsed() -> None:
    """In the order given, once each."""
    assert parse_dimensions("model, day,model") == ["model", "day"]
    with pytest.raises(UsageError, match="colour"):
        parse_dimensions("day,colour")
