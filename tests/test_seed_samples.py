"""Every JSON sample of the analyses of session files that the project began with, and what the record says of it.

The samples are written here as they are there; only what they leave out (`...`) is filled in, and what stands around
them in a session is added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.core import model as m
from unspool.core.session import Session
from unspool.library import Library
from unspool.testing import load, texts, write_file

JSON = dict[str, Any]

SESSION = "9d6909e3-aaea-454d-ab21-15c939e865b1"
PARENT = "3120cb4d-5b73-4863-b297-e5a516755c44"
CALL = "toolu_01CCX4pcawRMsHndU7hn4d8K"
CODEX_CALL = "call_Mbwbrl6SUkeltbseyJcEhV3S"
PROJECT = Path(".claude") / "projects" / "-home-user-code-project"

MARKER: JSON = {
    "type": "user",
    "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
    "uuid": "3a7fb54f-a20b-4e93-92f1-21b64b16a22e",
    "parentUuid": PARENT,
    "timestamp": "2025-11-13T16:46:19.955Z",
}
REJECTION_TEXT = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\nHold."
)
REJECTION: JSON = {
    "type": "user",
    "message": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": CALL, "content": REJECTION_TEXT, "is_error": True}],
    },
    "uuid": "3a7fb54f-a20b-4e93-92f1-21b64b16a22e",
    "parentUuid": PARENT,
    "timestamp": "2025-12-03T10:30:00Z",
}
BOUNDARY: JSON = {
    "type": "system",
    "subtype": "compact_boundary",
    "content": "Conversation compacted",
    "uuid": "db0953ca-b5ae-4e37-a85c-7884b9d2cc5e",
    "parentUuid": None,
    "logicalParentUuid": "9f8cc203-0e27-444f-88e7-b3eb9eef86d1",
    "timestamp": "2025-12-16T10:37:04.233Z",
    "isMeta": False,
    "level": "info",
    "compactMetadata": {"trigger": "auto", "preTokens": 155116},
}
CODEX_TEXT: JSON = {
    "type": "response_item",
    "payload": {
        "type": "message",
        "role": "assistant",
        "content": [
            {
                "type": "output_text",
                "text": "Because we hit rate limiting and the transfer aborted, the rename never happened...",
            }
        ],
    },
}
CODEX_COMPACTED: JSON = {
    "type": "compacted",
    "payload": {
        "message": "**Progress + Plan Status**\n\n- Completed X\n- In progress Y\n\n**Outstanding TODOs**\n\n- Task 1\n"
        "- Task 2\n\n**Testing Gaps**\n\n- Need tests for...\n\n**Open quirks / setup notes**\n\n- Note about..."
    },
    "replacement_history": [{"type": "message", "content": "..."}, {"type": "message", "content": "..."}],
    "timestamp": "2025-12-27T10:30:00Z",
}
CODEX_ESCALATION: JSON = {
    "type": "response_item",
    "payload": {
        "type": "function_call",
        "name": "shell_command",
        "arguments": {
            "command": "printf 'Goodbye World\\n' > test.txt",
            "sandbox_permissions": "require_escalated",
            "justification": "Need to write to test.txt but current sandbox is read-only; require escalated "
            "permissions to modify file content.",
        },
        "call_id": CODEX_CALL,
    },
}
CODEX_ABORTED: JSON = {"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "interrupted"}}
GEMINI_CANCELLED: JSON = {
    "id": "afc23b55-d0d7-4e36-8e1c-a2bb96c39187",
    "timestamp": "2025-12-23T05:21:32.429Z",
    "type": "info",
    "content": "Request cancelled.",
}
GEMINI_EDIT_ERROR = (
    "Failed to edit, 0 occurrences found for old_string (...). Original old_string was (...) in /path/to/file. "
    "No edits made. The exact text in old_string was not found."
)


# --- Claude Code -----------------------------------------------------------------------------------------------------


def line(uuid: str, parent: str | None, role: str, content: Any, second: int, **fields: Any) -> JSON:
    """A line with the key fields that each entry contains."""
    return {
        "parentUuid": parent,
        "uuid": uuid,
        "type": role,
        "sessionId": SESSION,
        "isSidechain": False,
        "userType": "external",
        "message": {"role": role, "content": content},
        "timestamp": f"2025-11-13T16:46:{second:02}.355Z",
        **fields,
    }


def tool_use(name: str, id: str = CALL, **given: Any) -> list[JSON]:
    return [{"type": "tool_use", "id": id, "name": name, "input": given}]


def claude(home: Path, *lines: JSON) -> Session:
    """Read a session with these lines."""
    path = write_file(home / PROJECT / f"{SESSION}.jsonl", b"".join(json.dumps(x).encode() + b"\n" for x in lines))
    return load(path)


PROMPT = line("u1", None, "user", "Change it.", 10)
ANSWER = line(PARENT, "u1", "assistant", [{"type": "text", "text": "I am"}], 12)


def test_claude_interruption(tmp_path: Path) -> None:
    """A marker in a user message: by the user, at that time; its parent is what was interrupted."""
    session = claude(tmp_path, PROMPT, ANSWER, MARKER)
    (interruption,) = session.interruptions
    assert (interruption.message_index, interruption.interrupted_message_index) == (2, 1)
    assert (interruption.type, interruption.during, interruption.confidence) == ("user", "response", 1.0)
    assert interruption.timestamp is not None
    assert interruption.timestamp.isoformat() == "2025-11-13T16:46:19.955000+00:00"
    assert session.messages[2].author == "harness"
    assert [type(block) for block in session.messages[2].blocks] == [m.InterruptionMark]


def test_claude_interruption_after_a_finished_tool(tmp_path: Path) -> None:
    """A call, its result, the marker, a snapshot: the result stays a result."""
    call = line("a1", "u1", "assistant", tool_use("Bash", command="make"), 12)
    result = line(PARENT, "a1", "user", [{"type": "tool_result", "tool_use_id": CALL, "content": "made"}], 15)
    snapshot = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "isSnapshotUpdate": False}
    session = claude(tmp_path, PROMPT, call, result, MARKER, snapshot)
    assert [interruption.type for interruption in session.interruptions] == ["user"]
    assert [block.outcome for block in session.messages[2].blocks if isinstance(block, m.ToolResult)] == ["ok"]
    assert session.problems == []


def test_claude_compaction(tmp_path: Path) -> None:
    """The boundary comes after the message that its logical parent names, with trigger and size as recorded."""
    last = line("9f8cc203-0e27-444f-88e7-b3eb9eef86d1", "u1", "assistant", [{"type": "text", "text": "Done."}], 12)
    session = claude(tmp_path, PROMPT, last, BOUNDARY)
    (boundary,) = session.compaction.boundaries
    assert boundary.uuid == "db0953ca-b5ae-4e37-a85c-7884b9d2cc5e"
    assert (boundary.after_message_index, boundary.message_index) == (1, 2)
    assert (boundary.trigger, boundary.pre_tokens, boundary.pre_tokens_source) == ("auto", 155116, "recorded")
    assert boundary.replaced_message_indices == [0, 1]
    assert boundary.summary is None


MEMORY = "# Session Title\nA parser\n\n# Current State\nHalf done.\n\n# Worklog\n- read the file\n"


def with_memory(home: Path, *after: JSON) -> Session:
    write_file(home / PROJECT / SESSION / "session-memory" / "summary.md", MEMORY.encode())
    last = line("9f8cc203-0e27-444f-88e7-b3eb9eef86d1", "u1", "assistant", [{"type": "text", "text": "Done."}], 12)
    return claude(home, PROMPT, last, BOUNDARY, *after)


def test_claude_session_memory(tmp_path: Path) -> None:
    """The summary beside the session is the summary of a compaction that has none."""
    session = with_memory(tmp_path)
    (boundary,) = session.compaction.boundaries
    assert (boundary.summary, boundary.summary_source) == (MEMORY, "session-memory")


def test_claude_session_memory_and_a_summary(tmp_path: Path) -> None:
    """The compaction has the summary that the model got; the file is part of the record all the same."""
    summary = line(
        "s1", BOUNDARY["uuid"], "user", "This session is being continued: half done.", 20, isCompactSummary=True
    )
    session = with_memory(tmp_path, summary)
    (boundary,) = session.compaction.boundaries
    assert (boundary.summary, boundary.summary_source) == ("This session is being continued: half done.", "inline")
    assert [file.text for file in session.info.files if file.role == "memory"] == [MEMORY]
    assert [file.text for file in session.info.files if file.role == "log"] == [None]
    assert session.to_dict()["session"]["files"][-1]["text"] == MEMORY


def test_claude_clear(tmp_path: Path) -> None:
    """Only the prompt history has it; the session continues under the same id."""
    clear = {"display": "/clear ", "sessionId": SESSION, "timestamp": 1762870614075}
    write_file(tmp_path / ".claude" / "history.jsonl", json.dumps(clear).encode() + b"\n")
    before = PROMPT | {"timestamp": "2025-11-11T14:00:00.000Z"}
    after = line("u2", "u1", "user", "Something else.", 12)
    session = claude(tmp_path, before, after)
    (found,) = session.context_clears
    assert (found.after_message_index, found.evidence) == (0, "history")
    assert 0 < found.confidence < 1
    assert found.timestamp is not None
    assert found.timestamp.timestamp() == 1762870614.075


@pytest.mark.parametrize(
    "said",
    [
        "Hold.",
        "Don't have to update the pre-commit code so that it's generated every time",
        "Will this technique work in GitHub CI?",
    ],
)
def test_claude_rejection(tmp_path: Path, said: str) -> None:
    """The user's words are the reason; the change that was not made is rebuilt from the call."""
    call = line(PARENT, "u1", "assistant", tool_use("Edit", file_path="a.py", old_string="x", new_string="y"), 12)
    record = json.loads(json.dumps(REJECTION).replace("Hold.", said))
    session = claude(tmp_path, PROMPT, call, record)
    (rejection,) = session.rejections
    assert (rejection.message_index, rejection.tool_use_id, rejection.tool_name) == (2, CALL, "Edit")
    assert (rejection.reason, rejection.by, rejection.rejection_type) == (said, "user", "edit")
    assert rejection.confidence == 1.0
    assert rejection.timestamp is not None
    assert rejection.timestamp.isoformat() == "2025-12-03T10:30:00+00:00"
    assert rejection.action is not None
    assert rejection.action.path == "a.py"
    assert "-x\n" in (rejection.action.diff or "")
    assert "+y\n" in (rejection.action.diff or "")
    assert (session.errors, session.interruptions) == ([], [])


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (REJECTION_TEXT, "rejected"),
        ("Exit code 128\nfatal: not a git repository", "error"),
        ("<tool_use_error>InputValidationError: missing parameter</tool_use_error>", "tool_use_error"),
        ("Interrupted by user", "interrupted"),
        ("Exit code 130", "interrupted"),
        ("Exit code 137\nwaiting", "interrupted"),
        ("Exit code 1\nkilled by 130 bees", "error"),
    ],
)
def test_claude_results_with_is_error(tmp_path: Path, text: str, outcome: str) -> None:
    """Each error is exactly one of rejection, tool error, invalid call and interruption."""
    call = line(PARENT, "u1", "assistant", tool_use("Bash", command="make"), 12)
    block = {"type": "tool_result", "tool_use_id": CALL, "content": text, "is_error": True}
    result = line("r1", PARENT, "user", [block], 15)
    session = claude(
        tmp_path, PROMPT, call, result, line("a2", "r1", "assistant", [{"type": "text", "text": "So."}], 16)
    )
    (found,) = (block for block in session.messages[2].blocks if isinstance(block, m.ToolResult))
    assert (found.outcome, found.content) == (outcome, text)
    events = {
        "rejected": len(session.rejections),
        "interrupted": len(session.interruptions),
        "error": sum(error.kind == "tool_error" for error in session.errors),
        "tool_use_error": sum(error.kind == "tool_use_error" for error in session.errors),
    }
    assert {kind: count for kind, count in events.items() if count} == {outcome: 1}


