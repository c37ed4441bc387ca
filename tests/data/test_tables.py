"""Tables: what they hold, on every recording and on bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

import unspool
from tests.recordings import sampled_versions
from unspool.core import model as m
from unspool.data import sources
from unspool.data.schema import TABLES, arrow_schema
from unspool.data.tables import tables
from unspool.library import Library
from unspool.testing import Recording

from .rebuilt import check, collect

VERSIONS = sampled_versions()


@pytest.mark.parametrize("found", VERSIONS, ids=lambda found: f"{found[0].agent}-{found[0].version}")
def test_tables_hold_what_the_record_says(found: list[Recording]) -> None:
    """On the recordings of several versions."""
    for recording in found:
        rows = collect(tables(recording.home).batches())
        library = Library(recording.home)
        known = set()
        for ref in library.refs():
            for session in library.load_all(ref):
                if (session.agent, session.id) not in known:
                    check(session, rows)
                known.add((session.agent, session.id))
        assert {(row["agent"], row["session"]) for row in rows["sessions"]} == known


def test_a_long_session_gives_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is read twice instead of being kept in memory."""
    expected = collect(tables(unspool.samples()).batches())
    monkeypatch.setattr(sources, "LONG_LOG", 0)
    assert collect(tables(unspool.samples()).batches()) == expected


def test_batches_that_end_in_the_middle_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is read before rows become batches, no row is lost."""
    expected = collect(tables(unspool.samples()).batches())
    monkeypatch.setattr("unspool.data.tables.BATCH_BYTES", 0)
    assert collect(tables(unspool.samples()).batches()) == expected
    # Rows that wait keep their locations, also if tables wait for different times.
    for waiting in (0, 100_000):
        monkeypatch.setattr("unspool.data.tables._WAITING_BYTES", waiting)
        assert collect(tables(unspool.samples()).batches()) == expected
    monkeypatch.setattr("unspool.data.tables._FEW_ROWS", 0)
    assert collect(tables(unspool.samples()).batches()) == expected


def test_tables_with_few_rows_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has a cost of its own, so they get few batches."""
    monkeypatch.setattr("unspool.data.tables.BATCH_BYTES", 10_000)
    count = Counter(name for name, _ in tables(unspool.samples()).batches())
    assert count["blocks"] > 20
    assert count["sessions"] == 1


