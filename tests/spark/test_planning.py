"""What is planned without Spark: options, families, partitions, filters and offsets."""

from __future__ import annotations

import os
import pickle
import shutil
from collections import Counter
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, IsNotNull, LessThan, Not, StringStartsWith

import unspool
from tests.recordings import CORPUS, recordings
from unspool.core.errors import NotFoundError, UsageError
from unspool.data.schema import TABLES
from unspool.data.tables import tables
from unspool.library import Library
from unspool.spark.filters import KeyFilters, make_filters
from unspool.spark.options import parse_options
from unspool.spark.packed import unpack_batches
from unspool.spark.plan import plan_changes, plan_everything
from unspool.spark.planning import Partition, find_families
from unspool.spark.reading import read_partition
from unspool.spark.stream_offsets import find_latest
from unspool.testing import ClaudeLog

_FUTURE = 4_000_000_000
"""A time in the year 2096."""


def rows_of(batches: Iterable[pa.RecordBatch]) -> Counter[str]:
    """Rows, in whatever order they come."""
    return Counter(repr(row) for batch in batches for row in batch.to_pylist())


def read(partitions: Iterable[Partition], table: str, filters: KeyFilters | None = None) -> Counter[str]:
    """All rows of some partitions, each read as on another machine."""
    found: Counter[str] = Counter()
    for partition in partitions:
        sent = pickle.loads(pickle.dumps(partition))
        found.update(rows_of(read_partition(sent, table, TABLES[table].names, filters or KeyFilters())))
    return found


def expected(table: str, *homes: Path) -> Counter[str]:
    """The rows of one process."""
    return rows_of(batch for _, batch in tables(*homes).batches(table))


