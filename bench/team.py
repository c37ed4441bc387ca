"""Measures a team's store in PostgreSQL, relative to SQLite: pushing, searching, listing, statistics.

Eight machines push multiplied recordings, with different words and spread over two years. The logs of each machine are
pushed to both stores and deleted, so that they need little space. The server does not wait for the disk (`fsync` is
off), and its tables are analysed before the queries.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.store import server

from unspool.ingest.sync import Syncer
from unspool.search.query import parse
from unspool.store.backends.postgres import PostgresDatabase
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.filters import SessionFilter
from unspool.store.stats import compute_stats
from unspool.store.store import Store

from . import varied
from .inputs import Inputs
from .multiply import multiply
from .report import Measure, seconds

SESSIONS = 1_600
"""Default number of sessions: takes about a minute."""
_MACHINES = 8
_LENGTH = 10
"""How many times each session's messages are repeated, which gives about a hundred messages."""
_PER_COPY = 280
"""Approximate number of sessions in one copy of the recordings."""
_DAYS = 730
_WORDS = 40
_ROUNDS = 3
_DATE = re.compile(rb"20\d\d-\d\d-\d\d(?=T\d\d)")
_SETTINGS = ("shared_buffers=512MB", "maintenance_work_mem=256MB", "max_wal_size=4GB", "random_page_cost=1.1")


_ROUND_TRIP = 0.005
"""Seconds that are added to SQLite's times, because it needs no round trip to a server."""


class Limits(NamedTuple):
    """The maximum time of the team's store, as a multiple of SQLite's."""

    push: float = 6.0
    again: float = 3.0
    search: float = 2.0
    search_p95: float = 3.0
    listing: float = 2.0
    stats: float = 2.0


class Both(NamedTuple):
    """The two stores with the same sessions, opened as one of the machines."""

    sqlite: Store
    postgres: Store

    def close(self) -> None:
        """Close both stores."""
        self.sqlite.close()
        self.postgres.close()


class Duration(NamedTuple):
    """Seconds of wall clock time and of CPU time."""

    clock: float
    cpu: float

    def plus(self, other: Duration) -> Duration:
        """Return the sum."""
        return Duration(self.clock + other.clock, self.cpu + other.cpu)


ZERO = Duration(0.0, 0.0)


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Measure pushing and queries; nothing if PostgreSQL is not installed."""
    if server.programs() is None:
        print(f"    {server.MISSING}")
        return
    folder = inputs.folder / "team"
    folder.mkdir()
    with server.serving(settings=_SETTINGS) as postgres:
        yield from _pushing(inputs.compact, folder, postgres, inputs.team_sessions or SESSIONS)
        both = opened(folder, postgres.address, 0)
        yield from querying(both)
        both.close()
    shutil.rmtree(folder)


def opened(folder: Path, address: str, machine: int) -> Both:
    """Open both stores as one of the machines."""
    identity = (f"key of machine {machine}", f"machine {machine}")
    sqlite = SqliteDatabase(folder / "team.db", machine=identity)
    return Both(Store(sqlite), Store(PostgresDatabase(address, machine=identity)))


# --- pushing ---------------------------------------------------------------------------------------------------------


def _pushing(recorded: list[Path], folder: Path, postgres: server.PostgresServer, sessions: int) -> Iterator[Measure]:
    limits = Limits()
    totals, again, last = [ZERO, ZERO], [ZERO, ZERO], [ZERO, ZERO]
    size = 0
    copies = max(_MACHINES, round(sessions / _PER_COPY))
    for machine in range(_MACHINES):
        home = folder / "home"
        size += write_home(recorded, home, folder / "copy", range(machine, copies, _MACHINES), copies)
        both = opened(folder, postgres.address, machine)
        # The order alternates, so that neither store always finds the files in the cache.
        for index in (0, 1) if machine % 2 else (1, 0):
            last[index] = _duration(postgres.pid, partial(_sync, both[index], home))
            totals[index] = totals[index].plus(last[index])
        if machine == _MACHINES - 1:
            again = [_duration(postgres.pid, partial(_sync, store, home)) for store in both]
        both.close()
        shutil.rmtree(home)
    both = opened(folder, postgres.address, 0)
    both.sqlite.database.optimize()
    both.postgres.database.rows("VACUUM ANALYZE")
    stored, messages = _counts(both.sqlite)
    assert (stored, messages) == _counts(both.postgres)
    both.close()
    detail = f"{size / 1e6:,.0f} MB, {stored:,} sessions, {messages:,} messages from {_MACHINES} machines"
    yield _ratio("push to PostgreSQL, relative to SQLite, CPU time", totals, limits.push, detail, "cpu")
    yield _ratio("  the last machine alone", last, limits.push, "", "cpu")
    yield _ratio("  all machines, wall clock time", totals, None, "", "clock")
    yield _ratio("push when nothing has changed, relative to SQLite", again, limits.again, "", "clock")


def write_home(recorded: list[Path], home: Path, scratch: Path, numbers: range, copies: int) -> int:
    """Write the recordings once for each number; returns their size in bytes."""
    size = 0
    for number in numbers:
        multiply(recorded, scratch, 1, 1, first=number)
        varied.vary(scratch, number)
        _move_dates(scratch, timedelta(days=number * _DAYS // copies))
        size += multiply([scratch], home, 1, _LENGTH, first=number)
        shutil.rmtree(scratch)
    return size


def _move_dates(home: Path, back: timedelta) -> None:
    """Shift all dates in a home back by `back`."""

    def earlier(match: re.Match[bytes]) -> bytes:
        return (datetime.fromisoformat(match[0].decode()) - back).date().isoformat().encode()

    for path in list(home.rglob("*")):
        if path.is_file() and path.suffix != ".zst":
            path.write_bytes(_DATE.sub(earlier, path.read_bytes()))


def _sync(store: Store, home: Path) -> None:
    report = Syncer(store, home, may_share=True).run()
    assert not report.failures, report.failures


def _counts(store: Store) -> tuple[int, int]:
    ((sessions, messages),) = store.database.rows("SELECT count(*), sum(messages) FROM session")
    return int(sessions), int(messages)


def _duration(server: int, work: Callable[[], object]) -> Duration:
    """Return how long some work takes; the CPU time includes that of the server."""
    before = _cpu(server)
    clock = seconds(work)
    return Duration(clock, _cpu(server) - before)


def _cpu(server: int) -> float:
    """Return the CPU seconds of this process, of the server, and of all processes that they have started."""
    here = os.times()
    ticks = sum(_ticks(server))
    for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        try:
            ticks += sum(_ticks(int(child))[:2])
        except OSError:
            continue
    return sum(here[:4]) + ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """Return user and system time of a process, then of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(field) for field in fields[11:15]]


