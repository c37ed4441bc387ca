"""`unspool show`: one session to read, and the ways to name it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog, call

from ...recordings import recordings
from ..run import SAMPLES, Run, on_terminal

DRAWN = re.compile(r"[\u2500-\u257f\x1b]")


def rewound() -> ClaudeLog:
    """A session with a line that was left, and a call that never finished."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("# Started\n\n- one\n- two", name="started")
    log.user("mistake")
    log.model("mistaken", name="mistaken")
    log.user("better", parent="started")
    log.model("on it", call("open", command="make all"))
    return log


def test_a_session_by_id(run: Run) -> None:
    """Its head, its prompts and its answers, in order."""
    ref = Library(SAMPLES).find("37c23395")
    session = Library(SAMPLES).load(ref)
    done = run("show", ref.id, "--home", SAMPLES)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == session.title
    prompts = [line for line in done.lines if line.startswith("▌ you")]
    said = [message for message in session.active_path() if message.author == "human"]
    assert [line.split()[2] for line in prompts] == [f"#{message.index}" for message in said]


def test_plain_output_in_a_pipe(run: Run, tmp_path: Path) -> None:
    """No colours, no boxes and no padding in a pipe."""
    rewound().write(tmp_path)
    for done in (run("show", "latest", "--home", tmp_path), run("show", "37c2", "--home", SAMPLES, "--full")):
        assert not DRAWN.search(done.out)
        assert all(line == line.rstrip() for line in done.lines)
    assert "# Started" in run("show", "latest", "--home", tmp_path).lines


def test_colours_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal there are colours, and Markdown is rendered."""
    rewound().write(tmp_path)
    done = on_terminal(("show", "latest", "--no-pager"), tmp_path)
    assert done.code == 0
    assert "\x1b[1" in done.out
    assert "# Started" not in done.out
    assert DRAWN.search(done.out)
    assert "\x1b[" not in on_terminal(("show", "latest", "--no-pager"), tmp_path, TERM="dumb").out


def test_the_pager_keeps_colours(tmp_path: Path) -> None:
    """A pager gets the text in colour, and `less` gets the option for it, unless the user has set other options."""
    rewound().write(tmp_path)
    pager = "sh -c 'echo LESS=$LESS; cat'"
    done = on_terminal(("show", "latest"), tmp_path, PAGER=pager)
    assert "LESS=FRX" in done.out
    assert "\x1b[1" in done.out
    assert "LESS=S" in on_terminal(("show", "latest"), tmp_path, PAGER=pager, LESS="S").out


def test_json_is_the_record(run: Run) -> None:
    """`--json` gives the record, of the active path unless all is asked for."""
    ref = Library(SAMPLES).find("3cbae489")
    (record,) = run("show", ref.id, "--home", SAMPLES, "--json").records
    (whole,) = run("show", ref.id, "--home", SAMPLES, "--json", "--branches", "all").records
    session = Library(SAMPLES).load(ref)
    assert record["session"]["id"] == ref.id
    assert len(record["messages"]) == len(session.active_path()) < len(whole["messages"]) == len(session.messages)
    assert record["branches"] == []


# --- naming -----------------------------------------------------------------------------------------------------------


def test_session_names(run: Run, home: Path) -> None:
    """Id, beginning of it, path, file name and `latest` mean the same."""
    log = rewound()
    path = log.write(home)
    old = CodexLog()
    old.turn("old", "older")
    os.utime(old.write(home), (1, 1))
    expected = run("show", log.session).out
    assert "better" in expected
    for name in (log.session[:6], str(path), "latest"):
        assert run("show", name).out == expected


def test_a_file_in_the_current_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bare name of a file is enough in its folder."""
    path = rewound().write(tmp_path)
    monkeypatch.chdir(path.parent)
    assert run("show", path.name).out == run("show", path).out


def test_a_prefix_prefers_the_session_to_its_subagents(run: Run) -> None:
    """A sub-agent's id begins with its session's: its own part, or the whole, names it."""
    (ref,) = [ref for ref in Library(SAMPLES).refs() if "/" in ref.id]
    session, own = ref.id.split("/")
    (parent,) = run("show", session[:6], "--home", SAMPLES, "--json").records
    assert parent["session"]["id"] == session
    for name in (own[:6], ref.id, ref.id[:-3]):
        (child,) = run("show", name, "--home", SAMPLES, "--json").records
        assert child["session"]["id"] == ref.id


