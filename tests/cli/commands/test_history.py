"""`unspool history`: the versions of a session's files."""

from __future__ import annotations

from pathlib import Path

from unspool.testing import ClaudeLog

from ...file_faults import failing
from ..run import Run


def rewritten(run: Run, home: Path) -> tuple[ClaudeLog, list[bytes]]:
    """A session that was appended to, edited and truncated, and the contents of its file."""
    log = ClaudeLog()
    states = []
    for text in ("begin", "go on"):
        log.user(text)
        path = log.write(home)
        states.append(log.data)
        assert run("sync", "--home", home).code == 0
    for data in (log.data.replace(b"go on", b"GO ON"), log.lines[0] + b"\n"):
        path.write_bytes(data)
        states.append(data)
        assert run("sync", "--home", home).code == 0
    return log, states


def test_versions_are_listed_and_restored(run: Run, tmp_path: Path) -> None:
    """With the kind and the size of each change."""
    home = tmp_path / "home"
    log, states = rewritten(run, home)
    done = run("history", log.session, "--no-sync")
    rows = [line.split("\t") for line in done.lines]
    assert rows[0] == ["version", "found", "change", "bytes", "difference"]
    assert [row[2] for row in rows[1:]] == ["created", "appended", "edited in place", "truncated"]
    assert [row[3] for row in rows[1:]] == [f"{len(state):,}" for state in states]
    records = run("history", "latest", "--json", "--no-sync").records
    assert [record["change"] for record in records] == ["created", "appended", "edited", "truncated"]
    for number, state in enumerate(states, 1):
        target = tmp_path / f"version {number}"
        done = run("restore", log.session, "--version", str(number), "--to", target, "--no-sync")
        assert done.code == 0
        (path,) = target.rglob("*.jsonl")
        assert path.read_bytes() == state


def test_a_version_that_does_not_exist(run: Run, tmp_path: Path) -> None:
    """The message says which there are."""
    log, _ = rewritten(run, tmp_path / "home")
    done = run("restore", log.session, "--version", "9", "--to", tmp_path / "back", "--no-sync")
    assert done.code != 0
    assert "versions 1 to 4, not 9" in done.err
    assert not (tmp_path / "back").exists()
    done = run("restore", log.session, log.session, "--version", "1", "--to", tmp_path / "back", "--no-sync")
    assert "a single session" in done.err


def test_sync_names_what_it_cannot_read(run: Run, tmp_path: Path) -> None:
    """With the reason, an exit code, and what happens to what is stored."""
    log = ClaudeLog()
    log.user("begin")
    path = log.write(tmp_path)
    run("sync", "--home", tmp_path)
    log.user("go on")
    log.write(tmp_path)
    with failing(tmp_path, lambda kind, where: kind == "read" and where == path).active():
        done = run("sync", "--home", tmp_path)
    assert done.code == 1
    assert f"cannot read {log.session}: {path}: Input/output error" in done.err
    assert "1 item could not be read. The store keeps its copies" in done.err
    done = run("sync", "--home", tmp_path)
    assert (done.code, done.out[:18]) == (0, "0 new, 1 changed, ")
