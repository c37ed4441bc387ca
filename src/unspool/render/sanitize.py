"""Makes text from logs safe to print: a transcript may contain anything, including terminal control sequences."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BIDI = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Remove escape sequences and marks that change the text direction, and replace control characters."""
    text = without_escapes(text.replace("\r\n", "\n"))
    return _BIDI.sub("", _CONTROL.sub("\ufffd", text))


def harmless_json(data: bytes) -> bytes:
    """Escape control characters and marks that change the text direction; the values stay the same.

    JSON escapes only those below the space, but terminals interpret others as well.
    """
    if data.isascii() and b"\x7f" not in data:
        return data
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", data.decode()).encode()


def without_escapes(text: str) -> str:
    """Remove terminal escape sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def one_line(text: str, width: int = 100) -> str:
    """Return the beginning of a text, on one line."""
    return shorten(harmless(text[: width * 4]), width)


def shorten(text: str, width: int) -> str:
    """Return a text on one line, truncated to `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def local(time: datetime | None) -> str:
    """Format a time in the local time zone; empty for None."""
    if time is None:
        return ""
    try:
        return time.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        # Too close to the minimum or maximum datetime to convert it to another time zone.
        return time.strftime("%Y-%m-%d %H:%M")


def pretty(raw: msgspec.Raw) -> str:
    """Indent JSON. Text that is not valid JSON is returned unchanged."""
    try:
        return msgspec.json.format(bytes(raw), indent=2).decode("utf-8", "replace")
    except msgspec.DecodeError:
        return bytes(raw).decode("utf-8", "replace")


def fence(text: str) -> str:
    """Return a Markdown fence that nothing in the text can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * max(3, longest + 1)
