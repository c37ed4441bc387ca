"""Diffs as rows: numbers only where they are those of the file, colours only where they are cheap."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from unspool.core.proposed_actions import creation_diff, replacement_diff
from unspool.render.diff import count_changes, diff_rows
from unspool.render.truncate import cut, cut_prose

SHOWN = """Index: a.py
=====
--- a.py\tCurrent
+++ a.py\tProposed
@@ -10,3 +10,4 @@ def f
 a = 1
-b = 2
+b = 3
+c = 4
 d = 5
"""


def words(text: str) -> str:
    return re.sub(r"<[^<>]*>", "", text)


def test_line_numbers_of_a_unified_diff() -> None:
    """Both sides are numbered as in the file."""
    rows = [(row.kind, row.old, row.new, words(row.text)) for row in diff_rows(SHOWN, "a.py")]
    assert rows == [
        ("hunk", None, None, "@@ -10,3 +10,4 @@ def f"),
        ("same", 10, 10, "a = 1"),
        ("del", 11, None, "b = 2"),
        ("add", None, 11, "b = 3"),
        ("add", None, 12, "c = 4"),
        ("same", 12, 13, "d = 5"),
    ]


def test_a_replacement_has_no_line_numbers() -> None:
    """Its position in the file is unknown."""
    rows = diff_rows(replacement_diff("a.py", [("x = 1\n", "x = 2\n"), ("y = 1\n", "y = 2\n")]), "a.py")
    assert [(row.kind, row.old, row.new) for row in rows] == [
        ("del", None, None),
        ("add", None, None),
        ("hunk", None, None),
        ("del", None, None),
        ("add", None, None),
    ]


def test_a_new_file_is_numbered() -> None:
    """From its first line."""
    rows = diff_rows(creation_diff("a.py", "def f():\n    pass\n"), "a.py")
    assert [(row.kind, row.new) for row in rows if row.kind == "add"] == [("add", 1), ("add", 2)]
    assert '<span class="k">def</span>' in rows[0].text


def test_several_files_are_named() -> None:
    """One is named above the diff already."""
    one = "--- a\n+++ a\n@@ @@\n-x\n+y\n"
    assert [row.text for row in diff_rows(one) if row.kind == "file"] == []
    assert [row.text for row in diff_rows(one + one.replace("a\n", "b\n")) if row.kind == "file"] == ["a", "b"]


def test_a_line_that_looks_like_a_header_is_counted() -> None:
    """Inside a hunk it is a line like any other."""
    diff = "--- q.sql\n+++ q.sql\n@@ -1,2 +1,1 @@\n--- a comment\n-++ no\n+++ yes\n"
    assert count_changes(diff) == (1, 2)


def test_missing_newline_at_end_of_file() -> None:
    """Is remarked, not counted."""
    rows = diff_rows(creation_diff("a.txt", "x"))
    assert [(row.kind, row.text) for row in rows][-1] == ("remark", "No newline at end of file")


@given(st.text(alphabet="+-@ \\ab<&\n\t", max_size=300))
def test_any_text_is_shown_whole_and_escaped(text: str) -> None:
    """Whether it is a diff or not."""
    for row in diff_rows(text, "a.py"):
        assert not re.search(r"<(?!/?span)", row.text)


@given(st.text(alphabet="ab\n", max_size=400), st.integers(1, 10))
def test_a_cut_text_is_its_beginning(text: str, lines: int) -> None:
    """With the given number of lines, and the total number."""
    shown = cut(text, lines)
    assert text.startswith(shown.text)
    assert shown.text.count("\n") < lines
    assert shown.is_cut == (text.rstrip("\n").count("\n") >= lines)
    assert shown.lines == text.rstrip("\n").count("\n") + 1


def test_very_long_lines_are_cut() -> None:
    """And all of them together."""
    shown = cut("x" * 1_000_000)
    assert shown.is_cut
    assert shown.whole == "1,000,000 characters"
    assert len(shown.text) < 10_000
    assert len(cut(("y" * 8_000 + "\n") * 100).text) < 80_000


def test_long_prose_is_cut_between_paragraphs() -> None:
    """Or, where there are none, anywhere."""
    shown = cut_prose(("word " * 100 + "\n\n") * 100)
    assert shown.is_cut
    assert shown.text.endswith("word ")
    assert len(cut_prose("x" * 100_000).text) == 24_000
    assert not cut_prose("short").is_cut
