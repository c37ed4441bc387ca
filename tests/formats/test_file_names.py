"""The names of exported files."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from unspool.formats.file_names import FileNames, safe_name


@pytest.mark.parametrize("id", ["", ".", "..", "../../etc/passwd", "a/b", "nul\0", "x" * 3000, "é" * 300, "-" * 161])
def test_any_id_gives_a_file_name(tmp_path: Path, id: str) -> None:
    """One that is in the directory, and that leaves room for a suffix."""
    path = tmp_path / f"{safe_name(id)}.inspect.part"
    path.write_text("")
    assert path.parent == tmp_path


def test_long_ids_have_different_names() -> None:
    """Even if they only differ at the end; short ones stay as they are."""
    assert safe_name("x" * 300 + "1") != safe_name("x" * 300 + "2")
    assert safe_name("x" * 160) == "x" * 160


def test_every_session_gets_another_name() -> None:
    """Also where neither case nor the form of accents matters, and if another session has the name with a number."""
    ids = ["a", "a", "A", "a-2", "a/", "a_", "index", "é", unicodedata.normalize("NFD", "é"), "", "session"]
    names = FileNames("index")
    found = [names.next(id) for id in ids]
    assert found[:2] == ["a", "a-2"]
    assert len({unicodedata.normalize("NFC", name).lower() for name in [*found, "index"]}) == len(ids) + 1
