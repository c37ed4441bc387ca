"""Streamed text has offsets: a client that joins at any point has all of it, once."""

from __future__ import annotations

import pytest

from unspool.runs import live_text
from unspool.runs.live_text import MAX_LIVE_TEXT, LiveTexts, utf16_length
from unspool.runs.protocol import TextDelta

PIECES = ("One ", "two 🙂 ", "", "three", "\n")


def as_browser(text: str) -> list[bytes]:
    """The code units of a text in a browser."""
    data = text.encode("utf-16-le")
    return [data[at : at + 2] for at in range(0, len(data), 2)]


@pytest.mark.parametrize("joined", range(len(PIECES) + 1))
def test_a_snapshot_and_the_pieces_after_it_are_the_whole_text(joined: int) -> None:
    """At every point of the stream."""
    texts = LiveTexts()
    texts.start_turn()
    for piece in PIECES[:joined]:
        texts.add(TextDelta(piece))
    units = as_browser(texts.main.text) if texts.main else []
    for piece in PIECES[joined:]:
        facts = texts.add(TextDelta(piece))
        assert facts["offset"] == len(units)
        units += as_browser(facts["text"])
    assert b"".join(units).decode("utf-16-le") == "".join(PIECES)


def test_a_long_text_keeps_its_end_and_its_offset() -> None:
    texts = LiveTexts()
    texts.add(TextDelta("🙂" * 10 + "x" * MAX_LIVE_TEXT))
    assert texts.main is not None
    assert (texts.main.offset, len(texts.main.text)) == (20, MAX_LIVE_TEXT)
    assert texts.add(TextDelta("y"))["offset"] == 20 + MAX_LIVE_TEXT


def test_a_piece_is_counted_without_the_text_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a long turn would take the time of its length squared, on the thread that serves everyone."""
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return utf16_length(text)

    monkeypatch.setattr(live_text, "utf16_length", count)
    texts = LiveTexts()
    texts.start_turn()
    for number in range(1000):
        assert texts.add(TextDelta("some words"))["offset"] == 10 * number
    assert sum(counted) <= 2 * 10 * 1000


def test_texts_of_subagents_and_thinking_have_offsets_of_their_own() -> None:
    texts = LiveTexts()
    texts.start_turn()
    deltas = [TextDelta("thought", True), TextDelta("a"), TextDelta("below", subagent="s"), TextDelta("b")]
    assert [texts.add(delta)["offset"] for delta in deltas] == [0, 0, 0, 1]
    assert [(text.subagent, text.text) for text in texts.written()] == [(None, "ab"), ("s", "below")]


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_only_a_text_that_was_cut_off_is_kept(is_cut_off: bool) -> None:
    """Until the next turn starts; a complete one is in the log."""
    texts = LiveTexts()
    texts.start_turn()
    texts.add(TextDelta("Half an ans"))
    texts.add(TextDelta("below", subagent="s"))
    kept = texts.end_turn(is_cut_off)
    assert (kept.text if kept else None) == ("Half an ans" if is_cut_off else None)
    assert [text.is_cut_off for text in texts.written()] == [True] * is_cut_off
    texts.start_turn()
    assert texts.written() == []


def test_the_rest_of_a_text_ends_where_the_text_ends() -> None:
    texts = LiveTexts()
    texts.add(TextDelta("Logged. 🙂 Not yet."))
    assert texts.main is not None
    rest = texts.main.from_end("Not yet.")
    assert rest.offset == utf16_length("Logged. 🙂 ")
    assert rest.end == texts.main.end
