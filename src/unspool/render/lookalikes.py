"""Finds characters that look like ASCII but are not, which can make a command or a path look like another one.

The tables cover the scripts that are used for this in practice. Letters that are missing from them are still reported
if a word mixes them with Latin letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_LETTERS = {
    "a": "аɑα", "b": "Ьᖯ", "c": "сϲᴄⲥ", "d": "ԁꓒ", "e": "еҽ", "f": "ϝք", "g": "ɡցᶃ", "h": "һհᏂ", "i": "іıɩι", "j": "јϳ",
    "k": "кκᴋ", "l": "ӏǀ", "m": "мᴍ", "n": "пոռη", "o": "оοօσᴏഠ", "p": "рρⲣ", "q": "ԛզգ", "r": "гᴦⲅ",
    "s": "ѕƽꜱ", "t": "тτᴛ", "u": "υսʋᴜц", "v": "νѵᴠ", "w": "ѡԝաᴡ", "x": "хχ×ᕁ", "y": "уγүყ", "z": "ᴢʐ",
    "A": "АΑᎪ", "B": "ВΒᏴ", "C": "СϹᏟⲤ", "D": "Ꭰ", "E": "ЕΕᎬ", "F": "Ϝ", "G": "ԌᏀ", "H": "НΗᎻ", "I": "ІΙӀ", "J": "ЈͿᎫ",
    "K": "КΚᏦ", "L": "ᏞԼ", "M": "МΜᎷϺ", "N": "ΝⲚ", "O": "ОΟՕⲞ", "P": "РΡᏢ", "Q": "Ԛ", "R": "ᎡᏒ", "S": "ЅՏᏚ", "T": "ТΤᎢ",
    "U": "Սᑌ", "V": "ѴᏙ", "W": "ԜᎳ", "X": "ХΧ", "Y": "ҮΥ", "Z": "ΖᏃ", "3": "зЗӠȜ", "4": "Ꮞ", "6": "бᏮ", "8": "Ȣ",
}  # fmt: skip
_PUNCTUATION = {
    "'": "‘’‛′ʹʻʼʽˈ՚´", '"': "“”‟″ʺ„", "-": "‐‑‒–−﹘⁃˗", ".": "․", ",": "‚", ";": ";", ":": "∶։꞉ː", "/": "⁄∕╱⧸〳",
    "\\": "∖⧵⧹", "|": "∣│ǀ⼁", "<": "‹˂❮", ">": "›˃❯", "!": "ǃⵑ", "*": "∗⁎", "&": "ꝸ", "~": "˜∼⁓", "^": "ˆ˄",
    "(": "❨❲〔", ")": "❩❳〕", "{": "❴", "}": "❵", "#": "⋕", "=": "᐀⹀゠꓿", "+": "᛭", "$": "﹩", "`": "ˋ",
}  # fmt: skip
_LOOKS_LIKE = {ord(each): plain for table in (_LETTERS, _PUNCTUATION) for plain, many in table.items() for each in many}
_LOOKS_LIKE = {point: plain for point, plain in _LOOKS_LIKE.items() if point > 0x7F}
_SHORT = 40
"""Words up to this length are likely to occur again, so their results are cached."""
_WORD = re.compile(r"\w+")
_PUNCTUATION_MARK = re.compile(r"[^\x00-\x7f\w]")


@lru_cache(4096)
def ascii_twin(character: str) -> str | None:
    """Return the ASCII text that a character looks like; None if there is none."""
    if character.isascii():
        return None
    if (known := _LOOKS_LIKE.get(ord(character))) is not None:
        return known
    compatible = unicodedata.normalize("NFKC", character).strip()
    return compatible if compatible and compatible.isascii() else None


def find_lookalikes(text: str, *, prose: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the index of each character that looks like ASCII, with the ASCII text it looks like.

    The text is empty for a letter of another script in a word with Latin letters. A letter is reported if its word also
    has ASCII letters, or consists only of lookalikes; other words in another script are not. In prose, punctuation is
    not reported, because no program parses it.
    """
    if text.isascii():
        return
    for found in _WORD.finditer(text):
        if not found[0].isascii():
            twins = _in_short_word(found[0]) if len(found[0]) <= _SHORT else _in_word(found[0])
            yield from ((found.start() + offset, twin) for offset, twin in twins)
    if not prose:
        for other in _PUNCTUATION_MARK.finditer(text):
            twin = ascii_twin(other[0])
            if twin is not None:
                yield other.start(), twin


def _in_word(word: str) -> tuple[tuple[int, str], ...]:
    has_latin = any(each.isascii() and each.isalpha() for each in word)
    passes = all(not each.isalpha() or each.isascii() or ascii_twin(each) is not None for each in word)
    if not (has_latin or passes):
        return ()
    twins = ((offset, _twin_in_word(each, has_latin)) for offset, each in enumerate(word))
    return tuple((offset, twin) for offset, twin in twins if twin is not None)


_in_short_word = lru_cache(4096)(_in_word)


def _twin_in_word(character: str, has_latin: bool) -> str | None:
    """Return what a character looks like; an empty text for a letter of another script among Latin letters."""
    is_foreign = has_latin and character.isalpha() and not _is_latin(character)
    return ascii_twin(character) or ("" if is_foreign else None)


@lru_cache(4096)
def _is_latin(character: str) -> bool:
    return character.isascii() or "LATIN" in unicodedata.name(character, "")
