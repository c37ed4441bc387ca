"""Measures reading into complete records, relative to `orjson.loads` of the same lines.

CPU time is measured, because other programs may be running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import process_time

import orjson
import zstandard

from unspool.agents import SessionRef
from unspool.library import Library

from .inputs import Inputs
from .report import Measure, seconds

_ROUNDS = 5


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Measure all agents together, then each alone; twice the input; small files."""
    yield all_agents("read into records, relative to orjson.loads of each line", inputs.whole, 2.0)
    yield from each_agent(inputs.whole)
    yield from growth(inputs.half, inputs.whole)
    yield all_agents("  recordings as they are: small files", inputs.small)


def each_agent(home: Path) -> Iterator[Measure]:
    """Measure the sessions of each agent alone."""
    for agent, group in _paths(home).items():
        library = Library(home)
        refs = [ref for ref in library.refs() if ref.agent == agent]
        baseline, took = _best(group, lambda library=library, refs=refs: _load(library, refs))  # type: ignore[misc]
        detail = f"{len(refs)} sessions, {took:.2f} s vs. {baseline:.2f} s"
        yield Measure(f"  {agent}", took / baseline, "x", None, detail)


def all_agents(name: str, home: Path, at_most: float | None = None, before: str = "") -> Measure:
    """Measure all sessions of a home."""
    paths = [path for group in _paths(home).values() for path in group]
    size = sum(path.stat().st_size for path in paths) / 1e6
    baseline, took = _best(paths, lambda: _load_home(home))
    detail = (
        f"{size:.0f} MB in {len(paths)} files in {took:.2f} s, {size / took:.0f} MB/s; each line with orjson.loads "
        f"{baseline:.2f} s"
    )
    return Measure(name, took / baseline, "x", at_most, detail, before)


def _best(paths: list[Path], work: Callable[[], object]) -> tuple[float, float]:
    """Return the best times of the baseline and of the work, measured in turns."""
    times = [(seconds(lambda: _decode(paths), process_time), seconds(work, process_time)) for _ in range(_ROUNDS)]
    return min(baseline for baseline, _ in times), min(took for _, took in times)


def growth(home: Path, twice: Path) -> Iterator[Measure]:
    """Measure how the time grows with twice the input."""
    once = min(seconds(lambda: _load_home(home), process_time) for _ in range(3))
    double = min(seconds(lambda: _load_home(twice), process_time) for _ in range(3))
    yield Measure("twice the input, relative to once", double / once, "x", 2.2, f"{once:.2f} s, {double:.2f} s")


def _load_home(home: Path) -> None:
    library = Library(home)
    _load(library, library.refs())


def _load(library: Library, refs: Iterable[SessionRef]) -> None:
    """Read sessions one at a time: keeping all of them in memory would affect the time."""
    for ref in refs:
        library.load(ref)


def _decode(paths: list[Path]) -> None:
    """Do the minimum that every reader of these files has to do: the baseline."""
    for path in paths:
        for line in _lines(path):
            try:  # noqa: SIM105 - a context manager for each line would make the baseline slower
                orjson.loads(line)
            except orjson.JSONDecodeError:
                pass


def _lines(path: Path) -> Iterable[bytes]:
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    return [data] if path.suffix == ".json" else data.split(b"\n")


def _paths(home: Path) -> dict[str, list[Path]]:
    """Return the files of each agent's sessions."""
    found: dict[str, dict[Path, None]] = {}
    for ref in Library(home).refs():
        found.setdefault(ref.agent, {}).update(dict.fromkeys((ref.path, *ref.more)))
    return {agent: list(paths) for agent, paths in found.items()}
