"""A short soak: see `soak.py` for the long one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .soak import soak


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks for processes in /proc")
def test_agents_kills_restarts_and_listeners(tmp_path: Path) -> None:
    done = soak(tmp_path, agents=4, turns=40, restarts=3, seconds=150)
    assert done.faults == []
    assert len(done.completed) > 5
    assert done.counts["restarts"] == 3
