"""The recordings in `corpus/`: sessions of the real agents, with what really happened in them."""

from __future__ import annotations

import os
from functools import cache
from itertools import groupby
from pathlib import Path

from unspool.testing import Recording, find_recordings

CORPUS = Path(__file__).parent / "corpus"


def recordings(agent: str = "*", version: str = "*", scenario: str = "*") -> list[Recording]:
    """The recordings that match, the oldest version first."""
    return list(_found(agent, version, scenario))


@cache
def _found(agent: str, version: str, scenario: str) -> tuple[Recording, ...]:
    # Many modules ask for all of them while the tests are collected, which looks into a thousand folders.
    return tuple(find_recordings(CORPUS, agent, version, scenario))


def sampled_versions() -> list[list[Recording]]:
    """The recordings of the newest version of each agent, and of every sixth other version; all of them with
    `UNSPOOL_TEST_ALL=1`.
    """
    groups = [list(group) for _, group in groupby(recordings(), key=lambda recording: recording[:2])]
    if os.environ.get("UNSPOOL_TEST_ALL"):
        return groups
    newest = {group[0].agent: at for at, group in enumerate(groups)}.values()
    return [group for at, group in enumerate(groups) if at in newest or at % 6 == 0]
