"""The tokenizer splits text exactly as SQLite does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.search.tokenizer import fold, lexeme, words_in

from ..waiting import cpu_limit

TEXTS = [
    "",
    "   \n\t",
    "don't foo_bar src/main.py std::vector x²",
    "Straße STRASSE ẞ ſ ß",
    "ΟΔΥΣΣΕΥΣ ὀδυσσεύς Σς",
    "İstanbul ıstanbul I i",
    "µ μ K K Å Å",
    "e\u0301te\u0301 \u0301a a\u0301 \u0301\u0301 a\u0305b",
    "日本語 한국어 ที่นี่ नमस्ते עברית العربية",
    "🤖 Generated ⏺ Bash(ls) 🎉done 🫡x 👨‍👩‍👧 ❯",
    "a\u00a0b\u200bc\u2028d\ufeffe\u00adf",
    "1e5 0x1F -5 3.14 v1.2.3 ½ ⅷ ①",
    "\ue000\uf8ff\U000f0000 \uffff \ufffd",
    "Ა ა Ꭰ ꭰ 𐐀 𐐨 𝐀",
    "ǅ Ǆ ǆ ﬁ Ω",
    "a\x1b[31mred\x1b[0m\x07",
    "word" * 100,
]
"""What may be taken apart in more than one way."""


class Fts5:
    """A table of SQLite, and its tokens."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("create virtual table t using fts5(text, tokenize='unicode61 remove_diacritics 0')")
        self._db.execute("create virtual table v using fts5vocab(t, 'instance')")

    def words(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """The tokens of each text, in order."""
        self._db.execute("delete from t")
        rows = list(enumerate(texts))
        self._db.executemany("insert into t(rowid, text) values (?, ?)", rows)
        found: dict[int, list[tuple[int, str]]] = {number: [] for number, _ in rows}
        for term, number, place in self._db.execute("select term, doc, offset from v"):
            found[number].append((place, term))
        for words in found.values():
            yield [term for _, term in sorted(words)]


@pytest.fixture(scope="module")
def fts5() -> Fts5:
    return Fts5()


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_equal_those_of_sqlite(fts5: Fts5, text: str) -> None:
    assert [words_in(text)] == list(fts5.words([text]))


@pytest.mark.slow
def test_every_character_is_classified_as_in_sqlite() -> None:
    """All planes in use, but the halves of characters, which no database takes: in a word, and before one."""
    points = [*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0x110000)]
    # Many in one text, apart from each other by newlines: a row for each of them costs more than the words.
    texts = ["\n".join(f"q{chr(point)}q {chr(point)}z" for point in chunk) for chunk in batched(points, 256)]
    differ = [
        f"{text[1]!r} to {text[-2]!r}"
        for text, words in zip(texts, Fts5().words(texts), strict=True)
        if words_in(text) != words
    ]
    assert differ == []


def batched(points: list[int], size: int) -> Iterator[list[int]]:
    """As many of them at a time."""
    return (points[start : start + size] for start in range(0, len(points), size))


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_tokens_of_any_text_equal_those_of_sqlite(text: str) -> None:
    assert [words_in(text)] == list(Fts5().words([text]))


@given(st.text())
def test_every_token_is_kept(text: str) -> None:
    """Folding keeps every position, tokens are stable when they are tokenized again, and any text works."""
    assert len(fold(text)) == len(text)
    assert fold(fold(text)) == fold(text)
    assert words_in(" ".join(words_in(text))) == words_in(text)
    assert all(words_in(word) == [word] for word in words_in(text))


def test_unpaired_surrogates_separate_tokens() -> None:
    """No database takes one, so it can be in no word."""
    assert words_in("a\ud800b\udfffC") == ["a", "b", "c"]


def test_words_that_are_too_long_for_postgresql_are_truncated() -> None:
    """At the boundary of a character."""
    assert len(lexeme("ä" * 5000).encode()) == 2046
    assert lexeme("word") == "word"


def test_tokenizing_takes_bounded_time() -> None:
    """It takes tens of megabytes per second; the test only excludes a disaster."""
    text = "def read(self, path: str) -> None:  # … ünd so weiter 🤖\n" * 50_000
    with cpu_limit(20):
        assert len(words_in(text)) == 500_000
