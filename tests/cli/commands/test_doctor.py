"""`unspool doctor`: the state of the files."""

from __future__ import annotations

from pathlib import Path

import unspool
from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog, call

from ...file_faults import failing
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


def test_filters(run: Run) -> None:
    """As words and as options; a word that is no filter is wrong usage, not a reason to look at everything."""
    everything = run("doctor", "--json", "--home", SAMPLES).records
    chosen = run("doctor", "agent:codex", "has:rejection", "--json", "--home", SAMPLES).records
    assert chosen == run("doctor", "--agent", "codex", "--has", "rejection", "--json", "--home", SAMPLES).records
    assert 0 < len(chosen) < len(everything)
    assert {report["agent"] for report in chosen} == {"codex"}
    assert run("doctor", "hsa:rejection", "--home", SAMPLES).code == 2


def test_the_summary_names_what_is_new(run: Run, tmp_path: Path) -> None:
    """By agent and version, with counts."""
    log = damaged()
    log.user("secret words", brandNewField={"secret key": "secret value"}, toolUseResult={"secret": 1})
    log.write(tmp_path)
    done = run("doctor", "--summary", "--home", tmp_path)
    assert done.code == 0
    assert done.lines[0] == f"unspool {unspool.__version__}"
    assert done.lines[1] == f"claude {log.version}: 1 session, 4 records, 2 damaged"
    assert "  new kind         1  from-the-future" in done.lines
    assert "  new field        1  user: brandNewField" in done.lines
    assert "  new field        1  user: brandNewField.*" in done.lines
    assert "secret" not in done.out


def test_the_summary_as_json(run: Run, tmp_path: Path) -> None:
    """One object for each version of each agent."""
    log = damaged()
    log.write(tmp_path)
    (found,) = run("doctor", "--summary", "--json", "--home", tmp_path).records
    assert (found["agent"], found["version"], found["sessions"]) == ("claude", log.version, 1)
    assert found["new_kinds"] == {"from-the-future": 1}
    assert found["problems"]["unknown-record"] == 1


def test_nothing_in_the_samples_is_new(run: Run) -> None:
    """They were recorded with versions that are known."""
    found = run("doctor", "--summary", "--json", "--home", SAMPLES).records
    assert {version["agent"] for version in found} == {"claude", "codex", "gemini"}
    assert [version for version in found if "new_kinds" in version or "new_fields" in version] == []


def test_files_that_cannot_be_read_are_named_and_counted(run: Run, tmp_path: Path) -> None:
    """With the reason, and an exit code; the others are checked."""
    path = damaged().write(tmp_path)
    other = ClaudeLog("other")
    other.user("hello")
    other.write(tmp_path)
    with failing(tmp_path, lambda kind, where: kind == "read" and where == path).active():
        done = run("doctor", "--home", tmp_path)
    assert done.code == 1
    assert f"cannot read {path}: Input/output error" in done.err
    assert "1 not readable" in done.lines[-1]
    assert run("doctor", "--home", tmp_path).code == 0


def test_logs_that_no_session_is_read_from_are_named(run: Run, tmp_path: Path) -> None:
    """A thread in two logs with different contents is read from one of them; the other one is not left out silently."""
    paths = []
    for day, turns in ((14, 2), (15, 1)):
        log = CodexLog()
        for turn in range(turns):
            log.turn(f"prompt {turn}", f"day {day}")
        path = log.write(tmp_path / str(day))
        home = tmp_path / "home" / ".codex" / "sessions" / "2026" / "11" / str(day)
        home.mkdir(parents=True)
        paths.append(path.rename(home / path.name.replace(path.name[8:18], f"2026-11-{day}")))
    (ref,) = Library(tmp_path / "home").refs()
    assert ref.path == paths[0]
    done = run("doctor", "--home", tmp_path / "home")
    assert str(paths[1]) in done.lines
    assert "left out: another log has the same session" in done.out
    assert done.lines[-1].endswith("1 not-read")
    assert run("doctor", "--home", SAMPLES).out.count("not-read") == 0