def _ratio(name: str, durations: list[Duration], limit: float | None, detail: str, kind: str) -> Measure:
    sqlite, postgres = (getattr(duration, kind) for duration in durations)
    detail = f"{postgres:.1f} s vs. {sqlite:.1f} s{'; ' + detail if detail else ''}"
    return Measure(name, postgres / sqlite, "x", limit, detail)


# --- querying --------------------------------------------------------------------------------------------------------


def querying(both: Both) -> Iterator[Measure]:
    """Measure searches, lists and statistics, alternating between the stores."""
    limits = Limits()
    words = _words(both.sqlite)
    queries = [*words, *(f"{one} {other}" for one, other in pairwise(words))]
    queries += [f'"{one} {other}" OR {one} role:human' for one, other in pairwise(words[::4])]
    found = [_search(both, query) for query in queries]
    yield _percentile("search, median", found, limits.search, f"{len(found)} queries")
    yield _percentile("search, p95", found, limits.search_p95, "", 0.95)
    yield _percentile("search, the slowest", found, None, "", 1.0)
    frequent = [_search(both, word) for word in _frequent(both.sqlite)]
    yield _percentile("search for words in most sessions", frequent, limits.search_p95, "")
    for name, limit, work in _queries(limits):
        yield _percentile(name, [_times(both, work)], limit, "")


def _queries(limits: Limits) -> Iterator[tuple[str, float, Callable[[Store], object]]]:
    shown = SessionFilter(is_nested=False, is_empty=False)
    recent = datetime(2026, 6, 1, tzinfo=UTC)
    since = SessionFilter(active_since=recent)

    def page(store: Store, **options: object) -> object:
        return [row.name for row in store.sessions.select(shown, limit=50, **options)]  # type: ignore[arg-type]

    def filtered(store: Store, wanted: SessionFilter) -> object:
        return [row.name for row in store.sessions.select(wanted, limit=50)]

    yield "list: the newest 50", limits.listing, page
    yield "list: the newest 50, live ones first", limits.listing, lambda store: page(store, live_since=time.time())
    yield "list: 50 after the first 1,000", limits.listing, lambda store: page(store, offset=1000)
    yield "list: count", limits.listing, lambda store: store.sessions.count(shown)
    yield "list: with a word in the title", limits.listing, lambda store: filtered(store, SessionFilter(text="fix"))
    yield "list: with a rejection", limits.listing, lambda store: filtered(store, SessionFilter(has="rejection"))
    yield "stats: of everything", limits.stats, lambda store: compute_stats(store.database, SessionFilter())
    yield "stats: of the last months", limits.stats, lambda store: compute_stats(store.database, since)


def _words(store: Store) -> list[str]:
    """Return a random sample of words, frequent and rare ones."""
    return random.Random(1).sample(_vocabulary(store, "doc > 3 AND length(term) > 2 ORDER BY term"), _WORDS)


def _frequent(store: Store) -> list[str]:
    return _vocabulary(store, "length(term) > 2 ORDER BY doc DESC LIMIT 10")


def _vocabulary(store: Store, condition: str) -> list[str]:
    store.database.rows("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)")
    return [row[0] for row in store.database.rows(f"SELECT term FROM temp.vocabulary WHERE {condition}")]


def _search(both: Both, text: str) -> tuple[float, float]:
    query = parse(text)
    now = datetime.now(UTC)

    def run(store: Store) -> object:
        return [(one.session.name, one.score) for one in store.search.run(query, now=now).found]

    return _times(both, run)


def _times(both: Both, work: Callable[[Store], object]) -> tuple[float, float]:
    """Return the best time of each store. Both have to return the same result."""
    times: list[list[float]] = [[], []]
    for _ in range(_ROUNDS):
        results = []
        for index, store in enumerate(both):
            start = time.perf_counter()
            results.append(work(store))
            times[index].append(time.perf_counter() - start)
        assert results[0] == results[1], f"{results[0]} != {results[1]}"
    return min(times[0]), min(times[1])


def _percentile(
    name: str, times: list[tuple[float, float]], limit: float | None, detail: str, share: float = 0.5
) -> Measure:
    index = min(int(len(times) * share), len(times) - 1)
    sqlite, postgres = (sorted(column)[index] for column in zip(*times, strict=True))
    detail = f"{1e3 * postgres:.1f} ms vs. {1e3 * sqlite:.1f} ms{'; ' + detail if detail else ''}"
    return Measure(name, postgres / (sqlite + _ROUND_TRIP), "x", limit, detail)
