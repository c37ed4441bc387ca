"""Measures the store: first and second sync, memory, search and appended lines.

The baseline of a first sync is reading, decoding, indexing and compressing the same files, and nothing else.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import accumulate, count, pairwise
from pathlib import Path
from typing import TypeVar

import zstandard

from unspool.agents import AGENTS
from unspool.ingest.archive import CHUNK
from unspool.ingest.sync import Syncer
from unspool.ingest.tail import SessionTail
from unspool.io.lines import block_of
from unspool.library import Library
from unspool.search.query import Filters, parse
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.compression import LEVEL
from unspool.store.indexed_text import texts_of
from unspool.store.maintenance import Maintenance
from unspool.store.regex_search import search_regex
from unspool.store.store import Store

from . import memory
from .inputs import CORPUS, Inputs
from .multiply import multiply, recordings
from .report import Measure, seconds

_MACHINE = ("bench", "bench")
_ROUNDS = 3
"""Runs in turns with the baseline. The best of each counts, because other programs may be running."""
Result = TypeVar("Result")
_SYNC = """
import sys, time
from pathlib import Path
from unspool.ingest.sync import Syncer
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store
store = Store(SqliteDatabase(Path(sys.argv[2]), machine=("bench", "bench")))
start = time.perf_counter()
report = Syncer(store, sys.argv[1], may_share=True).run()
print(time.perf_counter() - start)
assert not report.failures, report.failures
store.database.optimize()
"""


def measure(home: Path, folder: Path) -> Iterator[Measure]:
    """Measure a first and a second sync, size, memory, and regex search."""
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    database = folder / "sessions.db"
    baselines, runs = [], []
    for _ in range(_ROUNDS):
        for path in folder.glob("baseline.db*"):
            path.unlink()
        baselines.append(_in_new_process(_baseline, home, folder))
        runs.append(_first_run(home, database))
    (baseline, detail), took = min(baselines), min(runs)
    yield Measure(
        "first sync, relative to read + decode + FTS5 + zstd",
        took / baseline,
        "x",
        1.5,
        f"{size / 1e6:.0f} MB in {took:.1f} s; {detail}",
    )
    yield Measure("size of the store, relative to its source", 100 * database.stat().st_size / size, " %", 40)
    peak = memory.peak_of(_sync(home, folder / "memory.db"))
    yield Measure("memory of the first sync", peak / 1e6, " MB", 300)
    store = Store(SqliteDatabase(database, machine=_MACHINE))
    again = seconds(lambda: Syncer(store, home).run())
    files = len(store.files.all())
    yield Measure("second sync, per 1,000 files", again * 1000 / files, " s", 0.5, f"{files} files in {again:.2f} s")
    yield from _regex(store)
    store.close()


def memory_growth(corpus: Path, folder: Path) -> Iterator[Measure]:
    """Measure the memory of all processes with twenty times as many sessions, and with sessions ten times as long."""
    homes = [path for path in recordings(corpus, 1000) if "claude" in path.parts][::12]
    peaks = []
    for name, copies, length in (("once", 6, 4), ("many", 120, 4), ("long", 6, 40)):
        home = folder / f"memory-{name}"
        size = multiply(homes, home, copies, length)
        peaks.append((memory.peak_of(_sync(home, folder / f"memory-{name}.db")), size))
        shutil.rmtree(home)
    (once, small), (many, large), (long, longer) = peaks
    detail = f"{small / 1e6:.0f} MB need {once / 1e6:.0f} MB, {large / 1e6:.0f} MB need {many / 1e6:.0f} MB"
    name = "memory of a first sync of 20 times as many sessions"
    yield Measure(name, many / once, "x", 1.3, detail, "44 to 176 MB")
    detail = f"{longer / 1e6:.0f} MB need {long / 1e6:.0f} MB"
    yield Measure("memory of a first sync of sessions 10 times as long", long / once, "x", 1.3, detail, "67 to 203 MB")


def _in_new_process(work: Callable[[Path, Path], Result], *args: Path) -> Result:
    """Run some work in a new process, because earlier work makes this one slower."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args).result()


def _baseline(home: Path, folder: Path) -> tuple[float, str]:
    """Return the seconds of the work that no sync can avoid, in one process, and a description of it."""
    library = Library(home)
    refs = list(library.refs())
    paths = list(dict.fromkeys(path for ref in refs for path in (ref.path, *ref.more)))
    decoding = seconds(lambda: _decode(paths))
    packing = seconds(lambda: _pack(paths))
    database = sqlite3.connect(folder / "baseline.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute(
        "CREATE VIRTUAL TABLE words USING fts5 (text, content = '', columnsize = 0, "
        "tokenize = 'unicode61 remove_diacritics 0')"
    )
    indexing, numbers = 0.0, count(1)
    for start in range(0, len(refs), 50):
        texts = [
            (next(numbers), part.text)
            for ref in refs[start : start + 50]
            for session in library.load_all(ref)
            for message in session.messages
            for part in texts_of(message, lambda _: None)
        ]
        indexing += seconds(lambda texts=texts: _index(database, texts))  # type: ignore[misc]
    database.close()
    return decoding + packing + indexing, f"baseline {decoding:.1f} + {indexing:.1f} + {packing:.1f} s"


