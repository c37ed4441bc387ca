"""What all agents have in common."""

from __future__ import annotations

from pathlib import Path

from unspool.agents import AGENTS
from unspool.testing import ClaudeLog


def test_a_log_that_is_deleted_while_stamps_are_taken(tmp_path: Path) -> None:
    """It is left out, like one that was deleted before, and the others are not affected."""
    paths = []
    for name in ("one", "two", "three"):
        log = ClaudeLog(name)
        log.user("hello")
        paths.append(log.write(tmp_path))
    first, second, third = sorted(paths)
    stamps = AGENTS["claude"].stamps(tmp_path / ".claude")
    # The folder was listed for the first one.
    found = [next(stamps)]
    second.unlink()
    found += stamps
    assert [stamp[0] for stamp in found] == [str(first), str(third)]
