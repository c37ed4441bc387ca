"""Reads recordings on disk, raw and with unspool."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.recordings import CORPUS

from unspool.agents import AGENTS, agent_named
from unspool.agents.shapes import Json
from unspool.agents.shapes import records_of as log_records
from unspool.library import Library
from unspool.testing import wrong_counts

from .shapes import RecordingsShape

_DAMAGE_OF_A_KILL = frozenset(("torn", "missing-parent"))


class Check(msgspec.Struct, kw_only=True):
    """The result of checking a recording with unspool."""

    agent: str
    version: str
    scenario: str
    wrong: list[str] = []
    """Differences between the record and `truth.json`."""
    problems: dict[str, int] = {}
    """The number of unknown or damaged parts, by reason."""
    failed: str | None = None
    """Why there is no recording."""

    @property
    def is_ok(self) -> bool:
        """Whether nothing needs attention."""
        return not self.wrong and not self.problems and self.failed is None


def checked(folder: Path) -> Check:
    """Read a recording with unspool, and compare it with `truth.json`."""
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    library = Library(folder / "home")
    sessions = [session for ref in library.refs() for session in library.load_all(ref)]
    wrong = wrong_counts(truth, sessions)
    if not sessions:
        wrong.append("there is no session")
    problems = Counter(problem.reason for session in sessions for problem in session.problems)
    unknown = sum(
        type(block).__name__ == "Unknown" for session in sessions for x in session.messages for block in x.blocks
    )
    if unknown:
        problems["unknown-block"] = unknown
    if truth["truth"].get("orphans"):
        problems = Counter({reason: count for reason, count in problems.items() if reason not in _DAMAGE_OF_A_KILL})
    return Check(
        agent=truth["agent"], version=truth["version"], scenario=truth["scenario"], wrong=wrong, problems=dict(problems)
    )


def records_of(folder: Path) -> Iterator[Json]:
    """Yield the records of all session files of a recording. Damaged lines are skipped."""
    refs = Library(folder / "home").refs()
    logs = {path: agent_named(ref.agent).log(path) for ref in refs for path in (ref.path, *ref.more)}
    for _, log in sorted(logs.items()):
        yield from log_records(log)


def shapes_in(root: Path, agent: str) -> dict[str, RecordingsShape]:
    """Return the shapes of an agent's recordings below a folder by version, the oldest first."""
    found: dict[str, RecordingsShape] = {}
    for truth in sorted(root.glob(f"{agent}/*/*/truth.json"), key=_order):
        version = truth.parent.parent.name
        found.setdefault(version, RecordingsShape()).add_recording(AGENTS[agent], records_of(truth.parent))
    return found


def known_shapes(agent: str) -> dict[str, RecordingsShape]:
    """Return the shapes of an agent's recordings in the corpus by version."""
    return shapes_in(CORPUS, agent)


def _order(truth: Path) -> tuple[list[int], str]:
    return [int(part) for part in re.findall(r"\d+", truth.parent.parent.name)], truth.parent.name
