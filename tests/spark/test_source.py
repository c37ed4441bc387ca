"""The data source on a real Spark: a cluster on this machine with two workers, each a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unspool
import unspool.spark
from tests.isolation import MARK
from tests.recordings import CORPUS, sampled_versions
from tests.waiting import wait_until
from unspool.data.lake import Lake
from unspool.data.schema import TABLES, arrow_schema
from unspool.data.tables import tables
from unspool.ingest.sync import Syncer
from unspool.library import Library
from unspool.spark.packed import unpack_batches
from unspool.spark.planning import find_families
from unspool.store import open_store
from unspool.testing import ClaudeLog

from .s3_server import BUCKET, CREDENTIALS, serve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
_JAVA = 17
_ATTEMPTS = 20
_TOO_SLOW = ("Timed out while waiting for the Python worker", "Python worker failed to connect back")
"""What Spark says if a process that it started took more than ten seconds to begin, which cannot be changed."""


def java_version() -> int:
    """The version of the Java that Spark would use; 0 if there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(Path(home, "bin", "java") if home else "java")
    if program is None:
        return 0
    done = subprocess.run([program, "-XX:-UsePerfData", "-version"], capture_output=True, text=True, check=False)
    words = done.stderr.split('"')
    return int(words[1].split(".")[0]) if done.returncode == 0 and len(words) > 1 else 0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One cluster for all tests: it takes most of the time."""
    # Not when the module is imported: every worker would start Java.
    if java_version() < _JAVA:
        pytest.skip(f"no Java {_JAVA} or newer to run Spark with")
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        settings = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_LAUNCHER_OPTS": _java_options(folder),
        }
        for name, value in (settings | CREDENTIALS).items():
            patch.setenv(name, value)
        patch.chdir(folder)
        session = _start(folder)
        unspool.spark.register(session)
        yield session
        session.stop()
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _java_options(folder: Path) -> str:
    """Have Java write to a folder what it would leave in /tmp, whatever TMPDIR says."""
    return f"-Djava.io.tmpdir={folder} -XX:-UsePerfData"


def _start(folder: Path) -> SparkSession:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about versions of pandas.
        from pyspark.sql import SparkSession

        options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto {_java_options(folder)}"
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{options} -Dderby.system.home={folder}",
            "spark.executor.extraJavaOptions": options,
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.showConsoleProgress": "false",
            # On a busy machine, everything takes long.
            "spark.network.timeout": "900s",
            "spark.python.authenticate.socketTimeout": "900s",
            "spark.log.level": "ERROR",
        }
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("unspool")
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def reader(spark: SparkSession, table: str, **options: str) -> Any:
    return spark.read.format("unspool").option("table", table).options(**options)


def rows_of(found: DataFrame | pa.Table) -> Counter[str]:
    """Rows, in whatever order they come."""
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return Counter(repr(row) for row in table.to_pylist())


# --- rows -------------------------------------------------------------------------------------------------------------


def test_recordings_have_the_rows_of_one_process(spark: SparkSession) -> None:
    """All tables, row by row."""
    read = [recording for version in sampled_versions() for recording in version]
    versions = {str(CORPUS / recording.agent / recording.version / "*" / "home") for recording in read}
    everything = reader(spark, "all", partitionBytes="4m").load(sorted(versions))
    assert everything.rdd.getNumPartitions() >= 3
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    for batch in everything.toArrow().to_batches():
        for packed in (batch.slice(row, 1) for row in range(batch.num_rows)):
            found[packed.column("table")[0].as_py()] += unpack_batches([packed])
    expected: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    for name, batch in tables(*(recording.home for recording in read)).batches():
        expected[name].append(batch.cast(arrow_schema(name, plain=True)))
    for name in TABLES:
        ours, theirs = in_order(name, found[name]), in_order(name, expected[name])
        assert ours.num_rows == theirs.num_rows, name
        assert ours.equals(theirs), name
    assert in_order("sessions", expected["sessions"]).num_rows > 200


def in_order(name: str, batches: list[pa.RecordBatch]) -> pa.Table:
    """All rows, by session; the rows of a session stay in their order."""
    table = pa.Table.from_batches(batches, arrow_schema(name, plain=True))
    return table.sort_by([("agent", "ascending"), ("session", "ascending")]).combine_chunks()


def test_one_table_with_some_columns_and_filters(spark: SparkSession) -> None:
    """Only the columns of the schema are made, and only the sessions that the filters leave are read."""
    home = unspool.samples()
    schema = "agent STRING, session STRING, day DATE, timestamp TIMESTAMP"
    frame = reader(spark, "messages").schema(schema).load(str(home)).where("agent = 'codex' and day >= '2020-01-01'")
    rows = [row for row in tables(home).to_arrow("messages").to_pylist() if row["agent"] == "codex"]
    names = ("agent", "session", "day", "timestamp")
    assert rows_of(frame) == Counter(repr({name: row[name] for name in names}) for row in rows)
    tasks = reader(spark, "messages", partitionBytes="1").schema(schema).load(str(home)).where("agent = 'codex'")
    families = list(find_families(ref for ref in Library(home).refs() if ref.agent == "codex"))
    assert tasks.rdd.getNumPartitions() == len(families)


def test_tables_of_one_reading(spark: SparkSession) -> None:
    everything = reader(spark, "all").load(str(unspool.samples()))
    assert rows_of(unspool.spark.table_of(everything, "tool_calls")) == rows_of(
        tables(unspool.samples()).to_arrow("tool_calls")
    )


def test_an_object_store(spark: SparkSession, tmp_path: Path) -> None:
    """Workers read what they need from it."""
    shutil.copytree(unspool.samples(), tmp_path / "homes" / "ada")
    with serve(tmp_path) as store:
        options = {f"fs.{name}": value for name, value in store.options.items()}
        found = rows_of(reader(spark, "sessions", **options).load(f"s3a://{BUCKET}/homes/*"))
    expected = rows_of(tables(tmp_path / "homes" / "ada").to_arrow("sessions"))
    assert found == Counter({row.replace(f"{tmp_path}/", f"s3a://{BUCKET}/"): count for row, count in expected.items()})


def test_a_killed_worker_changes_nothing(spark: SparkSession) -> None:
    """With a task that it has not finished."""
    place = CORPUS / "claude" / "2.1.325"
    frame = reader(spark, "messages", partitionBytes="300k").schema("session STRING").load(str(place / "*" / "home"))
    tracker = spark.sparkContext.statusTracker()
    victim, *others = processes_of(executors()[0])
    # Without its Python, a worker gets a task and cannot end it: it is killed in the middle, however slow we are.
    stopped = others or [victim]
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    answers: list[int] = []
    job = threading.Thread(target=lambda: answers.append(frame.count()))
    try:
        job.start()

        def is_in_progress() -> bool:
            stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
            return any(stage.numCompletedTasks and stage.numActiveTasks for stage in stages)

        wait_until(is_in_progress, "the other worker to finish a task")
        assert job.is_alive()
    finally:
        for process in (victim, *others):
            os.kill(process, signal.SIGKILL)
    job.join()
    homes = sorted(place.glob("*/home"))
    assert answers == [sum(batch.num_rows for _, batch in tables(*homes).batches("messages"))]
    assert victim not in executors()


def executors() -> list[int]:
    """The processes of the cluster's workers that belong to this test run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
        except OSError:
            continue
        is_ours = f"{MARK}={os.environ[MARK]}".encode() in environment.split(b"\0")
        if b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0] and is_ours:
            found.append(int(path.name))
    return sorted(found)