@pytest.mark.parametrize("code", [130, 137])
def test_claude_exit_codes_of_an_interruption(tmp_path: Path, code: int) -> None:
    """Without a marker the exit code is weak evidence, and named; the partial output stays."""
    call = line(PARENT, "u1", "assistant", tool_use("Bash", command="make"), 12)
    block = {"type": "tool_result", "tool_use_id": CALL, "content": f"Exit code {code}\nhalf", "is_error": True}
    session = claude(tmp_path, PROMPT, call, line("r1", PARENT, "user", [block], 15))
    (interruption,) = session.interruptions
    assert (interruption.during, interruption.tool_use_ids) == ("tool", [CALL])
    assert (interruption.evidence, interruption.confidence) == (f"exit code {code}", 0.5)
    (result,) = (block for block in session.messages[2].blocks if isinstance(block, m.ToolResult))
    assert (result.exit_code, result.content) == (code, f"Exit code {code}\nhalf")


def test_claude_key_fields(tmp_path: Path) -> None:
    """Messages are linked by their ids; queue operations and snapshots are known, and are no messages."""
    session = claude(
        tmp_path,
        line("cfbd11e2-3343-405b-a0f3-b09708928e65", None, "user", "Hello.", 10),
        line("0930f2f2-c5f1-41a3-94cf-d326a5872179", "cfbd11e2-3343-405b-a0f3-b09708928e65", "assistant", [], 13),
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "timestamp": "2025-11-13T16:46:14Z"},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "isSnapshotUpdate": False},
    )
    assert session.info.id == SESSION
    assert [(message.id, message.role, message.parent_index) for message in session.messages] == [
        ("cfbd11e2-3343-405b-a0f3-b09708928e65", "user", None),
        ("0930f2f2-c5f1-41a3-94cf-d326a5872179", "assistant", 0),
    ]
    assert session.problems == []


