"""Measures real sessions, if there are any: reading them, the first sync, and the size of the store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from unspool.agents import AGENTS
from unspool.ingest.sync import Syncer
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.maintenance import Maintenance
from unspool.store.store import Store

from . import reading, storing
from .inputs import Inputs, size_of
from .report import Measure

_SMALL = 50_000
_MOST_SMALL = 2_000
_STORE = {"claude": (26.0, "33 %"), "codex": (34.0, "54 %"), "gemini": (None, "44 %")}
"""The maximum size of the store, in percent of its source, by agent, and the size in an earlier version."""


def reading_measures(inputs: Inputs) -> Iterator[Measure]:
    """Measure reading into records, together and for each agent; then the same sessions cut to 50 kB."""
    if inputs.real is None:
        return
    yield reading.all_agents("real sessions, relative to orjson.loads of each line", inputs.real, 1.5, "1.75-2.1x")
    yield from reading.each_agent(inputs.real)
    small = inputs.folder / "real-small"
    _cut(inputs.real, small)
    yield reading.all_agents("real sessions cut to 50 kB", small, 2.5, "3.5-5x")
    shutil.rmtree(small)


def store_size(inputs: Inputs) -> Iterator[Measure]:
    """Measure the store of each agent's sessions after maintenance, relative to the size of the files."""
    for agent in AGENTS if inputs.real is not None else ():
        assert inputs.real is not None
        source = inputs.real / AGENTS[agent].info.folder
        if not source.is_dir():
            continue
        limit, before = _STORE.get(agent, (None, ""))
        path = inputs.folder / f"real-{agent}.db"
        store = Store(SqliteDatabase(path, machine=("bench", "bench")))
        Syncer(store, source, may_share=True).run()
        Maintenance(store, everything=True).run()
        store.database.optimize()
        kept = sum(row.archived_size for row in store.files.all().values())
        store.close()
        detail = f"{path.stat().st_size / 1e6:.0f} MB of {kept / 1e6:.0f} MB"
        yield Measure(
            f"the store of real {agent} sessions", 100 * path.stat().st_size / kept, " %", limit, detail, before
        )
        path.unlink()


def against_agentsview(inputs: Inputs) -> Iterator[Measure]:
    """Measure the first sync of real Claude Code sessions, if agentsview is installed."""
    if inputs.real is None or inputs.agentsview is None:
        return
    with tempfile.TemporaryDirectory(dir=inputs.folder) as name:
        home = Path(name)
        (home / ".claude").symlink_to(inputs.real / ".claude")
        agentsview, unspool = storing.best_against_agentsview(inputs.agentsview, home, inputs.folder)
    detail = f"{size_of(inputs.real / '.claude') / 1e6:.0f} MB in {unspool:.1f} s, agentsview {agentsview:.1f} s"
    name = "first sync of real sessions, times faster than agentsview"
    yield Measure(name, agentsview / unspool, "x", None, detail, "3.6-4.2x", at_least=6)


def _cut(home: Path, target: Path) -> None:
    """Copy the beginning of each JSON Lines log, up to the last complete line."""
    count = 0
    for path in sorted(home.rglob("*.jsonl")):
        with open(path, "rb") as file:
            data = file.read(_SMALL)
        lines = data[: data.rfind(b"\n") + 1]
        if lines and count < _MOST_SMALL:
            copy = target / path.relative_to(home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(lines)
            count += 1
