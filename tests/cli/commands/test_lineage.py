"""`unspool lineage`: which sessions follow from each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.testing import ClaudeLog, call

from ...forks import continued, family, forked, raw_output_tokens
from ..run import SAMPLES, Run


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("UNSPOOL_STORE", raising=False)


@pytest.fixture
def logs(home: Path) -> tuple[ClaudeLog, ...]:
    """A family of forks in the home of the user."""
    found = family()
    for log in found:
        log.write(home)
    return found


def test_the_family_of_a_session(run: Run, logs: tuple[ClaudeLog, ...]) -> None:
    """As a tree, from whichever session it is asked for."""
    done = run("lineage", logs[2].session)
    first, second, third, beside = (log.session[:13] for log in logs)
    shown = [line.split(third)[0].split(second)[0].split(first)[0].split(beside)[0] for line in done.lines[:4]]
    assert [line.split("prompt")[0] for line in shown] == [
        "",
        "├─ fork (named by its lines)  ",
        "│  └─ fork (named by its lines)  ",
        "└─ fork (named by its lines)  ",
    ]
    assert all("claude" in line for line in done.lines[:4])
    assert done.lines[4].startswith("4 sessions, ")
    assert done.lines[4].endswith(f"{raw_output_tokens(*logs)} tokens out")
    assert run("lineage", logs[0].session, "--no-sync").out == done.out


def test_as_json(run: Run, logs: tuple[ClaudeLog, ...]) -> None:
    """Nodes, edges, and the tokens of the family."""
    (record,) = run("lineage", "latest", "--json").records
    first, second, third, beside = (log.session for log in logs)
    # Forks have copied the time of the first message, so that generations decide.
    assert [node["name"] for node in record["nodes"]] == [first, *sorted((second, beside)), third]
    assert {(edge["source"], edge["target"], edge["kind"]) for edge in record["edges"]} == {
        (first, second, "fork"),
        (second, third, "fork"),
        (first, beside, "fork"),
    }
    assert record["usage"]["output"] == raw_output_tokens(*logs)


def test_a_plan_its_implementation_and_a_fork_of_that(run: Run, home: Path) -> None:
    """An approved plan that started a session with a clear context is the evidence of the clear."""
    old = ClaudeLog("old")
    old.user("plan a greeting")
    old.model(call("plan", "ExitPlanMode", plan="# Greet"))
    new = ClaudeLog("new")
    new.user("Implement the following plan:\n\n# Greet", origin={"kind": "auto-continuation"}, session_id=old.session)
    new.model("done")
    for log in (old, new, forked(new, "fork", keep_ids=True)):
        log.write(home)
    lines = run("lineage", new.session).lines
    assert lines[0].startswith(f"plan a greeting  {old.session[:13]}")
    assert lines[1].startswith("└─ clear (approved plan")
    assert lines[2].startswith("   └─ fork (named by its lines)")


def test_an_uncertain_origin_shows_how_uncertain(run: Run, home: Path) -> None:
    """With what shows it."""
    first = continued(ClaudeLog("first"), "first")
    forked(first, "second", notes=False).write(home)
    continued(first, "first again").write(home)
    assert "└─ fork (same message ids; order of their own messages, 50% sure)" in run("lineage").out


def test_an_origin_that_was_deleted(run: Run, home: Path) -> None:
    """It is part of the family, and marked."""
    first = continued(ClaudeLog("first"), "first")
    fork = forked(first, "second", keep_ids=True)
    fork.write(home)
    done = run("lineage", fork.session)
    assert done.lines[0].startswith(f"(missing)  {first.session[:13]}")
    assert done.lines[2].startswith("1 session, 1 missing, ")
    (record,) = run("lineage", fork.session, "--json").records
    assert [node.get("missing", False) for node in record["nodes"]] == [True, False]


def test_all_families(run: Run, logs: tuple[ClaudeLog, ...], home: Path) -> None:
    """Sessions that follow from nothing are left out."""
    alone = ClaudeLog("alone")
    alone.user("hello")
    alone.write(home)
    records = run("lineage", "--json").records
    assert [len(record["nodes"]) for record in records] == [len(logs)]
    (record,) = run("lineage", alone.session, "--json").records
    assert [node["name"] for node in record["nodes"]] == [alone.session]


def test_the_samples(run: Run) -> None:
    """A clear and sub-agents; the most recent family first."""
    done = run("lineage", "--home", SAMPLES)
    assert [line.split("  ")[0] for line in done.lines if line.startswith(("├", "└"))] == [
        "└─ sub-agent",
        "├─ sub-agent",
        "└─ clear (history)",
    ]


def test_nothing_to_show(run: Run) -> None:
    """A remark, and no output."""
    done = run("lineage")
    assert (done.code, done.out) == (0, "")
    assert "No sessions are related." in done.err


def test_an_unknown_session(run: Run) -> None:
    """An error in one line."""
    done = run("lineage", "nothing-like-it")
    assert done.code == 1
    assert "no session 'nothing-like-it'" in done.err
