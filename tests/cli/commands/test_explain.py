"""`unspool explain`: why a record says what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.testing import ClaudeLog, call

from ..run import Run

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session with a rejection, a compaction and an unfinished call."""
    log = ClaudeLog()
    log.user("Remove the build folder")
    log.model(call("remove", command="rm -r build"))
    log.result("remove", REJECTED, error=True)
    log.boundary(trigger="auto", preTokens=50_000)
    log.user("The user asked to remove the build folder", isCompactSummary=True)
    log.user("Continue")
    log.model(call("open", command="make"))
    log.write(tmp_path)
    return tmp_path


def test_a_rejection_is_explained(run: Run, home: Path) -> None:
    """With its rule, its evidence, what would have made it otherwise, and the lines."""
    done = run("explain", "latest#2", "--home", home)
    assert done.code == 0
    assert done.lines[0].startswith("message 2 of ")
    assert done.lines[1].strip().split(" ")[0].endswith(".jsonl:3")
    assert "author: harness" in done.lines
    at = done.lines.index("rejection: a rejection")
    assert "fixed sentence for a rejection" in done.lines[at + 1]
    assert done.lines[at + 2] == "  evidence   result text"
    assert done.lines[at + 3].startswith("  otherwise  Progress records")


def test_what_left_the_context_names_the_compaction(run: Run, home: Path) -> None:
    """The line of the event is shown."""
    (found,) = run("explain", "latest#0", "--home", home, "--json").records
    (context,) = [fact for fact in found["facts"] if fact["about"] == "context"]
    assert context["says"] == "compacted"
    assert [line["line"] for line in context["lines"]] == [4]
    assert context["rule"]
    assert context["otherwise"]


def test_an_unfinished_call_is_explained(run: Run, home: Path) -> None:
    """By what is missing."""
    done = run("explain", "latest#6", "--home", home)
    assert "no result" in done.out
    assert "A result anywhere in the log" in done.out


@pytest.mark.parametrize("message", ["latest", "latest#", "#3", "latest#x", "latest#99"])
def test_what_is_no_message_is_refused(run: Run, home: Path, message: str) -> None:
    """With what to write instead."""
    done = run("explain", message, "--home", home)
    assert done.code == 2
    assert "SESSION#N" in done.err or "has 7 messages" in done.err
