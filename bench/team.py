"""A team's store in PostgreSQL, against the same sessions in SQLite: pushing, searching, listing, counting.

Eight machines push recordings that were multiplied, with words of their own and spread over two years. Each portion is
pushed to both stores, and deleted, so that the logs need little room. The server does not wait for the disk (`fsync` is
off), and has analysed its tables before questions are asked.
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
"""How many there are unless more are asked for: enough for a minute."""
_MACHINES = 8
_LENGTH = 10
"""How often each session is said: about a hundred messages."""
_PER_COPY = 280
"""About how many sessions a copy of those recordings has."""
_DAYS = 730
_WORDS = 40
_ROUNDS = 3
_DATE = re.compile(rb"20\d\d-\d\d-\d\d(?=T\d\d)")
_SETTINGS = ("shared_buffers=512MB", "maintenance_work_mem=256MB", "max_wal_size=4GB", "random_page_cost=1.1")


_THERE_AND_BACK = 0.005
"""Seconds that are added to SQLite's answers, because it needs no server to be asked."""


class Limits(NamedTuple):
    """How many times as long as SQLite the team's store may take."""

    push: float = 6.0
    again: float = 3.0
    search: float = 2.0
    search_p95: float = 3.0
    listing: float = 2.0
    stats: float = 2.0


class Both(NamedTuple):
    """The two stores with the same sessions, as one of the machines."""

    sqlite: Store
    postgres: Store

    def close(self) -> None:
        """Close both."""
        self.sqlite.close()
        self.postgres.close()


class Spent(NamedTuple):
    """Seconds on the clock, and of all processors."""

    clock: float
    cpu: float

    def plus(self, other: Spent) -> Spent:
        """The sum."""
        return Spent(self.clock + other.clock, self.cpu + other.cpu)


NOTHING = Spent(0.0, 0.0)


def measure(inputs: Inputs) -> Iterator[Measure]:
    """All rows; nothing where there is no PostgreSQL."""
    if server.programs() is None:
        print(f"    {server.MISSING}")
        return
    folder = inputs.folder / "team"
    folder.mkdir()
    with server.serving(settings=_SETTINGS) as postgres:
        yield from _pushing(inputs.compact, folder, postgres, inputs.team or SESSIONS)
        both = opened(folder, postgres.address, 0)
        yield from asking(both)
        both.close()
    shutil.rmtree(folder)


def opened(folder: Path, address: str, machine: int) -> Both:
    """Both stores, used by a machine."""
    identity = (f"key of machine {machine}", f"machine {machine}")
    sqlite = SqliteDatabase(folder / "team.db", machine=identity)
    return Both(Store(sqlite), Store(PostgresDatabase(address, machine=identity)))


# --- pushing ---------------------------------------------------------------------------------------------------------


def _pushing(recorded: list[Path], folder: Path, postgres: server.PostgresServer, sessions: int) -> Iterator[Measure]:
    limits = Limits()
    totals, again, last = [NOTHING, NOTHING], [NOTHING, NOTHING], [NOTHING, NOTHING]
    size = 0
    copies = max(_MACHINES, round(sessions / _PER_COPY))
    for machine in range(_MACHINES):
        home = folder / "home"
        size += write_home(recorded, home, folder / "copy", range(machine, copies, _MACHINES), copies)
        both = opened(folder, postgres.address, machine)
        # In turns, so that neither always has the files in memory.
        for place in (0, 1) if machine % 2 else (1, 0):
            last[place] = _spent(postgres.pid, partial(_sync, both[place], home))
            totals[place] = totals[place].plus(last[place])
        if machine == _MACHINES - 1:
            again = [_spent(postgres.pid, partial(_sync, store, home)) for store in both]
        both.close()
        shutil.rmtree(home)
    both = opened(folder, postgres.address, 0)
    both.sqlite.database.optimize()
    both.postgres.database.rows("VACUUM ANALYZE")
    stored, messages = _counts(both.sqlite)
    assert (stored, messages) == _counts(both.postgres)
    both.close()
    detail = f"{size / 1e6:,.0f} MB, {stored:,} sessions, {messages:,} messages from {_MACHINES} machines"
    yield _ratio("push to PostgreSQL, to SQLite, processor time", totals, limits.push, detail, "cpu")
    yield _ratio("  the last of the machines alone", last, limits.push, "", "cpu")
    yield _ratio("  all machines, on the clock", totals, None, "", "clock")
    yield _ratio("push when nothing has changed, to SQLite", again, limits.again, "", "clock")


