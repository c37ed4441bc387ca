"""Removes Markdown syntax from titles and excerpts, for lists that show plain text.

Only unambiguous syntax is removed. Code stays unchanged, and so does text that looks like code: `snake_case`,
`__init__`, `*.py`, `src/**/x`, `2 ** 3`. So does an opening mark without a closing one.
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
"""Replaces inline code while the text around it is processed. Output of `harmless` does not contain it."""
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_LINK = re.compile(r"(?<![\w\])])!?\[([^\[\]]+)\]\((?=[^()\s]*[/.:#])[^()\s\0]+\)")
_STARS = re.compile(r"(?<![A-Za-z0-9_*/\\.])(\*{1,3})(?![\s*/.])((?:(?!\*).)+)(?<![\s/])\1(?![A-Za-z0-9_*/.])")
_LINES = re.compile(r"(?<![\w/\\])(__?)(?![\s_])((?:(?!\1).)+)(?<![\s_])\1(?![\w/])")
_STRUCK = re.compile(r"(?<![~\w])~~(?![\s~/])((?:(?!~).)+)(?<!\s)~~(?![~\w])")
_NO_SPACE = re.compile(r"\S+")


def plain_line(text: str, width: int = 100) -> str:
    """Return the beginning of a Markdown text as plain text, on one line."""
    text = harmless(text[: width * 4])
    if _MARKS.search(text):
        text = _without_inline_marks("\n".join(_without_block_marks(text)))
    return shorten(text, width)


def _without_block_marks(text: str) -> list[str]:
    """Return the lines without the syntax of headings and quotations, and without code fences."""
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
            # Remove the first bullet of a list; the others separate the items on one line.
            bullet = None if found else _BULLET.match(line)
            found.append(line[bullet.end() :] if bullet else line)
    # If only syntax would remain, keep the text unchanged.
    return found if any(line.strip() for line in found) else [text]


def _without_inline_marks(text: str) -> str:
    # Code stays unchanged, even inside emphasis.
    codes: list[str] = []

    def keep(found: re.Match[str]) -> str:
        codes.append(found[2] if found[2].strip() else found[0])
        return _PLACEHOLDER

    prose = _CODE.sub(keep, text)
    # Twice for stars, because emphasis can be nested.
    for pattern, replacement in ((_LINK, r"\1"), (_STARS, r"\2"), (_STARS, r"\2"), (_STRUCK, r"\1")):
        prose = pattern.sub(replacement, prose)
    prose = _LINES.sub(_unless_a_name, prose)
    return re.sub(_PLACEHOLDER, lambda _: codes.pop(0), prose)


def _unless_a_name(found: re.Match[str]) -> str:
    """Remove the underscores unless the text is a single word: `_private_` and `__init__` are names."""
    return found[0] if _NO_SPACE.fullmatch(found[2]) else found[2]
