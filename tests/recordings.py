"""The recordings in `corpus/`: sessions of the real agents, with what really happened in them."""

from __future__ import annotations

from pathlib import Path

from unspool.testing import Recording, find_recordings

CORPUS = Path(__file__).parent / "corpus"


def recordings(agent: str = "*", version: str = "*", scenario: str = "*") -> list[Recording]:
    """The recordings that match, the oldest version first."""
    return find_recordings(CORPUS, agent, version, scenario)