def write_home(recorded: list[Path], home: Path, scratch: Path, numbers: range, copies: int) -> int:
    """The recordings once for each number; returns the size."""
    size = 0
    for number in numbers:
        multiply(recorded, scratch, 1, 1, first=number)
        varied.vary(scratch, number)
        _move_dates(scratch, timedelta(days=number * _DAYS // copies))
        size += multiply([scratch], home, 1, _LENGTH, first=number)
        shutil.rmtree(scratch)
    return size


def _move_dates(home: Path, back: timedelta) -> None:
    """Let all of a home have happened earlier."""

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


def _spent(server: int, work: Callable[[], object]) -> Spent:
    """What some work takes, here and in the processes of the server."""
    before = _cpu(server)
    clock = seconds(work)
    return Spent(clock, _cpu(server) - before)


def _cpu(server: int) -> float:
    """Seconds of processors: of this process and all it has started, and of the server and all it has started."""
    here = os.times()
    ticks = sum(_ticks(server))
    for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        try:
            ticks += sum(_ticks(int(child))[:2])
        except OSError:
            continue
    return sum(here[:4]) + ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """User and system time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(field) for field in fields[11:15]]


def _ratio(name: str, spent: list[Spent], most: float | None, detail: str, kind: str) -> Measure:
    ours, theirs = (getattr(one, kind) for one in spent)
    detail = f"{theirs:.1f} s to {ours:.1f} s{'; ' + detail if detail else ''}"
    return Measure(name, theirs / ours, "x", most, detail)


# --- asking ----------------------------------------------------------------------------------------------------------


def asking(both: Both) -> Iterator[Measure]:
    """Searching, listing and counting, in turns."""
    limits = Limits()
    words = _words(both.sqlite)
    queries = [*words, *(f"{one} {other}" for one, other in pairwise(words))]
    queries += [f'"{one} {other}" OR {one} role:human' for one, other in pairwise(words[::4])]
    found = [_search(both, query) for query in queries]
    yield _middle("search, median", found, limits.search, f"{len(found)} queries")
    yield _middle("search, p95", found, limits.search_p95, "", 0.95)
    yield _middle("search, the slowest", found, None, "", 1.0)
    frequent = [_search(both, word) for word in _frequent(both.sqlite)]
    yield _middle("search for words in most sessions", frequent, limits.search_p95, "")
    for name, most, work in _questions(limits):
        yield _middle(name, [_times(both, work)], most, "")


def _questions(limits: Limits) -> Iterator[tuple[str, float, Callable[[Store], object]]]:
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
    yield "list: how many", limits.listing, lambda store: store.sessions.count(shown)
    yield "list: with a word in the title", limits.listing, lambda store: filtered(store, SessionFilter(text="fix"))
    yield "list: with a rejection", limits.listing, lambda store: filtered(store, SessionFilter(has="rejection"))
    yield "stats: of everything", limits.stats, lambda store: compute_stats(store.database, SessionFilter())
    yield "stats: of the last months", limits.stats, lambda store: compute_stats(store.database, since)


def _words(store: Store) -> list[str]:
    """Words of all frequencies."""
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
    """The best time of each store. Both have to give the same answer."""
    times: list[list[float]] = [[], []]
    for _ in range(_ROUNDS):
        answers = []
        for place, store in enumerate(both):
            start = time.perf_counter()
            answers.append(work(store))
            times[place].append(time.perf_counter() - start)
        assert answers[0] == answers[1], f"{answers[0]} != {answers[1]}"
    return min(times[0]), min(times[1])


def _middle(
    name: str, times: list[tuple[float, float]], most: float | None, detail: str, share: float = 0.5
) -> Measure:
    place = min(int(len(times) * share), len(times) - 1)
    ours, theirs = (sorted(one)[place] for one in zip(*times, strict=True))
    detail = f"{1e3 * theirs:.1f} ms to {1e3 * ours:.1f} ms{'; ' + detail if detail else ''}"
    return Measure(name, theirs / (ours + _THERE_AND_BACK), "x", most, detail)
