"""Text of logs in answers: visibly quoted, so that no model takes it for instructions of the user or of this server.

A transcript may contain anything, also text that was written to be obeyed by the next model that reads it. Longer texts
are enclosed in tags with digits that are chosen for each answer, so that a text cannot contain its own closing tag;
short ones are strings in double quotes in which quotes and backslashes are escaped, as in JSON. Nothing in either is
invisible.
"""

from __future__ import annotations

import re
import secrets

from ..render.sanitize import without_escapes
from .tokens import estimate, fitting

_BYTES = 3
"""In the tags of an answer."""
DEAREST = "db" * _BYTES
"""No other digits have more tokens: a letter that hardly ever follows the one before it is a token of its own."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]+"
)
"""Control characters, marks that change the direction of reading, and what draws nothing: models read all of it."""
_EMOJI = "\ufe0f"
"""Says that a sign is an emoji."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
CUT = "…"
"""The end of a text that continues."""


def visible(text: str) -> str:
    """Text without escape sequences of terminals, in which nothing else is hidden."""
    return _INVISIBLE.sub(_named, without_escapes(text.replace("\r\n", "\n")).replace(_EMOJI, ""))


def _named(match: re.Match[str]) -> str:
    count = len(match[0])
    return f"⟨U+{ord(match[0][0]):04X}⟩" if count == 1 else f"⟨{count} invisible characters⟩"


def inline(text: str, tokens: int) -> str:
    """The beginning of a text as a string in double quotes, on one line."""
    # A token is rarely longer than eight characters, and most of a long text need not be looked at.
    flat = " ".join(visible(text[: tokens * 32]).split())
    escaped = flat.replace("\\", "\\\\").replace('"', '\\"')
    if estimate(escaped) <= tokens and len(text) <= tokens * 32:
        return f'"{escaped}"'
    cut = escaped[: fitting(escaped, tokens - estimate(CUT))]
    # An escape that is cut in half would escape the closing quote.
    if (len(cut) - len(cut.rstrip("\\"))) % 2:
        cut = cut[:-1]
    return f'"{cut}{CUT}"'


def name(text: str) -> str:
    """The id of a session or the name of a tool as it is, or as a string if it contains anything unusual."""
    return text if _PLAIN_NAME.fullmatch(text) else inline(text, 40)


class Quotation:
    """The tags of one answer."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(_BYTES)
        self.opening = f"<quote {self._mark}>"
        self.closing = f"</quote {self._mark}>"
        self.cost = estimate(f"<quote {DEAREST}>\n\n</quote {DEAREST}>\n")
        """Tokens of the tags, the same for all digits: answers must not differ because of them."""

    def enclose(self, text: str) -> str:
        """A text that was made visible, between tags."""
        # Nobody can know the digits, but by chance a text may contain them.
        broken = text.replace(self._mark, f"{self._mark[0]}·{self._mark[1:]}")
        return f"{self.opening}\n{broken}\n{self.closing}"
