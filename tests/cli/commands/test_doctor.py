"""`unspool doctor`: the state of the files."""

from __future__ import annotations

from pathlib import Path

from unspool.library import Library
from unspool.testing import ClaudeLog, call

from ..run import SAMPLES, Run


def damaged() -> ClaudeLog:
    """A log with two bad lines, one unknown record and a call that never finished."""
    log = ClaudeLog()
    log.user("one")
    log.raw(b"[]")
    log.raw(b'{"type":"from-the-future","uuid":"x"}')
    log.model(call("open", command="make"))
    log.raw(b'{"type":"user","message":{"ro')
    return log


def test_problems_are_reported_with_their_location(run: Run, tmp_path: Path) -> None:
    """The file, its counts, and for each problem the line and the byte."""
    log = damaged()
    path = log.write(tmp_path)
    done = run("doctor", path)
    assert done.code == 0
    assert done.lines[0] == str(path)
    assert done.lines[1] == "  5 lines, 2 damaged, 1 unfinished call"
    offset = len(log.lines[0]) + 1
    assert done.lines[2].split()[:5] == ["not-a-record", "line", "2,", "byte", f"{offset:,}"]
    assert [line.split()[0] for line in done.lines[2:-1]] == ["not-a-record", "unknown-record", "torn"]
    assert done.lines[-1].startswith("1 file, 5 lines, 2 damaged, 1 unfinished call; 1 not-a-record, ")


def test_json(run: Run, tmp_path: Path) -> None:
    """One object a file, with the same."""
    path = damaged().write(tmp_path)
    (report,) = run("doctor", path, "--json").records
    assert (report["path"], report["lines"], report["damaged"], report["orphans"]) == (str(path), 5, 2, 1)
    assert report["problems"] == {"not-a-record": 1, "unknown-record": 1, "torn": 1}
    assert [place["source"]["line"] for place in report["places"]] == [2, 3, 5]


def test_valid_files_are_only_counted(run: Run) -> None:
    """Unless all are asked for."""
    done = run("doctor", "37c2", "--home", SAMPLES)
    assert len(done.lines) == 1
    assert done.lines[0].startswith("1 file, ")
    path = str(Library(SAMPLES).find("37c2").path)
    assert run("doctor", "37c2", "--home", SAMPLES, "--all").lines[0] == path


def test_every_file_is_checked(run: Run) -> None:
    """As many reports as there are logs."""
    reports = run("doctor", "--home", SAMPLES, "--json").records
    files = {str(path) for ref in Library(SAMPLES).refs() for path in (ref.path, *ref.more)}
    assert {report["path"] for report in reports} == files
    assert run("doctor", "--home", SAMPLES).lines[-1].startswith(f"{len(reports)} files, ")


def test_file_names_are_sanitized(run: Run, tmp_path: Path) -> None:
    """A file's name may hold escape sequences too."""
    path = tmp_path / "x\x1b]0;owned\x07.jsonl"
    path.write_bytes(damaged().data)
    done = run("doctor", path)
    assert "\x1b" not in done.out
    assert "\x07" not in done.out
    missing = run("doctor", f"{path}.json")
    assert missing.code == 1
    assert "\x1b" not in missing.err


def test_an_empty_home(run: Run) -> None:
    """Nothing is wrong where nothing is."""
    assert run("doctor").out == "0 files, 0 lines, 0 damaged, 0 unfinished calls\n"
    assert run("doctor", "--json").out == ""


def test_a_filter_is_not_a_session_name(run: Run) -> None:
    """`has:` means nothing here: to look at everything instead would be wrong."""
    assert run("doctor", "has:problem", "--home", SAMPLES).code == 1
