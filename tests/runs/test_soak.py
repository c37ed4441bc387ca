"""A short soak: see `soak.py` for the long one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..waiting import PATIENCE
from .soak import soak


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks for processes in /proc")
def test_agents_kills_restarts_and_listeners(tmp_path: Path) -> None:
    # One restart after a SIGKILL and one after a SIGTERM, and each kind of turn several times.
    done = soak(tmp_path, agents=4, turns=24, restarts=2, seconds=2 * PATIENCE)
    assert done.faults == []
    assert len(done.completed) > 5
    assert done.counts["restarts"] == 2
    assert all(done.counts[how] for how in ("say", "ask", "interrupt", "kill"))
