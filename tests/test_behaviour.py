"""The cases in which session readers differ: each with the one right answer."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import zstandard

from unspool.core import model as m
from unspool.library import Library
from unspool.testing import ClaudeLog, CodexLog, GeminiLog, call, load, texts


def test_a_long_abandoned_branch_stays_abandoned(tmp_path: Path) -> None:
    """Six turns, a rewind, one new turn: the new one is alive, the six are kept as a branch."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("started", name="started")
    for turn in range(6):
        log.user(f"old {turn}")
        log.model(f"old answer {turn}")
    log.user("new", parent="started")
    log.model("new answer")
    session = log.load(tmp_path)
    assert texts(session, session.active_path()) == ["start", "started", "new", "new answer"]
    (branch,) = session.branches
    assert (branch.length, branch.reason, branch.parent_index) == (12, "rewind", 1)
    assert {session.messages[index].context for index in range(2, 14)} == {"rewound"}
    (rollback,) = session.rollbacks
    assert rollback.dropped_message_indices == list(range(2, 14))


def test_a_short_branch_that_was_left_is_kept(tmp_path: Path) -> None:
    """One turn, a rewind: what was left is in the record, and off the active path."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("started", name="started")
    log.user("mistake")
    log.model("mistaken")
    log.user("better", parent="started")
    log.model("good")
    session = log.load(tmp_path)
    assert texts(session, session.active_path()) == ["start", "started", "better", "good"]
    assert texts(session) == ["start", "started", "mistake", "mistaken", "better", "good"]
    assert [message.branch for message in session.messages] == [0, 0, 1, 1, 0, 0]


def test_an_abandoned_branch_stays_abandoned_after_a_compaction(tmp_path: Path) -> None:
    """The boundary has its trigger, its tokens and its summary; the dead branch is not revived by it."""
    log = ClaudeLog()
    log.user("start", "start")
    log.model("started", name="started")
    log.user("dead")
    log.model("dead too")
    log.user("alive", parent="started")
    log.model("alive too")
    log.boundary(trigger="manual", preTokens=155_000)
    log.user("Summary of it all.", isCompactSummary=True)
    log.user("onward")
    log.model("going on")
    session = log.load(tmp_path)
    (boundary,) = session.compaction.boundaries
    assert (boundary.trigger, boundary.pre_tokens, boundary.summary) == ("manual", 155_000, "Summary of it all.")
    assert boundary.replaced_message_indices == [0, 1, 4, 5]
    assert texts(session, session.active_path()) == ["start", "started", "alive", "alive too", "onward", "going on"]
    assert [message.context for message in session.messages[2:4]] == ["rewound", "rewound"]
    assert texts(session, session.context_at(9).message_indices) == ["onward"]
    assert session.context_at(9).message_indices == [6, 7, 8]


def test_duplicate_ids(tmp_path: Path) -> None:
    """The second line with an id is a descendant of the first: reading ends, and keeps both."""
    log = ClaudeLog()
    log.user("one", "twice")
    log.model("two", name="two", parent="twice")
    log.user("three", "twice", parent="two")
    session = log.load(tmp_path)
    assert texts(session) == ["one", "two", "three"]
    assert texts(session, session.active_path()) == ["one", "two", "three"]
    assert [problem.reason for problem in session.problems] == ["duplicate-id"]


def test_messages_in_a_cycle_are_kept(tmp_path: Path) -> None:
    """Two messages that name each other as parent stay in the record, with a warning."""
    log = ClaudeLog()
    log.user("one", "one", parent="two")
    log.model("two", name="two", parent="one")
    log.user("three", "three", parent="two")
    log.model("four", parent="three")
    session = log.load(tmp_path)
    assert texts(session) == ["one", "two", "three", "four"]
    assert texts(session, session.active_path()) == ["one", "two", "three", "four"]
    assert [problem.reason for problem in session.problems] == ["cycle"]


def test_a_missing_parent_is_a_gap_not_an_end(tmp_path: Path) -> None:
    """Messages before the gap are shown; the gap is reported, and the context does not reach across it."""
    log = ClaudeLog()
    log.user("before")
    log.model("answer before")
    log.user("after", parent="lost")
    log.model("answer after")
    session = log.load(tmp_path)
    assert texts(session, session.active_path()) == ["before", "answer before", "after", "answer after"]
    assert [message.link for message in session.messages] == ["recorded", "recorded", "stitched", "recorded"]
    assert [problem.reason for problem in session.problems] == ["missing-parent"]
    assert texts(session, session.context_at(3).message_indices) == ["after"]


def test_a_large_request_after_a_gap_had_the_messages_before_it(tmp_path: Path) -> None:
    """The agent was not started again: its request has more tokens than the text since the gap."""
    log = ClaudeLog()
    log.user("before")
    log.model("answer before", tokens=20_000)
    log.user("x" * 100_000)
    log.model("answer", tokens=60_000)
    log.user("after", parent="lost")
    log.model("answer after", tokens=61_000)
    session = log.load(tmp_path)
    assert [problem.reason for problem in session.problems] == ["missing-parent"]
    assert session.context_at(5).message_indices == [0, 1, 2, 3, 4]
    outlines = [msgspec.structs.replace(message, blocks=[]) for message in session.messages]
    assert msgspec.structs.replace(session, messages=outlines).context_at(5).message_indices == [0, 1, 2, 3, 4]


def test_six_ways_a_call_can_end(tmp_path: Path) -> None:
    """Rejected with a reason, failed, invalid, tool interrupted, answer interrupted, unfinished."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c1", "Edit", file_path="a.txt", old_string="old", new_string="new"))
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse tabs"  # noqa: E501
    log.result("c1", refusal, error=True, toolUseResult="User rejected tool use")
    log.model(call("c2", command="git frobnicate"))
    log.result("c2", "Exit code 128\nfatal: not a git command", error=True)
    log.model(call("c3", "Read"))
    log.result("c3", "<tool_use_error>InputValidationError: file_path is missing</tool_use_error>", error=True)
    log.model(call("c4", command="sleep 60"))
    log.result("c4", "half of it", toolUseResult={"stdout": "half of it", "stderr": "", "interrupted": True})
    log.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    log.user("again")
    log.model("I was about")
    log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    log.user("once more")
    log.model(call("c5", command="make"))
    session = log.load(tmp_path)
    (rejection,) = session.rejections
    assert (rejection.reason, rejection.by, rejection.rejection_type) == ("use tabs", "user", "edit")
    assert rejection.action is not None
    assert rejection.action.diff is not None
    assert rejection.action.diff.splitlines()[-2:] == ["+new", "\\ No newline at end of file"]
    assert [(failure.kind, failure.exit_code) for failure in session.errors] == [
        ("tool_error", 128),
        ("tool_use_error", None),
    ]
    assert [(stop.during, stop.tool_use_ids) for stop in session.interruptions] == [("tool", ["c4"]), ("response", [])]
    assert [(orphan.tool_use_id, orphan.reason) for orphan in session.orphans] == [("c5", "killed")]
    outcomes = {
        block.call_id: block.outcome
        for message in session.messages
        for block in message.blocks
        if isinstance(block, m.ToolResult)
    }
    assert outcomes == {"c1": "rejected", "c2": "error", "c3": "tool_use_error", "c4": "interrupted"}