def test_claude_content_blocks(tmp_path: Path) -> None:
    """Thinking, text and a call in the model's message; the result in the user's."""
    content = [
        {"type": "thinking", "thinking": "..."},
        {"type": "text", "text": "..."},
        *tool_use("Bash", command="ls"),
    ]
    result = [{"type": "tool_result", "tool_use_id": CALL, "content": "..."}]
    session = claude(tmp_path, line("a1", None, "assistant", content, 10), line("u1", "a1", "user", result, 11))
    assert [type(block) for block in session.messages[0].blocks] == [m.Thinking, m.Text, m.ToolCall]
    assert [type(block) for block in session.messages[1].blocks] == [m.ToolResult]
    assert (session.messages[1].author, session.orphans) == ("harness", [])


def test_claude_killed_while_waiting_for_approval(tmp_path: Path) -> None:
    """A call, internal lines, a new prompt, and no result: an unfinished call, and nothing that was not recorded."""
    call = line("a1", "u1", "assistant", tool_use("Write", file_path="test123.txt", content="x"), 12)
    queue = {
        "type": "queue-operation",
        "operation": "dequeue",
        "sessionId": SESSION,
        "timestamp": "2025-11-13T16:46:13Z",
    }
    snapshot = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "isSnapshotUpdate": False}
    session = claude(tmp_path, PROMPT, call, queue, snapshot, line("u2", "a1", "user", "New conversation.", 20))
    (orphan,) = session.orphans
    assert (orphan.message_index, orphan.tool_use_id, orphan.tool_name) == (1, CALL, "Write")
    assert (orphan.reason, session.rejections, session.interruptions) == ("killed", [], [])


