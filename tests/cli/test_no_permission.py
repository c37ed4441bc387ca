"""Folders that may not be read hide only what is in them, and every command says so."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from unspool.testing import ClaudeLog, CodexLog, GeminiLog

from .run import Run

AGENTS = {"claude": ".claude", "codex": ".codex", "gemini": ".gemini"}
Close = Callable[[Path], AbstractContextManager[None]]


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch) -> Close:
    """Takes all permissions from a folder. Permissions do not stop the superuser, so the calls fail instead."""

    @contextmanager
    def closed(folder: Path) -> Iterator[None]:
        with monkeypatch.context() as patched:
            for name in ("stat", "lstat", "scandir", "open"):
                patched.setattr(os, name, _refusing(getattr(os, name), str(folder), with_itself=name == "scandir"))
            yield

    return closed


def _refusing(function: Callable[..., Any], folder: str, *, with_itself: bool) -> Callable[..., Any]:
    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        name = os.fspath(path) if isinstance(path, str | Path) else ""
        if name.startswith(f"{folder}/") or (with_itself and name == folder):
            raise PermissionError(13, "Permission denied", name)
        return function(path, *arguments, **options)

    return refuse


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_home(tmp_path / "home")


def write_home(home: Path) -> Path:
    claude, codex, gemini = ClaudeLog(), CodexLog(), GeminiLog()
    claude.user("hello claude")
    codex.turn("hello codex", "hi")
    gemini.user("u", "hello gemini")
    for log in (claude, codex, gemini):
        log.write(home)
    return home


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("ls",), ("export",), ("export", "--format", "stream"), ("export", "--format", "atif"),
    ("events",), ("secrets",), ("pairs",), ("doctor",), ("doctor", "--summary"), ("context", "--each"),
)  # fmt: skip


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_folder_that_may_not_be_read_is_an_error(
    arguments: tuple[str, ...], agent: str, home: Path, run: Run, close: Close
) -> None:
    """An export without these sessions must not look complete."""
    closed = home / AGENTS[agent]
    with close(closed):
        done = run(*arguments, "--home", home)
    assert done.code == 1
    assert f"cannot read {closed}/" in done.err
    assert "Permission denied" in done.err
    assert "[Errno" not in done.err
    if arguments == ("export",):
        assert {f"hello {name}" in done.out for name in AGENTS if name != agent} == {True}


SYNC_FIRST: tuple[tuple[str, ...], ...] = (
    ("search", "hello"), ("stats",), ("usage",), ("archive", "--all"), ("rejections",), ("sql", "SELECT 1"),
)  # fmt: skip


@pytest.mark.parametrize("arguments", SYNC_FIRST, ids=" ".join)
def test_commands_that_sync_first_fail_if_the_sync_is_incomplete(
    arguments: tuple[str, ...], home: Path, tmp_path: Path, run: Run, close: Close
) -> None:
    """They show what the store has, and the exit code says that something is missing."""
    source = ("--home", home, "--store", tmp_path / "s.db")
    expected = run(*arguments, *source)
    assert expected.code == 0
    closed = home / ".codex/sessions"
    with close(closed):
        done = run(*arguments, *source)
    assert (done.code, done.out) == (1, expected.out)
    assert str(closed) in done.err
    assert run(*arguments, *source) == expected


def test_secrets_says_that_only_a_part_was_searched(home: Path, run: Run, close: Close) -> None:
    assert run("secrets", "--home", home).err == "No secrets were found.\n"
    with close(home / ".codex"):
        done = run("secrets", "--home", home)
    assert "No secrets were found in what could be read." in done.err


@pytest.mark.parametrize("agent", AGENTS)
def test_doctor_reports_all_other_folders(agent: str, home: Path, run: Run, close: Close) -> None:
    """It used to end at the first folder that may not be entered."""
    with close(home / AGENTS[agent]):
        report = run("doctor", "--all", "--home", home)
    for folder in AGENTS.values():
        assert f"{home / folder}/" in report.out
    assert "the contents of this folder are missing; check its permissions" in report.out
    assert "damaged" in report.out.splitlines()[-1]


@pytest.mark.parametrize("arguments", [*COMMANDS, ("sync",)], ids=" ".join)
def test_a_home_that_may_not_be_read_does_not_hide_the_others(
    arguments: tuple[str, ...], home: Path, tmp_path: Path, run: Run, close: Close
) -> None:
    other = write_home(tmp_path / "other")
    expected = run(*arguments, "--home", other).out if arguments == ("export",) else ""
    with close(home):
        done = run(*arguments, "--home", home, "--home", other)
    assert done.code == 1
    assert f"cannot read {home}: Permission denied" in done.err
    assert "Traceback" not in done.err
    assert expected in done.out


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_data_folder_that_may_not_be_read_stops_no_reader(
    arguments: tuple[str, ...], home: Path, tmp_path: Path, run: Run, close: Close, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions on disk can be read without the store; a note says that those only in the store are missing."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("UNSPOOL_DATA", str(data))
    with close(data):
        done = run(*arguments, "--home", home)
    assert done.code == 1
    assert done.err.count("cannot read the store, so what only the store has is missing") == 1
    assert str(data) in done.err
    if arguments == ("export",):
        assert {f"hello {name}" in done.out for name in AGENTS} == {True}


def folder_at(path: Path) -> None:
    path.mkdir()


def another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE places (id)")


STORES: dict[str, Callable[[Path], object]] = {
    "not a database": lambda path: path.write_bytes(b"hello\n" * 1000),
    "cut off": lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(84)),
    "a folder": folder_at,
    "of another program": another_program,
    "a pipe": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("is_default", [False, True], ids=["named", "default"])
def test_a_store_that_cannot_be_opened_stops_no_reader(
    kind: str, is_default: bool, home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported once, not for every session, and the exit code says that something may be missing."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    path = tmp_path / "data/sessions.db"
    STORES[kind](path)
    named = () if is_default else ("--store", path)
    for arguments in COMMANDS:
        done = run(*arguments, "--home", home, *named)
        assert done.code == 1
        assert done.err.count("cannot read") == 1, (arguments, done.err)
        assert str(path) in done.err
        if arguments == ("export",):
            assert {f"hello {name}" in done.out for name in AGENTS} == {True}
    costs = run("ls", "--cost", "--home", home, *named)
    assert costs.code == 1
    assert len(costs.lines) == 4
    stored = run("ls", "--stored", *named)
    assert stored.code == 1
    assert "there is no store yet" not in stored.err
