"""One truth from store and disk: a session is listed, named and read the same way after its files are gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool.agents import AGENTS
from unspool.core.convert import to_builtins
from unspool.core.errors import AmbiguousError, NotFoundError
from unspool.ingest.session import remove_session
from unspool.store.locate import open_store
from unspool.store.rows import SessionRow
from unspool.store.sessions import Sessions
from unspool.testing import ClaudeLog

from .cli.run import Run, run_captured
from .file_faults import ERRORS, failing

SESSION = "37c23395"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: run_captured(capsys, arguments)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The samples as a home directory, with a data directory of their own."""
    place = tmp_path / "home"
    shutil.copytree(unspool.samples(), place)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    for name in ("UNSPOOL_STORE", *(agent.info.variable for agent in AGENTS.values())):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def deleted(home: Path, run: Run) -> Path:
    """A session that was stored, and whose file was then deleted."""
    assert run("sync").code == 0
    (path,) = home.glob(f".claude/projects/*/{SESSION}*.jsonl")
    path.unlink()
    return path


def names_in(records: list[dict[str, Any]]) -> list[str]:
    return [record["name"] for record in records]


@pytest.mark.parametrize("is_synced", [False, True])
def test_lists_have_it(deleted: Path, run: Run, is_synced: bool) -> None:
    """Before the next sync and after it; it is marked, the others are not."""
    if is_synced:
        assert json.loads(run("sync", "--json").out)["gone"] == 1
    rows = run("ls", "--json").records
    assert [row["name"] for row in rows if "gone_at" in row] == [deleted.stem]
    assert len(rows) == 7
    shown = [line.split("\t") for line in run("ls").lines]
    assert [row[4].startswith("(only in store) Fix failing") for row in shown if row[1] == deleted.stem[:13]] == [True]
    for kind in ("rejection", "interruption", "error"):
        found = run("events", "--type", kind, "--json").records
        assert any(each["session"].get("gone_at") for each in found)
        if kind != "error":
            stored = run(f"{kind}s", "--json").records
            assert sorted(json.dumps(each["event"]) for each in found) == sorted(
                json.dumps(each["event"]) for each in stored
            )


def test_commands_read_it(home: Path, deleted: Path, run: Run, tmp_path: Path) -> None:
    """As they would read the file."""
    shutil.copytree(unspool.samples(), tmp_path / "intact")
    there = ("--home", str(tmp_path / "intact"), "--store", str(tmp_path / "none.db"))
    for arguments in (
        ("show", SESSION),
        ("context", SESSION, "--at", "20"),
        ("context", SESSION, "--each"),
        ("export", SESSION, "--format", "markdown"),
        ("events", SESSION),
    ):
        here, other = run(*arguments), run(*arguments, *there)
        assert (here.code, here.err) == (0, ""), arguments
        assert here.out.replace(str(home), "") == other.out.replace(str(tmp_path / "intact"), ""), arguments
    assert {json.loads(line)["session"]["id"] for line in run("export").lines} >= {deleted.stem}
    assert run("doctor", SESSION).err == (
        f"{deleted.stem} no longer has files; `unspool verify` checks the stored copy\n"
    )
    assert run("repair", SESSION).code == 1


def test_a_session_in_another_folder_is_not_gone(home: Path, deleted: Path, run: Run, tmp_path: Path) -> None:
    """Sessions that were imported from elsewhere are listed there; `--home` lists what was in this home."""
    log = ClaudeLog()
    log.user("elsewhere")
    log.write(tmp_path / "elsewhere")
    assert run("sync", "--home", tmp_path / "elsewhere").code == 0
    assert log.session not in names_in(run("ls", "--json").records)
    assert names_in(run("ls", "--json", "--home", tmp_path / "elsewhere").records) == [log.session]
    assert deleted.stem in names_in(run("ls", "--json", "--home", home).records)
    shutil.rmtree(tmp_path / "elsewhere")
    assert log.session in names_in(run("ls", "--json").records)


@pytest.mark.usefixtures("deleted")
def test_names_are_resolved_over_both(home: Path, run: Run) -> None:
    """The beginning of an id may be that of a deleted session, and `latest` may be one."""
    log = ClaudeLog()
    log.session = "37c23fff-0000-4000-8000-000000000000"
    log.user("a new one")
    log.write(home)
    assert run("show", "37c23").code == 2
    assert "matches 2 sessions" in run("show", "37c23").err
    assert run("show", "37c233").code == 0
    assert json.loads(run("show", "latest", "--json").out)["session"]["id"] == log.session
    shutil.rmtree(home / ".claude")
    shutil.rmtree(home / ".codex")
    shutil.rmtree(home / ".gemini")
    assert json.loads(run("show", "latest", "--json").out)["session"]["id"].startswith("4acf7e79")


