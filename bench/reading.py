"""Reading into complete records, against `orjson.loads` over the same lines: CPU time, as other programs run too."""

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
    """All agents together, then each alone; twice the input; small files."""
    yield whole("read into records, to orjson.loads of each line", inputs.whole, 2.0)
    yield from agents(inputs.whole)
    yield from growth(inputs.half, inputs.whole)
    yield whole("  recordings as they are: small files", inputs.small)


def agents(home: Path) -> Iterator[Measure]:
    """The sessions of each agent alone."""
    for agent, group in _paths(home).items():
        library = Library(home)
        refs = [ref for ref in library.refs() if ref.agent == agent]
        floor, ours = _best(group, lambda library=library, refs=refs: _load(library, refs))  # type: ignore[misc]
        yield Measure(f"  {agent}", ours / floor, "x", None, f"{len(refs)} sessions, {ours:.2f} s to {floor:.2f} s")


def whole(name: str, home: Path, at_most: float | None = None, before: str = "") -> Measure:
    """All sessions of a home."""
    paths = [path for group in _paths(home).values() for path in group]
    size = sum(path.stat().st_size for path in paths) / 1e6
    floor, ours = _best(paths, lambda: _load_home(home))
    detail = (
        f"{size:.0f} MB in {len(paths)} files in {ours:.2f} s, {size / ours:.0f} MB/s; each line with orjson.loads "
        f"{floor:.2f} s"
    )
    return Measure(name, ours / floor, "x", at_most, detail, before)


def _best(paths: list[Path], work: Callable[[], object]) -> tuple[float, float]:
    """The best time of the floor and of the work, taken in turns."""
    times = [(seconds(lambda: _decode(paths), process_time), seconds(work, process_time)) for _ in range(_ROUNDS)]
    return min(floor for floor, _ in times), min(ours for _, ours in times)


def growth(home: Path, twice: Path) -> Iterator[Measure]:
    """Twice the input."""
    once = min(seconds(lambda: _load_home(home), process_time) for _ in range(3))
    double = min(seconds(lambda: _load_home(twice), process_time) for _ in range(3))
    yield Measure("twice the input, to once", double / once, "x", 2.2, f"{once:.2f} s, {double:.2f} s")


def _load_home(home: Path) -> None:
    library = Library(home)
    _load(library, library.refs())


def _load(library: Library, refs: Iterable[SessionRef]) -> None:
    """Read sessions one after the other; keeping them all would measure the memory."""
    for ref in refs:
        library.load(ref)


def _decode(paths: list[Path]) -> None:
    """The floor: what every reader of these files has to do at least."""
    for path in paths:
        for line in _lines(path):
            try:  # noqa: SIM105 - a context manager for each line would make the floor slower
                orjson.loads(line)
            except orjson.JSONDecodeError:
                pass


def _lines(path: Path) -> Iterable[bytes]:
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    return [data] if path.suffix == ".json" else data.split(b"\n")


def _paths(home: Path) -> dict[str, list[Path]]:
    """The files of each agent's sessions."""
    found: dict[str, dict[Path, None]] = {}
    for ref in Library(home).refs():
        found.setdefault(ref.agent, {}).update(dict.fromkeys((ref.path, *ref.more)))
    return {agent: list(paths) for agent, paths in found.items()}