def test_an_ambiguous_prefix(run: Run) -> None:
    """Wrong usage, with the ids one can choose from."""
    done = run("show", "01a1e16", "--home", SAMPLES)
    fits = [ref.id for ref in Library(SAMPLES).refs() if ref.id.startswith("01a1e16")]
    assert len(fits) > 1
    assert (done.code, done.out) == (2, "")
    assert done.err == f"unspool: '01a1e16' matches {len(fits)} sessions: {', '.join(fits)}\n"


def test_the_same_id_in_two_homes(run: Run, tmp_path: Path) -> None:
    """They have the same id, so their paths are named."""
    paths = [rewound().write(tmp_path / name) for name in ("one", "two")]
    done = run("show", rewound().session, "--home", tmp_path / "one", "--home", tmp_path / "two")
    assert done.code == 2
    assert all(str(path) in done.err for path in paths)


@pytest.mark.parametrize("name", ["nosuch", "~nobody-at-all", "x" * 5000, "has:rejection", "nosuch.jsonl"])
def test_a_session_that_does_not_exist(run: Run, name: str) -> None:
    """One line that says what to try."""
    done = run("show", name, "--home", SAMPLES)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    if len(name) < 100:
        assert name in done.err
        assert "`unspool ls` lists them" in done.err


def test_an_empty_name_is_ambiguous(run: Run) -> None:
    """An unset shell variable must not show the files in this folder."""
    assert run("show", "", "--home", SAMPLES).code == 2


def test_a_file_of_another_program(run: Run, tmp_path: Path) -> None:
    """The message names the agents whose files would do."""
    path = tmp_path / "notes.json"
    path.write_text('{"hello": "there"}')
    done = run("show", path)
    assert done.code == 1
    assert done.err == f"unspool: {path}: not a session file of Claude Code, Codex CLI, Gemini CLI\n"


def test_latest_without_sessions(run: Run) -> None:
    """An empty home has no latest session."""
    done = run("show", "latest")
    assert (done.code, done.err) == (1, "unspool: there are no sessions yet\n")


# --- views ------------------------------------------------------------------------------------------------------------


def test_branches(run: Run, tmp_path: Path) -> None:
    """By default what was left is only mentioned."""
    path = rewound().write(tmp_path)
    active = run("show", path).out
    assert "mistaken" not in active
    assert "2 messages rewound here (branch 1)" in active
    assert "mistaken" in run("show", path, "--branches", "all").out


def test_orphans(run: Run, tmp_path: Path) -> None:
    """Marked, left out, or with a result made up."""
    path = rewound().write(tmp_path)
    assert "▸ Bash  make all  ○ unfinished (killed)" in run("show", path).out
    assert "make all" not in run("show", path, "--orphans", "hide").out
    assert "unfinished (synthetic result)" in run("show", path, "--orphans", "synthesize").out


def test_tips(run: Run, tmp_path: Path) -> None:
    """The end of the active path by rule, by id or by number; an invalid one is reported."""
    log = rewound()
    log.user("stub", parent="start")
    path = log.write(tmp_path)
    assert "mistaken" not in run("show", path, "--tip", "agent").out
    assert "stub" in run("show", path, "--tip", "newest").out
    longest = run("show", path, "--tip", "longest").out
    assert "on it" in longest
    assert "stub" not in longest
    for name in (log.id("mistaken"), "3"):
        shown = run("show", path, "--tip", name).out
        assert "mistaken" in shown
        assert "better" not in shown
        assert f"tip: caller: message {name}" in shown
    done = run("show", path, "--tip", "nosuch")
    assert done.code == 1
    assert "--tip takes agent, newest, longest or an id" in done.err


def test_full_shows_whole_outputs(run: Run, tmp_path: Path) -> None:
    """Long outputs are cut, and say by how much; `--full` shows them whole."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c", command="seq 40"))
    log.result("c", "\n".join(f"line {number}" for number in range(40)))
    path = log.write(tmp_path)
    assert "  … 28 more lines" in run("show", path).lines
    assert "line 39" not in run("show", path).out
    assert "line 39" in run("show", path, "--full").out


def test_subagents_in_the_same_file_follow_the_session(run: Run) -> None:
    """Old versions of Claude Code wrote them into the session's file: they have no name of their own to show."""
    (recording,) = recordings("claude", "1.0.60", "subagent")
    ids = [session.id for session in recording.sessions()]
    (name,) = {ref.id for ref in recording.refs()}
    assert len(ids) > 1
    shown = run("show", name, "--home", recording.home).lines
    heads = [line.split(" · ")[0] for line in shown if line.split(" · ")[0] in ids and " – " in line]
    assert heads == ids
    records = run("show", name, "--home", recording.home, "--json").records
    assert [record["session"]["id"] for record in records] == ids
