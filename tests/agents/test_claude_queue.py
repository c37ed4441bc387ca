"""Prompts that are typed while a turn of Claude Code runs, without a log."""

from __future__ import annotations

from unspool.agents.claude.queue import PromptQueue
from unspool.agents.claude.schema import ClaudeRecord
from unspool.core import model as m
from unspool.core.builder import SessionBuilder
from unspool.core.tree import NONE


def queue(*operations: tuple[str, str | None]) -> PromptQueue:
    made = PromptQueue()
    for line, (operation, text) in enumerate(operations):
        made.read(ClaudeRecord(operation=operation, content=text), m.Source(0, line, 0, 1))
    return made


def added(prompts: PromptQueue) -> list[m.Message]:
    builder = SessionBuilder("claude", "s1")
    prompts.add_taken(builder, ClaudeRecord(), NONE)
    return builder.messages


def test_a_prompt_that_a_turn_took_is_added() -> None:
    """With the line on which it was queued, and only once."""
    prompts = queue(("enqueue", "first"), ("enqueue", "second"), ("remove", None))
    (message,) = added(prompts)
    assert (message.blocks, message.queued, message.source.line) == ([m.Text("first")], True, 0)
    assert added(prompts) == []


def test_a_prompt_with_a_record_of_its_own_is_not_added() -> None:
    """Nor is one that starts a turn, or what the harness queued."""
    prompts = queue(("enqueue", "first"), ("remove", None))
    prompts.recorded("first")
    assert added(prompts) == []
    assert added(queue(("enqueue", "first"), ("dequeue", None), ("remove", None))) == []
    assert added(queue(("enqueue", "a"), ("enqueue", "b"), ("popAll", None), ("remove", None))) == []
    assert added(queue(("enqueue", "<task-notification>done"), ("remove", None))) == []
