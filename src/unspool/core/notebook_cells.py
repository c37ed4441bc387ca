"""Cells of notebooks, from the text of a notebook file. The agents know which calls and results contain one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from ..io.decode import decode_any

CellKind = Literal["code", "markdown", "raw"]
CellMode = Literal["replace", "insert", "delete"]
SUFFIX = ".ipynb"
LANGUAGE = "python"
_LONGEST = 4_000_000
"""Size limit in characters; larger notebooks are shown as text."""
_KINDS: dict[str, CellKind] = {"markdown": "markdown", "raw": "raw"}


class NotebookCell(msgspec.Struct, kw_only=True):
    """A cell of a notebook, or a change of one."""

    kind: CellKind
    source: str
    id: str | None = None
    language: str = LANGUAGE
    """The language of the code."""
    outputs: str = ""
    """The text that running the cell printed."""
    mode: CellMode | None = None
    """What a call does with the cell; `insert` puts it after the cell with this id. None if it is only shown."""

    @property
    def label(self) -> str:
        """A label for the cell, or for what is done with it."""
        name = f" {self.id}" if self.id else ""
        if self.mode == "delete":
            return f"Delete cell{name}"
        if self.mode == "replace":
            return f"Replace {self.kind} cell{name}"
        if self.mode == "insert":
            return f"Insert {self.kind} cell " + (f"after {self.id}" if self.id else "at the beginning")
        return f"{self.kind} cell{name}"


def cell_kind(given: object) -> CellKind:
    """The kind of a cell by its name in a notebook."""
    return _KINDS.get(str(given), "code")


def is_notebook(path: str | None) -> bool:
    """Whether a path has the suffix of a notebook."""
    return path is not None and path.lower().endswith(SUFFIX)


def cells_in(text: str) -> list[NotebookCell]:
    """The cells of a notebook file; empty if the text is something else, or too long."""
    if len(text) > _LONGEST or not text.lstrip().startswith("{"):
        return []
    given = decode_any(text)
    if not isinstance(given, dict) or not isinstance(given.get("cells"), list) or "nbformat" not in given:
        return []
    language = _language(given.get("metadata"))
    return [_cell(item, language) for item in given["cells"] if isinstance(item, dict)]


def _cell(item: dict[str, Any], language: str) -> NotebookCell:
    name = item.get("id")
    outputs = item.get("outputs")
    return NotebookCell(
        kind=cell_kind(item.get("cell_type")),
        source=_text(item.get("source")),
        id=name if isinstance(name, str) else None,
        language=language,
        outputs="\n".join(filter(None, map(_printed, outputs if isinstance(outputs, list) else []))),
    )


def _language(metadata: object) -> str:
    given: Any = metadata if isinstance(metadata, dict) else {}
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        found = given.get(part)
        if isinstance(found, dict) and isinstance(name := found.get(key), str):
            return name
    return LANGUAGE


def _printed(output: object) -> str:
    """The text of an output: what was printed, a value, or an error."""
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    candidates = (output.get("text"), data.get("text/plain") if isinstance(data, dict) else None)
    return next(filter(None, map(_text, candidates)), "") or _text(output.get("traceback"), "\n")


def _text(value: object, separator: str = "") -> str:
    """Return a text, which a notebook may store as a list of lines."""
    return value if isinstance(value, str) else separator.join(_lines(value))


def _lines(value: object) -> Iterator[str]:
    return (line for line in value if isinstance(line, str)) if isinstance(value, list) else iter(())