def processes_of(pid: int) -> list[int]:
    """A process and all that it started."""
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [pid, *(process for child in children for process in processes_of(child))]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "path", "sentence"),
    [
        ({"table": "mesages"}, "/", "unknown table 'mesages'; choose from sessions, messages, "),
        ({"table": "messages"}, "/nothing/here", "NotFoundError: /nothing/here: no such file or directory"),
        ({"table": "messages", "schema": "unspool-tables/2"}, "/", "makes tables of unspool-tables/1, not of unspool-"),
    ],
)
def test_what_is_wrong_is_one_sentence(spark: SparkSession, options: dict[str, str], path: str, sentence: str) -> None:
    """Spark shows where it was raised, and then this sentence."""
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as error:
        spark.read.format("unspool").options(**options).load(path).count()
    last = [line for line in str(error.value).splitlines() if line.startswith("unspool.")]
    assert len(last) == 1
    assert sentence in last[0]


def test_damaged_files_cost_a_row_each(spark: SparkSession, tmp_path: Path) -> None:
    """In one of several places; everything else is there."""
    home = tmp_path / "home"
    shutil.copytree(unspool.samples(), home)
    logs = sorted(home.glob(".claude/projects/*/*.jsonl"))
    logs[0].write_bytes(logs[0].read_bytes() + b"\xff\xfe\x00{{{")
    write_session(tmp_path / "other", "whole", 2)
    places = [home, tmp_path / "other"]
    found = rows_of(reader(spark, "problems").load([str(place) for place in places]))
    assert found == rows_of(tables(*places).to_arrow("problems"))
    assert found.total() == 1


