"""The contents of a store, in a form that can be compared with another store: without ids."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from unspool.ingest.sync import Report, Syncer
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.store.store import Store

MACHINE = ("key of the machine", "machine")
Contents = dict[str, Any]


def synced(store: Store, *places: Path) -> Report:
    """Bring a store up to date; everything has to be readable."""
    report = Syncer(store, *places).run()
    assert report.failures == {}, report.failures
    return report


def new_store(path: Path, machine: tuple[str, str] = MACHINE) -> Store:
    """An empty store in one file. Creating its tables each time would take longer than many tests."""
    path.write_bytes(_empty_store())
    store = Store(SqliteDatabase(path, machine=machine))
    # Nobody needs it after a power cut.
    store.database.rows("PRAGMA synchronous = OFF")
    return store


@lru_cache(maxsize=1)
def _empty_store() -> bytes:
    with TemporaryDirectory() as folder:
        store = Store(SqliteDatabase(Path(folder) / "empty.db", machine=MACHINE))
        store.database.rows("DELETE FROM machine")
        store.database.optimize()
        store.close()
        return (Path(folder) / "empty.db").read_bytes()


def fresh(folder: Path, home: Path) -> Contents:
    """What a new store holds of a home."""
    for path in folder.glob("fresh.db*"):
        path.unlink()
    store = new_store(folder / "fresh.db")
    try:
        synced(store, home)
        return contents(store)
    finally:
        store.close()


def contents(store: Store, *, gone: bool = False) -> Contents:
    """Sessions by agent and name, and files by path; `gone`: also what is no longer on the disk."""
    sessions = store.sessions.select(SessionFilter(machine=store.machine, is_gone=None if gone else False))
    words = _words(store)
    _assert_no_strays(store, words)
    return {
        "sessions": {f"{row.agent} {row.name}": _session(store, row.id, words) for row in sessions},
        "files": {
            path: (row.agent, row.size, row.archived_size, b"".join(store.files.chunks(row.id)))
            for path, row in sorted(store.files.all().items())
            if gone or row.gone_at is None
        },
    }


def on_disk(store: Store, whole: Contents) -> Contents:
    """Of the contents with what is gone, what is still on the disk."""
    kept = store.sessions.select(SessionFilter(machine=store.machine, is_gone=False))
    names = {f"{row.agent} {row.name}" for row in kept}
    paths = {path for path, row in store.files.all().items() if row.gone_at is None}
    return {
        "sessions": {name: entry for name, entry in whole["sessions"].items() if name in names},
        "files": {path: entry for path, entry in whole["files"].items() if path in paths},
    }


def _session(store: Store, id: int, words: dict[int, list[tuple[int, str]]]) -> Contents:
    columns = "kind, parent, origin, project, title, started, ended, status, messages, counts, around, ref"
    ordered = {
        "facts": f"SELECT {columns} FROM session WHERE id = ?",
        "events": "SELECT place, kind, message, at, tool, data FROM event WHERE session = ? ORDER BY place",
        "places": "SELECT message, kind FROM place WHERE session = ? ORDER BY message, kind",
        "spans": "SELECT first, last, branch, context FROM span WHERE session = ? ORDER BY first",
        "acts": """SELECT message, place, kind, name.text, outcome, at, input, output, cache_read, cache_write,
            reasoning, cache_write_1h FROM act LEFT JOIN name ON name.id = act.name
            WHERE session = ? ORDER BY message, place""",
        "slots": """SELECT slot, coalesce(name.text, ''), size, count, prompts, calls, replies, input, output,
            cache_read, cache_write, reasoning, cache_write_1h
            FROM usage_slot LEFT JOIN name ON name.id = usage_slot.model WHERE session = ? ORDER BY 1, 2, 3""",
        "tools": """SELECT coalesce(name.text, ''), outcome, count
            FROM tool_outcome LEFT JOIN name ON name.id = tool_outcome.tool WHERE session = ? ORDER BY 1, 2""",
        "files": """SELECT path FROM session_file JOIN file ON file.id = session_file.file
            WHERE session = ? ORDER BY place""",
    }
    touches = store.database.rows(
        "SELECT message, text FROM touch JOIN name ON name.id = touch.path WHERE session = ?", id
    )
    return {
        "record": msgspec.json.encode(store.messages.load_session(id)),
        **{name: [tuple(row) for row in store.database.rows(sql, id)] for name, sql in ordered.items()},
        "touches": sorted(tuple(row) for row in touches),
        "parts": _parts(store, id, words),
    }


def _parts(store: Store, session: int, words: dict[int, list[tuple[int, str]]]) -> list[tuple[Any, ...]]:
    """The texts of each message in their order, with their words."""
    sql = """SELECT part.id, message, field, author, tool.text, model.text, at FROM part
        LEFT JOIN name AS tool ON tool.id = part.tool LEFT JOIN name AS model ON model.id = part.model
        WHERE session = ? ORDER BY message, field, part.id"""
    return [(*row[1:], words.get(row[0], [])) for row in store.database.rows(sql, session)]


def _words(store: Store) -> dict[int, list[tuple[int, str]]]:
    """The tokens of each part, with their positions, as the index has them."""
    if isinstance(store.database, SqliteDatabase):
        store.database.rows("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, instance)")
        rows = store.database.rows('SELECT doc, "offset", term FROM temp.vocabulary')
    else:
        sql = "SELECT part, unnest(positions) - 1, lexeme FROM words, unnest(words.words)"
        rows = store.database.rows(sql)
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for part, place, word in rows:
        found[part].append((place, word))
    for words in found.values():
        words.sort()
    return found


def _assert_no_strays(store: Store, words: dict[int, list[tuple[int, str]]]) -> None:
    """Nothing stays behind of what was taken out."""
    parts = {row[0] for row in store.database.rows("SELECT id FROM part")}
    assert words.keys() <= parts
    for table in (
        "block",
        "part",
        "event",
        "place",
        "span",
        "touch",
        "act",
        "usage_slot",
        "tool_outcome",
        "session_file",
    ):
        sql = f"SELECT count(*) FROM {table} WHERE session NOT IN (SELECT id FROM session)"
        assert store.database.rows(sql)[0][0] == 0, table
    assert store.database.rows("SELECT count(*) FROM chunk WHERE file NOT IN (SELECT id FROM file)")[0][0] == 0
    _assert_sums(store)


def _assert_sums(store: Store) -> None:
    """What is added up by time is what the single rows add up to."""
    single = """SELECT session, count(*), coalesce(sum(input), 0), coalesce(sum(output), 0) FROM act"""
    slots = "SELECT session, sum(count), sum(input), sum(output) FROM usage_slot"
    tools = "SELECT session, sum(count), 0, 0 FROM tool_outcome"
    for added, of in ((slots, single), (tools, f"{single} WHERE kind = 'call'")):
        rows = [store.database.rows(f"{sql} GROUP BY 1 ORDER BY 1") for sql in (added, of)]
        assert [list(map(int, row)) for row in rows[0]] == [list(map(int, row)) for row in rows[1]]


def difference(left: Contents, right: Contents) -> str:
    """Where two differ, in a line that can be read; empty when they do not."""
    for kind in ("sessions", "files"):
        if left[kind].keys() != right[kind].keys():
            return f"{kind}: {sorted(left[kind])} != {sorted(right[kind])}"
        for name, entry in left[kind].items():
            other = right[kind][name]
            if entry == other:
                continue
            if kind == "files":
                return f"file {name}: {entry[:3]} != {other[:3]}"
            what = next(key for key in entry if entry[key] != other[key])
            return f"{name}, {what}: {_first_difference(entry[what], other[what])}"
    return ""


def _first_difference(left: Any, right: Any) -> str:
    place = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    if isinstance(left, bytes):
        return f"{left[max(0, place - 300) : place + 300]!r}\n!=\n{right[max(0, place - 300) : place + 300]!r}"
    here, there = (str(entries[place : place + 2])[:1500] for entries in (left, right))
    return f"[{place}] of {len(left)} and {len(right)}:\n{here}\n!=\n{there}"
