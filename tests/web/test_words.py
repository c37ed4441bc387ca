"""The words that pages and scripts show: one word for each concept, and none that were retired."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unspool.web.templating import HERE

RETIRED = (
    r"ledgers?", r"refus\w+", r"never finished", r"go(?:es)? on", r"went on", r"going on", r"anew", r"time line",
    r"makes no sense", r"run out", r"no longer there", r"waited for", r"looked for", r"begin so",
    r"one after the other", r"active line", r"made up", r"told", r"somebody", r"whoever",
    r"torch", r"calmly", r"whisper",
)  # fmt: skip
"""Words that readers stumbled over; the vocabulary has another one for each of them."""
FILES = sorted(
    [*(HERE / "templates").glob("*.html"), *(HERE / "static").glob("*.js"), *(HERE / "static").glob("*.css")]
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_retired_words_are_gone(path: Path) -> None:
    """In what is shown, in names and in comments."""
    text = path.read_text(encoding="utf-8")
    found = [match[0] for word in RETIRED for match in re.finditer(rf"(?<![\w-]){word}(?![\w-])", text, re.IGNORECASE)]
    assert found == []


def test_there_are_files_to_read() -> None:
    """A test that reads nothing would find nothing."""
    assert {path.suffix for path in FILES} == {".html", ".js", ".css"}
    assert len(FILES) > 40
