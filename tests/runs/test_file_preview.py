"""Changes compared with the files on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from unspool.agents.claude.tools import edits_of
from unspool.core import model as m
from unspool.core.proposed_actions import ProposedEdit, Replacement, file_diff
from unspool.render.diff import count_changes
from unspool.runs.approvals import Approvals
from unspool.runs.errors import ConflictError
from unspool.runs.file_preview import preview_edit
from unspool.runs.protocol import Answer, FilePreview, PermissionRequest

TEXT = "".join(f"line {number}\n" for number in range(1, 21))


def previewed(folder: Path, tool: str, **input: object) -> FilePreview:
    """The preview of a call of Claude Code."""
    [edit] = edits_of(tool, msgspec.Raw(msgspec.json.encode(input)))
    return preview_edit(edit, str(folder))


def test_a_replacement_is_shown_in_its_file(tmp_path: Path) -> None:
    """With lines around it and the numbers of the file."""
    (tmp_path / "a.txt").write_text(TEXT)
    found = previewed(tmp_path, "Edit", file_path="a.txt", old_string="line 10\n", new_string="line ten\nand more\n")
    assert found.warnings == []
    assert (found.diff or "").splitlines() == [
        "--- a.txt (on disk)",
        "+++ a.txt (after the change)",
        "@@ -7,7 +7,8 @@",
        " line 7",
        " line 8",
        " line 9",
        "-line 10",
        "+line ten",
        "+and more",
        " line 11",
        " line 12",
        " line 13",
    ]


@pytest.mark.parametrize(
    ("before", "edit", "warning", "changes"),
    [
        ("a\na\n", {"old_string": "a", "new_string": "b"}, "occurs 2 times in the file: the change would fail", (0, 0)),
        (
            "a\na\n",
            {"old_string": "a", "new_string": "b", "replace_all": True},
            "All 2 occurrences in the file would be replaced",
            (2, 2),
        ),
        ("a\n", {"old_string": "x", "new_string": "b"}, "is not in the file", (0, 0)),
        (None, {"old_string": "x", "new_string": "b"}, "does not exist", None),
        ("a\n", {"old_string": "", "new_string": "b"}, "but the file has content", (0, 0)),
        (None, {"old_string": "", "new_string": "b\n"}, "", (1, 0)),
    ],
)
def test_where_the_file_is_not_as_assumed_the_card_says_what_happens(
    tmp_path: Path, before: str | None, edit: dict[str, object], warning: str, changes: tuple[int, int] | None
) -> None:
    """A replacement that would fail changes nothing in the preview."""
    if before is not None:
        (tmp_path / "a").write_text(before)
    found = previewed(tmp_path, "Edit", file_path="a", **edit)
    assert warning in " ".join(found.warnings)
    assert bool(found.warnings) == bool(warning)
    assert (None if found.diff is None else tuple(count_changes(found.diff))) == changes


def test_writing_says_what_is_overwritten(tmp_path: Path) -> None:
    """A new file causes no warning, an existing one is compared."""
    assert previewed(tmp_path, "Write", file_path="new", content="x\n").warnings == []
    (tmp_path / "old").write_text("one\ntwo\n")
    found = previewed(tmp_path, "Write", file_path="old", content="one\n2\n")
    assert found.warnings == ["The file exists: its 2 lines would be overwritten."]
    assert tuple(count_changes(found.diff or "")) == (1, 1)
    assert previewed(tmp_path, "Write", file_path="old", content="one\ntwo\n").warnings == [
        "The file already has this content."
    ]


def test_a_notebook_is_compared_cell_by_cell(tmp_path: Path) -> None:
    """What is deleted is shown, although the input does not have it."""
    cells = [{"id": "one", "source": ["x = 1\n", "y = 2"]}, {"source": "print(x)"}]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    call = {"notebook_path": "n.ipynb", "new_source": "x = 3\ny = 2"}
    deleted = previewed(tmp_path, "NotebookEdit", **call, cell_id="one", edit_mode="delete")
    assert deleted.warnings == ["Cell one would be deleted."]
    assert tuple(count_changes(deleted.diff or "")) == (0, 2)
    assert tuple(count_changes(previewed(tmp_path, "NotebookEdit", **call, cell_id="one").diff or "")) == (1, 1)
    inserted = previewed(tmp_path, "NotebookEdit", **call, cell_id="cell-1", edit_mode="insert")
    assert inserted.warnings == ["A cell would be inserted after cell cell-1."]
    assert previewed(tmp_path, "NotebookEdit", **call, cell_id="none").warnings == [
        "The notebook has no cell none: the change would fail."
    ]


@pytest.mark.parametrize("mode", ["replace", "delete"])
def test_a_change_of_a_cell_has_to_name_it(tmp_path: Path, mode: str) -> None:
    """Cells of older notebooks have no id, and none of them is meant."""
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": [{"source": "x = 1"}]}))
    found = previewed(tmp_path, "NotebookEdit", notebook_path="n.ipynb", new_source="y", edit_mode=mode)
    assert (found.warnings, found.diff) == (["The change names no cell: the change would fail."], None)
    inserted = previewed(tmp_path, "NotebookEdit", notebook_path="n.ipynb", new_source="y", edit_mode="insert")
    assert inserted.warnings == ["A cell would be inserted at the beginning."]


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    """A pipe, bytes, a link to another place and a folder."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "link").symlink_to(tmp_path / "bytes")
    assert previewed(tmp_path, "Write", file_path="pipe", content="").warnings == ["The path is not a regular file."]
    assert "not UTF-8" in previewed(tmp_path, "Write", file_path="bytes", content="").warnings[0]
    assert f"symbolic link to {tmp_path / 'bytes'}" in previewed(tmp_path, "Write", file_path="link").warnings[1]
    assert "cannot be read" in previewed(tmp_path, "Write", file_path="x" * 300, content="").warnings[0]


