"""Making text harmless."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.render.sanitize import fence, harmless, harmless_json, local, one_line, pretty

DANGEROUS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PIECES = st.lists(
    st.sampled_from(["\x1b", "[", "]", "31m", "\x07", "\\", "P", "0;", "\x9b", "a", "\r", "\n", " ", "é", "\u202e"])
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\nlines", "plain\ttext\nlines"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\after", "after"),
        ("\x1b(Bafter", "after"),
        ("one\r\ntwo\rthree", "one\ntwo\ufffdthree"),
        ("\x9b31m", "\ufffd31m"),
        ("\x1b", "\ufffd"),
        ("\x1b\x1b[0m[31m", "\ufffd[31m"),
        ("ab\u202edc\u2066", "abdc"),
        ("שלום 🧵", "שלום 🧵"),
    ],
)
def test_ordinary_text_is_unchanged(text: str, expected: str) -> None:
    """Escape sequences are removed, single control characters are replaced, text stays."""
    assert harmless(text) == expected


@given(st.one_of(st.text(), PIECES.map("".join)))
def test_control_characters_are_removed(text: str) -> None:
    """Whatever goes in; and a second time changes nothing."""
    once = harmless(text)
    assert not DANGEROUS.search(once)
    assert harmless(once) == once


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_short_line(text: str, width: int) -> None:
    """Never longer than asked for, never more than a line."""
    line = one_line(text, width)
    assert len(line) <= width
    assert len(line.splitlines()) <= 1
    assert "\t" not in line


def test_one_line_marks_the_cut() -> None:
    """The end of what was cut is marked; blanks are one blank."""
    assert one_line("a  b\n\nc", 10) == "a b c"
    assert one_line("x" * 20, 10) == "x" * 9 + "…"


@given(st.text(alphabet="`a\n", max_size=60))
def test_nothing_closes_a_fence(text: str) -> None:
    """A fence is longer than any in the text, and at least three."""
    mark = fence(text)
    assert set(mark) == {"`"}
    assert len(mark) >= 3
    assert mark not in text


def test_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the local time zone; a missing time is an empty text."""
    moment = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert local(moment) == moment.astimezone().strftime("%Y-%m-%d %H:%M")
    assert local(None) == ""


def test_json_over_several_lines() -> None:
    """Invalid JSON is shown as it is."""
    assert pretty(msgspec.Raw(b'{"a":[1,2]}')) == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert pretty(msgspec.Raw(b'{"a":')) == '{"a":'


@given(st.lists(st.sampled_from(["\x7f", "\x80", "\x9b31m", "\u202e", "\u2066", "é", "🎉", "\\", '"', "\x1b"])))
def test_json_for_a_terminal(pieces: list[str]) -> None:
    """No character in it controls the terminal, and its value is the same."""
    text = "".join(pieces)
    data = harmless_json(msgspec.json.encode({text: text}))
    assert msgspec.json.decode(data) == {text: text}
    assert not DANGEROUS.search(data.decode())
