"""Numbers in texts that programs print: Python refuses to convert thousands of digits, and the store has 64 bits."""

from __future__ import annotations

_MOST_DIGITS = 18


def number_in(digits: str) -> int | None:
    """Return the number that some digits make; None if there are too many for an exit code or a count."""
    return int(digits) if len(digits) <= _MOST_DIGITS else None
