"""Failures of the same kind are one group, whatever numbers and paths they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from unspool.store import Store
from unspool.store.filters import EventFilter, SessionFilter
from unspool.web import failure_groups
from unspool.web.failure_groups import group_failures, normal_command, normal_message

from ..store.contents import new_store, synced
from .finding_home import write_home

ERRORS = EventFilter(kinds=("error",))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("failures")
    with closing(new_store(folder / "sessions.db")) as store:
        synced(store, write_home(folder / "home"))
        yield store


def test_failures_are_grouped_by_command_and_message(store: Store) -> None:
    """Across sessions and folders."""
    found = group_failures(store, ERRORS)
    (group,) = found.groups
    assert group.command == "pytest -q …"
    assert group.message == "ModuleNotFoundError: No module named 'tide'"
    assert (group.count, len(group.sessions)) == (5, 2)
    assert group.last_at is not None
    assert (found.grouped, found.total) == (5, 5)
    for id, index in group.latest.items():
        assert store.messages.read(id, index, index + 1)[0].blocks


def test_commands_are_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = group_failures(store, ERRORS)
    monkeypatch.setattr(failure_groups, "_read_commands", None)
    assert group_failures(store, ERRORS).groups == before.groups


def test_only_the_latest_are_grouped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_groups, "MOST_FAILURES", 2)
    found = group_failures(store, ERRORS)
    assert (found.grouped, found.total, sum(group.count for group in found.groups)) == (2, 5, 2)


def test_filters_apply(store: Store) -> None:
    assert group_failures(store, EventFilter(kinds=("error",), sessions=SessionFilter(agent="codex"))).groups == []


@pytest.mark.parametrize(
    ("command", "normal"),
    [
        ("cd /home/dev/demo && pytest -q tests/test_a.py", "pytest -q …"),
        ("sleep 5", "sleep #"),
        ("git show 0a1b2c3d4e", "git show …"),
        ("python - <<'EOF'\nprint(1)\nEOF", "python - <<'EOF' …"),
        ("make test", "make test"),
        ("", ""),
    ],
)
def test_commands_are_normalised(command: str, normal: str) -> None:
    assert normal_command(command) == normal


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (
            "Exit code 1\nTraceback (most recent call last):\n  File \"/a/b.py\", line 3\nKeyError: 'x' failed",
            "KeyError: 'x' failed",
        ),
        ("Exit code 127\n/bin/sh: 1: tsc: not found", "…: #: tsc: not found"),
        ("File has not been read yet.", "File has not been read yet."),
        ("Exit code 2", "Exit code #"),
        ("", ""),
    ],
)
def test_messages_are_normalised(text: str, normal: str) -> None:
    assert normal_message(text) == normal


@pytest.mark.parametrize("part", ["a.", "cd ", "/a", "'", "a-", "0"])
def test_a_line_of_any_length_is_normalised(part: str) -> None:
    """Only its beginning is shown, so only that is searched."""
    text = part * 500_000
    assert len(normal_command(text)) <= 160
    assert len(normal_message(text)) <= 160
