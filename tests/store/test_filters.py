"""Filters choose the sessions and events that fit all of their fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from unspool.search.query import parse
from unspool.store import Store
from unspool.store.filters import EventFilter, SessionFilter, containing, starting_with
from unspool.store.rows import SessionRow
from unspool.store.touched_files import TouchedFiles
from unspool.testing import ClaudeLog, call

from ..core.test_decisions import REFUSED
from .contents import synced
from .homes import AGENTS, write_home


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Store:
    """Two sessions of each agent, and one with a sub-agent and a rejected call."""
    write_home(tmp_path)
    parent = ClaudeLog("parent")
    parent.user("100% of_it")
    parent.model(call("c", command="false"))
    parent.result("c", REFUSED, error=True, toolUseResult=f"Error: {REFUSED}")
    parent.write(tmp_path)
    child = ClaudeLog("parent", agent="a1b2c3")
    child.user("look", "look")
    child.write(tmp_path)
    synced(store, tmp_path)
    return store


def _names(store: Store, filter: SessionFilter) -> set[str]:
    rows = store.sessions.select(filter)
    assert store.sessions.count(filter) == len(rows)
    return {row.name for row in rows}


def test_each_field_is_a_condition(filled: Store) -> None:
    """What a filter finds is what the rows say."""
    rows = filled.sessions.select()
    child = next(row for row in rows if row.kind == "subagent")
    parent = next(row for row in rows if row.name == child.parent)
    assert len(rows) == 8
    middle = sorted(row.started_at for row in rows if row.started_at is not None)[4]
    cases: list[tuple[SessionFilter, set[str]]] = [
        (SessionFilter(), {row.name for row in rows}),
        (SessionFilter(ids=(parent.id, child.id)), {parent.name, child.name}),
        (SessionFilter(ids=()), set()),
        (SessionFilter(machine=filled.machine + 1), set()),
        (SessionFilter(name=parent.name), {parent.name}),
        (SessionFilter(name_like="A1B"), {child.name}),
        (SessionFilter(name_like=parent.name[:8].upper()), {parent.name, child.name}),
        (SessionFilter(kind="subagent"), {child.name}),
        (SessionFilter(parents=(parent.name,)), {child.name}),
        (SessionFilter(is_nested=True), {child.name}),
        (
            SessionFilter(is_nested=False, agent="claude"),
            {row.name for row in rows if row.agent == "claude"} - {child.name},
        ),
        (SessionFilter(text="100% OF_it"), {parent.name}),
        (SessionFilter(text="0_% of"), set()),
        (SessionFilter(has="rejection"), {parent.name}),
        (SessionFilter(is_empty=True), set()),
        (SessionFilter(is_gone=True), set()),
        (SessionFilter(project="/home/dev/demo"), {row.name for row in rows if row.project == "/home/dev/demo"}),
        (SessionFilter(project_contains="NOWHERE"), set()),
        (SessionFilter(file=filled.files.of_session(child.id)[0].path), {child.name}),
        (
            SessionFilter(started_before=middle),
            {row.name for row in rows if row.started_at and row.started_at < middle},
        ),
        (SessionFilter(active_since=middle), {row.name for row in rows if row.ended_at and row.ended_at >= middle}),
        (SessionFilter(maybe_live_since=middle.timestamp()), _live(rows, middle)),
    ]
    for filter, expected in cases:
        assert _names(filled, filter) == expected, filter
    for agent in AGENTS:
        assert _names(filled, SessionFilter(agent=agent)) == {row.name for row in rows if row.agent == agent}


def _live(rows: list[SessionRow], since: datetime) -> set[str]:
    return {
        row.name
        for row in rows
        if row.status in ("running", "waiting") or (row.ended_at is not None and row.ended_at > since)
    }


def test_orders(filled: Store) -> None:
    """By the column that is named, and sessions that may be live before all others."""
    rows = filled.sessions.select()
    assert filled.sessions.select(order="messages") == sorted(rows, key=lambda row: (-row.messages, -row.id))
    assert filled.sessions.select(order="title") == sorted(rows, key=lambda row: ((row.title or "").lower(), row.id))
    future = (datetime.now(UTC) + timedelta(days=1)).timestamp()
    assert filled.sessions.select(live_since=future) == rows
    assert filled.sessions.select(limit=3, offset=2) == rows[2:5]


def test_events(filled: Store) -> None:
    """By kind, tool, time and session."""
    (parent,) = filled.sessions.select(SessionFilter(text="100%"))
    own = EventFilter(kinds=("rejection",), sessions=SessionFilter(ids=(parent.id,)))
    (row,) = filled.events.select(own)
    assert (row.kind, row.tool, row.message_index) == ("rejection", "Bash", 2)
    assert row.timestamp is not None
    found, total = filled.events.page(EventFilter(kinds=("error", "orphan")), 1)
    assert (len(found), total) == (1, len(filled.events.select(EventFilter(kinds=("error", "orphan")))))
    second = timedelta(seconds=1)
    for filter, count in (
        (EventFilter(kinds=("rejection",), sessions=own.sessions, tool="BASH"), 1),
        (EventFilter(kinds=("rejection",), sessions=own.sessions, tool="Read"), 0),
        (EventFilter(kinds=("rejection",), sessions=own.sessions, since=row.timestamp), 1),
        (EventFilter(kinds=("rejection",), sessions=own.sessions, since=row.timestamp + second), 0),
        (EventFilter(kinds=("rejection",), sessions=own.sessions, until=row.timestamp), 0),
        (EventFilter(kinds=("clear",), sessions=own.sessions), 0),
        (EventFilter(kinds=()), 0),
    ):
        assert len(filled.events.select(filter)) == count, filter


@pytest.mark.parametrize("change", [str.lower, str.upper, str.title], ids=["lower", "upper", "title"])
def test_all_letters_are_compared_without_case(store: Store, tmp_path: Path, change: Callable[[str], str]) -> None:
    """Databases only know those of ASCII, or those of their locale."""
    log = ClaudeLog("straße")
    log.user("Überblick ЖУРНАЛ", cwd="/home/dev/Ångström")
    log.model(call("c", "Prüfen", file_path="/home/dev/Ärger.py"), call("e", "Edit", file_path="/home/dev/Ärger.py"))
    log.result("c", REFUSED, error=True, toolUseResult=f"Error: {REFUSED}")
    log.write(tmp_path / "home")
    synced(store, tmp_path / "home")
    store.database.rows("UPDATE session SET name = 'ÉTUDE/Été'")
    store.database.rows("UPDATE name SET text = 'Modèle' WHERE text LIKE 'claude-%'")
    for filter in (
        SessionFilter(text=change("überblick журнал")),
        SessionFilter(project_contains=change("ångström")),
        SessionFilter(name_like=change("étude/ét")),
        SessionFilter(name_like=change("été")),
    ):
        assert store.sessions.count(filter) == 1, filter
    assert len(store.events.select(EventFilter(kinds=("rejection",), tool=change("prüfen")))) == 1
    for query in ("project:ångström", "session:étude", "tool:prüfen", "tool:prü*", "file:ärger", "model:modèle"):
        name, _, value = query.partition(":")
        assert store.search.matches(parse(f"{name}:{change(value)}"), 100), query
    files = TouchedFiles(store.database, store.sessions)
    assert [file.path for file in files.page(change("ärger"), 10)] == ["/home/dev/Ärger.py"]
    assert files.touches(change("dev/ärger.py"), SessionFilter(), 10)


def test_a_filter_with_very_many_letters(store: Store) -> None:
    """A database limits the depth of a statement."""
    letters = "".join(map(chr, range(0xC0, 0x3000)))
    assert store.sessions.select(SessionFilter(text=letters)) == []


def test_wildcards_of_patterns_are_text() -> None:
    """LIKE has two of them, and a character that escapes them."""
    assert containing("50%_A\\") == "%50\\%\\_a\\\\%"
    assert starting_with("A_") == "a\\_%"
