"""Messages as text: nothing of a change is left out."""

from __future__ import annotations

import pytest

from unspool.core.proposed_actions import creation_diff, replacement_diff
from unspool.mcp.message_text import changed_lines


@pytest.mark.parametrize(
    ("diff", "changes"),
    [
        (replacement_diff("a.sql", [("-- old\nx\n", "++i\nx\n")]), "--- old\n+++i"),
        (creation_diff("a.md", "---\ntitle: x\n---\n"), "+---\n+title: x\n+---"),
        (creation_diff("a.diff", "++ a\n"), "+++ a"),
        ("--- a.lua\n+++ a.lua\n@@ @@ first\n--- a comment\n+x\n@@ @@ second\n+++i\n", "--- a comment\n+x\n+++i"),
        ("no diff", "no diff"),
    ],
)
def test_changed_lines(diff: str, changes: str) -> None:
    """Without file headers, but with lines that look like them."""
    assert changed_lines(diff) == changes
