"""Measures Spark clusters on this machine: the gain of a second worker, and the cost relative to a plain process.

Two clusters and a plain process read in turns, so that other programs affect all of them alike. The start of the
clusters, and the first read, in which Java compiles and Python imports, are not included.
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
from typing import NamedTuple

import unspool

from .report import Measure, seconds

_TABLE = "all"
_RUNS = 3
_GAIN = 1.4
"""How many times as fast as one worker two workers have to be."""


class _Read(NamedTuple):
    """Seconds of one read: wall clock time and CPU time."""

    clock: float
    cpu: float


class _Cluster:
    """A cluster in a separate process, which reads on request."""

    def __init__(self, workers: int, home: Path) -> None:
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, "-W", "ignore", "-m", "bench.spark", str(workers), str(home)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.start, self.first = self._response()

    def read(self) -> _Read:
        """Read everything once."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return _Read(*self._response())

    def _response(self) -> list[float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"Spark exited with status {self._process.wait()}")
        found: list[float] = json.loads(line)
        return found

    def stop(self) -> None:
        """Stop the cluster."""
        self._process.communicate()


def measure(home: Path) -> Iterator[Measure]:
    """Measure a plain process, a cluster with one worker, and one with two, in turns; nothing if Java is missing."""
    if shutil.which("java") is None:
        print("    Spark needs Java 17, which is not installed")
        return
    clusters = [_Cluster(workers, home) for workers in (1, 2)]
    reads: list[list[_Read]] = [[], [], []]
    for _ in range(_RUNS):
        reads[0].append(_plain(home))
        for found, cluster in zip(reads[1:], clusters, strict=True):
            found.append(cluster.read())
    for cluster in clusters:
        cluster.stop()
    plain, one, two = (_Read(*map(min, zip(*found, strict=True))) for found in reads)
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    detail = f"{size / 1e6:.0f} MB, all tables: {one.clock:.1f} s with 1 worker, {two.clock:.1f} s with 2"
    gain = one.clock / two.clock
    yield Measure("Spark, times as fast with 2 workers as with 1", gain, "x", None, detail, at_least=_GAIN)
    detail = f"one process: {plain.clock:.1f} s"
    yield Measure("Spark, 1 worker, relative to one plain process", one.clock / plain.clock, "x", None, detail)
    detail = f"{one.cpu:.1f} s vs. {plain.cpu:.1f} s"
    yield Measure("  the same in CPU time", one.cpu / plain.cpu, "x", None, detail)
    detail = f"and {clusters[0].first:.1f} s for the first read"
    yield Measure("  starting a cluster", clusters[0].start, " s", None, detail)


def _plain(home: Path) -> _Read:
    before = time.process_time()
    clock = seconds(lambda: sum(batch.num_rows for _, batch in unspool.tables(home).batches()))
    return _Read(clock, time.process_time() - before)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of all processes that it started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = (
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    )
    return own + sum(_cpu_seconds(int(child)) for child in children)


def main() -> None:
    """Print the times of the start and of the first read as JSON, then read again for each line of input."""
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

    print(json.dumps([seconds(start), seconds(read)]), flush=True)
    for _ in sys.stdin:
        before = _cpu_seconds(os.getpid())
        clock = seconds(read)
        print(json.dumps([clock, _cpu_seconds(os.getpid()) - before]), flush=True)
    sessions[0].stop()


if __name__ == "__main__":
    main()
