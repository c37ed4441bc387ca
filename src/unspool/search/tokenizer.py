"""Splits text into words: for the index, for queries, and for highlighting hits.

The result is the same as that of SQLite's tokenizer `unicode61 remove_diacritics 0`. Its words consist of letters,
numbers and private-use characters, by the tables of an old version of Unicode: characters that were unassigned then
count as letters (among them the robot and the record button that agents print), and newer capital letters have no lower
case. Python's tables are different and change with its version, so the tokenizer's tables are copied here. As a result,
SQLite, PostgreSQL and code without a database split text in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

_RUNS = (
    "30 a 7 1a 6 1a 2f 1 7 2 1 1 3 2 1 3 1 17 1 1f 1 1ca 4 c e 5 7 1 1 1 81 5 1 8 1 5 2 1 1 6e 1 8b 8 d0 6 29 2 4 1 "
    "1 37 2b 2 b 5 1 16 2 2 2b 15 a 4 2 1 63 1 1 f 2 7 f 2 1 e 1 1 1 1 1e 1b 5b b 3a 9 2 4 1c 4 1 9 1 3 1 5 2 f 1a "
    "3 2 1 85 1b 1 4 36 3 1 12 1 7 a 4 a 1 10 3 38 1 1 7 2 2 2 3 9 1 a 2 e 2 6 2 5 3 38 1 1 5 4 2 2 3 3 1 1e 2 3 1 "
    "b 3 38 1 1 8 1 3 1 3 14 2 c 2 f 3 38 1 1 7 2 2 2 3 8 2 a 2 c 1 11 1 3b 5 3 3 1 4 9 1 1b 8 6 3 3a 7 1 3 1 4 7 2 "
    "b 2 1b 1 2 2 38 1 1 7 1 3 1 4 7 2 b 2 1e 2 3a 7 1 3 1 4 9 1 a 2 15 1 8 2 46 1 4 6 1 1 1 8 12 3 3c 1 2 7 4 1 7 "
    "9 a 2 55 1 2 6 1 2 b 6 33 1f 14 c 31 17 5 b 1 24 1 f 1 d 50 14 b 6 6 4 4 3 1 3 2 7 3 4 d c 1 1 a 6 5b 1 261 c "
    "27 a 66 1 26c 2 11 1 1a 2 4e 3 24 3 1d 5 1b 2 1e 2 40 23 1 4 1 1 22 f 9a 1 76 c 4 c 4 1 3 2 6a 11 7 2 14 22 17 "
    "5 2 2 35 a 1 1d 2 1 20 7 1 6 52 5 2f 11 15 23 3 3 1e d 38 e 8 4 24 14 3 5 3e 2 40 8 8 19 4 1 4 3 cb 27 15 4 "
    "1bd 1 1 3 b 3 d 3 d 3 d 2 1 65 5 6 a 5 b 5 11 1a 16 21 f 2 1 4 1 2 a 1 1 3 5 6 1 1 1 1 1 1 4 1 b 2 4 5 5 4 1 1 "
    "40 264 c 27 19 b 51 4e 16 200 1 75 1e 3b9 3 a 18b 6 4 3 7 4 1 2 70 1 e 1 60 4f 1 c 44 1a 1 59 c d6 1a c 4 5 3 "
    "19 9 7 5 2 5 3 59 4 3 1 5a 1 94 2 4 a 20 24 1c 1f b 1e 8 1 f 20 a 27 f 3f 1 100 19c0 40 5690 37 37 2 10d 3 5f "
    "10 20 1 50 8 8 17 9 2 67 2 77 1 3 1 4 1 17 9 a 4 3a 4 8 2 32 11 9 2 10 12 6 3 2b a 17 d b 1 20 4 2f 1b 10 2 49 "
    "e c 1 8 2 e 4 17 3 1 1 34 1 1 3 2 2 5 2 1 1 1c 2 b 7 3 2 ec b 2c12 800 1b1e 1 a 1 88 10 17c 2 bc 2 2 1a 6 7 9 "
    "23 1 13 1 4 93 1 1 f a 7 1a 6 1a b 7a 7 1 7 a 7 100 3 34 9 39 11 6 c 34 2e 1a1 1 30 1 486 1 c7 1 1f 1 c1 3 1 2 "
    "5 4 28 3 4 1 10 9 26 1 b9 7 4c0 3 35 16 32 3 2d 12 3e 3 24 e b 4 3c 3 30 e 4 4 4e2 d db8 4 4add 2e 10 4 606d "
    "f6 a 27 2 b5 22 46 ba 57 36a 1 19 1 1f 1 19 1 1f 1 19 1 1f 1 19 1 1f 1 19 1 172c 2 10e 2c 4 64 c f 2 e 2 f 1 f "
    "30 1f 1 3c 4 2b 4b 1d d 2b 5 9 7 2 ae 21 f 6 1 46 3 14 c 25 1 5 15 11 f 3f 1 1 1 b6 1 4 3 3e 2 4 c 18 93 46 4 "
    "b 30 46 3a 74 c088d 1 1e 60 80 f0 2fe10"
)
"""Run lengths from U+0000 in hexadecimal: characters that separate words, characters of words, and so on in turn."""
_CAPITALS = (
    "41+1a:20 b5+1:307 c0+17:20 d8+7:20 100+30/2:1 132+6/2:1 139+10/2:1 14a+2e/2:1 178+1:-79 179+6/2:1 17f+1:-10c "
    "181+1:d2 182+4/2:1 186+1:ce 187+1:1 189+2:cd 18b+1:1 18e+1:4f 18f+1:ca 190+1:cb 191+1:1 193+1:cd 194+1:cf "
    "196+1:d3 197+1:d1 198+1:1 19c+1:d3 19d+1:d5 19f+1:d6 1a0+6/2:1 1a6+1:da 1a7+1:1 1a9+1:da 1ac+1:1 1ae+1:da "
    "1af+1:1 1b1+2:d9 1b3+4/2:1 1b7+1:db 1b8+1:1 1bc+1:1 1c4+1:2 1c5+1:1 1c7+1:2 1c8+1:1 1ca+1:2 1cb+12/2:1 "
    "1de+12/2:1 1f1+1:2 1f2+4/2:1 1f6+1:-61 1f7+1:-38 1f8+28/2:1 220+1:-82 222+12/2:1 23a+1:2a2b 23b+1:1 23d+1:-a3 "
    "23e+1:2a28 241+1:1 243+1:-c3 244+1:45 245+1:47 246+a/2:1 370+4/2:1 376+1:1 386+1:26 388+3:25 38c+1:40 38e+2:3f "
    "391+11:20 3a3+9:20 3c2+1:1 3cf+1:8 3d0+1:-1e 3d1+1:-19 3d5+1:-f 3d6+1:-16 3d8+18/2:1 3f0+1:-36 3f1+1:-30 "
    "3f4+1:-3c 3f5+1:-40 3f7+1:1 3f9+1:-7 3fa+1:1 3fd+3:-82 400+10:50 410+20:20 460+22/2:1 48a+36/2:1 4c0+1:f "
    "4c1+e/2:1 4d0+58/2:1 531+26:30 10a0+26:1c60 10c7+1:1c60 10cd+1:1c60 1e00+96/2:1 1e9b+1:-3a 1e9e+1:-1dbf "
    "1ea0+60/2:1 1f08+8:-8 1f18+6:-8 1f28+8:-8 1f38+8:-8 1f48+6:-8 1f59+8/2:-8 1f68+8:-8 1f88+8:-8 1f98+8:-8 "
    "1fa8+8:-8 1fb8+2:-8 1fba+2:-4a 1fbc+1:-9 1fbe+1:-1c05 1fc8+4:-56 1fcc+1:-9 1fd8+2:-8 1fda+2:-64 1fe8+2:-8 "
    "1fea+2:-70 1fec+1:-7 1ff8+2:-80 1ffa+2:-7e 1ffc+1:-9 2126+1:-1d5d 212a+1:-20bf 212b+1:-2046 2132+1:1c "
    "2160+10:10 2183+1:1 2c00+2f:30 2c60+1:1 2c62+1:-29f7 2c63+1:-ee6 2c64+1:-29e7 2c67+6/2:1 2c6d+1:-2a1c "
    "2c6e+1:-29fd 2c6f+1:-2a1f 2c70+1:-2a1e 2c72+1:1 2c75+1:1 2c7e+2:-2a3f 2c80+64/2:1 2ceb+4/2:1 2cf2+1:1 "
    "a640+2e/2:1 a680+18/2:1 a722+e/2:1 a732+3e/2:1 a779+4/2:1 a77d+1:-8a04 a77e+a/2:1 a78b+1:1 a78d+1:-a528 "
    "a790+4/2:1 a7a0+a/2:1 a7aa+1:-a544 ff21+1a:20 10400+28:28"
)
"""Runs of capital letters: the first, the length of the run (/2: every second), the distance to the lower case."""
_ACCENTS = r"\u0300-\u0304\u0306-\u030c\u030f\u0311\u031b\u0323-\u0328\u032d\u032e\u0330\u0331"
"""Combining marks: they can be part of a word but not begin one."""
_BEYOND = 0x10000
"""Above this, the regex engine tests range by range, which is slow; such characters are handled before matching."""
_END = 0x110000
_LONGEST_LEXEME = 2046
"""The longest word that PostgreSQL accepts, in bytes."""


def _word_runs() -> Iterator[range]:
    """The ranges of characters that words consist of."""
    lengths = [int(length, 16) for length in _RUNS.split()]
    start = 0
    for gap, length in zip(lengths[::2], lengths[1::2], strict=True):
        start += gap
        yield range(start, start + length)
        start += length


def _capital_runs() -> Iterator[tuple[range, int]]:
    """The ranges of capital letters, and the distance to their lower case."""
    for entry in _CAPITALS.split():
        where, _, distance = entry.partition(":")
        start, _, extent = where.partition("+")
        length, _, step = extent.partition("/")
        yield range(int(start, 16), int(start, 16) + int(length, 16), int(step or 1)), int(distance, 16)


def _in_brackets(runs: Iterable[range]) -> str:
    return "".join(rf"\U{run[0]:08x}-\U{run[-1]:08x}" for run in runs)


# The tables are built on first use: most commands import this module but split no text.


@cache
def _far_separators() -> dict[str, str]:
    """The separators above `_BEYOND`, each mapped to a space."""
    runs = list(_word_runs())
    gaps = (range(max(_BEYOND, before.stop), after.start) for before, after in pairwise(runs))
    return {chr(point): " " for gap in gaps for point in gap}


@cache
def _small_letters() -> dict[str, str]:
    """The lower case of every capital letter."""
    return {chr(capital): chr(capital + distance) for run, distance in _capital_runs() for capital in run}


@cache
def _capital() -> re.Pattern[str]:
    near = "".join(capital for capital in _small_letters() if capital < chr(_BEYOND))
    return re.compile(rf"[{near}\U00010400-\U00010427]")


@cache
def word_pattern() -> re.Pattern[str]:
    """Matches a word in the result of `divide`."""
    near = (range(run[0], min(run.stop, _BEYOND)) for run in _word_runs() if run[0] < _BEYOND)
    letters = _in_brackets([range(_BEYOND, _END), *near])
    return re.compile(f"[{letters}][{letters}{_ACCENTS}]*")


_FAR_ONE = re.compile(f"[{_in_brackets([range(_BEYOND, _END)])}]")


def fold(text: str) -> str:
    """Convert text to lower case of the same length, so that positions stay valid."""
    if text.isascii():
        return text.lower()
    small = _small_letters()
    return _capital().sub(lambda match: small[match[0]], fold_ascii(text))


def fold_ascii(text: str) -> str:
    """Convert only A to Z to lower case, which is much faster: `bytes.lower` ignores all other letters."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def divide(text: str) -> str:
    """Fold text to the same length, with a space for each separator that the regex does not handle."""
    folded = fold(text)
    if folded.isascii():
        return folded
    separators = _far_separators()
    return _FAR_ONE.sub(lambda match: separators.get(match[0], match[0]), folded)


def words_in(text: str) -> list[str]:
    """Return the words of a text, folded, in order."""
    return word_pattern().findall(divide(text))


def lexeme(word: str) -> str:
    """Return a word as PostgreSQL can store it: truncated if it is too long, in texts and in queries alike."""
    if len(word) * 4 <= _LONGEST_LEXEME:
        return word
    return word.encode()[:_LONGEST_LEXEME].decode("utf-8", "ignore")