@pytest.mark.parametrize("few", [0, 1 << 30])
def test_small_and_large_batches_have_the_same_columns(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locations of a few rows are looked up in Python, those of many rows in Arrow."""
    home = unspool.samples()
    expected = {name: tables(home).to_arrow(name) for name in TABLES}
    monkeypatch.setattr("unspool.data.batches._FEW_ROWS", few)
    for name, table in expected.items():
        assert tables(home).to_arrow(name).equals(table), name


def test_a_store_gives_the_same_tables(tmp_path: Path) -> None:
    """As the files that it was made of."""
    from unspool.ingest.sync import Syncer
    from unspool.store import open_store

    path = tmp_path / "sessions.db"
    store = open_store(str(path))
    Syncer(store, unspool.samples()).run()
    store.close()
    expected = collect(tables(unspool.samples()).batches())
    found = collect(tables(path).batches())
    for name in TABLES:
        assert sorted(map(repr, found[name])) == sorted(map(repr, expected[name])), name


def test_a_session_has_tables() -> None:
    session = unspool.load(next(unspool.sessions(unspool.samples())))
    found = session.to_arrow()
    assert found.keys() == TABLES.keys()
    assert found["messages"].num_rows == len(session)


def test_frames() -> None:
    """Polars, pandas and DuckDB see the same rows."""
    found = unspool.tables(unspool.samples())
    count = found.to_arrow("tool_calls").num_rows
    assert count > 50
    assert found.to_polars("tool_calls").height == len(found.to_pandas("tool_calls")) == count
    with found.duckdb("tool_calls", "sessions") as connection:
        assert connection.execute(
            "SELECT count(*) FROM tool_calls JOIN sessions USING (agent, session)"
        ).fetchall() == [(count,)]


def test_copies_of_a_session_are_counted_once(tmp_path: Path) -> None:
    """The other one is a problem that names its file."""
    import shutil

    shutil.copytree(unspool.samples(), tmp_path / "copy")
    once = collect(tables(unspool.samples()).batches())
    rows = collect(tables(unspool.samples(), tmp_path / "copy").batches())
    assert rows["usage"] == once["usage"]
    found = [row for row in rows["problems"] if row["reason"] == "duplicate-session"]
    assert len(found) == len(once["sessions"])
    assert all(row["source_file"].startswith(str(tmp_path)) for row in found)


# --- bad input --------------------------------------------------------------------------------------------------------


def claude_home(folder: Path, *blocks: object, **fields: object) -> Path:
    """A home with one session that holds these blocks."""
    path = folder / ".claude" / "projects" / "-p" / "00000000-0000-4000-8000-000000000001.jsonl"
    path.parent.mkdir(parents=True)
    record = {
        "type": "assistant", "uuid": "u1", "parentUuid": None, "sessionId": path.stem, "version": "2.1.0", "cwd": "/p",
        "message": {"role": "assistant", "id": "m1", "model": "m", "content": list(blocks), **fields},
    }  # fmt: skip
    path.write_text(json.dumps(record) + "\n")
    return folder


def test_values_that_arrow_cannot_hold(tmp_path: Path) -> None:
    """What is no text or too large a number in a log is no reason to fail."""
    home = claude_home(
        tmp_path,
        {"type": "text", "text": "a\ud800b"},
        {"type": "tool_use", "id": "t\udfff", "name": "X", "input": {"n": 10**300}},
        {"type": "made-up", "x": "\ud800"},
        usage={"input_tokens": 10**300, "output_tokens": -5},
    )
    rows = collect(tables(home).batches())
    assert rows["blocks"][0]["text"] == "a\ufffdb"
    assert "1" + "0" * 300 in rows["blocks"][1]["json"]
    assert [row["type"] for row in rows["blocks"]] == ["text", "tool_call", "unknown"]
    assert rows["messages"][0]["timestamp"] is rows["messages"][0]["day"] is None
    check(unspool.load(next(unspool.sessions(home))), rows)


@pytest.mark.parametrize("few", [0, 1 << 30])
def test_locations_that_arrow_cannot_hold(few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the number that is too large is replaced."""
    monkeypatch.setattr("unspool.data.batches._FEW_ROWS", few)
    session = unspool.load(next(unspool.sessions(claude_home(tmp_path, {"type": "text", "text": "x"}))))
    message = session.messages[0]
    message.source = msgspec.structs.replace(message.source, offset=2**70)
    rows = collect(tables(session).batches())
    block = rows["blocks"][0]
    assert (block["source_line"], block["source_offset"]) == (1, 2**63 - 1)
    assert {row["detail"].partition(":")[0] for row in rows["problems"]} >= {"blocks.source_offset"}


def test_values_of_other_readers(tmp_path: Path) -> None:
    """Other packages can read agents, too. Each value is replaced, and there is a problem that leads to the line."""
    session = unspool.load(next(unspool.sessions(claude_home(tmp_path, {"type": "text", "text": "x"}))))
    message = session.messages[0]
    message.blocks[:] = [m.Text("a\ud800b"), m.ToolCall("t\udfff", "X", msgspec.Raw(b'{"n":1e999}'))]
    message.usage = session.info.usage = m.Usage(input=10**300, output=-(10**4000))
    session.errors.append(m.Failure(kind="api_error", message_index=0, text="\udc80", status=2**64))
    rows = collect(tables(session).batches())
    check(session, rows)
    assert (rows["usage"][0]["input"], rows["usage"][0]["output"]) == (2**63 - 1, 1 - 2**63)
    assert json.loads(rows["events"][0]["event"])["text"] == "\udc80"
    problems = {row["detail"].partition(":")[0]: row for row in rows["problems"] if row["reason"] == "table-value"}
    assert {
        "blocks.text",
        "blocks.call_id",
        "tool_calls.call_id",
        "usage.input",
        "usage.output",
        "sessions.usage_input",
        "errors.text",
        "errors.status",
    } <= problems.keys()
    assert problems["blocks.text"]["source_line"] == problems["errors.status"]["source_line"] == 1
    assert problems["usage.input"]["detail"].endswith("about 10^299")


def test_a_value_of_fifty_megabytes(tmp_path: Path) -> None:
    home = claude_home(tmp_path, {"type": "text", "text": "small"})
    (path,) = home.rglob("*.jsonl")
    text = "x" * (50 << 20)
    with path.open("a") as file:
        file.write(path.read_text().replace("small", text).replace("u1", "u2").replace("m1", "m2"))
    rows = collect(tables(home).batches("blocks"))
    assert [len(row["text"]) for row in rows["blocks"]] == [5, len(text)]


def test_a_session_that_cannot_be_read_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And costs no other session."""
    from unspool.core.errors import UnspoolError

    home = claude_home(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise UnspoolError("the disk is on fire")

    monkeypatch.setattr(Library, "read_all", fail)
    (row,) = collect(tables(home).batches())["problems"]
    assert (row["reason"], row["detail"]) == ("unreadable", "the disk is on fire")
    assert row["source_file"].endswith(".jsonl")


def test_a_long_session_that_cannot_be_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a problem, too, and costs no other session."""
    home = claude_home(tmp_path, {"type": "text", "text": "x"})
    monkeypatch.setattr(sources, "LONG_LOG", 0)

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Library, "_replay", lambda *_: map(fail, [1]))
    rows = collect(tables(home, unspool.samples()).batches())
    (row,) = (
        row
        for row in rows["problems"]
        if row["detail"] == "RuntimeError: a bug" and str(tmp_path) in row["source_file"]
    )
    assert row["reason"] == "unreadable"


def test_wrong_names_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(unspool.UsageError, match=r"unknown table 'mesages'; choose from sessions, messages"):
        tables(unspool.samples()).to_arrow("mesages")
    with pytest.raises(unspool.NotFoundError, match="no such file or directory"):
        tables(tmp_path / "nothing")


# --- the packages -----------------------------------------------------------------------------------------------------


def test_import_loads_no_package_of_the_extra() -> None:
    """`import unspool`, and reading a session."""
    code = (
        "import sys, unspool; unspool.load(next(unspool.sessions(unspool.samples())));"
        "print(sorted({'pyarrow', 'duckdb', 'polars', 'pandas', 'deltalake', 'pyspark'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(unspool.MissingExtraError, match=r"this needs pyarrow; .* pip install 'unspool\[data\]'"):
        unspool.tables(unspool.samples())


def test_schemas_have_a_version() -> None:
    for name in TABLES:
        assert arrow_schema(name).metadata == {b"unspool.schema": b"unspool-tables/1", b"unspool.table": name.encode()}
        assert len(set(TABLES[name].names)) == len(TABLES[name].names)
