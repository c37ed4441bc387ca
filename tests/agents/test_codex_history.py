"""Which messages of a Codex thread a rollback drops and a compaction keeps, without a log."""

from __future__ import annotations

from unspool.agents.codex.history import PromptHistory
from unspool.agents.codex.schema import CodexContent, CodexPayload


def history(*texts: str) -> PromptHistory:
    """Prompts at the even indices."""
    made = PromptHistory()
    for number, text in enumerate(texts):
        made.add_prompt(2 * number, text)
    return made


def message(role: str, text: str) -> CodexPayload:
    return CodexPayload(type="message", role=role, content=[CodexContent(text=text)])


def test_the_last_turns_are_dropped() -> None:
    """No more than there are."""
    found = history("one", "two", "three")
    assert found.drop_last(0) == []
    assert found.drop_last(2) == [2, 4]
    assert found.drop_last(5) == [0]
    assert found.drop_last(1) == []


def test_the_first_prompt_stays_the_first() -> None:
    """Later ones do not replace it."""
    found = history("one")
    assert found.first_prompt is None
    found.note_first("one")
    found.note_first("two")
    assert found.first_prompt == "one"


def test_a_replacement_history_keeps_what_it_repeats() -> None:
    """Prompts and replies by their text; anything else in it is new."""
    found = history("one", "two")
    found.add_reply(3, "an answer")
    assert found.preserved_by([message("user", "two"), message("assistant", "an answer"), message("user", "new")]) == [
        2,
        3,
    ]


def test_the_newest_prompts_are_kept_without_one() -> None:
    """Up to a size, and no summary among them."""
    found = history("x" * 70_000, "y" * 70_000, "short")
    assert found.preserved_by(None) == [2, 4]
    found.compact(5, {2, 4})
    assert found.indices() == {2, 4, 5}
    assert found.preserved_by(None) == [2, 4]
    assert found.summaries == {5}
