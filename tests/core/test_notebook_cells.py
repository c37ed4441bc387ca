"""Cells are found in notebooks, and in nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unspool.core.notebook_cells import NotebookCell, cells_in

NOTEBOOK: dict[str, Any] = {
    "cells": [
        {"cell_type": "markdown", "id": "intro", "source": ["# Tides\n", "of a week"], "metadata": {}},
        {
            "cell_type": "code", "id": "sum", "source": "print(6 * 7)", "metadata": {}, "execution_count": 1,
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["42\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "7", "image/png": "iVBORw0K"}},
                {"output_type": "error", "ename": "E", "traceback": ["Traceback", "E: no"]},
            ],
        },
    ],
    "metadata": {"kernelspec": {"language": "R"}}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip


def test_a_notebook() -> None:
    """Source and output are lists of lines, or one text."""
    prose, code = cells_in(json.dumps(NOTEBOOK))
    assert (prose.kind, prose.id, prose.source) == ("markdown", "intro", "# Tides\nof a week")
    assert (code.kind, code.language, code.source) == ("code", "R", "print(6 * 7)")
    assert code.outputs == "42\n\n7\nTraceback\nE: no"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[]",
        "{}",
        '{"cells": 1, "nbformat": 4}',
        '{"cells": [1, "x", null], "nbformat": 4}',
        '{"cells": []}',
        '{"cells": [], "nbformat"',
        json.dumps({"cells": [{}] * 2}),
    ],
)
def test_something_else(text: str) -> None:
    """It is shown as the text it is."""
    assert cells_in(text) == []


def test_cells_of_any_shape() -> None:
    """Whatever is in a cell, the cell is there."""
    strange = [
        {"source": 1, "outputs": "x", "id": 3},
        {"cell_type": [], "source": [1, "a"], "outputs": [1, {}, {"data": 1}]},
    ]
    found = cells_in(json.dumps({"cells": strange, "nbformat": 3, "metadata": {"language_info": 4}}))
    assert [(cell.kind, cell.source, cell.outputs, cell.language) for cell in found] == [
        ("code", "", "", "python"),
        ("code", "a", "", "python"),
    ]


def test_labels() -> None:
    """They say what a call does with a cell."""
    cell = NotebookCell(kind="code", source="x", id="a1")
    modes = [(mode, id) for mode in ("replace", "insert", "delete") for id in ("a1", None)]
    labels = [NotebookCell(kind="code", source="x", id=id, mode=mode).label for mode, id in modes]  # type: ignore[arg-type]
    assert cell.label == "code cell a1"
    assert labels == [
        "Replace code cell a1",
        "Replace code cell",
        "Insert code cell after a1",
        "Insert code cell at the beginning",
        "Delete cell a1",
        "Delete cell",
    ]
