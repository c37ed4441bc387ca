"""Decisions that were made under a supervisor on this computer, from the book it keeps beside the store."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import msgspec

from ..decisions import Decided
from .place import data_folder

BOOK = "supervisor.db"
_DECIDED = msgspec.json.Decoder(Decided)
Found = dict[tuple[str, str], list[Decided]]


def decisions_of(agent: str, session: str) -> list[Decided]:
    """What people decided about a session while it ran here, in order."""
    path = data_folder() / BOOK
    stamp = _stamp(path)
    return _all(path, stamp).get((agent, session), []) if stamp else []


def _stamp(path: Path) -> tuple[int, ...]:
    """Another one when the book was written to; nothing where there is none."""
    found = []
    for name in (path, Path(f"{path}-wal")):
        try:
            stat = os.stat(name)
        except OSError:
            continue
        found += [stat.st_mtime_ns, stat.st_size]
    return tuple(found)


@lru_cache(maxsize=2)
def _all(path: Path, _: tuple[int, ...]) -> Found:
    found: Found = {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as database:
            rows = database.execute("SELECT agent, session, data FROM decision WHERE session IS NOT NULL ORDER BY id")
            for agent, session, data in rows:
                found.setdefault((agent, session), []).append(_DECIDED.decode(data))
    except (sqlite3.Error, msgspec.DecodeError):
        # Without them the files tell what they can.
        return {}
    return found
