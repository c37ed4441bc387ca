"""`unspool events`: what happened, across sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core.events import EVENT_NAMES, count_events
from unspool.library import Library
from unspool.testing import ClaudeLog, call

from ...recordings import recordings
from ..run import SAMPLES, Run


def test_all_events_are_listed(run: Run) -> None:
    """As many of each kind as the records hold, in table and JSON alike."""
    events = run("events", "--home", SAMPLES, "--json").records
    library = Library(SAMPLES)
    totals = dict.fromkeys(EVENT_NAMES, 0)
    for ref in library.refs():
        for session in library.load_all(ref):
            for kind, count in count_events(session).items():
                totals[kind] += count
    assert {kind: sum(event["kind"] == kind for event in events) for kind in EVENT_NAMES} == totals
    rows = [line.split("\t") for line in run("events", "--home", SAMPLES).lines]
    assert rows[0] == ["event", "agent", "session", "message", "time", "description"]
    assert [row[0] for row in rows[1:]] == [event["kind"] for event in events]


def test_event_fields(run: Run) -> None:
    """A rejection with its session, message, reason and the rejected action."""
    (event, *_) = run("events", "37c2", "--home", SAMPLES, "--type", "rejection", "--json").records
    session = Library(SAMPLES).load(Library(SAMPLES).find("37c2"))
    first = session.rejections[0]
    assert (event["session"]["name"], event["message_index"], event["session"]["agent"]) == (
        session.id,
        first.message_index,
        "claude",
    )
    assert event["event"]["reason"] == first.reason
    assert event["event"]["action"]["diff"]
    assert event["timestamp"]


@pytest.mark.parametrize("kind", EVENT_NAMES)
def test_types(run: Run, kind: str) -> None:
    """`--type` leaves only events of that kind."""
    events = run("events", "--home", SAMPLES, "--type", kind, "--json").records
    assert {event["kind"] for event in events} <= {kind}


def test_several_types_and_an_unknown_one(run: Run) -> None:
    """Types add up; one that does not exist is wrong usage."""
    both = run("events", "--home", SAMPLES, "--type", "clear", "--type", "compaction", "--json").records
    assert {event["kind"] for event in both} == {"clear", "compaction"}
    assert run("events", "--type", "fun").code == 2


def test_filters(run: Run) -> None:
    """By agent, by time, and by other events of the session."""
    place = ("events", "--home", SAMPLES, "--json")
    assert {event["session"]["agent"] for event in run(*place, "--agent", "gemini").records} == {"gemini"}
    assert run(*place, "--until", "2020-01-01").records == []
    sessions = {event["session"]["name"] for event in run(*place, "--type", "error", "has:clear").records}
    cleared = {event["session"]["name"] for event in run(*place, "--type", "clear").records}
    assert sessions
    assert sessions <= cleared


def test_subagents_in_the_same_file(run: Run) -> None:
    """`--kind main` leaves out the sub-agents in the session's file."""
    (recording,) = recordings("claude", "1.0.60", "subagent")
    everything = {event["session"]["name"] for event in run("events", "--home", recording.home, "--json").records}
    main = {
        event["session"]["name"]
        for event in run("events", "--home", recording.home, "--kind", "main", "--json").records
    }
    assert any("/" in id for id in everything)
    assert main == {id for id in everything if "/" not in id}


def test_problems_have_a_line_but_no_message(run: Run, tmp_path: Path) -> None:
    """A damaged line is reported with its number."""
    log = ClaudeLog()
    log.user("one")
    log.raw(b"{torn")
    log.model(call("c", command="ls"))
    log.write(tmp_path)
    (event,) = run("events", "--home", tmp_path, "--type", "problem", "--json").records
    assert event["message_index"] is None
    assert event["text"].endswith("(line 2)")
    (row,) = run("events", "--home", tmp_path, "--type", "problem").lines[1:]
    assert row.split("\t")[3] == ""


def test_no_events(run: Run) -> None:
    """An empty home has none."""
    assert run("events", "--json") == (0, "", "")
    assert run("events").lines == ["event\tagent\tsession\tmessage\ttime\tdescription"]
