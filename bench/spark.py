"""A Spark cluster on this machine: twice the workers, and what Spark costs over one plain process.

Starting the cluster, and the first reading, in which Java compiles and Python imports, are left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import unspool

from .report import Measure, seconds

_TABLE = "all"
_RUNS = 3
_GAIN = 1.4
"""How many times as fast two workers are to be."""


def measure(home: Path) -> Iterator[Measure]:
    """One process, a cluster with one worker, and one with two, in turns. Nothing where Java is missing."""
    if shutil.which("java") is None:
        print("    Spark needs Java 17, which is not installed")
        return
    plain, times = [], dict[int, list[dict[str, float]]]({1: [], 2: []})
    for _ in range(2):
        plain.append(min(seconds(lambda: _read(home)) for _ in range(_RUNS)))
        for workers, found in times.items():
            found.append(_cluster(workers, home))
    one, two = (min(found["read"] for found in times[workers]) for workers in (1, 2))
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    detail = f"{size / 1e6:.0f} MB, all tables: {one:.1f} s with 1 worker, {two:.1f} s with 2"
    yield Measure("Spark, 2 workers against 1", two / one, "", 1 / _GAIN, f"{detail}: {one / two:.2f} times as fast")
    yield Measure("Spark, 1 worker against one process", one / min(plain), "", None, f"one process: {min(plain):.1f} s")
    cpu = min(found["cpu"] for found in times[1])
    used = min(seconds(lambda: _read(home), time.process_time) for _ in range(_RUNS))
    yield Measure("  the same in processor time", cpu / used, "", None, f"{cpu:.1f} s against {used:.1f} s")
    start, first = (min(found[name] for found in times[1]) for name in ("start", "first"))
    yield Measure("  starting a cluster", start, " s", None, f"and {first:.1f} s for the first reading")


def _read(home: Path) -> int:
    return sum(batch.num_rows for _, batch in unspool.tables(home).batches())


def _cluster(workers: int, home: Path) -> dict[str, float]:
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-W", "ignore", "-m", "bench.spark", str(workers), str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _processor_time(pid: int) -> float:
    """Of a process and all that it started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = (
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    )
    return own + sum(_processor_time(int(child)) for child in children)


def main() -> None:
    """Print the times of one cluster as JSON."""
    from pyspark.sql import SparkSession

    import unspool.spark

    workers, home = sys.argv[1:]
    sessions: list[SparkSession] = []

    def start() -> None:
        builder = SparkSession.builder.master(f"local-cluster[{workers},1,2048]").appName("unspool bench")
        settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR"}
        for name, value in (settings | {"spark.ui.showConsoleProgress": "false"}).items():
            builder = builder.config(name, value)
        sessions.append(builder.getOrCreate())
        unspool.spark.register(sessions[0])

    def read() -> None:
        found = sessions[0].read.format("unspool").option("table", _TABLE).load(home)
        found.write.format("noop").mode("overwrite").save()

    times = {"start": seconds(start), "first": seconds(read), "read": min(seconds(read) for _ in range(_RUNS))}
    times["cpu"] = seconds(read, lambda: _processor_time(os.getpid()))
    sessions[0].stop()
    print(json.dumps(times))


if __name__ == "__main__":
    main()