def plan(*paths: Path | str, filters: KeyFilters | None = None, **options: str) -> list[Partition]:
    """The plan for a table of messages."""
    given = {"table": "messages", "path": str(paths[0])} | options
    return plan_everything(parse_options(given), filters or KeyFilters())


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"path": "x"}, r'choose a table with .option\("table", NAME\): sessions, messages, '),
        ({"path": "x", "table": "mesages"}, "unknown table 'mesages'; choose from sessions, messages, "),
        ({"table": "messages"}, r'specify the location of the sessions, for example .load\("/homes/\*"\)'),
        ({"path": "x", "table": "messages", "Tabel": "y"}, "unknown option 'tabel'; choose from table, path, "),
        (
            {"path": "x", "table": "messages", "schema": "unspool-tables/9"},
            "makes tables of unspool-tables/1, not of u",
        ),
        ({"path": "x", "table": "messages", "partitionBytes": "0"}, "must be a size such as 32m or 1g, not '0'"),
        ({"path": "x", "table": "messages", "partitionBytes": "many"}, "must be a size such as 32m or 1g, not 'many'"),
        ({"paths": "x", "table": "messages"}, "the option paths must be a JSON list of strings, not 'x'"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as error:
        parse_options(options)
    assert "\n" not in str(error.value)


def test_options() -> None:
    given = {"TABLE": "usage", "paths": '["/a", "/b"]', "partitionBytes": "64 MB", "fs.region": "x"}
    found = parse_options(given)
    assert (found.table, found.paths, found.partition_bytes) == ("usage", ("/a", "/b"), 64 << 20)
    assert found.file_system == {"region": "x"}


@pytest.mark.parametrize("path", ["/nothing/here", "/nothing/*", "file:///nothing", "~/nothing"])
def test_a_path_that_leads_nowhere(path: str) -> None:
    with pytest.raises(NotFoundError, match="no such file or directory"):
        plan(path)


def test_an_address_that_nothing_reads() -> None:
    with pytest.raises(UsageError, match="no installed package opens ftpx:// URLs"):
        plan("ftpx://host/homes/*")


# --- families and partitions ------------------------------------------------------------------------------------------


def test_families_stay_together() -> None:
    """Sub-agents with the session that started them, forks with their origin; in one home and in one partition."""
    homes = [recording.home for recording in recordings(scenario="*fork*")[:6]]
    homes += [recording.home for recording in recordings(scenario="*agent*")[:6]]
    refs = [ref for home in homes for ref in Library(home).refs()]
    families = list(find_families(refs))
    family_of = {(ref.agent, ref.id): number for number, family in enumerate(families) for ref in family.sessions}
    links = 0
    for home in homes:
        library = Library(home)
        for ref in library.refs():
            origin = library.load(ref).info.origin
            for other in {ref.parent, origin.session if origin.kind in ("fork", "branch") else None} - {None}:
                if (ref.agent, str(other)) in family_of:
                    links += 1
                    assert family_of[ref.agent, ref.id] == family_of[ref.agent, str(other)]
    assert links > 5


def test_partitions_have_the_size_that_was_asked_for(tmp_path: Path) -> None:
    shutil.copytree(unspool.samples(), tmp_path / "home")
    together = plan(tmp_path / "home")
    apart = plan(tmp_path / "home", partitionBytes="1")
    assert len(together) == 1 < len(apart)
    assert [partition.size for partition in apart] == sorted((partition.size for partition in apart), reverse=True)
    assert sum(partition.size for partition in apart) == together[0].size
    for table in ("messages", "sessions", "lineage"):
        assert read(apart, table) == read(together, table) == expected(table, tmp_path / "home")


def test_copies_of_a_session_are_counted_once(tmp_path: Path) -> None:
    """However many tasks there are."""
    for name in ("a", "b"):
        shutil.copytree(unspool.samples(), tmp_path / name)
    for size in ("1", "1g"):
        partitions = plan(tmp_path / "*", partitionBytes=size)
        for table in ("usage", "problems"):
            assert read(partitions, table) == expected(table, tmp_path / "a", tmp_path / "b")


def test_all_tables_in_one_reading() -> None:
    homes = sorted((CORPUS / "claude" / "2.1.325").glob("*/home"))[:10]
    partitions = plan(CORPUS / "claude" / "2.1.325" / "*" / "home", partitionBytes="100k")
    home_names = {str(home) for home in homes}
    kept = [
        partition._replace(sessions=tuple(ref for ref in partition.sessions if str(ref.root.parent) in home_names))
        for partition in partitions
    ]
    found: dict[str, Counter[str]] = {name: Counter() for name in TABLES}
    for partition in kept:
        for batch in read_partition(partition, "all", ("table", "rows"), KeyFilters()):
            found[batch.column("table")[0].as_py()].update(rows_of(unpack_batches([batch])))
    wanted: dict[str, Counter[str]] = {name: Counter() for name in TABLES}
    for name, batch in tables(*homes).batches():
        wanted[name].update(rows_of([batch]))
    assert found == wanted


def test_a_damaged_file_is_a_row_of_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong while it is read."""
    shutil.copytree(unspool.samples(), tmp_path / "home")
    log = max((tmp_path / "home").glob(".claude/projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    original = Library.read_all

    def read_all(self: Library, ref: Any, **options: Any) -> Any:
        if ref.path == log:
            raise RecursionError("too deep")
        return original(self, ref, **options)

    monkeypatch.setattr(Library, "read_all", read_all)
    partitions = plan(tmp_path / "home")
    (row,) = read(partitions, "problems")
    assert "RecursionError: too deep" in row
    assert str(log) in row
    assert len(read(partitions, "sessions")) == len(list(Library(tmp_path / "home").refs())) - 1


# --- filters ----------------------------------------------------------------------------------------------------------


def key_filters(*filters: Filter) -> KeyFilters:
    return make_filters(filters)


def test_filters_leave_out_sessions_before_they_are_read() -> None:
    home = unspool.samples()
    agents = Counter(ref.agent for ref in Library(home).refs())
    name = next(ref.id for ref in Library(home).refs() if ref.agent == "codex")
    for filters, count in (
        (key_filters(EqualTo(("agent",), "codex")), agents["codex"]),
        (key_filters(In(("agent",), ("codex", "gemini"))), agents["codex"] + agents["gemini"]),
        (key_filters(EqualTo(("session",), name)), 1),
        (key_filters(StringStartsWith(("agent",), "c")), agents["claude"] + agents["codex"]),
        (key_filters(EqualTo(("agent",), "nobody")), 0),
        (key_filters(IsNotNull(("agent",)), Not(EqualTo(("agent",), "codex"))), agents.total()),
        (key_filters(EqualTo(("agent", "x"), "codex"), EqualTo(("model",), "codex")), agents.total()),
    ):
        assert sum(len(partition.sessions) for partition in plan(home, filters=filters)) == count


def test_days_leave_out_rows_and_old_files(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(unspool.samples(), home)
    sessions = tables(home).to_arrow("sessions").to_pylist()
    days = Counter(row["day"] for row in sessions)
    day = max(days)
    filters = key_filters(GreaterThanOrEqual(("day",), day))
    assert read(plan(home, filters=filters), "sessions", filters).total() == days[day]
    filters = key_filters(LessThan(("day",), day))
    assert read(plan(home, filters=filters), "sessions", filters).total() == days.total() - days[day]
    # Nothing that was written until now started in the year 2100.
    for value in (EqualTo(("day",), date(2100, 1, 1)), In(("day",), (date(2100, 1, 1), date(2100, 1, 2)))):
        assert plan(home, filters=key_filters(value)) == [Partition()]
    # The time of writing of a copy says nothing.
    for log in home.rglob("*.jsonl"):
        os.utime(log, (0, 0))
    filters = key_filters(EqualTo(("day",), day))
    assert read(plan(home, filters=filters), "sessions", filters).total() == days[day]


def test_a_subagent_in_the_log_of_its_session_is_found(tmp_path: Path) -> None:
    """Which sub-agents a log has is only known after it is read."""
    home = next(
        recording.home
        for recording in recordings("claude", "1.0.*")
        if any(Library(recording.home).inline_subagents(ref) for ref in Library(recording.home).refs())
    )
    library = Library(home)
    inner = next(inner for ref in library.refs() for inner in library.inline_subagents(ref))
    filters = key_filters(EqualTo(("session",), inner.id))
    assert read(plan(home, filters=filters), "sessions", filters).total() == 1


# --- offsets ----------------------------------------------------------------------------------------------------------


def sessions_of(partitions: Iterable[Partition]) -> set[str]:
    return {ref.id for partition in partitions for ref in partition.sessions}


def test_offsets_find_what_changed(tmp_path: Path) -> None:
    """New files and longer ones, whatever time they pretend to have; nothing twice."""
    home = tmp_path / "home"
    shutil.copytree(unspool.samples(), home)
    options = parse_options({"table": "messages", "path": str(home)})
    first = find_latest(options)
    everything = {ref.id for ref in Library(home).refs()}
    assert sessions_of(plan_changes(options, {}, first)) == everything
    assert find_latest(options) == first
    assert plan_changes(options, first, first) == [Partition()]
    log = next(home.glob(".claude/projects/*/*.jsonl"))
    with log.open("a") as file:
        file.write("\n")
    os.utime(log, (0, 0))
    new = ClaudeLog("new")
    new.user("hello")
    new.model("hi")
    new.write(home)
    second = find_latest(options)
    assert second != first
    changed = sessions_of(plan_changes(options, first, second))
    assert log.stem in changed
    assert len(changed) < len(everything)
    assert new.session in changed
    assert sessions_of(plan_changes(options, {}, second)) >= everything


def test_a_log_from_the_future_does_not_hide_later_changes(tmp_path: Path) -> None:
    """It is delivered once, and again when it changes."""
    options = parse_options({"table": "messages", "path": str(tmp_path)})

    def write(name: str, prompts: int) -> str:
        log = ClaudeLog(name)
        for number in range(prompts):
            log.user(f"prompt {number}", name=f"{name} {number}")
        path = log.write(tmp_path)
        if name == "future":
            os.utime(path, (_FUTURE, _FUTURE))
        return log.session

    ids = {name: write(name, 1) for name in ("present", "future")}
    offsets: list[dict[str, Any]] = [{}, find_latest(options)]
    assert sessions_of(plan_changes(options, *offsets)) == set(ids.values())
    for name, id in ids.items():
        write(name, 2)
        offsets.append(find_latest(options))
        assert sessions_of(plan_changes(options, *offsets[-2:])) == {id}
        assert find_latest(options) == offsets[-1]
    # After a restart, Spark asks for the last batch again.
    assert sessions_of(plan_changes(options, *offsets[-2:])) == {ids["future"]}


def test_no_logs_yet(tmp_path: Path) -> None:
    """A stream can begin before there are any."""
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    options = parse_options({"table": "messages", "path": str(tmp_path)})
    assert find_latest(options) == {}
    assert plan_changes(options, {}, {}) == [Partition()]
    assert read(plan(tmp_path), "messages") == Counter()