def test_results_of_parallel_calls_belong_to_the_line(tmp_path: Path) -> None:
    """Results with the same parent are not branches, and both are in context."""
    log = ClaudeLog()
    log.user("two at once")
    log.model(call("a", command="ls"), name="first", reply="r")
    log.model(call("b", command="pwd"), name="second", reply="r")
    log.result("a", "files", "result a", parent="first")
    log.result("b", "/home", "result b", parent="second")
    log.model("both done", parent="result b")
    session = log.load(tmp_path)
    assert session.branches == []
    assert {message.branch for message in session.messages} == {0}
    assert session.context_at(5).message_indices == [0, 1, 2, 3, 4]


def test_sub_agents_are_linked_to_their_call(tmp_path: Path) -> None:
    """A file below the session's own folder belongs to the call that started it."""
    log = ClaudeLog()
    log.user("investigate")
    log.model(call("task", "Agent", prompt="look around", subagent_type="Explore", description="a look"))
    log.result("task", "found it", toolUseResult={"agentId": "a1b2c3", "status": "completed", "content": "found it"})
    log.model("it is there")
    agent = ClaudeLog(agent="a1b2c3")
    agent.user("look around")
    agent.model("found it")
    agent.write(tmp_path)
    session = log.load(tmp_path)
    (link,) = session.subagents
    assert (link.tool_use_id, link.message_index, link.status, link.linked_by) == ("task", 1, "completed", "agentId")
    library = Library(tmp_path)
    child = library.load(library.find(link.session or ""))
    assert (child.info.kind, child.info.parent, texts(child)) == ("subagent", session.id, ["look around", "found it"])