def test_claude_dead_branch(tmp_path: Path) -> None:
    """The session was resumed at the text before an unfinished call: that call is on a branch, out of the context."""
    text = line("a1", "u1", "assistant", [{"type": "text", "text": "I will write."}], 11)
    call = line("a2", "a1", "assistant", tool_use("Write", file_path="test123.txt", content="x"), 12)
    resumed = line("u2", "a1", "user", "Do something else.", 20)
    answer = line("a3", "u2", "assistant", [{"type": "text", "text": "Yes."}], 21)
    session = claude(tmp_path, PROMPT, text, call, resumed, answer)
    assert [message.index for message in session.active_path()] == [0, 1, 3, 4]
    (branch,) = session.branches
    assert (branch.root_index, branch.length, branch.reason) == (2, 1, "resumed")
    assert session.context_at(4).message_indices == [0, 1, 3]


@pytest.mark.parametrize("where", ["block", "record"])
def test_claude_subagent(tmp_path: Path, where: str) -> None:
    """The result of the Task tool names the sub-agent, whose session is in a file of its own."""
    link = {"agentId": "a033404"}
    block: JSON = {"type": "tool_result", "tool_use_id": CALL, "content": "Found it."}
    fields = {"toolUseResult": link} if where == "record" else {}
    if where == "block":
        block["toolUseResult"] = link
    task = tool_use("Task", prompt="Find it.", subagent_type="Explore")
    inside = [
        line("s1", None, "user", "Find it.", 12, agentId="a033404") | {"isSidechain": True},
        line("s2", "s1", "assistant", tool_use("Grep", "toolu_2", pattern="it"), 13, agentId="a033404")
        | {"isSidechain": True},
    ]
    data = b"".join(json.dumps(item).encode() + b"\n" for item in inside)
    write_file(tmp_path / PROJECT / "agent-a033404.jsonl", data)
    session = claude(
        tmp_path, PROMPT, line("a1", "u1", "assistant", task, 11), line("r1", "a1", "user", [block], 15, **fields)
    )
    (agent,) = session.subagents
    assert (agent.tool_use_id, agent.agent_id, agent.linked_by) == (CALL, "a033404", "agentId")
    library = Library(tmp_path)
    child = library.load(next(ref for ref in library.refs() if ref.id == agent.session))
    assert [message.author for message in child.messages] == ["model", "model"]


