"""Measures the space for the versions of a file that is rewritten with every message, as Gemini CLI does."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.ingest.sync import Syncer
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.maintenance import Maintenance
from unspool.store.store import Store

from .inputs import Inputs
from .report import Measure

_TIMES = 200
_WORDS = 120
_MACHINE = ("bench", "bench")


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Measure the store after all rewrites and maintenance, relative to one that has only the last version."""
    folder = inputs.folder / "rewrites"
    home = folder / "home"
    path = home / ".gemini" / "tmp" / ("ab" * 32) / "chats" / "session-2026-03-01T09-00-0badcafe.json"
    path.parent.mkdir(parents=True)
    store = _store(folder / "rewritten.db")
    for number in range(_TIMES):
        _write(path, number + 1)
        Syncer(store, home).run()
    sizes = _sizes(store, folder / "rewritten.db")
    fresh = _store(folder / "fresh.db")
    Syncer(fresh, home).run()
    once = _sizes(fresh, folder / "fresh.db")
    on_disk = path.stat().st_size
    detail = f"{sizes[0] / 1e3:.0f} kB; the last version alone {once[0] / 1e3:.0f} kB, on disk {on_disk / 1e3:.0f} kB"
    yield Measure(f"a file rewritten {_TIMES} times: the store", sizes[0] / once[0], "x", 1.3, detail, "3.4x")
    yield Measure(f"a file rewritten {_TIMES} times: the text index", sizes[1] / once[1], "x", 1.3, before="7.9x")
    for used in (store, fresh):
        used.close()
    shutil.rmtree(folder)


def _store(path: Path) -> Store:
    return Store(SqliteDatabase(path, machine=_MACHINE))


def _write(path: Path, turns: int) -> None:
    """Write a session of some turns; the turns of an earlier version stay the same."""
    rng = random.Random(7)
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        for kind in ("user", "gemini"):
            text = " ".join(f"{rng.choice('bdfglmnprst')}{rng.randrange(4000):x}" for _ in range(_WORDS))
            messages.append(
                {
                    "id": f"{kind}-{turn}",
                    "type": kind,
                    "content": text,
                    "timestamp": f"2026-03-01T{9 + turn // 60:02}:{turn % 60:02}:00.000Z",
                }
            )
    document = {
        "sessionId": "0badcafe-0000-4000-8000-000000000000", "projectHash": "ab" * 32,
        "startTime": "2026-03-01T09:00:00.000Z", "lastUpdated": messages[-1]["timestamp"], "messages": messages,
    }  # fmt: skip
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")


def _sizes(store: Store, path: Path) -> tuple[int, int]:
    """Return the size of the database, and of the text index in it, after maintenance."""
    Maintenance(store, everything=True).run()
    store.database.optimize()
    ((index,),) = store.database.rows("SELECT sum(length(block)) FROM words_data")
    return path.stat().st_size, int(index)
