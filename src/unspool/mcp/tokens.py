"""Estimates an upper limit of the number of tokens of a text, for any model: responses must stay within a budget.

Every model has its own tokenizer, and most of them are not public. The estimate is conservative: it is higher than the
counts of public tokenizers for prose, code, logs and identifiers in any language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(
    r"(?P<encoded>[A-Za-z0-9+]{32,})|(?P<word>[A-Z]?[a-z]+)|(?P<capitals>[A-Z]+(?![a-z]))"
    r"|(?P<space> (?! ))|(?P<blank>[ \t]+)"
    r"|(?P<one>[\x00-\x7f\u00a0-\u04ff])|(?P<two>[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3])|(?P<bytes>.)",
    re.DOTALL,
)
_SIZES = {"encoded": (3, 2), "word": (3, 1), "capitals": (2, 1), "blank": (8, 1)}
"""For each kind of run: every N characters count as M tokens. Common words have longer tokens; names in code are split
into shorter ones at signs, digits and capitals, each of which counts."""
_FOLLOWING = (
    "abcdgiklmnprstuwy baeloruy caehiklort dadeiors eacdefglmnpqrstvwxy fafiortu geirs haeio "
    "ibcdefglmnoprstv jes keins ladefilostuy mabeimops nacdefgiklnopstuy oacdfgiklmnoprstuvw paeiloprtuy "
    "qu racdegikmnorstuy saceghikopstuwy tacehilorstuy ubcdeilmnprst vaei waehinors xt ynpt"
)
"""Each letter, followed by those that often come after it in words. Other pairs are rarely part of one token."""
_PAIRS = frozenset(entry[0] + letter for entry in _FOLLOWING.split() for letter in entry[1:])
_COSTS = {"space": 0, "one": 1, "two": 2}
"""Tokens of a single character. A single space is part of the token that follows it. In scripts that are not listed,
each byte may be a token."""


def estimate(text: str, max_tokens: int | None = None) -> int:
    """Return the largest number of tokens that a text is likely to have. Stops counting above `max_tokens`."""
    total = 0
    for _, size in _pieces(text):
        total += size
        if max_tokens is not None and total > max_tokens:
            break
    return total


def prefix_length(text: str, tokens: int) -> int:
    """Return the length of the longest prefix of a text that has at most this many tokens."""
    total = 0
    for start, size in _pieces(text):
        total += size
        if total > tokens:
            return start
    return len(text)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start of each piece of a text and its maximum number of tokens."""
    for match in _PIECE.finditer(text):
        kind = match.lastgroup or ""
        if kind in _SIZES:
            # Split long runs, so that a text can be truncated within them.
            length, cost = _SIZES[kind]
            word = match[0].lower() if kind == "word" else ""
            for at in range(match.end() - match.start()):
                is_cut = at > 0 and bool(word) and word[at - 1 : at + 1] not in _PAIRS
                if size := is_cut + (0 if at % length else cost):
                    yield match.start() + at, size
        elif kind in _COSTS:
            yield match.start(), _COSTS[kind]
        else:
            yield match.start(), len(match[0].encode("utf-8", "surrogatepass"))
