"""Making text from a log harmless: a transcript may hold anything, and a terminal obeys what it is sent."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BIDI = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Text without escape sequences, control characters and marks that turn the direction of reading."""
    text = without_escapes(text.replace("\r\n", "\n"))
    return _BIDI.sub("", _CONTROL.sub("\ufffd", text))


def without_escapes(text: str) -> str:
    """Text without the escape sequences of terminals."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def one_line(text: str, width: int = 100) -> str:
    """The beginning of a text, on one line."""
    return shorten(harmless(text[: width * 4]), width)


def shorten(text: str, width: int) -> str:
    """A text on one line, and not longer than this."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def local(time: datetime | None) -> str:
    """A time as the reader's clock shows it."""
    if time is None:
        return ""
    try:
        return time.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        # The first or the last day that Python knows, in another zone.
        return time.strftime("%Y-%m-%d %H:%M")


def pretty(raw: msgspec.Raw) -> str:
    """JSON over several lines."""
    try:
        return msgspec.json.format(bytes(raw), indent=2).decode("utf-8", "replace")
    except msgspec.DecodeError:
        return bytes(raw).decode("utf-8", "replace")


def fence(text: str) -> str:
    """A fence that nothing in the text can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * max(3, longest + 1)
