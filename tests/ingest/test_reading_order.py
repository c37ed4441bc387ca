"""The order in which sessions are read."""

from __future__ import annotations

from pathlib import Path

from unspool.agents import SessionRef
from unspool.ingest.reading_order import reading_order

ROOT = Path("/home/dev/.claude")


def _ref(place: str, parent: str | None = None) -> SessionRef:
    path = ROOT / "projects" / f"{place}.jsonl"
    return SessionRef(agent="claude", id=path.stem, kind="main", root=ROOT, path=path, parent=parent)


def test_folder_by_folder() -> None:
    """The folder whose sessions are oldest comes first, and in a folder the oldest session."""
    changed = {"b/1": 1, "a/2": 2, "b/3": 3, "a/9": 9, "a/4": 4}
    refs = [_ref(place) for place in changed]
    key = reading_order(refs, lambda ref: changed[f"{ref.path.parent.name}/{ref.id}"])
    assert [ref.id for ref in sorted(refs, key=key)] == ["1", "3", "2", "4", "9"]


def test_sub_agents_follow_their_parent() -> None:
    """Also if their file is older, or in another folder."""
    refs = [_ref("b/agent", "main"), _ref("a/main"), _ref("a/main/subagents/agent-x", "main"), _ref("a/other")]
    key = reading_order(refs, lambda ref: 5 if ref.id == "main" else 1)
    assert [ref.id for ref in sorted(refs, key=key)] == ["other", "main", "agent", "agent-x"]