# --- Codex CLI -------------------------------------------------------------------------------------------------------

THREAD = "019b0c4e-1111-7222-8333-444455556666"


def codex(home: Path, *records: JSON, version: str | None = None) -> Session:
    """Read a thread with these records; without a version, as in the samples, nothing says what it may leave out."""
    head = {"type": "session_meta", "payload": {"id": THREAD, "timestamp": "2025-12-27T10:00:00Z", "cwd": "/home/dev"}}
    if version is not None:
        head["payload"]["cli_version"] = version  # type: ignore[index]
    lines = [{"timestamp": f"2025-12-27T10:{minute:02}:00Z"} | record for minute, record in enumerate([head, *records])]
    name = f"rollout-2025-12-27T10-00-00-{THREAD}.jsonl"
    data = b"".join(json.dumps(item).encode() + b"\n" for item in lines)
    return load(write_file(home / ".codex" / "sessions" / "2025" / "12" / "27" / name, data))


def said(role: str, text: str) -> JSON:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}


def test_codex_interruption_in_the_text(tmp_path: Path) -> None:
    """Words of the model are weak evidence, and named; rate limits are an interruption by the system."""
    session = codex(tmp_path, said("user", "Rename it."), CODEX_TEXT)
    (interruption,) = session.interruptions
    assert (interruption.message_index, interruption.type) == (1, "system")
    assert interruption.evidence == "the words 'aborted', 'rate limiting'"
    assert interruption.confidence == 0.2


def test_codex_text_of_a_version_that_records_aborts(tmp_path: Path) -> None:
    """There the words are only words."""
    assert codex(tmp_path, said("user", "Rename it."), CODEX_TEXT, version="0.77.0").interruptions == []


def test_codex_abort(tmp_path: Path) -> None:
    """An event of its own: by the user, of the message before it."""
    session = codex(tmp_path, said("user", "Rename it."), said("assistant", "I am"), CODEX_ABORTED, version="0.77.0")
    (interruption,) = session.interruptions
    assert (interruption.type, interruption.during, interruption.confidence) == ("user", "response", 1.0)
    assert (interruption.message_index, interruption.interrupted_message_index) == (2, 1)
    assert interruption.evidence == "turn_aborted: interrupted"


def test_codex_compaction(tmp_path: Path) -> None:
    """The message is the summary; the messages it replaces are those before it."""
    session = codex(tmp_path, said("user", "Do X and Y."), said("assistant", "X is done."), CODEX_COMPACTED)
    (boundary,) = session.compaction.boundaries
    assert boundary.summary == CODEX_COMPACTED["payload"]["message"]
    assert (boundary.summary_source, boundary.after_message_index) == ("inline", 1)
    assert boundary.replaced_message_indices == [0, 1]
    assert boundary.timestamp is not None
    assert boundary.timestamp.isoformat() == "2025-12-27T10:30:00+00:00"
    assert (boundary.trigger, boundary.pre_tokens) == (None, None)
    assert session.problems == []


def test_codex_clear(tmp_path: Path) -> None:
    """The prompt history has it, in whole seconds."""
    clear = {"session_id": THREAD, "ts": 1766829690, "text": "/clear"}
    write_file(tmp_path / ".codex" / "history.jsonl", json.dumps(clear).encode() + b"\n")
    session = codex(tmp_path, said("user", "Do X."), said("user", "Do Y."))
    (found,) = session.context_clears
    assert (found.after_message_index, found.evidence) == (0, "history")
    assert 0 < found.confidence < 1


