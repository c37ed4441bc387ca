"""Pushing without secrets: what the other store has then, and what may be added to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool.store import Store, open_store
from unspool.testing import ClaudeLog

from ..run import Run

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
OTHER = "ghp_" + "k1L2m3N4o5" * 4


@pytest.fixture
def log(tmp_path: Path) -> ClaudeLog:
    """A session with a secret, on disk."""
    log = ClaudeLog("pushed")
    log.user(f"Use {TOKEN}")
    log.model("I will.")
    log.write(tmp_path / "home")
    return log


@pytest.fixture
def team(tmp_path: Path) -> str:
    return str(tmp_path / "team.db")


def push(run: Run, tmp_path: Path, team: str, *options: str) -> dict[str, object]:
    """The report of a push that succeeds."""
    done = run("push", team, "--home", str(tmp_path / "home"), "--json", *options)
    assert done.code == 0, done.err
    report: dict[str, object] = json.loads(done.out)
    return report


def texts(location: str) -> str:
    """What a store has of all sessions."""
    store = open_store(location, read_only=True)
    try:
        return " ".join(_text(store, row.id) for row in store.sessions.select())
    finally:
        store.close()


def _text(store: Store, id: int) -> str:
    session = store.messages.load_session(id)
    return f"{session.info.title} " + " ".join(str(message.blocks) for message in session.messages)


def files(location: str) -> int:
    """How many log files a store has."""
    store = open_store(location, read_only=True)
    try:
        return len(store.files.all())
    finally:
        store.close()


def test_only_what_has_changed_is_pushed_again(run: Run, tmp_path: Path, team: str, log: ClaudeLog) -> None:
    """Also with other options. The same secret has the same placeholder, and is found by it."""
    first = push(run, tmp_path, team, "--redact")
    assert (first["new"], first["changed"]) == (1, 0)
    (placeholder,) = first["redacted"]["placeholders"]  # type: ignore[index]
    assert placeholder in texts(team)
    again = push(run, tmp_path, team, "--redact")
    assert (again["new"], again["changed"]) == (0, 0)
    log.user(f"Now {OTHER}, then {TOKEN} again")
    log.write(tmp_path / "home")
    grown = push(run, tmp_path, team, "--redact")
    assert (grown["new"], grown["changed"]) == (0, 1)
    assert texts(team).count(placeholder) >= 3
    assert OTHER not in texts(team)
    personal = push(run, tmp_path, team, "--redact-personal")
    assert personal["changed"] == 1
    found = run("search", "--store", team, "--no-sync", "then again")
    assert placeholder in found.out
    assert files(team) == 0


def test_secrets_are_not_added_by_accident(run: Run, tmp_path: Path, team: str, log: ClaudeLog) -> None:
    """Neither by a push without the option nor by commands that import before they answer."""
    push(run, tmp_path, team, "--redact")
    log.user(OTHER)
    log.write(tmp_path / "home")
    home = ["--home", str(tmp_path / "home")]
    refused = run("push", team, *home)
    assert refused.code == 2
    assert "--with-secrets" in refused.err
    assert run("sync", "--store", team, *home).code == 1
    shown = run("search", "--store", team, *home, "Use")
    assert shown.code == 0
    assert "without their secrets" in shown.err
    assert TOKEN not in texts(team)
    assert OTHER not in texts(team)


def test_secrets_are_added_on_request_and_taken_out_again(run: Run, tmp_path: Path, team: str, log: ClaudeLog) -> None:
    push(run, tmp_path, team, "--redact")
    assert push(run, tmp_path, team, "--with-secrets")["changed"] == 1
    assert TOKEN in texts(team)
    assert files(team) == 1
    assert push(run, tmp_path, team)["changed"] == 0
    assert push(run, tmp_path, team, "--redact")["changed"] == 1
    assert TOKEN not in texts(team)
    assert files(team) == 0
    assert "I will." in texts(team)


def test_what_only_the_other_store_has_is_redacted_there(run: Run, tmp_path: Path, team: str, log: ClaudeLog) -> None:
    """It was pushed complete, and then deleted here."""
    push(run, tmp_path, team)
    for path in (tmp_path / "home").rglob("*.jsonl"):
        path.unlink()
    assert log.session not in run("ls", "--json").out
    assert push(run, tmp_path, team, "--redact")["changed"] == 1
    assert TOKEN not in texts(team)
    assert "I will." in texts(team)
    assert push(run, tmp_path, team, "--redact")["changed"] == 0


@pytest.mark.usefixtures("log")
def test_your_own_store_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    home = ["--home", str(tmp_path / "home")]
    run("sync", *home)
    store = open_store()
    store.close()
    link = tmp_path / "link.db"
    link.symlink_to(store.location)
    refused = run("push", str(link), "--redact", *home)
    assert refused.code == 2
    assert "your own store" in refused.err
    assert TOKEN in texts(store.location)
    contradiction = run("push", str(tmp_path / "team.db"), "--redact", "--with-secrets", *home)
    assert contradiction.code == 2


@pytest.mark.usefixtures("log")
def test_a_repair_takes_nothing_from_a_store_without_secrets(run: Run, tmp_path: Path, team: str) -> None:
    push(run, tmp_path, team, "--redact")
    own = open_store()
    with own.transaction():
        (row,) = own.sessions.select()
        own.database.rows("UPDATE block SET data = ? WHERE session = ?", b"damaged", row.id)
    location = own.location
    own.close()
    for path in (tmp_path / "home").rglob("*.jsonl"):
        path.unlink()
    run("verify", "--repair", "--from", team, "--home", str(tmp_path / "home"))
    assert "‹github-token" not in texts(location)
