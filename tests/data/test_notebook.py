"""The notebook and the charts of the documentation."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tools.docs import question_charts

from unspool.data.sql import questions

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the import to three plots."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    cells = json.loads((DOCS / "tables.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    drawn = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            drawn += sum(bool(plt.figure(number).get_axes()) for number in plt.get_fignums())
            plt.close("all")
    assert drawn == 3


def test_the_charts_show_every_question() -> None:
    """`python -m tools.docs.question_charts` draws them again."""
    picture = ET.parse(question_charts.PICTURE).getroot()
    drawn = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}desc")}
    assert drawn == {question.name for question in questions()}