def test_codex_escalation_that_is_never_answered(tmp_path: Path) -> None:
    """The session continues without a result: an inferred rejection, at low confidence, with its evidence."""
    session = codex(
        tmp_path, said("user", "Write it."), CODEX_ESCALATION, said("user", "No."), said("assistant", "Ok.")
    )
    (rejection,) = session.rejections
    assert (rejection.tool_use_id, rejection.tool_name) == (CODEX_CALL, "shell_command")
    assert (rejection.by, rejection.reason, rejection.rejection_type) == ("user", None, "command")
    assert rejection.evidence == "inferred: a call that asked for approval has no result"
    assert rejection.confidence < 0.5
    assert rejection.action is not None
    assert rejection.action.command == "printf 'Goodbye World\\n' > test.txt"
    (call,) = (block for message in session.messages for block in message.blocks if isinstance(block, m.ToolCall))
    assert call.input == CODEX_ESCALATION["payload"]["arguments"]


def test_codex_model_that_adjusts_after_an_escalation(tmp_path: Path) -> None:
    """Also in versions whose rejections usually have a result: the process was alive."""
    usage: JSON = {"type": "event_msg", "payload": {"type": "token_count", "info": None}}
    turn = {"type": "turn_context", "payload": {"approval_policy": "on-request"}}
    records = (said("user", "Write it."), CODEX_ESCALATION, usage, turn, said("assistant", "I will not write it."))
    (rejection,) = codex(tmp_path, *records, version="0.77.0").rejections
    assert rejection.confidence < 0.5


def test_codex_session_that_ends_with_an_escalation(tmp_path: Path) -> None:
    """Nobody knows whether it was answered: an unfinished call."""
    session = codex(tmp_path, said("user", "Write it."), CODEX_ESCALATION)
    assert session.rejections == []
    assert [orphan.tool_use_id for orphan in session.orphans] == [CODEX_CALL]


# --- Gemini CLI ------------------------------------------------------------------------------------------------------


def gemini(home: Path, messages: list[JSON], **head: Any) -> Session:
    """Read a document with these messages."""
    document: JSON = head or {"sessionId": "session-id"}
    document |= {"projectHash": "ab" * 32, "startTime": "2025-12-27T10:00:00Z", "lastUpdated": "2025-12-27T11:00:00Z"}
    document |= {"messages": messages}
    path = home / ".gemini" / "tmp" / ("ab" * 32) / "chats" / "session-2025-12-27T10-00-abcdef12.json"
    return load(write_file(path, json.dumps(document, indent=2).encode()))


USER: JSON = {"type": "user", "content": "..."}


def test_gemini_document(tmp_path: Path) -> None:
    """`id` names the session, `model` the messages of the model; each thought is kept."""
    messages: list[JSON] = [
        {"id": "msg-1", "type": "user", "content": "Why?", "timestamp": "2025-12-27T10:00:01Z"},
        {
            "id": "msg-2",
            "type": "model",
            "content": "Because.",
            "thoughts": [
                {"subject": "Analysis", "description": "what is asked"},
                {"subject": "Approach", "description": "how to answer"},
            ],
        },
    ]
    session = gemini(tmp_path, messages, id="session-id")
    assert (session.info.id, session.info.title, session.info.kind) == ("session-id", "Why?", "main")
    assert [(message.id, message.role, message.author) for message in session.messages] == [
        ("msg-1", "user", "human"),
        ("msg-2", "assistant", "model"),
    ]
    assert [type(block) for block in session.messages[1].blocks] == [m.Thinking, m.Thinking, m.Text]
    assert texts(session)[-1] == "Because."
    assert "Analysis" in texts(session)[1]
    assert (session.compaction.boundaries, session.problems) == ([], [])
    assert [ref.id for ref in Library(tmp_path).refs()] == ["session-id"]


def test_gemini_cancelled(tmp_path: Path) -> None:
    """A note of the interface: the user interrupted the reply before it."""
    messages = [USER | {"id": "u"}, {"id": "g", "type": "gemini", "content": "I am", "model": "x"}, GEMINI_CANCELLED]
    session = gemini(tmp_path, messages)
    (interruption,) = session.interruptions
    assert (interruption.message_index, interruption.interrupted_message_index) == (2, 1)
    assert (interruption.type, interruption.evidence, interruption.confidence) == ("user", "Request cancelled.", 1.0)
    assert interruption.timestamp is not None
    assert interruption.timestamp.isoformat() == "2025-12-23T05:21:32.429000+00:00"
    assert session.messages[2].role == "system"


