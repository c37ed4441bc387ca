"""The words of a text as PostgreSQL stores them: vectors of limited size."""

from __future__ import annotations

from collections.abc import Iterator

from ..search.tokenizer import lexeme, words_in

_LAST_POSITION = 16_383
_MOST_POSITIONS = 255
"""The largest number of positions of one word; PostgreSQL silently drops further ones."""
_MOST_CHARACTERS = 200_000
"""The largest number of characters in distinct words. A vector has up to 1 MB, and a character up to four bytes."""
_SHARED = 32
"""The number of words a vector repeats from the previous one, so that phrases across the boundary are found."""
_ERA_BITS = 6
"""An era has 64 buckets of the ranking, about three days."""


def era_of(bucket: int) -> int:
    """The era of a text, by its bucket."""
    return bucket >> _ERA_BITS


def first_bucket(era: int) -> int:
    """The first bucket of an era."""
    return era << _ERA_BITS


def era_lexeme(era: int) -> str:
    """The word that is added to all texts of an era. Its space distinguishes it from the words of a text."""
    return f"' {era}'"


def vectors(text: str, era: int) -> Iterator[str]:
    """The words of a text with their positions, and its era: one vector, or several if the text is long."""
    words = list(map(lexeme, words_in(text)))
    start = 0
    while True:
        positions, end = _gather(words, start)
        found = (f"'{word}':{','.join(map(str, known))}" for word, known in positions.items())
        yield " ".join((*found, era_lexeme(era)))
        if end == len(words):
            return
        start = end - _SHARED


def _gather(words: list[str], start: int) -> tuple[dict[str, list[int]], int]:
    """As many words as fit, with their positions, and the index of the first that does not."""
    positions: dict[str, list[int]] = {}
    characters = 0
    end = min(len(words), start + _LAST_POSITION)
    for index in range(start, end):
        word = words[index]
        known = positions.get(word)
        if known is None:
            characters += len(word)
            if characters > _MOST_CHARACTERS:
                return positions, index
            known = positions[word] = []
        elif len(known) == _MOST_POSITIONS:
            return positions, index
        known.append(index - start + 1)
    return positions, end
