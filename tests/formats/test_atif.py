"""ATIF: every recorded session is a valid trajectory, and nothing that unspool knows is lost in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unspool.formats.atif import ATIF_VERSION
from unspool.formats.file_names import safe_name

from ..recordings import recordings
from .checks import check_trajectory
from .corpus import event_lines, ordered, recorded_sessions


def steps_in(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps of all branches."""
    yield from found["steps"]
    for branch in found["extra"]["unspool"]["branches"]:
        yield from branch["steps"]


def test_recordings_are_valid_and_complete() -> None:
    """Each message is in one place, each event is found again, and branches have steps of their own."""
    seen = dict.fromkeys(("branches", "events", "references", "copied"), 0)
    for session in recorded_sessions():
        found = check_trajectory(session)
        own = found["extra"]["unspool"]
        steps = list(steps_in(found))
        events = [event for step in steps for event in step["extra"]["unspool"].get("events", ())]
        assert ordered(events + own["events"]) == event_lines(session)
        assert {index for step in steps for index in step["extra"]["unspool"]["message_indices"]} == set(
            range(len(session))
        )
        assert [branch["id"] for branch in own["branches"]] == [branch.id for branch in session.branches]
        results = [result for step in steps for result in step.get("observation", {}).get("results", ())]
        references = [ref for result in results for ref in result.get("subagent_trajectory_ref", ())]
        linked = [agent for agent in session.subagents if agent.tool_use_id is not None and agent.session is not None]
        assert {ref["session_id"] for ref in references} <= {agent.session for agent in linked}
        assert {ref["trajectory_path"] for ref in references} == {
            safe_name(ref["session_id"]) + ".json" for ref in references
        }
        seen["branches"] += len(own["branches"])
        seen["events"] += len(events)
        seen["references"] += len(references)
        seen["copied"] += sum(step.get("is_copied_context", False) for step in steps)
    assert all(seen.values()), seen


def test_calls_results_and_tokens() -> None:
    """A response is one step with its calls, their results and its tokens."""
    [recording] = recordings("claude", "2.1.*", "reject")[-1:]
    session = next(iter(recording.sessions()))
    found = check_trajectory(session)
    assert found["schema_version"] == ATIF_VERSION == "ATIF-v1.8"
    uses = [use for use in session.tool_calls() if use.branch == 0]
    calls = [call for step in found["steps"] for call in step.get("tool_calls", ())]
    assert [call["tool_call_id"] for call in calls] == [use.id for use in uses]
    assert [call["arguments"] for call in calls] == [use.input for use in uses]
    outcomes = [call["extra"]["unspool"]["outcome"] for call in calls]
    assert outcomes == [use.outcome for use in uses]
    assert "rejected" in outcomes
    total = found["final_metrics"]
    usage = session.info.usage
    assert total["total_completion_tokens"] == usage.output
    assert total["total_prompt_tokens"] == (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
