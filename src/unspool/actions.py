"""Rebuild what a refused action would have done. The readers know the tools; this knows how to show a change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SLOW_AT = 4_000
"""Lines from which a minimal diff takes too long; a plain replacement is shown instead."""


def replacement_diff(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Unified diff of one or more replacements in a file of which only the replaced parts are known.

    The line numbers are therefore those within each part.
    """
    lines = [f"--- {path}\n", f"+++ {path}\n"]
    for old, new in pairs:
        lines += _hunks(old.splitlines(keepends=True), new.splitlines(keepends=True))
    return _joined(lines)


def creation_diff(path: str, content: str) -> str:
    """Unified diff of a file that would have been written; what stood there before is not in the log."""
    new = content.splitlines(keepends=True)
    return _joined(["--- /dev/null\n", f"+++ {path}\n", f"@@ -0,0 +1,{len(new)} @@\n", *("+" + line for line in new)])


def _hunks(old: list[str], new: list[str]) -> list[str]:
    if len(old) + len(new) > _SLOW_AT:
        head = f"@@ -1,{len(old)} +1,{len(new)} @@\n"
        return [head, *("-" + line for line in old), *("+" + line for line in new)]
    return list(difflib.unified_diff(old, new))[2:]


def _joined(lines: Iterable[str]) -> str:
    """End every line, and say where the file had no newline at its end, as diff does."""
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
