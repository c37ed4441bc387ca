"""Going back in a Codex thread, without a log."""

from __future__ import annotations

from unspool.agents.codex.chain import CodexChain
from unspool.agents.codex.history import PromptHistory
from unspool.agents.codex.rollback import Rollbacks
from unspool.agents.codex.schema import CodexRecord
from unspool.agents.codex.token_usage import TokenMeter
from unspool.agents.codex.tool_calls import CodexToolCalls
from unspool.agents.codex.turn import CodexTurn
from unspool.core import model as m
from unspool.core.builder import SessionBuilder
from unspool.core.tree import NONE

RECORD = CodexRecord()


class Thread:
    """A thread with the objects that going back concerns."""

    def __init__(self, version: tuple[int, ...]) -> None:
        self.builder = SessionBuilder("codex", "t1")
        self.turn, self.history = CodexTurn(), PromptHistory()
        calls, tokens = CodexToolCalls(self.builder), TokenMeter(self.builder)
        self.rollbacks = Rollbacks(self.builder, self.turn, self.history, calls, tokens, version)
        self.chain = CodexChain(self.builder, self.turn, self.rollbacks, version)

    def ask(self, text: str) -> int:
        index = self.chain.add(RECORD, m.Source(0, 1, 0, 1), "user", "human", [m.Text(text)], False)
        self.history.add_prompt(index, text)
        return index

    def answer(self, text: str) -> int:
        return self.chain.add(RECORD, m.Source(0, 1, 0, 1), "assistant", "model", [m.Text(text)], False)


def test_a_rollback_is_added_with_the_next_prompt() -> None:
    """It is attached to the message before the dropped turn."""
    thread = Thread((0, 118))
    thread.ask("one")
    before = thread.answer("first")
    dropped = [thread.ask("two"), thread.answer("second")]
    thread.rollbacks.drop_turns(RECORD, 1, inherited=False)
    assert thread.builder.events.rollbacks == []
    after = thread.ask("three")
    (rollback,) = thread.builder.events.rollbacks
    assert (rollback.message_index, rollback.dropped_message_indices) == (after, dropped)
    assert thread.builder.columns.parents[after] == before
    assert not thread.rollbacks.is_pending


def test_inherited_rollbacks_are_no_events() -> None:
    """The thread they happened in has them."""
    thread = Thread((0, 118))
    thread.ask("one")
    thread.rollbacks.drop_turns(RECORD, 1, inherited=True)
    thread.ask("two")
    assert thread.builder.events.rollbacks == []
    assert thread.builder.events.branch_reasons == {0: "interrupted"}


def test_going_back_past_a_compaction() -> None:
    """Old versions keep the prompts that the compaction kept; since 0.100 nothing is left."""
    for version, parent, lost in (((0, 98), 1, [1]), ((0, 118), NONE, None)):
        thread = Thread(version)
        thread.ask("one")
        thread.answer("first")
        summary = thread.chain.add(RECORD, m.Source(0, 1, 0, 1), "user", "harness", [m.CompactionMark("so far")], False)
        thread.history.compact(summary, {0})
        thread.rollbacks.drop_turns(RECORD, 1, inherited=False)
        after = thread.ask("two")
        assert thread.builder.columns.parents[after] == parent
        assert [resume.lost_message_indices for resume in thread.builder.events.resumes] == ([lost] if lost else [])
