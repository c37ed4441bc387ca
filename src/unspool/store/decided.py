"""Decisions that were made under a supervisor on this computer, from the book it keeps beside the store."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import msgspec

from ..core.decisions import Decided
from .locate import data_folder

BOOK = "supervisor.db"
_SETTLED_SECONDS = 10.0
"""What is being written is in the file before it counts: only a book at rest is the same for as long as it looks so."""
_DECIDED = msgspec.json.Decoder(Decided)
Found = dict[tuple[str, str], list[Decided]]


def decisions_of(agent: str, session: str) -> list[Decided]:
    """What people decided about a session while it ran here, in order."""
    path = data_folder() / BOOK
    stamp = _stamp(path)
    if not stamp:
        return []
    try:
        if time.time() - max(stamp[::2]) / 1e9 > _SETTLED_SECONDS:
            return _all(path, stamp).get((agent, session), [])
        return _read(path, "agent = ? AND session = ?", agent, session).get((agent, session), [])
    except (sqlite3.Error, msgspec.DecodeError):
        # Without them the files tell what they can.
        return []


def _stamp(path: Path) -> tuple[int, ...]:
    """Another one when the book was written to; nothing where there is none."""
    found = []
    for name in (path, f"{path}-wal"):
        try:
            stat = os.stat(name)
        except OSError:
            continue
        found += [stat.st_mtime_ns, stat.st_size]
    return tuple(found)


@lru_cache(maxsize=2)
def _all(path: Path, _: tuple[int, ...]) -> Found:
    return _read(path, "session IS NOT NULL")


def _read(path: Path, where: str, *values: str) -> Found:
    found: Found = {}
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as database:
        rows = database.execute(f"SELECT agent, session, data FROM decision WHERE {where} ORDER BY id", values)
        for agent, session, data in rows:
            found.setdefault((agent, session), []).append(_DECIDED.decode(data))
    return found
