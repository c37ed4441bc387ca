"""The rule that chooses a title, for all agents."""

from __future__ import annotations

import pytest

from unspool.agents._metadata import choose_title


@pytest.mark.parametrize(
    ("recorded", "prompt", "command", "title"),
    [
        ("Recorded", "typed", "/command", "Recorded"),
        (None, "typed", "/command", "typed"),
        ("", " \n", "/command 7", "/command 7"),
        (None, None, None, None),
        ('{"answer":\n "wrong format"}', "typed", None, "typed"),
        (None, '{"pasted": 1}', None, '{"pasted": 1}'),
        (None, "[this] is typed", None, "[this] is typed"),
        (None, "\n---\n  second line is the first with words\nthird", None, "second line is the first with words"),
    ],
)
def test_the_first_text_with_words_is_the_title(
    recorded: str | None, prompt: str | None, command: str | None, title: str | None
) -> None:
    """In the order recorded, typed, command; JSON comes last."""
    assert choose_title(recorded, prompt, command) == title
