"""The words of a text as PostgreSQL stores them: vectors of limited size."""

from __future__ import annotations

from collections.abc import Iterator

from ..search.tokenizer import lexeme, words_in

_LAST_POSITION = 16_383
_MOST_POSITIONS = 255
"""Positions of one word; PostgreSQL silently drops further ones."""
_MOST_CHARACTERS = 200_000
"""Characters of distinct words. A vector is limited to 1 MB, and a character takes up to four bytes."""
_SHARED = 32
"""How many words a vector repeats from the end of the one before, so that phrases across the cut are found."""


def vectors(text: str) -> Iterator[str]:
    """The words of a text with their positions; several vectors where one cannot hold all."""
    words = list(map(lexeme, words_in(text)))
    start = 0
    while True:
        positions, end = _gather(words, start)
        yield " ".join(f"'{word}':{','.join(map(str, known))}" for word, known in positions.items())
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