# --- streams and lakes ------------------------------------------------------------------------------------------------


def test_a_stream_continues_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """After a restart it reads what has changed in between, each session with all of its rows."""
    home, checkpoint, sink = tmp_path / "home", tmp_path / "checkpoint", tmp_path / "sink"
    first = write_session(home, "first", 2)

    def run() -> Counter[str]:
        before = sessions_in(sink)
        stream = spark.readStream.format("unspool").option("table", "messages").load(str(home))
        query = stream.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = query.trigger(availableNow=True)
        if not any(is_complete(query.start(str(sink))) for _ in range(_ATTEMPTS)):
            pytest.skip("Spark gives a process of its own ten seconds to start, and this machine is too busy for that")
        return sessions_in(sink) - before

    assert run() == {first: 2}
    second = write_session(home, "second", 3)
    write_session(home, "first", 4)
    assert run() == {first: 4, second: 3}
    assert run() == {}


def is_complete(query: StreamingQuery) -> bool:
    """Whether a stream has read everything; False if a process that Spark started took more than its ten seconds."""
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if not any(words in str(error) for words in _TOO_SLOW):
            raise
        return False
    return True


def write_session(home: Path, name: str, messages: int) -> str:
    log = ClaudeLog(name)
    for number in range(messages):
        log.user(f"prompt {number}", name=f"{name} {number}")
    log.write(home)
    return log.session


def sessions_in(sink: Path) -> Counter[str]:
    """How many rows of each session a stream has written."""
    files = sorted(sink.glob("*.parquet"))
    return Counter(session for file in files for session in pq.read_table(file)["session"].to_pylist())


def test_a_lake_without_a_package_for_it(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads the Parquet files of a snapshot; an earlier one, too."""
    home = tmp_path / "home"
    first = write_session(home, "first", 2)
    store = open_store(str(tmp_path / "sessions.db"))
    lake = Lake(str(tmp_path / "a lake {100%} of=*"))
    for _ in range(2):
        Syncer(store, home).run()
        lake.sync(store)
        write_session(home, "second", 3)
    store.close()
    found = rows_of(unspool.spark.read_lake(spark, lake.location, "messages"))
    assert found == rows_of(tables(home).to_arrow("messages"))
    before = unspool.spark.read_lake(spark, lake.location, "messages", as_of=lake.snapshot().number - 1)
    assert {row.session for row in before.collect()} == {first}
    assert unspool.spark.read_lake(spark, lake.location, "rollbacks").take(1) == []