def _decode(paths: list[Path]) -> None:
    for path in paths:
        agent = next(name for name, agent in AGENTS.items() if agent.info.folder in path.parts)
        schema = import_module(f"unspool.agents.{agent}.schema")
        data = path.read_bytes()
        if path.suffix == ".jsonl":
            schema.RECORDS.batch(block_of(data))


def _pack(paths: list[Path]) -> None:
    compress = zstandard.ZstdCompressor(level=LEVEL).compress
    for path in paths:
        data = path.read_bytes()
        for start in range(0, len(data), CHUNK):
            compress(data[start : start + CHUNK])


def _index(database: sqlite3.Connection, texts: list[tuple[int, str]]) -> None:
    database.execute("BEGIN")
    database.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
    database.execute("COMMIT")


def _first_run(home: Path, database: Path) -> float:
    """Return the seconds of a first sync in a new process. Memory is measured in another run: that takes time too."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()
    return float(subprocess.run(_sync(home, database), check=True, capture_output=True, text=True).stdout)


def _sync(home: Path, database: Path) -> list[str]:
    return [sys.executable, "-c", _SYNC, str(home), str(database)]


def against_agentsview(inputs: Inputs) -> Iterator[Measure]:
    """Measure a first sync of Claude Code recordings of all versions, if agentsview is installed.

    agentsview only reads the messages. The newest versions write ten times as much other data, which unspool stores and
    agentsview skips, so comparing only their recordings would compare different work.
    """
    if inputs.agentsview is None:
        return
    home = inputs.folder / "claude"
    size = multiply([path for path in recordings(CORPUS, 1000) if "claude" in path.parts], home, 4, 8)
    agentsview, unspool = best_against_agentsview(inputs.agentsview, home, inputs.folder)
    detail = f"{size / 1e6:.0f} MB in {unspool:.1f} s, agentsview {agentsview:.1f} s"
    yield Measure("first sync, times faster than agentsview", agentsview / unspool, "x", None, detail, at_least=4)
    shutil.rmtree(home)


def best_against_agentsview(program: str, home: Path, folder: Path) -> tuple[float, float]:
    """Return the best times of agentsview and unspool, measured in turns."""
    rounds = []
    for _ in range(_ROUNDS):
        data = folder / "agentsview"
        rounds.append((_run_agentsview(program, home, data), _first_run(home, folder / "claude.db")))
        shutil.rmtree(data)
    for path in folder.glob("claude.db*"):
        path.unlink()
    agentsview, unspool = map(min, zip(*rounds, strict=True))
    return agentsview, unspool


def _run_agentsview(program: str, home: Path, data: Path) -> float:
    environ = {**os.environ, "HOME": str(home), "AGENTSVIEW_DATA_DIR": str(data)}

    def run(*command: str) -> None:
        subprocess.run([program, *command], env=environ, check=False, capture_output=True)

    try:
        return seconds(lambda: run("sync"))
    finally:
        run("daemon", "stop")


def _regex(store: Store) -> Iterator[Measure]:
    rows = store.sessions.select()
    sample = rows[:200]
    messages = sum(row.messages for row in rows)
    texts = (
        part for row in sample for message in store.messages.read(row.id) for part in texts_of(message, lambda _: None)
    )
    size = sum(len(part.text) for part in texts) / sum(row.messages for row in sample) * messages
    took = seconds(lambda: list(search_regex(store, r"zzqx_\w+\(", Filters())))
    detail = f"{size / 1e6:.0f} MB of text in {took:.2f} s"
    yield Measure("regex search of everything, per 300 MB of text", took / (size / 300e6), " s", 1.0, detail)


def searching(folder: Path) -> Iterator[Measure]:
    """Measure searches among a million messages."""
    home = folder / "million"
    _write_million(home)
    store = Store(SqliteDatabase(folder / "million.db", machine=_MACHINE))
    Syncer(store, home, may_share=True).run()
    yield from search_times(store, "search for words", "", "")
    yield _frequent(store)
    before = _file_size(store)
    Maintenance(store).run()
    detail = f"{before / 1e6:.0f} MB before"
    name = "size of the store after maintenance, relative to before"
    yield Measure(name, 100 * _file_size(store) / before, " %", 100, detail)
    store.close()
    shutil.rmtree(home)


def search_times(store: Store, name: str, detail: str, before: str) -> Iterator[Measure]:
    """Measure searches for words, pairs of words and phrases that are in the store."""
    words = [row[0] for row in _vocabulary(store)]
    queries = [parse(word) for word in words]
    queries += [parse(f"{one} {other}") for one, other in pairwise(words)]
    queries += [parse(f'"{one} {other}" OR {one} role:human') for one, other in pairwise(words[::4])]
    times = sorted(seconds(lambda query=query: store.search.run(query)) for query in queries)  # type: ignore[misc]
    ((messages,),) = store.database.rows("SELECT sum(messages) FROM session")
    detail = f"{detail + ', ' if detail else ''}{messages:,} messages, {len(queries)} queries"
    yield Measure(f"{name}, median", 1e3 * statistics.median(times), " ms", 30, detail, before)
    yield Measure(f"{name}, p95", 1e3 * times[int(len(times) * 0.95)], " ms", 50, before=before)


def _frequent(store: Store) -> Measure:
    """Measure a word that is in every session. Sorting the candidates alone once took 86 ms."""
    ((word, texts),) = store.database.rows("SELECT term, doc FROM temp.vocabulary ORDER BY doc DESC LIMIT 1")
    query = parse(word)
    took = statistics.median(seconds(lambda: store.search.matches(query, 600)) for _ in range(20))
    detail = f"of {texts:,}"
    return Measure("the best matches of a word in every session", 1e3 * took, " ms", 5, detail, "86 ms, of 18 sessions")


def _file_size(store: Store) -> int:
    store.database.optimize()
    return Path(store.location).stat().st_size


def _write_million(home: Path) -> None:
    """Write 500 sessions of 2,000 messages. Word frequencies are as in natural language."""
    rng = random.Random(2)
    words = [f"{rng.choice('bcdfghjklmnprstvz')}{rng.choice('aeiou')}{number:x}" for number in range(40_000)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    project = home / ".claude" / "projects" / "-home-dev-demo"
    project.mkdir(parents=True)
    for session in range(500):
        name = f"{session:08x}-0000-4000-8000-000000000000"
        with open(project / f"{name}.jsonl", "w", encoding="utf-8") as file:
            parent = None
            for number in range(2000):
                id = f"{session:08x}-{number:04x}-4000-8000-000000000000"
                text = " ".join(rng.choices(words, cum_weights=weights, k=30))
                kind = "assistant" if number % 2 else "user"
                stamp = f"2026-{1 + session % 11:02}-{1 + number // 80 % 28:02}T{number % 24:02}:00:00.000Z"
                line = {
                    "parentUuid": parent, "isSidechain": False, "type": kind, "uuid": id, "version": "2.1.325",
                    "sessionId": name, "cwd": f"/home/dev/project{session % 40}", "timestamp": stamp,
                    "message": {"role": kind, "content": [{"type": "text", "text": text}]},
                }  # fmt: skip
                file.write(json.dumps(line) + "\n")
                parent = id


def _vocabulary(store: Store) -> list[tuple[str]]:
    store.database.rows("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)")
    found = store.database.rows("SELECT term FROM temp.vocabulary WHERE doc > 3 AND length(term) > 2 ORDER BY term")
    return random.Random(1).sample([(row[0],) for row in found], min(200, len(found)))


def appending(corpus_log: Path, folder: Path) -> Iterator[Measure]:
    """Measure a line that is appended to a small and to a very long session."""
    small, _ = _append_to(corpus_log, folder / "small", 2 << 20)
    large, times = _append_to(corpus_log, folder / "large", 200 << 20)
    yield Measure(
        "a line appended to 200 MB is found, median",
        1e3 * statistics.median(times),
        " ms",
        100,
        f"max {1e3 * max(times):.0f} ms",
    )
    yield Measure("  its CPU time, relative to that for 2 MB", large / small, "x")


def _append_to(log: Path, folder: Path, size: int) -> tuple[float, list[float]]:
    project = folder / "home" / ".claude" / "projects" / "-home-dev-demo"
    project.mkdir(parents=True)
    path = project / "389996c1-6fe7-4b3a-ba36-da8abcdd8ab4.jsonl"
    with open(log, "rb") as source:
        data = source.read(size)
    path.write_bytes(data[: data.rfind(b"\n") + 1])
    store = Store(SqliteDatabase(folder / "sessions.db", machine=_MACHINE))
    Syncer(store, folder / "home").run()
    home = AGENTS["claude"].open(folder / "home" / ".claude")
    ref = next(iter(home.refs()))
    tail = SessionTail(store, home, ref, store.sessions.from_source("claude", ref.id)[ref.id])
    cpu, times = [], []
    for number in range(60):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(_line(number, path.stem)) + "\n")
        before, start = time.process_time(), time.perf_counter()
        with store.transaction():
            tail.ingest()
        found = store.search.run(parse(f"zebra{number}")).found
        times.append(time.perf_counter() - start)
        cpu.append(time.process_time() - before)
        assert len(found) == 1
    store.close()
    shutil.rmtree(folder)
    return statistics.median(cpu), times


def _line(number: int, session: str) -> dict[str, object]:
    return {
        "parentUuid": None if not number else f"{number - 1:08x}-1111-4000-8000-000000000000", "isSidechain": False,
        "type": "user", "uuid": f"{number:08x}-1111-4000-8000-000000000000", "version": "2.1.325",
        "sessionId": session, "cwd": "/home/dev/demo", "timestamp": f"2026-11-15T19:00:{number:02}.000Z",
        "message": {"role": "user", "content": f"zebra{number} crossing"},
    }  # fmt: skip
