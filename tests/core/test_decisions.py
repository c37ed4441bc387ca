"""Recorded decisions take precedence over what the agents' files suggest."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from unspool.agents import AGENTS
from unspool.core import model as m
from unspool.core.decisions import EVIDENCE, RecordedDecision
from unspool.core.session import Session
from unspool.render.markdown import render_markdown
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call
from unspool.testing.builders import START, Log

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
KILLED = "the server was killed"


def decided(verdict: Any, second: float = 2.5, calls: tuple[str, ...] = ("a",), **facts: Any) -> RecordedDecision:
    """A decision about the one call, so many seconds after the start of the log."""
    given: dict[str, Any] = {"by": "user", "request": None, **facts}
    at = START + timedelta(seconds=second)
    return RecordedDecision(at=at, agent="any", session="s", call_ids=list(calls), verdict=verdict, **given)


def read(home: Path, log: Log, *decisions: RecordedDecision) -> Session:
    """A session as it is read with these decisions; the stream has the same events."""
    path = log.write(home)
    session = unspool.load(path, evidence=lambda *_: decisions)
    head, *lines = unspool.stream(path, evidence=lambda *_: decisions)
    messages = [line.message for line in lines if hasattr(line, "message")]
    assert (head.session, messages) == (session.info, session.messages)  # type: ignore[union-attr]
    return session


def claude(result: str | None = None) -> ClaudeLog:
    """A session of Claude Code with one call; the log begins with seconds 1 and 2."""
    log = ClaudeLog()
    log.user("do it")
    log.model(call("a", command="rm -r ."), reply="one")
    if result is not None:
        log.result("a", result, error=True, toolUseResult=f"Error: {result}")
    return log


def codex(*calls: str) -> CodexLog:
    """A session of Codex in which calls that need approval are aborted with their turn."""
    log = CodexLog()
    log.envelope("turn_context", approval_policy="on-request", cwd="/home/dev/demo", model="gpt-5")
    log.item("message", role="user", content=[{"type": "input_text", "text": "do it"}])
    log.event("user_message", message="do it", images=[])
    for id in calls:
        log.call(id, "exec_command", cmd=f"make {id}", sandbox_permissions="require_escalated", justification="Why?")
    for id in calls:
        log.output(id, "aborted by user after 3.2s")
    log.event("turn_aborted", reason="interrupted")
    return log


def summaries(session: Session) -> list[tuple[str, str, list[str], str, float]]:
    """The interruptions in short."""
    return [(e.type, e.during, e.tool_use_ids, e.evidence, e.confidence) for e in session.interruptions]


def outcomes(session: Session) -> dict[str, str]:
    """How the calls ended."""
    return {use.id: use.outcome for use in session.tool_calls()}


# --- denied ----------------------------------------------------------------------------------------------------------


def test_a_rejection_has_the_reason_that_was_given(tmp_path: Path) -> None:
    found = read(tmp_path, claude(REFUSED), decided("deny", reason="Not all of it."))
    (rejection,) = found.rejections
    assert (rejection.reason, rejection.by, rejection.evidence) == ("Not all of it.", "user", EVIDENCE)


def test_a_rejection_that_looks_like_a_failure_is_no_failure(tmp_path: Path) -> None:
    found = read(tmp_path, claude("Not all of it."), decided("deny", reason="Not all of it."))
    assert [event.tool_use_id for event in found.rejections] == ["a"]
    assert found.errors == []
    assert outcomes(found) == {"a": "rejected"}


def gemini(args: dict[str, str]) -> GeminiLog:
    """A session of Gemini with a call that was cancelled; its log may have lost the input."""
    log = GeminiLog()
    log.user("p", "do it")
    result = [{"functionResponse": {"response": {"error": "[Operation Cancelled] Reason: User denied execution."}}}]
    log.model(
        "r", "", [{"id": "a", "name": "run_shell_command", "args": args, "status": "cancelled", "result": result}]
    )
    return log


@pytest.mark.parametrize(("args", "command"), [({}, "rm -r build"), ({"command": "rm -r ."}, "rm -r .")])
def test_a_rejection_has_the_command_that_was_shown(tmp_path: Path, args: dict[str, str], command: str) -> None:
    """Unless the log has the command itself."""
    shown = m.Action(msgspec.Raw(b'{"command":"rm -r build"}'), command="rm -r build")
    assert [event.action and event.action.command for event in read(tmp_path, gemini(args)).rejections] == [
        args.get("command")
    ]
    (rejection,) = read(tmp_path, gemini(args), decided("deny", action=shown)).rejections
    assert rejection.action is not None
    assert (rejection.action.command, rejection.evidence) == (command, EVIDENCE)


def test_a_rejection_of_a_call_that_is_not_in_the_log(tmp_path: Path) -> None:
    """Gemini writes neither the call nor its end when a denial stops the turn."""
    log = GeminiLog()
    log.user("p", "do it")
    shown = m.Action(msgspec.Raw(b'{"command":"make"}'), command="make")
    decision = decided("deny", 9, action=shown, tool="run_shell_command", kind="command")
    (rejection,) = read(tmp_path, log, decision).rejections
    assert (rejection.message_index, rejection.tool_name, rejection.rejection_type) == (
        0,
        "run_shell_command",
        "command",
    )
    assert rejection.action == shown
    in_subagent = decided("deny", 9, action=shown, subagent="helper")
    assert read(tmp_path, log, in_subagent).rejections == []


def test_a_denial_that_stops_the_turn_is_no_interruption(tmp_path: Path) -> None:
    """Even if the log has a marker for it."""
    log = claude(REFUSED)
    log.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], entrypoint="sdk-py")
    assert read(tmp_path, log).interruptions
    found = read(tmp_path, log, decided("deny_stop"))
    assert [event.tool_use_id for event in found.rejections] == ["a"]
    assert found.interruptions == []


# --- allowed ---------------------------------------------------------------------------------------------------------


def test_what_is_allowed_changes_nothing_else(tmp_path: Path) -> None:
    assert read(tmp_path, claude(), decided("allow")) == read(tmp_path, claude())


def test_an_allowed_call_was_not_rejected(tmp_path: Path) -> None:
    """In Codex, a call that is stopped while it runs looks like one that nobody allowed."""
    before = read(tmp_path, codex("a", "b"))
    assert [(event.tool_use_id, event.confidence) for event in before.rejections] == [("a", 0.7)]
    found = read(tmp_path, codex("a", "b"), decided("allow"), decided("allow", calls=("b",)))
    assert found.rejections == []
    assert summaries(found) == [("user", "tool", ["a", "b"], "allowed before it was stopped", 0.9)]
    assert outcomes(found) == {"a": "interrupted", "b": "interrupted"}
    stopped = read(tmp_path, codex("a", "b"), decided("allow"), decided("interrupt", 6.5, ()))
    assert stopped.rejections == []
    assert summaries(stopped) == [("user", "tool", ["a", "b"], EVIDENCE, 1.0)]
    assert stopped.info.status == "interrupted"


@pytest.mark.parametrize("is_denied_first", [True, False])
def test_one_of_two_parallel_calls_is_denied(tmp_path: Path, is_denied_first: bool) -> None:
    """The other one was allowed, and stopped."""
    decisions = [decided("allow"), decided("deny", calls=("b",))]
    found = read(tmp_path, codex("a", "b"), *(reversed(decisions) if is_denied_first else decisions))
    assert [event.tool_use_id for event in found.rejections] == ["b"]
    assert [event.tool_use_ids for event in found.interruptions] == [["a"]]
    assert outcomes(found) == {"a": "interrupted", "b": "rejected"}


def test_the_last_answer_about_a_call_counts(tmp_path: Path) -> None:
    """An agent asks again, for example to leave its sandbox."""
    found = read(tmp_path, codex("a"), decided("allow"), decided("deny", 3))
    assert [(event.tool_use_id, event.evidence) for event in found.rejections] == [("a", EVIDENCE)]
    assert found.interruptions == []


def test_a_rule_may_reject_what_a_person_allowed(tmp_path: Path) -> None:
    log = claude("Permission to use Bash with command rm -r . has been denied.")
    found = read(tmp_path, log, decided("allow"))
    assert [event.by for event in found.rejections] == ["rule"]


def test_a_changed_input_is_in_the_record(tmp_path: Path) -> None:
    """What was asked for, and what ran instead."""
    log = claude()
    log.result("a", "done")
    asked = m.Action(msgspec.Raw(b'{"command":"rm -r ."}'), command="rm -r .")
    decision = decided("allow", action=asked, tool="Bash", input=msgspec.Raw(b'{"command":"rm -r build"}'))
    found = read(tmp_path, log, decision)
    (change,) = found.input_changes
    assert (change.message_index, change.tool_use_id, change.tool_name) == (1, "a", "Bash")
    assert (change.asked, change.ran.command, change.ran.input) == (asked, "rm -r build", {"command": "rm -r build"})
    assert (change.evidence, change.confidence) == (EVIDENCE, 1.0)
    (use,) = found.tool_calls()
    assert use.input == {"command": "rm -r ."}, "the call is what the model wrote"
    text = "\n".join(render_markdown(found, AGENTS["claude"].describe))
    assert "rm -r build" in text
    assert "asked for: rm -r ." in text


# --- interrupted -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "type", "evidence"), [("user", "user", EVIDENCE), ("agent", "system", f"{EVIDENCE}: x")]
)
@pytest.mark.parametrize("result", [None, REFUSED])
def test_a_call_that_got_no_answer_was_interrupted(
    tmp_path: Path, result: str | None, by: str, type: str, evidence: str
) -> None:
    """Whether the file says nothing or a rejection; the event says who interrupted."""
    found = read(tmp_path, claude(result), decided("interrupt", by=by, who="x"))
    assert found.rejections == []
    assert summaries(found) == [(type, "approval", ["a"], evidence, 1.0)]


@pytest.mark.parametrize("by", ["user", "agent"])
def test_a_marker_is_the_trace_of_an_interruption(tmp_path: Path, by: str) -> None:
    """It is reported once, by whom it was, and with full confidence."""
    log = claude(REFUSED)
    log.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], entrypoint="sdk-py")
    assert [event.confidence for event in read(tmp_path, log).interruptions] == [0.5]
    found = read(tmp_path, log, decided("interrupt", calls=(), by=by, who="x"))
    (event,) = found.interruptions
    assert (event.type, event.confidence, event.message_index) == ("user" if by == "user" else "system", 1.0, 3)
    twice = read(tmp_path, log, decided("interrupt", calls=(), by=by, who="x"), decided("interrupt", 2.7, ()))
    assert twice.interruptions == found.interruptions


def test_an_interruption_without_a_trace_is_reported(tmp_path: Path) -> None:
    """A killed agent writes nothing; the turn before is not concerned."""
    log = ClaudeLog()
    log.user("first")
    log.model("done")
    log.user("second")
    log.model(call("b", command="sleep 9"), reply="two")
    found = read(tmp_path, log, decided("interrupt", 9, (), by="agent", who=KILLED))
    assert summaries(found) == [("system", "tool", ["b"], f"{EVIDENCE}: {KILLED}", 1.0)]
    (event,) = found.interruptions
    assert (event.message_index, event.interrupted_message_index) == (3, 3)


def repeated() -> ClaudeLog:
    """A session in which two turns, at seconds 2 and 4, each have an unfinished call with the same id."""
    log = ClaudeLog()
    log.user("first")
    log.model(call("a", command="make first"), reply="one")
    log.user("second")
    log.model(call("a", command="make second"), reply="two")
    return log


@pytest.mark.parametrize(("calls", "second"), [((), 2.5), (("a",), 2.5), ((), 4.5), (("a",), 4.5)])
def test_an_interruption_is_about_the_call_of_its_turn(tmp_path: Path, calls: tuple[str, ...], second: float) -> None:
    """A later turn may have a call with the same id."""
    log = repeated()
    found = read(tmp_path, log, decided("interrupt", second, calls, by="agent", who=KILLED))
    (event,) = [event for event in found.interruptions if event.type == "system"]
    assert event.tool_use_ids == ["a"]
    assert event.interrupted_message_index == (1 if second < 3 else 3)


def test_a_changed_input_belongs_to_the_call_that_was_made_before(tmp_path: Path) -> None:
    """A later turn may have a call with the same id."""
    found = read(tmp_path, repeated(), decided("allow", input=msgspec.Raw(b'{"command":"make other"}')))
    assert [event.message_index for event in found.input_changes] == [1]


def test_an_older_interruption_is_not_mistaken_for_a_trace(tmp_path: Path) -> None:
    """Not even one in the same turn, which continued with a queued message."""
    log = ClaudeLog()
    log.user("first")
    log.model("well")
    log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    log.user("second")
    log.model(call("b", command="sleep 9"), reply="two")
    found = read(tmp_path, log, decided("interrupt", 9, (), by="agent", who=KILLED))
    assert [(event.type, event.message_index) for event in found.interruptions] == [("user", 2), ("system", 4)]


def test_an_interruption_that_came_too_late_is_none(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("first")
    log.model("done")
    found = read(tmp_path, log, decided("interrupt", 9, (), turn="completed"))
    assert found.interruptions == []


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_turn_whose_end_nobody_saw(tmp_path: Path, is_finished: bool) -> None:
    """Some agents finish their turn after the server was killed; then the log has the answer."""
    log = claude()
    log.result("a", "ok")
    log.model("done") if is_finished else log.model(call("b", command="make"), reply="two")
    found = read(tmp_path, log, decided("interrupt", 2.5, (), by="agent", who=KILLED, turn="unknown"))
    assert [event.type for event in found.interruptions] == ([] if is_finished else ["system"])


def test_a_turn_in_which_nothing_was_written_after_the_server_was_killed(tmp_path: Path) -> None:
    """Gemini writes a call down when it has a result, so that the last message looks like an answer."""
    log = GeminiLog()
    log.user("p", "do it")
    log.model("r", "I will run it.")
    found = read(tmp_path, log, decided("interrupt", 9, (), by="agent", who=KILLED, turn="unknown"))
    assert [(event.type, event.message_index) for event in found.interruptions] == [("system", 1)]


def test_a_subagent_is_judged_by_the_decisions_about_its_session(tmp_path: Path) -> None:
    """An interruption is reported once, in the session itself."""
    main = claude()
    inner = ClaudeLog(agent="helper")
    inner.user("help")
    inner.model(call("i", command="make"), reply="one")
    inner.result("i", REFUSED, error=True, toolUseResult=f"Error: {REFUSED}")
    main.write(tmp_path)
    inner.write(tmp_path)
    asked: list[str] = []

    def evidence(_agent: str, session: str) -> list[RecordedDecision]:
        asked.append(session)
        return [decided("allow", calls=("i",), subagent="helper"), decided("interrupt", 9, ())]

    library = unspool.Library(tmp_path, evidence=evidence)
    (ref,) = (ref for ref in library.refs() if ref.kind == "subagent")
    found = library.load(ref)
    assert asked == [main.session]
    assert found.rejections == []
    assert [event.tool_use_ids for event in found.interruptions] == [["i"]]
