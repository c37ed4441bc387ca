"""Archived files are restored to the places where their agent looks for them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unspool.ingest.restore import restore_session
from unspool.store import Store

from ..store.contents import synced
from ..store.homes import AGENTS, log_of, write_home


@pytest.mark.parametrize("above", ["projects", "sessions/jobs", "tmp", ".gemini/tmp/x", ".claude/projects/-x"])
def test_folders_above_the_home_have_the_names_of_those_inside(store: Store, tmp_path: Path, above: str) -> None:
    """A home may be in a folder called `projects`, `sessions` or `tmp`, even in that of an agent."""
    home = tmp_path / above
    write_home(home)
    synced(store, home)
    for row in store.sessions.select():
        ((restored, path, _),) = restore_session(store, row, tmp_path / "restored")
        assert restored.relative_to(tmp_path / "restored") == Path(path).relative_to(home)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_folder_of_the_agent_has_another_name(store: Store, tmp_path: Path, agent: str) -> None:
    """It was copied, perhaps to a folder with the name of one inside; so may the folder of a project be called."""
    path = log_of(agent).write(tmp_path / "home")
    inside = path.relative_to(tmp_path / "home")
    if agent == "gemini":
        inside = Path(*("tmp" if part == inside.parts[2] else part for part in inside.parts))
        path.parents[1].rename(path.parents[1].with_name("tmp"))
    copy = tmp_path / "projects" / "sessions" / "tmp" / "copy"
    shutil.copytree(tmp_path / "home" / inside.parts[0], copy)
    synced(store, copy)
    (row,) = store.sessions.select()
    ((restored, _, _),) = restore_session(store, row, tmp_path / "restored")
    assert restored.relative_to(tmp_path / "restored") == inside


@pytest.mark.parametrize("name", ["x" * 249, ""])
def test_unusual_file_names(store: Store, tmp_path: Path, name: str) -> None:
    """A file is restored if its name is as long as possible, or consists of nothing but the suffix."""
    log = log_of("claude")
    path = log.write(tmp_path / "home")
    path = path.rename(path.with_name(f"{name}.jsonl"))
    synced(store, tmp_path / "home")
    ((restored, _, _),) = restore_session(store, store.sessions.select()[0], tmp_path / "restored")
    assert (restored.name, restored.read_bytes()) == (path.name, log.data)
