"""Compactions of Claude Code whose following lines do not hang on them, and those that only drop tool results."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core.session import Session
from unspool.render.event_text import compaction_label
from unspool.testing import ClaudeLog, call, texts


def compacted(*kept: str, version: str = "2.1.219") -> ClaudeLog:
    """Two turns and a compaction that keeps some of their lines, up to its summary."""
    log = ClaudeLog(version=version)
    log.user("one", "one")
    log.model("1", name="answer 1")
    log.user("two", "two")
    log.model("2", name="answer 2")
    log.boundary(
        "boundary",
        trigger="auto",
        preTokens=297_000,
        postTokens=17_000,
        preservedMessages={"allUuids": [log.id(name) for name in kept]},
    )
    log.user("SUMMARY", "summary", isCompactSummary=True)
    return log


def context(session: Session, index: int) -> list[str]:
    found = []
    for place in session.context_at(index).message_indices:
        message = session.messages[place]
        found += texts(session, [message]) or [
            block.summary for block in message.blocks if hasattr(block, "summary") and block.summary
        ]
    return found


def test_a_line_that_hangs_on_a_message_that_was_kept(tmp_path: Path) -> None:
    """It follows the compaction: everything else from before left the context (2.1.217 and later)."""
    log = compacted("two", "answer 2")
    log.user("three", parent="answer 2")
    log.model("3")
    session = log.load(tmp_path)
    assert context(session, 7) == ["SUMMARY", "two", "2", "three"]
    assert [message.context for message in session.messages[:4]] == ["compacted", "compacted", "live", "live"]
    assert session.compaction.boundaries[0].replaced_message_indices == [0, 1]
    assert session.branches == []


@pytest.mark.parametrize("kept", [(), ("three",)])
def test_an_answer_to_the_prompt_before_the_compaction(tmp_path: Path, kept: tuple[str, ...]) -> None:
    """It comes before the summary it was given. 2.1.219 keeps the prompt, 2.1.150 has it in the summary only."""
    log = ClaudeLog(version="2.1.219" if kept else "2.1.150")
    log.user("one")
    log.model("1")
    log.user("three", "three")
    log.line("attachment", "note", attachment={"type": "skill_listing", "content": "skills"})
    log.boundary("boundary", trigger="auto", preservedMessages={"allUuids": [log.id(name) for name in kept]})
    log.model("3", name="answer", parent="three")
    log.user("SUMMARY", "summary", "boundary", isCompactSummary=True)
    log.user("four", parent="answer")
    log.model("4")
    session = log.load(tmp_path)
    assert context(session, 5) == ["SUMMARY", *kept]
    assert context(session, 8) == ["SUMMARY", *kept, "3", "four"]
    assert session.branches == []


def test_going_back_to_before_the_compaction(tmp_path: Path) -> None:
    """A prompt below a message that was not kept leaves the compaction behind."""
    log = compacted("answer 2")
    log.user("after", parent="summary")
    log.model("3")
    log.user("again", parent="answer 1")
    log.model("4")
    session = log.load(tmp_path)
    assert context(session, 9) == ["one", "1", "again"]


def test_a_reply_that_the_compaction_cuts_in_two(tmp_path: Path) -> None:
    """A further part of a reply from before the compaction stays before it."""
    log = ClaudeLog(version="2.1.150")
    log.user("one", "one")
    log.model("part 1", name="part 1", reply="r")
    log.boundary("boundary", trigger="auto")
    log.model("part 2", parent="part 1", reply="r")
    log.user("SUMMARY", "summary", "boundary", isCompactSummary=True)
    log.user("two", parent="summary")
    log.model("2")
    session = log.load(tmp_path)
    assert context(session, 6) == ["SUMMARY", "two"]


def test_a_summary_below_its_answer(tmp_path: Path) -> None:
    """A damaged log: the parents must not form a ring."""
    log = ClaudeLog(version="2.1.219")
    log.user("one", "one")
    log.boundary("boundary", trigger="auto", preservedMessages={"allUuids": [log.id("one")]})
    log.model("1", name="answer", parent="one")
    log.user("SUMMARY", "summary", "answer", isCompactSummary=True)
    log.model("2")
    session = log.load(tmp_path)
    assert [message.parent_index for message in session.messages] == [None, 0, 1, 2, 3]


def test_results_that_were_dropped(tmp_path: Path) -> None:
    """The boundary says which; every message stays in context, except attachments that were dropped too."""
    log = ClaudeLog(version="2.1.49")
    log.user("read")
    log.line("attachment", "old file", attachment={"type": "file", "filename": "a.txt"})
    log.model(call("big", "Read", file_path="a.txt"))
    log.result("big", "x" * 1000)
    meta = {
        "trigger": "auto", "preTokens": 138_213, "tokensSaved": 92_142, "compactedToolIds": ["big"],
        "clearedAttachmentUUIDs": [log.id("old file")],
    }  # fmt: skip
    log.line("system", "micro", subtype="microcompact_boundary", content="dropped", microcompactMetadata=meta)
    log.model("done")
    session = log.load(tmp_path)
    (boundary,) = session.compaction.boundaries
    assert (boundary.scope, boundary.dropped_tool_use_ids, boundary.replaced_message_indices) == (
        "results",
        ["big"],
        [1],
    )
    assert (boundary.pre_tokens, boundary.post_tokens) == (138_213, 46_071)
    assert session.context_at(5).message_indices == [0, 2, 3, 4]
    assert session.messages[0].context == "live"
    assert compaction_label(boundary) == "Old tool results dropped · auto · 138,213 → 46,071 tokens · 1 result"
