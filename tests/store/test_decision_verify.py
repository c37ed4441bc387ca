"""The chain of decisions: whatever is changed afterwards is found, and a crash is not mistaken for it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from unspool.store import decision_chain, run_log
from unspool.store.decision_chain import HEAD_NAME, Head, links, read_head
from unspool.store.decision_log import FILE_NAME, recorded_decisions
from unspool.store.decision_verify import Verification, verify_decisions
from unspool.store.run_log import RunLog

from .test_decision_log import denied


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory whose log has the entries 1 to 6: the start, four decisions, and the session of the first."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    with closing(RunLog(tmp_path / FILE_NAME)) as log:
        log.record_decision("run", denied(None, reason="one"), {})
        log.set_session("run", "s")
        for reason in ("two", "three"):
            log.record_decision("run", denied(reason=reason, digest="9f86", answers={"Which?": ["B"]}), {})
        log.record_decision("run", denied(reason="four", request=None, verdict="interrupt"), {})
    return tmp_path


def tamper(folder: Path, *statements: str) -> None:
    """Change the database behind the back of the log."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def faults(found: Verification) -> list[tuple[int | None, str]]:
    """The faults in short."""
    return [(fault.entry, fault.kind) for fault in found.faults]


def test_a_log_that_nobody_touched(folder: Path) -> None:
    """All decisions are covered, the newest entry is named, and the file that names it is private."""
    found = verify_decisions(folder)
    assert (found.decisions, found.not_covered, found.unprotected, found.faults) == (4, 0, 0, [])
    assert found.head == str(read_head(folder))
    assert (folder / HEAD_NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir() if HEAD_NAME in path.name] == [HEAD_NAME]


SWAP = ("UPDATE decision SET id = -3 WHERE id = 4", "UPDATE decision SET id = 4 WHERE id = 5",
        "UPDATE decision SET id = 5 WHERE id = -3")  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "first", "words"),
    [
        (
            ["UPDATE decision SET data = replace(data, 'two', 'new') WHERE id = 4"],
            (4, "changed"),
            "Entry 4 (deny, 2026-03-01 00:00 UTC) was changed after it was written",
        ),
        (["UPDATE decision SET run = 'other' WHERE id = 4"], (4, "changed"), "was changed"),
        (["UPDATE decision SET agent = 'codex' WHERE id = 5"], (5, "changed"), "was changed"),
        (["UPDATE decision SET data = '{' WHERE id = 4"], (4, "changed"), "Entry 4 was changed"),
        (["UPDATE decision SET data = 7 WHERE id = 4"], (4, "changed"), "Entry 4 was changed"),
        (["UPDATE decision SET hash = NULL WHERE id = 4"], (4, "changed"), "was changed"),
        (["UPDATE decision SET session = 'other' WHERE id = 2"], (2, "changed"), "assigned to another session"),
        (["UPDATE decision SET subject = 4 WHERE id = 3"], (2, "changed"), "assigned to another session"),
        (["DELETE FROM decision WHERE id = 4"], (4, "missing"), "Entry 4 is missing"),
        (["DELETE FROM decision WHERE id IN (4, 5)"], (4, "missing"), "Entries 4 to 5 are missing"),
        (["DELETE FROM decision WHERE id = 6"], (6, "truncated"), "Entry 6 is missing at the end"),
        (["DELETE FROM decision WHERE id > 3"], (4, "truncated"), "Entries 4 to 6 are missing at the end"),
        (["DELETE FROM decision WHERE id = 1"], (None, "missing"), "The first entry of the chain is missing"),
        (["DELETE FROM decision"], (None, "missing"), "The first entry of the chain is missing"),
        (["UPDATE decision SET id = id + 10"], (1, "changed"), ""),
        (SWAP, (4, "reordered"), "was moved after it was written"),
        (["PRAGMA user_version = 1"], (1, "truncated"), "missing at the end"),
    ],
)
def test_what_was_changed_is_found(
    folder: Path, statements: list[str], first: tuple[int | None, str], words: str
) -> None:
    """The first entry that is not what was written is named."""
    tamper(folder, *statements)
    found = verify_decisions(folder)
    if words:
        assert faults(found)[0] == first
        assert words in found.faults[0].text
    else:
        assert found.faults != []


