"""The words of a text as PostgreSQL holds them: vectors, each with at most so many words at so many places."""

from __future__ import annotations

from collections.abc import Iterator

from ..search.tokenizer import lexeme, words_in

_LAST_PLACE = 16_383
_MOST_PLACES = 255
"""Of one word; PostgreSQL drops all further ones without a word."""
_MOST_CHARACTERS = 200_000
"""Of different words. A vector may take 1 MB; a character takes up to four bytes."""
_SHARED = 32
"""Words with which a vector begins that are the last of the one before: phrases of so many are found over the cut."""


def vectors(text: str) -> Iterator[str]:
    """The words of a text and where they stand; several vectors where one cannot hold all."""
    words = list(map(lexeme, words_in(text)))
    start = 0
    while True:
        places, end = _gather(words, start)
        yield " ".join(f"'{word}':{','.join(map(str, known))}" for word, known in places.items())
        if end == len(words):
            return
        start = end - _SHARED


def _gather(words: list[str], start: int) -> tuple[dict[str, list[int]], int]:
    """As many words as fit, with their places, and where they end."""
    places: dict[str, list[int]] = {}
    characters = 0
    end = min(len(words), start + _LAST_PLACE)
    for index in range(start, end):
        word = words[index]
        known = places.get(word)
        if known is None:
            characters += len(word)
            if characters > _MOST_CHARACTERS:
                return places, index
            known = places[word] = []
        elif len(known) == _MOST_PLACES:
            return places, index
        known.append(index - start + 1)
    return places, end
