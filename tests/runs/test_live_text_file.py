"""What a model was writing survives a server that is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.runs.live_text import MAX_LIVE_TEXT
from unspool.runs.live_text_file import LiveTextFile, recover_live_text


def test_what_was_written_is_there_although_nothing_was_closed(tmp_path: Path) -> None:
    """Every piece, at once, for its owner alone; it is taken once."""
    path = tmp_path / "live" / "run"
    file = LiveTextFile(path)
    for piece in ("One ", "two 🙂 ", "half a \ud83d", " three"):
        file.append(piece)
    assert (path.stat().st_mode & 0o077, path.parent.stat().st_mode & 0o077) == (0, 0)
    found = recover_live_text(path)
    assert found is not None
    assert found.text.startswith("One two 🙂 half a ")
    assert found.text.endswith(" three")
    assert found.is_cut_off
    assert recover_live_text(path) is None
    file.remove()


@pytest.mark.parametrize("pieces", [(), ("a finished reply",), (" ", "\n")])
def test_a_turn_that_has_ended_leaves_nothing(tmp_path: Path, pieces: tuple[str, ...]) -> None:
    file = LiveTextFile(tmp_path / "run")
    for piece in pieces:
        file.append(piece)
    file.remove()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_each_turn_starts_with_an_empty_file(tmp_path: Path) -> None:
    file = LiveTextFile(tmp_path / "run")
    file.append("the first turn")
    file.remove()
    file.append("the second turn")
    found = recover_live_text(tmp_path / "run")
    assert found is not None
    assert found.text == "the second turn"
    file.remove()


def test_a_long_text_keeps_its_end(tmp_path: Path) -> None:
    file = LiveTextFile(tmp_path / "run")
    file.append("🙂" * (MAX_LIVE_TEXT + 10) + "end")
    found = recover_live_text(tmp_path / "run")
    assert found is not None
    assert len(found.text) == MAX_LIVE_TEXT
    assert found.text.endswith("🙂end")
    file.remove()


def test_a_disk_that_cannot_be_written_to_does_not_stop_the_agent(tmp_path: Path) -> None:
    (tmp_path / "live").write_text("not a folder")
    LiveTextFile(tmp_path / "live" / "run").append("text")
    assert recover_live_text(tmp_path / "live" / "run") is None
