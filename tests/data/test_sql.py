"""SQL: the questions that come with unspool, and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import unspool
from tests.recordings import recordings
from unspool.cli.main import main
from unspool.data.schema import TABLES
from unspool.data.sql import _reader, load_into, questions, run_on_tables
from unspool.data.tables import tables

QUESTIONS = list(questions())


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """The samples and recordings with many kinds of events."""
    import duckdb

    wanted = [recordings(agent)[-40:] for agent in ("claude", "codex", "gemini")]
    homes = [recording.home for found in wanted for recording in found]
    with duckdb.connect() as opened:
        load_into(opened, tables(unspool.samples(), *homes), TABLES)
        yield opened


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_questions_have_answers(connection, question) -> None:  # type: ignore[no-untyped-def]
    """Each has rows, its plot names columns of it, and the same rows each time."""
    found = connection.execute(question.sql)
    names = [column[0] for column in found.description]
    rows = found.fetchall()
    assert question.text.endswith("?")
    assert {question.plot.x, question.plot.y} <= set(names)
    assert rows, question.name
    assert connection.execute(question.sql).fetchall() == rows


def test_there_are_twenty_questions() -> None:
    assert len(QUESTIONS) >= 20
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS)


def test_failing_commands(connection) -> None:  # type: ignore[no-untyped-def]
    """The numbers are those of the records."""
    sql = next(question.sql for question in QUESTIONS if question.name == "failing-commands")
    found = connection.execute(f"SELECT sum(failures) FROM ({sql.replace('LIMIT 20', '')})").fetchall()
    expected = connection.execute(
        "SELECT count(*) FROM tool_calls WHERE command IS NOT NULL AND NOT inherited AND outcome = 'error'"
    ).fetchall()
    assert found == expected


def answer(sql: str) -> list[tuple[object, ...]]:
    """The rows of a query on the samples."""
    return [tuple(row.values()) for row in run_on_tables(tables(unspool.samples()), sql).read_all().to_pylist()]


@pytest.fixture(scope="module")
def session_count() -> int:
    """How many sessions the samples have."""
    return int(tables(unspool.samples()).to_arrow("sessions").num_rows)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_the_command_runs_questions(question) -> None:  # type: ignore[no-untyped-def]
    """It analyses a query before it fills the tables."""
    run_on_tables(tables(unspool.samples()), question.sql).read_all()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM Sessions",
        'SELECT count(*) FROM "SESSIONS"',
        "SELECT count(*) FROM main.Sessions",
        "WITH sessions AS (SELECT * FROM main.Sessions) SELECT count(*) FROM sessions",
        "SELECT (WITH messages AS (SELECT * FROM SESSIONS) SELECT count(*) FROM Messages)",
        "SELECT count(*) FROM query_table(['Sessions'])",
        "SELECT count(*) FROM query('FROM sess' || 'ions')",
        "SELECT count(COLUMNS('^session$')) FROM sessions",
        "SELECT count(DISTINCT (agent, session)) FROM Sessions JOIN Messages USING (agent, session)",
        "CREATE VIEW v AS FROM sessions; SELECT count(*) FROM v",
        "SELECT count(*) FROM (UNPIVOT (SELECT session FROM sessions) ON session)",
        "SELECT sum(n)::BIGINT FROM (UNPIVOT (PIVOT sessions ON agent USING count(*) GROUP BY day) "
        "ON COLUMNS(* EXCLUDE day) INTO NAME agent VALUE n)",
    ],
)
def test_a_table_that_a_query_uses_is_never_empty(session_count: int, sql: str) -> None:
    """However the query names it, and whatever DuckDB knows about the query in advance."""
    assert answer(sql) == [(session_count,)]


def test_a_name_that_is_computed_is_found_or_an_error() -> None:
    """A query whose tables are not known must not run on empty ones."""
    with pytest.raises(unspool.UsageError, match="Table with name sessions does not exist"):
        answer("SELECT 'messages', count(*) FROM query('FROM sess' || 'ions')")


def test_the_result_of_older_versions_of_duckdb() -> None:
    """The method that all versions before 2 have."""
    rows = object()
    assert _reader(SimpleNamespace(fetch_arrow_reader=lambda: rows)) is rows


def test_all_tables_are_listed() -> None:
    assert [name for (name,) in answer("SHOW TABLES")] == sorted(TABLES)


@pytest.mark.parametrize("name", ["sql", "files", "TABLES"])
def test_python_variables_are_not_tables(name: str) -> None:
    with pytest.raises(unspool.UsageError, match=f"Table with name {name} does not exist"):
        answer(f"SELECT * FROM {name}")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """What a command prints."""
    code = main([*arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


HOME = ("--home", str(unspool.samples()))
QUERY = "SELECT agent, count(*) AS sessions FROM sessions GROUP BY agent ORDER BY agent"


def test_the_forms_of_an_answer(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """Columns, JSON, CSV and Parquet have the same rows."""

    def printed(*arguments: str) -> str:
        assert main(["sql", *HOME, QUERY, *arguments]) == 0
        return capfdbinary.readouterr().out.decode()

    expected = [(row["agent"], row["sessions"]) for row in map(json.loads, printed("--json").splitlines())]
    assert [agent for agent, _ in expected] == ["claude", "codex", "gemini"]
    assert [tuple(row) for row in csv.reader(printed("--csv").splitlines())][1:] == [(a, str(n)) for a, n in expected]
    assert printed() == "agent\tsessions\n" + "".join(f"{agent}\t{count}\n" for agent, count in expected)
    printed("--parquet", str(tmp_path / "out.parquet"))
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [{"agent": a, "sessions": n} for a, n in expected]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("SELECT nothing FROM sessions",), 'the query failed: Binder Error: Referenced column "nothing" not found'),
        (("SELECT 1 FROM mesages",), "the query failed: Catalog Error: Table with name mesages does not exist!"),
        (("SELEC",), "the query failed: Parser Error: syntax error"),
        ((), "pass either a query or --question NAME"),
        (("--question", "x"), "unknown question 'x'; `unspool sql --list` lists them"),
        (("--as-of", "1", "SELECT 1"), "--as-of needs --lake"),
        (("--lake", "nowhere", "SELECT 1"), "--lake queries a lake; --home, --store, --samples and --no-sync do not"),
        (("--list", "SELECT 1"), "--list lists the predefined queries; it takes no query"),
        (("SELECT 'infinity'::DATE AS day",), "the column 'day' cannot be printed: "),
        (("SELECT 'infinity'::DATE AS day", "--json"), "the column 'day' cannot be printed: "),
        (("SELECT 1", "--parquet", "missing/a.parquet"), "missing/a.parquet: No such file or directory"),
    ],
)
def test_wrong_use_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run(capsys, "sql", *HOME, *arguments)
    assert (code in (1, 2), out.partition("\n")[2]) == (True, "")
    assert err.startswith(f"unspool: {sentence}")
    assert len(err.splitlines()) == 1


def test_the_list_of_questions(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "sql", "--list")
    assert len(out.splitlines()) == len(QUESTIONS) + 1


def test_a_lake_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "sql", "--lake", "nowhere", "SELECT 1")
    assert (code, err.partition(" at ")[0]) == (1, "unspool: there is no lake")


LATE = "SELECT CASE WHEN range < 9000000 THEN range ELSE error('late') END AS n FROM range(9000001)"


def test_a_query_that_fails_after_its_first_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is the same error as any other, and the file that the answer would replace stays."""
    path = tmp_path / "out.parquet"
    path.write_bytes(b"before")
    code, _, err = run(capsys, "sql", *HOME, LATE, "--parquet", str(path))
    assert (code, err) == (2, "unspool: the query failed: Invalid Input Error: late\n")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_with_a_long_value_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "sql", *HOME, "SELECT CAST(repeat('x', 9000) || range AS INTEGER) FROM range(1)")
    assert len(err) < 400
    assert "Could not convert string 'xxx" in err
    assert "to INT32" in err


def test_columns_of_the_same_name(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """Each has its own name, so that an object has all of them and any program can read the file."""
    query = "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a"
    assert main(["sql", *HOME, query, "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}
    assert main(["sql", *HOME, query, "--parquet", str(tmp_path / "out.parquet")]) == 0
    assert pq.read_schema(tmp_path / "out.parquet").names == ["a", "a_2", "a_1", "a_3"]


def test_numbers_in_json_are_numbers(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """DuckDB returns sums of integers as decimals. Values that JSON does not have are texts."""
    values = "sum(1) AS n, 1.50::DECIMAL(9, 2) AS d, {'t': TIMESTAMP_NS '2026-01-01 00:00:00.000000001'} AS s"
    assert main(["sql", *HOME, f"SELECT {values}", "--json"]) == 0
    assert capfdbinary.readouterr().out == b'{"n":1,"d":1.50,"s":{"t":"2026-01-01 00:00:00.000000001"}}\n'


def test_the_list_of_questions_as_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["sql", "--list", "--json"]) == 0
    rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == [question.name for question in QUESTIONS]
