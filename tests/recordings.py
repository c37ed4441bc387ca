"""The recordings in `corpus/`: sessions of the real agents, with what really happened in them.

A recording is a folder `<agent>/<version>/<scenario>`: `home/` holds the files exactly as the agent wrote them,
`truth.json` what the recorder did (and how much of it the files can tell), `contexts.jsonl` what the model was sent.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from unspool.agents import SessionRef
from unspool.core.session import Session
from unspool.library import Library

CORPUS = Path(__file__).parent / "corpus"


class Recording(NamedTuple):
    """One scenario."""

    agent: str
    version: str
    scenario: str

    @property
    def name(self) -> str:
        return f"{self.agent}/{self.version}/{self.scenario}"

    @property
    def path(self) -> Path:
        return CORPUS / self.agent / self.version / self.scenario

    @property
    def home(self) -> Path:
        return self.path / "home"

    @property
    def truth(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "truth.json").read_text(encoding="utf-8"))
        return found

    @property
    def contexts(self) -> list[dict[str, Any]]:
        """The requests that can be compared; of the others the files do not tell enough."""
        path = self.path / "contexts.jsonl"
        if not path.exists():
            return []
        lines = (json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line)
        return [line for line in lines if "skip" not in line]

    def refs(self) -> list[SessionRef]:
        return list(Library(self.home).refs())

    def sessions(self) -> list[Session]:
        library = Library(self.home)
        return [session for ref in library.refs() for session in library.load_all(ref)]


def _order(recording: Recording) -> tuple[str, list[int], str]:
    return recording.agent, [int(part) for part in re.findall(r"\d+", recording.version)], recording.scenario


def recordings(agent: str = "*", version: str = "*", scenario: str = "*") -> list[Recording]:
    """All recordings that fit, the oldest version first."""
    found = (Recording(*path.parts[-4:-1]) for path in CORPUS.glob(f"{agent}/{version}/{scenario}/truth.json"))
    return sorted(found, key=_order)


def log_files(recording: Recording) -> list[Path]:
    """The session logs of a recording."""
    return sorted({path for ref in recording.refs() for path in (ref.path, *ref.more)})
