"""Prompts that are typed while a turn of Claude Code runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.agents.claude.queue import PromptQueue
from unspool.agents.claude.schema import ClaudeRecord
from unspool.core import model as m
from unspool.core.builder import SessionBuilder
from unspool.core.tree import NONE
from unspool.testing import ClaudeLog, call, texts

TASK = '{"task_id":"b1","tool_use_id":"slow","description":"Build","task_type":"local_bash"}'
NOTIFICATION = "<task-notification><task-id>a1</task-id><status>completed</status></task-notification>"


def queue(*operations: tuple[str, str | None] | tuple[str, str | None, str]) -> PromptQueue:
    made = PromptQueue(SessionBuilder("claude", "s1"))
    for line, (operation, text, *reason) in enumerate(operations):
        record = ClaudeRecord(operation=operation, content=text, reason=reason[0] if reason else None)
        made.read(record, m.Source(0, line, 0, 1))
    return made


def added(prompts: PromptQueue) -> list[m.Message]:
    prompts.add_taken(ClaudeRecord(), NONE)
    return prompts._builder.messages


def taken(prompts: PromptQueue) -> list[str]:
    return [entry.text for entry in prompts.taken]


def test_a_prompt_that_a_turn_took_is_added() -> None:
    """With the line on which it was queued, and only once."""
    prompts = queue(("enqueue", "first"), ("enqueue", "second"), ("remove", None))
    (message,) = added(prompts)
    assert (message.blocks, message.queued, message.source.line) == ([m.Text("first")], True, 0)
    assert len(added(prompts)) == 1


def test_a_prompt_with_a_record_of_its_own_is_not_added() -> None:
    """Nor is one that starts a turn, or that goes back to the editor."""
    prompts = queue(("enqueue", "first"), ("remove", None))
    prompts.recorded("first")
    assert taken(prompts) == []
    assert taken(queue(("enqueue", "first"), ("dequeue", None), ("remove", None))) == []
    assert taken(queue(("enqueue", "a"), ("enqueue", "b"), ("popAll", None), ("remove", None))) == []
    assert taken(queue(("enqueue", "a"), ("enqueue", "b"), ("popAll", "b"), ("remove", None))) == ["a"]


def test_a_removal_names_its_prompt() -> None:
    """2.1.219 and later write the text, and 2.1.325 the reason."""
    prompts = queue(("enqueue", "first"), ("enqueue", "second"), ("remove", "second"))
    assert taken(prompts) == ["second"]
    assert taken(queue(("enqueue", "first"), ("remove", "first", "absorbed_mid_turn"))) == ["first"]
    assert taken(queue(("enqueue", "first"), ("remove", "first", "edited"))) == []
    assert taken(queue(("enqueue", "first"), ("remove", "another"))) == []


def test_notifications_are_not_by_a_person() -> None:
    """A notification that a turn took is by the sub-agent."""
    (message,) = added(queue(("enqueue", NOTIFICATION), ("remove", None)))
    assert (message.author, message.queued) == ("subagent", False)


@pytest.mark.parametrize("removed_first", [True, False])
def test_notes_about_tasks_are_never_prompts(tmp_path: Path, removed_first: bool) -> None:
    """The agent queues and removes them for itself: around the result of the call, they are not the prompt."""
    log = ClaudeLog(version="2.1.49")
    log.user("go")
    log.model(call("slow"))
    log.record({"type": "queue-operation", "operation": "enqueue", "content": TASK})
    log.record({"type": "queue-operation", "operation": "enqueue", "content": "steer"})
    if removed_first:
        log.record({"type": "queue-operation", "operation": "remove"})
    log.result("slow", "done")
    if not removed_first:
        log.record({"type": "queue-operation", "operation": "remove"})
    log.model("fine")
    session = log.load(tmp_path)
    steered = [message for message in session.messages if message.queued]
    assert texts(session, steered) == (["steer"] if removed_first else [])
    assert [message.author for message in session.messages if TASK in message.text] == []


def test_a_note_about_a_task_in_a_line_of_its_own(tmp_path: Path) -> None:
    """It is by the harness, and no title."""
    log = ClaudeLog(version="2.1.49")
    log.user(TASK)
    log.user("go")
    log.model("fine")
    session = log.load(tmp_path)
    assert [message.author for message in session.messages] == ["harness", "human", "model"]
    assert session.title == "go"


def test_a_prompt_never_splits_a_reply(tmp_path: Path) -> None:
    """Taken while a reply is being written, it belongs before the next one."""
    log = ClaudeLog(version="2.0.76")
    log.user("go")
    log.model("thinking about it", reply="r")
    log.record({"type": "queue-operation", "operation": "enqueue", "content": "steer"})
    log.record({"type": "queue-operation", "operation": "remove"})
    log.model(call("one"), reply="r")
    log.result("one", "1")
    log.model("fine")
    session = log.load(tmp_path)
    assert [message.queued for message in session.messages] == [False, False, False, False, True, False]


def test_a_prompt_that_no_reply_followed(tmp_path: Path) -> None:
    """It stays in the turn that took it."""
    log = ClaudeLog(version="2.0.76")
    log.user("go")
    log.model(call("one"))
    log.record({"type": "queue-operation", "operation": "enqueue", "content": "steer"})
    log.record({"type": "queue-operation", "operation": "remove"})
    log.result("one", "1")
    log.user("next")
    log.model("fine")
    session = log.load(tmp_path)
    assert texts(session, list(session.prompts())) == ["go", "steer", "next"]
