"""Formats numbers with their nouns."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Format a number with its noun in the right form: `1 branch`, `2 branches`, `3 entries`, `1,000 files`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("ry"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}es" if noun.endswith(("ch", "s", "sh", "x")) else f"{count:,} {noun}s"