def test_the_library_reads_it_from_a_store(deleted: Path, tmp_path: Path) -> None:
    """Only if it is given one: what a program reads must not depend on the data directory unless it says so."""
    with pytest.raises(NotFoundError):
        unspool.load(SESSION)
    original = unspool.load(SESSION, home=unspool.samples())
    for store in (True, tmp_path / "data" / "sessions.db", str(tmp_path / "data" / "sessions.db")):
        found = unspool.load(SESSION, store=store)
        assert to_builtins(found.messages) == to_builtins(original.messages)
    assert [ref.id for ref in unspool.sessions(store=True) if ref.gone] == [deleted.stem]
    (ref,) = [ref for ref in unspool.sessions(store=True) if ref.gone]
    assert unspool.load(ref, store=True).id == deleted.stem
    assert not any(ref.gone for ref in unspool.sessions())
    with pytest.raises(AmbiguousError):
        unspool.load("01a1e16", store=True)


def without_seconds(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the seconds of its times: the first lines of a log are a little older than its first message."""
    times = {name: row[name] and row[name][:15] for name in ("started_at", "ended_at")}
    return {**row, **times, "gone_at": "gone_at" in row}


def test_the_quick_list_is_the_whole_list(home: Path, run: Run, tmp_path: Path) -> None:
    """After a sync, lists come from the store: they are those of the disk, whatever has changed since."""

    def check() -> None:
        for options in (
            (),
            ("--kind", "all"),
            ("--agent", "codex"),
            ("has:rejection",),
            ("--since", "2026-11-15T22:50"),
        ):
            listed = run("ls", "--json", *options).records
            on_disk = run("ls", "--json", *options, "--home", home).records
            assert list(map(without_seconds, listed)) == list(map(without_seconds, on_disk)), options
            newest = run("ls", "--json", "-n", "3", *options).records
            assert names_in(newest) == names_in(listed[:3]), options

    assert run("sync").code == 0
    check()
    log = ClaudeLog()
    log.user("a new session")
    log.write(home)
    check()
    (path,) = home.glob(f".claude/projects/*/{SESSION}*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-4]))
    check()
    next(home.glob(".codex/sessions/**/*.jsonl")).unlink()
    check()


def test_the_quick_list_reads_no_unchanged_session(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what has changed since the last sync is looked at."""
    assert run("sync").code == 0
    before = run("ls").out
    peeked: list[str] = []
    monkeypatch.setattr("unspool.library.Library.refs", lambda _: pytest.fail("every session was listed"))
    peek = unspool.Library.peek

    def noted(self: unspool.Library, ref: unspool.SessionRef) -> object:
        peeked.append(ref.id)
        return peek(self, ref)

    monkeypatch.setattr("unspool.library.Library.peek", noted)
    assert run("ls").out == before
    assert peeked == []
    (path,) = home.glob(f".claude/projects/*/{SESSION}*.jsonl")
    with path.open("ab") as file:
        file.write(path.read_bytes().splitlines(keepends=True)[-1])
    assert run("ls", "-n", "2").code == 0
    assert peeked == [path.stem]


@pytest.mark.parametrize("below", ["sessions", "sessions/2026"])
@pytest.mark.parametrize("name", ERRORS)
def test_sessions_of_an_unreadable_folder_are_listed_from_the_store(
    home: Path, run: Run, name: str, below: str
) -> None:
    """They are neither missing nor marked as deleted, and the folder is reported."""
    assert run("sync").code == 0
    before = run("ls", "--json").records
    folder = home / ".codex" / below
    with failing(home, lambda kind, where: kind == "scandir" and where == folder, ERRORS[name]).active():
        listed = run("ls", "--json")
    assert sorted(names_in(listed.records)) == sorted(names_in(before))
    assert not [record for record in listed.records if "gone_at" in record]
    assert listed.code == 1
    assert str(folder) in listed.err


@pytest.mark.parametrize("options", [(), ("--stored",), ("--json",), ("-n", "1")])
def test_a_session_that_is_forgotten_meanwhile(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """The list shows what was stored when it began."""
    assert run("sync").code == 0
    before = run("ls", *options).out
    select = Sessions.select

    def select_and_forget(sessions: Sessions, *arguments: Any, **named: Any) -> list[SessionRow]:
        found = select(sessions, *arguments, **named)
        with monkeypatch.context() as unchanged:
            unchanged.setattr(Sessions, "select", select)
            store = open_store(None)
            for row in found:
                remove_session(store, row.agent, row.id, row.name)
            store.close()
        return found

    monkeypatch.setattr(Sessions, "select", select_and_forget)
    done = run("ls", *options)
    assert (done.code, done.out) == (0, before)
