"""Inspect: logs are valid, contexts are the ones of the record, and every event is found again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from unspool.core.session import Session
from unspool.formats.inspect_log import InspectLog
from unspool.testing import ClaudeLog, load

from .checks import check_log
from .corpus import event_lines, ordered, recorded_sessions

OWN_EVENTS = ("model", "tool", "anchor")
"""Events that are no event of the record."""


def lines_in(sample: dict[str, Any]) -> list[str]:
    """The events of the record in a sample."""
    return ordered(event["metadata"]["unspool"] for event in sample["events"] if event["event"] not in OWN_EVENTS)


def contexts_in(sample: dict[str, Any]) -> dict[int, set[int]]:
    """The messages that each response had in its context, by the first message of the response."""
    pool = sample["events_data"]["messages"]
    places = [int(message["id"].partition(".")[0]) for message in pool]
    return {
        event["metadata"]["unspool"]["message_indices"][0]: {
            place for start, end in event["input_refs"] for place in places[start:end]
        }
        for event in sample["events"]
        if event["event"] == "model"
    }


def test_recordings_are_valid_and_complete() -> None:
    """Messages of all branches, contexts, and events under the names that Inspect has for them."""
    seen: Counter[str] = Counter()
    for session in recorded_sessions():
        [sample] = check_log(session)
        assert lines_in(sample) == event_lines(session)
        pool = {int(message["id"].partition(".")[0]) for message in sample["events_data"]["messages"]}
        for request, context in contexts_in(sample).items():
            # A note without a text is no message.
            assert context == pool.intersection(session.context_at(request).message_indices)
        seen.update(event["event"] for event in sample["events"])
        decisions = [event["decision"] for event in sample["events"] if event["event"] == "approval"]
        assert decisions.count("reject") == len(session.rejections)
        kinds = Counter(event["event"] for event in sample["events"])
        assert kinds["branch"] == len(session.branches)
        assert kinds["interrupt"] == len(session.interruptions)
        assert kinds["compaction"] == len(session.compaction.boundaries) + len(session.compaction.inherited)
        assert kinds["tool"] == len([use for use in session.tool_calls() if use.call])
        anchors = {event["anchor_id"] for event in sample["events"] if event["event"] == "anchor"}
        assert {event["from_anchor"] for event in sample["events"] if event["event"] == "branch"} - {""} <= anchors
    assert all(seen[name] for name in ("model", "tool", "approval", "interrupt", "branch", "compaction", "info")), seen


def test_copies_of_a_session_are_two_samples(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("one")
    session = load(log.write(tmp_path))
    first, second = check_log(session, session)
    assert second["id"] == first["id"] + "-2"


def test_a_log_without_sessions_is_valid() -> None:
    assert check_log() == []


def test_the_same_sessions_make_the_same_file() -> None:
    session = next(recorded_sessions())

    def written(one: Session) -> bytes:
        log = InspectLog()
        return log.begin(one) + b"".join(log.session(one)) + log.end()

    assert written(session) == written(session)


READ = """
import sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
log = read_eval_log(sys.argv[1])
assert len(log.samples) == len(read_eval_log_sample_summaries(sys.argv[1])) == log.results.total_samples
print(len(log.samples), sum(len(event.input) for sample in log.samples for event in sample.events
                            if event.event == "model"))
"""


@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="inspect_ai is not installed; `pip install inspect_ai`")
def test_inspect_reads_the_log(tmp_path: Path) -> None:
    """Inspect itself, in a process of its own: it changes how some modules of Python work."""
    path = tmp_path / "log.eval"
    writer, count = InspectLog(), 0
    with path.open("wb") as file:
        for session in recorded_sessions():
            if not count:
                file.write(writer.begin(session))
            file.writelines(writer.session(session))
            count += 1
        file.write(writer.end())
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    samples, messages = map(int, done.stdout.split())
    assert samples == count
    assert messages > count
