"""Quotes text from logs, so that no model mistakes it for instructions from the user or from this server.

A transcript may contain anything, including prompt injections. Longer texts are enclosed in tags with digits that are
chosen at random for each response, so that a text cannot contain its own closing tag. Short ones are strings in double
quotes in which quotes and backslashes are escaped, as in JSON. Invisible characters are made visible in both.
"""

from __future__ import annotations

import re
import secrets

from ..render.sanitize import without_escapes
from .tokens import estimate, prefix_length

_BYTES = 3
"""Random bytes in the tags of a response."""
COSTLIEST_DIGITS = "db" * _BYTES
"""The digits with the most tokens: a letter that rarely follows the one before it is a separate token."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]+"
)
"""Control characters, marks that change the text direction, and invisible characters: models read all of them."""
_EMOJI = "\ufe0f"
"""The variation selector that makes the character before it an emoji."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
CUT = "…"
"""Marks the end of a truncated text."""


def visible(text: str) -> str:
    """Remove terminal escape sequences, and replace invisible characters with visible placeholders."""
    return _INVISIBLE.sub(_named, without_escapes(text.replace("\r\n", "\n")).replace(_EMOJI, ""))


def _named(match: re.Match[str]) -> str:
    count = len(match[0])
    return f"⟨U+{ord(match[0][0]):04X}⟩" if count == 1 else f"⟨{count} invisible characters⟩"


def inline(text: str, tokens: int) -> str:
    """Return the beginning of a text as a string in double quotes, on one line."""
    # Tokens are rarely longer than eight characters, so the rest of a long text need not be processed.
    flat = " ".join(visible(text[: tokens * 32]).split())
    escaped = flat.replace("\\", "\\\\").replace('"', '\\"')
    if estimate(escaped) <= tokens and len(text) <= tokens * 32:
        return f'"{escaped}"'
    cut = escaped[: prefix_length(escaped, tokens - estimate(CUT))]
    # A truncated escape sequence would escape the closing quote.
    if (len(cut) - len(cut.rstrip("\\"))) % 2:
        cut = cut[:-1]
    return f'"{cut}{CUT}"'


def name(text: str) -> str:
    """Return a session id or tool name unchanged, or as a quoted string if it contains unusual characters."""
    return text if _PLAIN_NAME.fullmatch(text) else inline(text, 40)


class Quotation:
    """The tags of one response."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(_BYTES)
        self.opening = f"<quote {self._mark}>"
        self.closing = f"</quote {self._mark}>"
        self.cost = estimate(f"<quote {COSTLIEST_DIGITS}>\n\n</quote {COSTLIEST_DIGITS}>\n")
        """Tokens for the tags. The same for all digits, so that responses do not depend on them."""

    def enclose(self, text: str) -> str:
        """Enclose the output of `visible` in tags."""
        # The digits cannot be guessed, but a text may contain them by chance.
        broken = text.replace(self._mark, f"{self._mark[0]}·{self._mark[1:]}")
        return f"{self.opening}\n{broken}\n{self.closing}"
