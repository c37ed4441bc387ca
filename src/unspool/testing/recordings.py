"""Recordings: sessions of a real agent, with a description of what happened in them.

A recording is a folder `<agent>/<version>/<scenario>` below a corpus:

- `home/`: the files exactly as the agent wrote them,
- `truth.json`: what happened, and how much of it the files can show,
- `contexts.jsonl` (optional): what the model was sent with each request.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from ..agents import SessionRef
from ..core.session import Session
from ..library import Library


class Recording(NamedTuple):
    """One recorded scenario."""

    agent: str
    version: str
    scenario: str
    corpus: Path

    @property
    def name(self) -> str:
        """Agent, version and scenario."""
        return f"{self.agent}/{self.version}/{self.scenario}"

    @property
    def path(self) -> Path:
        """The folder of the recording."""
        return self.corpus / self.agent / self.version / self.scenario

    @property
    def home(self) -> Path:
        """The home directory with the agent's files."""
        return self.path / "home"

    @property
    def truth(self) -> dict[str, Any]:
        """The content of `truth.json`."""
        found: dict[str, Any] = json.loads((self.path / "truth.json").read_text(encoding="utf-8"))
        return found

    @property
    def contexts(self) -> list[dict[str, Any]]:
        """The requests to the model that can be compared, without those that the files do not fully show."""
        path = self.path / "contexts.jsonl"
        if not path.exists():
            return []
        lines = (json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line)
        return [line for line in lines if "skip" not in line]

    def refs(self) -> list[SessionRef]:
        """Return the sessions that are found in it."""
        return list(Library(self.home).refs())

    def sessions(self) -> list[Session]:
        """Load its sessions."""
        library = Library(self.home)
        return [session for ref in library.refs() for session in library.load_all(ref)]

    def logs(self) -> list[Path]:
        """Return the logs of its sessions."""
        return sorted({path for ref in self.refs() for path in (ref.path, *ref.more)})


def find_recordings(corpus: Path, agent: str = "*", version: str = "*", scenario: str = "*") -> list[Recording]:
    """Return the matching recordings in a corpus, by agent and version, the oldest version first."""
    folders = (path.parent for path in corpus.glob(f"{agent}/{version}/{scenario}/truth.json"))
    found = (Recording(path.parts[-3], path.parts[-2], path.parts[-1], corpus) for path in folders)
    return sorted(found, key=_order)


def _order(recording: Recording) -> tuple[str, list[int], str]:
    return recording.agent, [int(part) for part in re.findall(r"\d+", recording.version)], recording.scenario