@pytest.mark.parametrize("entry", [4, 6])
def test_a_replaced_entry_with_a_hash_of_its_own(folder: Path, entry: int) -> None:
    """The next entry does not follow from it, or the file names another newest entry."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        link = links(connection)[entry - 1]
        content = link.content._replace(data=link.content.data.replace("deny", "allow").replace("four", "five"))
        values = (content.data, content.hash_after(link.previous or ""), entry)
        connection.execute("UPDATE decision SET data = ?, hash = ? WHERE id = ?", values)
    assert faults(verify_decisions(folder)) == [(entry, "replaced")]


def test_the_next_decision_does_not_hide_that_others_were_removed(folder: Path) -> None:
    """Also where the numbers were set back: the log records what it found before it continues."""
    tamper(folder, "DELETE FROM decision WHERE id > 4", "UPDATE sqlite_sequence SET seq = 4 WHERE name = 'decision'")
    with closing(RunLog(folder / FILE_NAME)) as log:
        assert faults(verify_decisions(folder)) == [(5, "truncated")], "opening the log changes nothing"
        for reason in ("five", "six"):
            log.record_decision("run", denied(reason=reason), {})
    found = verify_decisions(folder)
    assert faults(found) == [(5, "truncated")]
    assert found.faults[0].text == "When entry 5 was written, entry 6 had been removed or replaced"
    assert [one.reason for one in recorded_decisions("claude", "s")] == ["one", "two", "five", "six"]


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"id":"x"}'])
def test_a_head_that_is_gone_or_damaged(folder: Path, content: bytes | None) -> None:
    """Nothing shows that the newest entries are still there, and the next decision does not hide that either."""
    if content is None:
        (folder / HEAD_NAME).unlink()
    else:
        (folder / HEAD_NAME).write_bytes(content)
    assert faults(verify_decisions(folder)) == [(None, "head")]
    with closing(RunLog(folder / FILE_NAME)) as log:
        log.record_decision("run", denied(), {})
    assert faults(verify_decisions(folder)) == [(7, "head")]


def test_a_log_that_was_removed(folder: Path) -> None:
    """The file still knows that there was one, also after a new one was started."""
    for path in folder.glob(f"{FILE_NAME}*"):
        path.unlink()
    assert faults(verify_decisions(folder)) == [(1, "truncated")]
    with closing(RunLog(folder / FILE_NAME)) as log:
        log.record_decision("run", denied(), {})
    assert faults(verify_decisions(folder)) == [(2, "truncated")]


def test_an_entry_that_was_noted_elsewhere(folder: Path) -> None:
    """It is found in a log that grew since, and missed in one that was written again from the start."""
    noted = read_head(folder)
    assert isinstance(noted, Head)
    with closing(RunLog(folder / FILE_NAME)) as log:
        log.record_decision("run", denied(), {})
    assert faults(verify_decisions(folder, noted)) == []
    for path in folder.iterdir():
        path.unlink()
    with closing(RunLog(folder / FILE_NAME)) as log:
        for _ in range(6):
            log.record_decision("run", denied(), {})
    assert faults(verify_decisions(folder)) == []
    assert faults(verify_decisions(folder, noted)) == [(6, "replaced")]


# --- crashes and other writers ---------------------------------------------------------------------------------------


def test_a_crash_before_the_head_was_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is there and intact; the next writer brings the file up to date."""
    with closing(RunLog(folder / FILE_NAME)) as log, monkeypatch.context() as crash:
        crash.setattr(decision_chain, "save_head", lambda *_: None)
        log.record_decision("run", denied(), {})
    found = verify_decisions(folder)
    assert (found.decisions, found.unprotected, found.faults) == (5, 1, [])
    RunLog(folder / FILE_NAME).close()
    found = verify_decisions(folder)
    assert (found.decisions, found.unprotected, found.faults) == (5, 0, [])


