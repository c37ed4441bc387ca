"""Text that a person decides on: every character in sight, and the input can be read back from what is shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.render.exact import exact, exact_text, findings_in, original

from ..work import lines_run

TRICKY = "\x1b\x00\r\n\t \u202e\u2066\u200b\u00ad\ufeff\u2800\u0430\u03bf\uff1b\u2013\u2028\x9b"
TRICKY += "\ud800\u0301\u05d0⟨⟩¶›·×U+01AESCR"
TEXTS = st.text(st.one_of(st.sampled_from(TRICKY), st.characters(codec=None)))


@given(TEXTS, st.booleans())
def test_the_shown_text_maps_back_to_the_input(text: str, prose: bool) -> None:
    """For any input: no two inputs look the same."""
    shown = exact(text, prose=prose)
    assert original(shown.shown) == text
    assert "".join(segment.source for segment in shown.segments) == text


@given(TEXTS)
def test_nothing_that_is_shown_can_hide(text: str) -> None:
    """The shown text has no controls but line breaks and tabs, nothing invisible and nothing that turns the text."""
    for character in exact_text(text):
        category = unicodedata.category(character)
        assert character in "\n\t " or category not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp", "Me")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls .\x1bP ; touch pwned", "ls .⟨ESC⟩P ; touch pwned"),
        ("echo a\rrm -rf b", "echo a⟨CR⟩rm -rf b"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("rm\u200b -rf", "rm⟨U+200B⟩ -rf"),
        ("r\u043et", "r⟨U+043E⟩t"),
        ("\u0441\u043e\u0440\u0443", "⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩⟨U+0443⟩"),
        ("echo \uff1b id", "echo ⟨U+FF1B⟩ id"),
        ("echo \u2019; id; \u2019", "echo ⟨U+2019⟩; id; ⟨U+2019⟩"),
        ("a\xa0b", "a⟨U+00A0⟩b"),
        ("a\U000e0041b", "a⟨U+E0041⟩b"),
        ("·⟨ESC⟩", "⟨U+00B7⟩⟨U+27E8⟩ESC⟨U+27E9⟩"),
        ("a \nb", "a·\nb"),
        ("a\n", "a¶\n"),
        ("\tx", "›\tx"),
        ("ls" + " " * 300 + "; id", "ls⟨U+0020×300⟩; id"),
        ("ls" + "\n" * 300 + "id", "ls⟨U+000A×300⟩\nid"),
        ("e" + "\u0301" * 4, "e\u0301\u0301⟨U+0301⟩⟨U+0301⟩"),
    ],
)
def test_what_could_hide_is_a_token(text: str, shown: str) -> None:
    """Escapes, overwriting, turned, invisible and borrowed characters, and white space that moves the rest away."""
    assert exact_text(text) == shown
    assert original(shown) == text


@pytest.mark.parametrize(
    "text",
    ["привет, мир", "日本語", "naïve café", "def f(x):\n    return x  # 1\n\nf(2)", "→ 🚀", "cafe\u0301"],
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    """Other scripts, accents, emoji and code need no token and cause no warning."""
    assert exact_text(text) == text
    assert findings_in(text) == []


@pytest.mark.parametrize("character", ["\u05d0", "\u0645", "\u0e01"])
def test_a_long_run_of_characters_is_processed_as_one(character: str) -> None:
    """Text in any script is shown about as fast as in the Latin one: little is done for each letter."""
    text = character * 5_000
    exact(character)
    assert lines_run(lambda: exact(text)) < 5 * len(text)
    assert exact_text(text) == exact_text(character) * len(text)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("\u05d0\u05b8\u05d1 \u05d2", ["rtl", "plain", "rtl"]),
        ("\u05d0\u200b\u05d1", ["rtl", "invisible", "rtl"]),
        ("\u05d0a\u05d1", ["lookalike", "plain", "lookalike"]),
        ("\u05d0\u05b8\u05b8\u05b8\u05d1", ["rtl", "invisible", "rtl"]),
        ("\u0e01\u05d0\u0e01", ["plain", "rtl", "plain"]),
        ("\u05d0\u2013\u05d1", ["rtl", "lookalike", "rtl"]),
    ],
)
def test_right_to_left_words_end_where_something_else_begins(text: str, kinds: list[str]) -> None:
    """Marks on a letter belong to its word; tokens and other scripts do not."""
    assert [segment.kind for segment in exact(text).segments] == kinds


def test_typographic_punctuation_is_ordinary_in_prose() -> None:
    """A plan may have curly quotes; in a command the same characters are not the quotes they look like."""
    text = "“don’t” – （好）"
    assert exact_text(text, prose=True) == text
    assert [finding.kind for finding in findings_in(text)] == ["lookalike"]


def test_findings_name_what_was_found() -> None:
    """Each kind once, with its number and the names of its characters."""
    found = findings_in("\x1b[1m\x1b", "p\u0430y \u202e", "\u05e9\u05dc\u05d5\u05dd \u05e2")
    assert [finding.text for finding in found] == [
        "2 control characters: U+001B ESCAPE",
        "1 character that changes the direction of text: U+202E RIGHT-TO-LEFT OVERRIDE",
        "1 character that looks like another one: U+0430 CYRILLIC SMALL LETTER A (looks like a)",
        "2 words that are read from right to left: right-to-left script",
    ]