def test_strange_lines_are_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    """Arrays, null, strings, NULs, unknown records and a torn tail are reported; nothing else is lost."""
    log = ClaudeLog()
    log.user("one")
    for line in (b"[]", b"null", b'"text"', b"\x00" * 40, b'{"type":"from-the-future","uuid":"x"}', b""):
        log.raw(line)
    log.model("two")
    path = log.write(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"type":"user","message":{"role":"user","content":"thr')
    session = load(path)
    assert texts(session) == ["one", "two"]
    assert [(problem.reason, problem.source and problem.source.line) for problem in session.problems] == [
        ("not-a-record", 2),
        ("not-a-record", 3),
        ("not-a-record", 4),
        ("nul-bytes", 5),
        ("unknown-record", 6),
        ("torn", 9),
    ]
    (file_,) = session.info.files
    assert (file_.lines, file_.damaged) == (8, 5)


def test_glued_lines_yield_all_their_records(tmp_path: Path) -> None:
    """Two records glued together, one inside a torn one, one behind NULs: five of five are recovered."""
    log = ClaudeLog()
    for number in range(5):
        log.user(f"record {number}", f"r{number}")
    first, second, third, fourth, fifth = log.lines
    log.lines = [first + second, third[: len(third) // 2] + third, b"\x00" * 512 + fourth, fifth]
    session = log.load(tmp_path)
    assert texts(session) == [f"record {number}" for number in range(5)]
    assert [problem.reason for problem in session.problems] == ["salvaged", "salvaged", "nul-bytes"]


def test_chains_of_thousands_of_messages(tmp_path: Path) -> None:
    """3,000 messages, each recorded twice: nothing recurses, nothing is lost."""
    log = ClaudeLog()
    log.user("root", "root")
    above = "root"
    for number in range(3_000):
        log.user(f"a{number}", f"a{number}", parent=above)
        log.user(f"b{number}", f"b{number}", parent=above)
        above = f"b{number}"
    session = log.load(tmp_path)
    assert len(session.messages) == 6_001
    assert len(session.active_path()) == 3_001
    assert len(session.branches) == 3_000


def test_codex_compaction_abort_and_rollback(tmp_path: Path) -> None:
    """A boundary with its summary, an interruption, and a turn that was rolled back and is not alive."""
    log = CodexLog()
    log.turn("first", "one")
    log.envelope("compacted", message="what came before")
    log.turn("second", "two")
    log.turn("mistake", "wrong")
    log.event("thread_rolled_back", num_turns=1)
    log.turn("third", "three")
    log.item("message", role="user", content=[{"type": "input_text", "text": "stop me"}])
    log.event("user_message", message="stop me")
    log.event("turn_aborted", reason="interrupted")
    session = log.load(tmp_path)
    (boundary,) = session.compaction.boundaries
    assert boundary.summary == "what came before"
    (interruption,) = session.interruptions
    assert (interruption.type, interruption.during) == ("user", "response")
    (rollback,) = session.rollbacks
    assert texts(session, rollback.dropped_message_indices) == ["mistake", "wrong"]
    assert "mistake" not in texts(session, session.active_path())
    assert "mistake" in texts(session)
    assert {session.messages[index].context for index in rollback.dropped_message_indices} == {"rewound"}


def test_codex_compressed_rollouts_are_read(tmp_path: Path) -> None:
    """A cold rollout is compressed by the agent: it reads like any other."""
    log = CodexLog()
    log.turn("hello", "hi")
    plain = log.load(tmp_path / "plain")
    path = log.write(tmp_path / "packed")
    path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    packed = load(path.with_suffix(".jsonl.zst"))
    assert texts(packed) == texts(plain) == ["hello", "hi"]
    assert [message.source for message in packed.messages] == [message.source for message in plain.messages]


def test_gemini_rewind_and_cancel(tmp_path: Path) -> None:
    """A rewound turn is not live; a rejected call and a cancelled request are recorded."""
    log = GeminiLog()
    log.user("u1", "start")
    log.model("g1", "started")
    log.user("u2", "mistake")
    log.model("g2", "wrong")
    log.rewind("u2")
    log.user("u3", "better")
    refused = {
        "id": "c1", "name": "run_shell_command", "args": {"command": "rm -r build"}, "status": "cancelled",
        "timestamp": log.next_time(), "result": [{"functionResponse": {"id": "c1", "name": "run_shell_command",
        "response": {"error": "[Operation Cancelled] Reason: User denied execution."}}}],
    }  # fmt: skip
    log.model("g3", "let me clean up", [refused])
    log.user("u4", "tell me more")
    log.message("info", "i1", "Request cancelled.")
    session = log.load(tmp_path)
    assert texts(session, session.active_path())[:4] == ["start", "started", "better", "let me clean up"]
    (rollback,) = session.rollbacks
    assert texts(session, rollback.dropped_message_indices) == ["mistake", "wrong"]
    (rejection,) = session.rejections
    assert rejection.action is not None
    assert (rejection.by, rejection.action.command) == ("user", "rm -r build")
    assert len(session.interruptions) == 1


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [20_000])
def test_thousands_of_leaves(tmp_path: Path, leaves: int) -> None:
    """A session with 20,000 ends: each is a branch of its own, and one is alive."""
    log = ClaudeLog()
    log.user("root", "root")
    for number in range(leaves):
        log.user(f"prompt {number}", f"p{number}", parent="root")
        log.model(f"answer {number}")
    session = log.load(tmp_path)
    assert len(session.messages) == 2 * leaves + 1
    assert len(session.branches) == leaves - 1
    assert texts(session, session.active_path()) == ["root", f"prompt {leaves - 1}", f"answer {leaves - 1}"]


def test_a_record_is_lossless_json(tmp_path: Path) -> None:
    """Any text survives the round trip."""
    strange = 'quotes " \\ / tab \t newline \n line separator \u2028 emoji 🧵 nul \x00 bell \x07'
    log = ClaudeLog()
    log.user(strange)
    log.model(call("c", "Write", file_path="x", content=strange))
    session = log.load(tmp_path)
    assert texts(session) == [strange]
    (block,) = session.messages[1].blocks
    assert isinstance(block, m.ToolCall)
    assert json.loads(bytes(block.raw_input))["content"] == strange