def test_a_crash_before_the_entry_was_committed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the entry nor the file has changed, and no number is missing afterwards."""
    with closing(RunLog(folder / FILE_NAME)) as log:
        with monkeypatch.context() as crash:
            crash.setattr(log, "_record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                log.record_decision("run", denied(), {})
        assert verify_decisions(folder).head == str(read_head(folder))
        log.record_decision("run", denied(), {})
    assert (verify_decisions(folder).decisions, verify_decisions(folder).faults) == (5, [])


def test_a_crash_before_the_first_head_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that was only just created has no file yet."""
    with monkeypatch.context() as crash:
        crash.setattr(decision_chain, "save_head", lambda *_: None)
        RunLog(tmp_path / FILE_NAME).close()
    assert (read_head(tmp_path), verify_decisions(tmp_path).faults) == (None, [])
    with closing(RunLog(tmp_path / FILE_NAME)) as log:
        log.record_decision("run", denied(), {})
    assert (verify_decisions(tmp_path).decisions, verify_decisions(tmp_path).faults) == (1, [])


def test_a_head_that_cannot_be_written_withholds_no_decision(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries after the one it names are reported as unprotected."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with closing(RunLog(folder / FILE_NAME)) as log, monkeypatch.context() as crash:
        crash.setattr(decision_chain, "replace_private", full)
        for _ in range(3):
            log.record_decision("run", denied(), {})
    found = verify_decisions(folder)
    assert (found.decisions, found.unprotected, found.faults) == (7, 3, [])


WRITER = """
import sys
from pathlib import Path
from tests.store.test_decision_log import denied
from unspool.store.run_log import RunLog
log = RunLog(Path(sys.argv[1]))
for number in range(20):
    log.record_decision(sys.argv[2], denied(reason=str(number)), {})
"""


def test_several_processes_write_at_once(folder: Path) -> None:
    """Their entries are one chain."""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", WRITER, str(folder / FILE_NAME)]
    writers = [subprocess.Popen([*command, name], cwd=root) for name in ("a", "b")]
    while any(writer.poll() is None for writer in writers):
        assert verify_decisions(folder).faults == [], "nor does a reader see anything else"
    assert [writer.returncode for writer in writers] == [0, 0]
    found = verify_decisions(folder)
    assert (found.decisions, found.unprotected, found.faults) == (44, 0, [])


# --- older logs ------------------------------------------------------------------------------------------------------


def older_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log as version 1 wrote it, with two decisions."""
    with monkeypatch.context() as earlier:
        earlier.setattr(run_log, "_MIGRATIONS", run_log._MIGRATIONS[:1])
        earlier.setattr(decision_chain, "start_chain", lambda *_: None)
        earlier.setattr(decision_chain, "catch_up", lambda *_: None)
        RunLog(path).close()
    rows = [(1, "run", "claude", "s", _data("early")), (2, "run", "claude", None, _data("unknown", None))]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO decision VALUES (?, ?, ?, ?, ?)", rows)


def _data(reason: str, session: str | None = "s") -> str:
    return msgspec.json.encode(denied(session, reason=reason)).decode()


def test_an_older_log_is_carried_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its decisions count as before, are never rewritten, and are reported as not covered."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    path = tmp_path / FILE_NAME
    older_log(path, monkeypatch)
    found = verify_decisions(tmp_path)
    assert (found.decisions, found.not_covered, found.head, found.faults) == (0, 2, None, [])
    assert [one.reason for one in recorded_decisions("claude", "s")] == ["early"], "also before a server was started"
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute("SELECT id, run, agent, data FROM decision ORDER BY id").fetchall()
    with closing(RunLog(path)) as log:
        log.set_session("run", "s")
        log.record_decision("run", denied(reason="late"), {})
    found = verify_decisions(tmp_path)
    assert (found.decisions, found.not_covered, found.faults) == (1, 2, [])
    assert [(one.reason, one.session) for one in recorded_decisions("claude", "s")] == [
        ("early", "s"),
        ("unknown", "s"),
        ("late", "s"),
    ]
    with closing(sqlite3.connect(path)) as connection:
        assert (
            connection.execute("SELECT id, run, agent, data FROM decision WHERE id < 3 ORDER BY id").fetchall()
            == before
        )
    tamper(tmp_path, "UPDATE decision SET data = replace(data, 'early', 'never') WHERE id = 1")
    assert faults(verify_decisions(tmp_path)) == [(None, "changed")], "what changed since is found"
