"""Numbers with their nouns."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number with its noun in the right form: `1 branch`, `2 branches`, `1,000 files`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}es" if noun.endswith(("ch", "s", "sh", "x")) else f"{count:,} {noun}s"
