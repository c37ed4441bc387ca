"""`unspool verify`: what it prints, and its exit codes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.contents import synced
from tests.store.homes import log_of
from tests.store.test_decision_log import denied
from tests.store.test_decision_verify import older_log, tamper
from unspool.store import open_store
from unspool.store.decision_log import FILE_NAME
from unspool.store.locate import STORE_NAME
from unspool.store.run_log import RunLog

from ..run import Run


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    return tmp_path


def test_nothing_was_recorded(run: Run, data: Path) -> None:
    """That is not a fault."""
    done = run("verify")
    assert (done.code, done.out, done.err) == (0, "No decisions have been recorded on this computer\n", "")
    assert list(data.glob("*.db")) == [], "and nothing is created"


def test_an_older_log_that_continues(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the chain covers and what it does not, and the newest entry, which can be checked later."""
    older_log(data / FILE_NAME, monkeypatch)
    assert run("verify").lines == ["Not covered: 2 decisions from before the log was protected"]
    with closing(RunLog(data / FILE_NAME)) as log:
        log.record_decision("run", denied(), {})
    done = run("verify")
    assert done.code == 0
    assert done.lines[:2] == [
        "✓ 1 decision: complete and unchanged",
        "Not covered: 2 decisions from before the log was protected",
    ]
    newest = done.lines[2].removeprefix("Newest entry: ")
    assert run("verify", "--expect", newest).code == 0
    assert run("verify", "--expect", "4:0000").code == 1
    assert run("verify", "--expect", "four").code == 2


def test_a_changed_log(run: Run, data: Path) -> None:
    """The first fault comes first, in words and as JSON."""
    with closing(RunLog(data / FILE_NAME)) as log:
        for _ in range(3):
            log.record_decision("run", denied(who="ana\x1b[2J", tool="Bash"), {})
    tamper(data, "DELETE FROM decision WHERE id > 3", "UPDATE decision SET run = '' WHERE id = 2")
    done = run("verify")
    assert done.code == 1
    assert done.lines[:3] == [
        "✗ Entry 2 (deny Bash by ana, 2026-03-01 00:00 UTC) was changed after it was written",
        "✗ Entry 4 is missing at the end: decisions.head names entry 4",
        "The decision log was changed: 2 faults, the first one at the top",
    ]
    done = run("verify", "--json")
    (found,) = done.records
    assert (done.code, [fault["kind"] for fault in found["faults"]]) == (1, ["changed", "truncated"])


# --- the store --------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A session whose first block of messages is damaged, and whose file is gone; and that file, kept elsewhere."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    path = log_of("claude", 30).write(home)
    log_of("claude", 1, "another").write(home)
    with closing(open_store()) as store:
        synced(store, home)
        store.database.rows("UPDATE block SET data = zeroblob(40) WHERE session = 1 AND first = 0")
    kept = tmp_path / "kept.jsonl"
    path.rename(kept)
    yield path.stem, kept
    assert data.is_dir()


def test_damage_is_named_and_the_rest_shown(run: Run, damaged: tuple[str, Path]) -> None:
    """Whatever reads the session; with --repair it is read from the archive, and everything is well."""
    session, _ = damaged
    for command in ("search --hits 99 number", "search --regex please", f"show {session}", f"export {session}"):
        done = run(*command.split())
        assert done.code == 1
        assert f"session {session}: messages 0 to 63 are damaged in the store" in done.err, command
        assert "number 20" in done.out or "please do" in done.out, command
    done = run("verify")
    assert done.code == 1
    assert done.lines[1] == f"✗ Session {session}: messages 0 to 63: the data has an invalid header"
    done = run("verify", "--repair")
    assert (done.code, done.lines[1]) == (
        0,
        f"✓ Session {session}: messages 0 to 63: the data has an invalid header; repaired from the archive",
    )
    assert run("verify").lines[1].startswith("✓ Store: 2 sessions, ")
    assert run("show", session).err == ""
    (found,) = run("verify", "--json").records
    assert (found["store"]["faults"], found["store"]["counts"]["sessions"]) == ([], 2)


def test_repair_from_another_store(run: Run, damaged: tuple[str, Path], tmp_path: Path) -> None:
    """Of what the archive has lost as well."""
    session, kept = damaged
    kept.rename(tmp_path / "home" / ".claude" / "projects" / "-home-dev-demo" / f"{session}.jsonl")
    team = str(tmp_path / "team.db")
    run("push", team)
    next((tmp_path / "home").rglob(f"{session}.jsonl")).unlink()
    with closing(open_store()) as store:
        store.database.rows("UPDATE chunk SET data = zeroblob(40) WHERE file = 1")
    assert run("verify", "--repair").code == 1
    assert run("verify", "--repair", "--from", team).code == 0
    assert "number 20" in run("show", session).out
    assert run("verify", "--from", team).code == 2


@pytest.mark.parametrize("share", [0.6, 0.99])
def test_a_truncated_database_is_rebuilt(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """From the pages that are left and from the disk. SQLite alone would not open it."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for number in range(3):
        log_of("claude", 120, f"session {number}").write(home)
    with closing(open_store()) as store:
        synced(store, home)
    path = data / STORE_NAME
    size = path.stat().st_size
    os.truncate(path, int(size * share))
    done = run("search", "--no-sync", "number")
    assert (done.code, "verify --repair" in done.err) == (1, True)
    run("verify", "--repair")
    assert run("verify").code == 0
    assert len(run("search", "number", "--json").records) > 0
    assert {item["name"] for item in run("ls", "--json").records} == {log.stem for log in home.rglob("*.jsonl")}
    assert size in {file.stat().st_size for file in data.glob(f"{STORE_NAME}-damaged-*")}