def test_gemini_flow(tmp_path: Path) -> None:
    """A prompt, a reply with a call, the note, and a new prompt; messages without ids are read, too."""
    call = {"name": "run_shell_command", "args": {"command": "make"}, "result": []}
    flow: list[JSON] = [
        USER,
        {"type": "gemini", "content": "...", "toolCalls": [call]},
        {"type": "info", "content": "Request cancelled."},
        {"type": "user", "content": "New request after interruption..."},
    ]
    session = gemini(tmp_path, flow)
    assert [message.author for message in session.messages] == ["human", "model", "harness", "human"]
    (interruption,) = session.interruptions
    assert (interruption.message_index, interruption.interrupted_message_index) == (2, 1)
    assert session.rejections == []
    assert [message.index for message in session.active_path()] == [0, 1, 2, 3]


def test_gemini_call_without_a_status(tmp_path: Path) -> None:
    """A call with its result; nothing says that it was rejected or failed."""
    call = {"name": "edit_file", "args": {"file_path": "a.py"}, "result": [{"text": "Edited a.py"}]}
    session = gemini(tmp_path, [USER, {"type": "gemini", "toolCalls": [call]}])
    blocks = session.messages[1].blocks
    assert [block.name for block in blocks if isinstance(block, m.ToolCall)] == ["edit_file"]
    assert [(block.content, block.outcome) for block in blocks if isinstance(block, m.ToolResult)] == [
        ("Edited a.py", "ok")
    ]
    assert (session.rejections, session.errors, session.orphans) == ([], [], [])


@pytest.mark.parametrize("result", [[], [{"text": "nothing was changed"}]])
def test_gemini_call_with_an_error(tmp_path: Path, result: list[JSON]) -> None:
    """A failed edit is an error with its message, not a rejection."""
    call = {
        "id": "edit_file-1", "name": "edit_file", "args": {"file_path": "/path/to/file"}, "result": result,
        "status": "error", "error": GEMINI_EDIT_ERROR,
    }  # fmt: skip
    session = gemini(tmp_path, [USER, {"type": "gemini", "toolCalls": [call]}])
    (error,) = session.errors
    assert (error.kind, error.tool_use_id) == ("tool_error", "edit_file-1")
    assert GEMINI_EDIT_ERROR in error.text
    (found,) = (block for block in session.messages[1].blocks if isinstance(block, m.ToolResult))
    assert found.outcome == "error"
    assert GEMINI_EDIT_ERROR in found.content
    assert all(part["text"] in found.content for part in result)
    assert session.rejections == []


# --- the unified record ----------------------------------------------------------------------------------------------


def test_the_record_has_the_proposed_shape(tmp_path: Path) -> None:
    """One object with the session, its messages, and the four lists, whose entries have the proposed fields."""
    call = line(PARENT, "u1", "assistant", tool_use("Edit", file_path="a.py", old_string="x", new_string="y"), 12)
    last = line("9f8cc203-0e27-444f-88e7-b3eb9eef86d1", REJECTION["uuid"], "assistant", [], 30)
    marker = MARKER | {"uuid": "m1", "parentUuid": last["uuid"], "timestamp": "2025-12-16T10:30:00Z"}
    boundary = BOUNDARY | {"logicalParentUuid": "m1"}
    clear = {"display": "/clear ", "sessionId": SESSION, "timestamp": 1_766_000_000_000}
    write_file(tmp_path / ".claude" / "history.jsonl", json.dumps(clear).encode() + b"\n")
    record = json.loads(claude(tmp_path, PROMPT, call, REJECTION, last, marker, boundary).to_json())
    assert record["type"] == "session"
    assert {"session", "messages"} <= record.keys()
    (compacted,) = record["compaction"]["boundaries"]
    assert {"after_message_index", "uuid", "trigger", "pre_tokens", "replaced_message_indices"} <= compacted.keys()
    (cleared,) = record["context_clears"]
    assert {"after_message_index", "timestamp"} <= cleared.keys()
    (interrupted,) = record["interruptions"]
    assert {"message_index", "interrupted_message_index", "timestamp", "type"} <= interrupted.keys()
    (rejected,) = record["rejections"]
    assert rejected["tool_use_id"] == CALL
    assert (rejected["tool_name"], rejected["reason"]) == ("Edit", "Hold.")
    assert {"message_index", "timestamp"} <= rejected.keys()