def test_links_in_a_circle_are_shown(tmp_path: Path) -> None:
    """They cannot be followed, which is no reason to lose the request."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    found = previewed(tmp_path, "Write", file_path="a", content="")
    assert "cannot be read (Too many levels of symbolic links)" in found.warnings[0]
    assert "symbolic link" in found.warnings[1]
    assert found.diff is None


def test_numbers_are_those_of_the_file() -> None:
    """Also where most of the file is left out, and where it is empty."""
    diff = file_diff("a", TEXT, TEXT.replace("line 2\n", "").replace("line 19\n", "line 19\nmore\n"))
    assert [line for line in diff.splitlines() if line.startswith("@@")] == ["@@ -1,5 +1,4 @@", "@@ -17,4 +16,5 @@"]
    assert "@@ -0,0 +1 @@\n+x" in file_diff("a", None, "x\n")


def test_an_allowed_change_is_shown_again_if_the_file_has_changed(tmp_path: Path) -> None:
    """The digest of the old preview is refused, that of the new one accepted."""
    (tmp_path / "a").write_text("one\n")
    edit = ProposedEdit(path="a", replacements=(Replacement("one", "two"),))
    action = m.Action(raw_input=msgspec.Raw(b"{}"))
    request = PermissionRequest(id="r", kind="edit", tool="Edit", title="a", action=action, edits=[edit])
    approvals = Approvals(str(tmp_path))
    shown = approvals.add(request).digest
    assert approvals.refresh("r") is None
    (tmp_path / "a").write_text("other\n")
    again = approvals.refresh("r")
    assert again is not None
    assert "is not in the file" in again.request.files[0].warnings[0]
    with pytest.raises(ConflictError):
        approvals.answer("r", shown, Answer(verdict="allow"), "tab 1", "user")
    approvals.answer("r", again.digest, Answer(verdict="allow"), "tab 1", "user")
