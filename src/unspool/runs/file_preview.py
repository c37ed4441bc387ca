"""Previews of proposed changes against the files on disk, with warnings where a file differs from what was assumed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..core.proposed_actions import CellEdit, ProposedEdit, Replacement, file_diff
from .protocol import FilePreview

_FAILS = "the change would fail"
_LARGEST = 4 << 20
"""Larger files are not compared."""


class _Found(NamedTuple):
    """A file as it is on disk."""

    text: str | None
    """None if there is no such file, or if it cannot be read as text."""
    version: str
    problem: str | None = None


def preview_edit(edit: ProposedEdit, folder: str) -> FilePreview:
    """Compare a proposed change with the file on disk."""
    path = Path(folder) / edit.path
    found = _read(path)
    warnings = [found.problem] if found.problem else []
    if os.path.islink(path):
        # Not `Path.resolve`, which raises an error for symbolic links in a circle.
        warnings.append(f"The path is a symbolic link to {os.path.realpath(path)}.")
    diff = None
    if found.problem is None:
        after = _apply(edit, found.text, warnings)
        if after is not None:
            diff = file_diff(edit.path, *after)
    return FilePreview(
        path=edit.path,
        diff=diff,
        warnings=warnings,
        applies=not any(_FAILS in warning for warning in warnings),
        version=found.version,
    )


def _read(path: Path) -> _Found:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return _Found(None, "special", "The path is not a regular file.")
        if status.st_size > _LARGEST:
            size = f"{status.st_size / (1 << 20):.0f} MB"
            version = f"{status.st_size}-{status.st_mtime_ns}"
            return _Found(None, version, f"The file is too large to be compared ({size}).")
        data = path.read_bytes()
    except FileNotFoundError:
        return _Found(None, "")
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        return _Found(None, "unreadable", f"The file cannot be read ({reason}), so its content is not compared.")
    version = hashlib.blake2b(data, digest_size=8).hexdigest()
    try:
        return _Found(data.decode().replace("\r\n", "\n"), version)
    except UnicodeDecodeError:
        return _Found(None, version, "The file is not UTF-8 text, so its content is not compared.")


def _apply(edit: ProposedEdit, before: str | None, warnings: list[str]) -> tuple[str | None, str] | None:
    """Return the text before and after a change; None if there is nothing to compare."""
    if edit.content is not None:
        if (warning := _overwriting(edit.content, edit.assumed, before)) is not None:
            warnings.append(warning)
        return before, edit.content
    if edit.cell is not None:
        return _apply_cell(edit.cell, before, warnings)
    if edit.replacements:
        after = before
        for replacement in edit.replacements:
            after = _replace(replacement, after, warnings)
        return None if after is None else (before, after)
    return None


def _overwriting(content: str, assumed: str | None, before: str | None) -> str | None:
    """Return a warning about overwriting a whole file, if one is needed."""
    if assumed is not None:
        is_as_read = before is not None and before == assumed.replace("\r\n", "\n")
        return None if is_as_read else "The file differs from what the agent has read; all of it would be overwritten."
    if before is None:
        return None
    if before == content:
        return "The file already has this content."
    lines = before.count("\n") + (not before.endswith("\n"))
    return f"The file exists: its {lines:,} {'line' if lines == 1 else 'lines'} would be overwritten."


def _replace(replacement: Replacement, text: str | None, warnings: list[str]) -> str | None:
    """Return the text after one replacement; unchanged if it would fail."""
    old, new = replacement.old.replace("\r\n", "\n"), replacement.new
    if text is None and old:
        warnings.append(f"The file does not exist, so there is nothing to replace: {_FAILS}.")
    if not old:
        if text:
            warnings.append(f"The change is meant for a new file, but the file has content: {_FAILS}.")
        return text or new
    times = (text or "").count(old)
    if text is None or not times:
        if text is not None:
            warnings.append(
                f"The text to be replaced is not in the file, which differs from what the model assumed: {_FAILS}, or "
                "the agent would look for similar text."
            )
        return text
    if times > 1 and not replacement.everywhere:
        warnings.append(f"The text to be replaced occurs {times} times in the file: {_FAILS}.")
        return text
    if times > 1:
        warnings.append(f"All {times} occurrences in the file would be replaced.")
    return text.replace(old, new)


def _apply_cell(edit: CellEdit, before: str | None, warnings: list[str]) -> tuple[str, str] | None:
    cells = _cells(before)
    if cells is None:
        warnings.append(f"The file is not a notebook that can be read: {_FAILS}.")
        return None
    if edit.cell is None and edit.mode != "insert":
        warnings.append(f"The change names no cell: {_FAILS}.")
        return None
    source = None if edit.cell is None else _source_of(edit.cell, cells)
    if source is None and edit.cell is not None:
        warnings.append(f"The notebook has no cell {edit.cell}: {_FAILS}.")
        return None
    if edit.mode == "insert":
        where = f"after cell {edit.cell}" if edit.cell is not None else "at the beginning"
        warnings.append(f"A cell would be inserted {where}.")
        return "", edit.source
    if edit.mode == "delete":
        warnings.append(f"Cell {edit.cell} would be deleted.")
        return source or "", ""
    return source or "", edit.source


def _cells(text: str | None) -> list[Any] | None:
    try:
        notebook = msgspec.json.decode(text or "")
    except msgspec.DecodeError:
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    return cells if isinstance(cells, list) else None


def _source_of(id: str, cells: list[Any]) -> str | None:
    """Return the source of a cell, found by its id or, as in `cell-3`, by its index."""
    for index, cell in enumerate(cells):
        if isinstance(cell, dict) and id in (cell.get("id"), f"cell-{index}"):
            source = cell.get("source", "")
            return "".join(map(str, source)) if isinstance(source, list) else str(source)
    return None
