"""What is shown of a hit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.search.query import parse
from unspool.search.snippet import Snippet, snippet
from unspool.search.tokenizer import words_in

from ..waiting import cpu_limit

FILLER = "lorem ipsum dolor sit amet " * 40


def shown(text: str, query: str, width: int = 60) -> str:
    """A snippet with its marks in brackets."""
    found = snippet(text, parse(query).match, width)
    for start, end in reversed(found.marks):
        found = Snippet(found.text[:start] + "[" + found.text[start:end] + "]" + found.text[end:])
    return found.text


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("The disk is full.", "disk", "The [disk] is full."),
        ("The DISK is Full.", "full disk", "The [DISK] is [Full]."),
        ("foo_bar  and\n\nfoo bar", "foo_bar", "[foo]_[bar] and [foo] [bar]"),
        ("food foo fool", "foo", "food [foo] fool"),
        ("food foo fool", "foo*", "[food] [foo] [fool]"),
        ("no such file", '"such fi"*', "no [such] [file]"),
        ("foo foo* food", "foo foo*", "[foo] [foo]* [food]"),
        ("keep it, drop it", "keep -drop", "[keep] it, drop it"),
        ("a\x1b[31m red\x1b[0m\x07 flag\x00!\u202e", "flag", "a red [flag] !"),
        ("half \ud800 of it", "half", "[half] � of it"),
        ("  \t nothing here \n ", "absent", "nothing here"),
        ("Straße ÄRGER", "ärger", "Straße [ÄRGER]"),
        ("🤖 Generated with", '"🤖 generated"', "[🤖] [Generated] with"),
        ("5 K, ſo ä", "k OR so", "5 [K], [ſo] ä"),
        ("", "foo", ""),
    ],
)
def test_marks(text: str, query: str, expected: str) -> None:
    """Whole words are marked, whatever is between them; excluded words are not."""
    assert shown(text, query) == expected


def test_without_matches_the_snippet_is_the_beginning() -> None:
    assert snippet("one\ntwo   three", None) == Snippet("one two three")
    assert snippet("one two three four five six", None, 20) == Snippet("one two three four…")


def test_the_densest_passage_is_shown() -> None:
    """One early word counts less than both together."""
    text = f"{FILLER}disk {FILLER}the disk is full now {FILLER}full full full {FILLER}"
    assert shown(text, "disk full") == "…dolor sit amet the [disk] is [full] now lorem ipsum dolor…"


def test_cut_from_word_to_word() -> None:
    """Words stay whole where something is left out, at both ends."""
    assert shown(f"{FILLER}end", "end", 40) == "…amet lorem ipsum dolor sit amet [end]"
    assert shown(f"begin {FILLER}", "begin", 40) == "[begin] lorem ipsum dolor sit amet lorem…"


def test_a_very_long_word_is_cut() -> None:
    assert snippet("x" * 1000, None, 30).text == "x" * 28 + "…"
    assert snippet("x" * 1000, parse("x*").match, 30).marks == [(0, 28)]


@pytest.mark.parametrize("place", [(1 << 20) - 3, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_matches_that_are_far_apart(place: int) -> None:
    """Also where one piece of the text ends and the next begins."""
    text = " " * place + "NEEDLE in hay" + "x" * 3_000_000
    found = snippet(text, parse('"needle in"').match)
    assert [found.text[start:end] for start, end in found.marks] == ["NEEDLE", "in"]


@pytest.mark.parametrize("filler", ["the quick brown fox; ", "a" * 20, "… ÄÖÜ 🎉 ", "foo "])
def test_long_texts_take_bounded_time(filler: str) -> None:
    text = filler * (8_000_000 // len(filler)) + " foo bar"
    with cpu_limit(30):
        snippet(text, parse("a OR foo OR bar OR absent").match)


TEXT = st.text(st.sampled_from("abAB ._\n\t\x1b[0m\x07ä\u0301🤖🎉\ud800"), max_size=300)


@given(TEXT, st.sampled_from(["a", "b*", '"a b"', "a OR ab", "ab -b", "🤖"]), st.integers(1, 100))
def test_every_snippet_is_valid(text: str, query: str, width: int) -> None:
    """Short enough, on one line, with marks in order on words of the query."""
    found = snippet(text, parse(query).match, width)
    assert len(found.text) <= max(width, 20)
    assert "\n" not in found.text
    assert "  " not in found.text
    assert not any(char < " " or "\ud800" <= char <= "\udfff" for char in found.text)
    places = [place for mark in found.marks for place in mark]
    assert places == sorted(places)
    assert all(0 <= start < end <= len(found.text) for start, end in found.marks)
    if "\x1b" not in text and len(text) < 18:
        assert all(words_in(found.text[start:end])[0][0] in "abä🤖" for start, end in found.marks)
