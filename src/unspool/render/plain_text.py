"""Titles and first words without the marks of Markdown: people type them, and a list of titles is no place for them.

Only what is certainly a mark is removed. Code keeps every character, and so does what looks like code: `snake_case`,
`__init__`, `*.py`, `src/**/x`, `2 ** 3`. A mark without its counterpart stays as well.
"""

from __future__ import annotations

import re

from .sanitize import harmless, shorten

_MARKS = re.compile(r"[*_`~\[#>=-]")
_FENCE = re.compile(r"\s*(?:```[^`]*|~~~.*)")
_UNDERLINE = re.compile(r"\s*(?:=+|-{3,}|\*{3,}|_{3,})\s*")
_BLOCK = re.compile(r"\s*(?:(?:#{1,6}|>+)\s+)+")
_BULLET = re.compile(r"\s*[-*+]\s+(?:\[[ xX]\]\s+)?")
_CLOSING = re.compile(r"\s#+\s*$")
_PLACEHOLDER = "\0"
"""Stands for a piece of code while marks are removed around it. A harmless text has none."""
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_LINK = re.compile(r"(?<![\w\])])!?\[([^\[\]]+)\]\((?=[^()\s]*[/.:#])[^()\s\0]+\)")
_STARS = re.compile(r"(?<![A-Za-z0-9_*/\\.])(\*{1,3})(?![\s*/.])((?:(?!\*).)+)(?<![\s/])\1(?![A-Za-z0-9_*/.])")
_LINES = re.compile(r"(?<![\w/\\])(__?)(?![\s_])((?:(?!\1).)+)(?<![\s_])\1(?![\w/])")
_STRUCK = re.compile(r"(?<![~\w])~~(?![\s~/])((?:(?!~).)+)(?<!\s)~~(?![~\w])")
_NO_SPACE = re.compile(r"\S+")


def plain_line(text: str, width: int = 100) -> str:
    """The beginning of a Markdown text as plain text, on one line."""
    text = harmless(text[: width * 4])
    if _MARKS.search(text):
        text = _without_inline_marks("\n".join(_without_block_marks(text)))
    return shorten(text, width)


def _without_block_marks(text: str) -> list[str]:
    """The lines without marks of headings and quotations, and without the fences around code."""
    found: list[str] = []
    is_code = False
    for line in text.split("\n"):
        if _FENCE.fullmatch(line):
            is_code = not is_code
        elif is_code:
            found.append(line)
        elif (start := _BLOCK.match(line)) is not None:
            is_heading = "#" in start[0]
            rest = line[start.end() :]
            found.append(_CLOSING.sub("", rest) if is_heading else rest)
        elif not _UNDERLINE.fullmatch(line):
            # The first item of a list begins the line anyway; the marks of the others keep them apart.
            bullet = None if found else _BULLET.match(line)
            found.append(line[bullet.end() :] if bullet else line)
    # Nothing but marks is better than nothing.
    return found if any(line.strip() for line in found) else [text]


def _without_inline_marks(text: str) -> str:
    # What is code stays as it is, also inside of what is emphasised.
    codes: list[str] = []

    def keep(found: re.Match[str]) -> str:
        codes.append(found[2] if found[2].strip() else found[0])
        return _PLACEHOLDER

    prose = _CODE.sub(keep, text)
    # Twice for stars, because one kind of emphasis may be inside of another.
    for pattern, replacement in ((_LINK, r"\1"), (_STARS, r"\2"), (_STARS, r"\2"), (_STRUCK, r"\1")):
        prose = pattern.sub(replacement, prose)
    prose = _LINES.sub(_unless_a_name, prose)
    return re.sub(_PLACEHOLDER, lambda _: codes.pop(0), prose)


def _unless_a_name(found: re.Match[str]) -> str:
    """`_private_` and `__init__` are names rather than emphasised words."""
    return found[0] if _NO_SPACE.fullmatch(found[2]) else found[2]
