"""Measures everything that can be done with one session of a gigabyte and a million lines."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import httpx

from unspool.agents import AGENTS
from unspool.ingest.tail import SessionTail
from unspool.search.query import parse
from unspool.store import open_store

from . import memory
from .inputs import Inputs
from .report import Measure, cpu_seconds, seconds

_LINES = 1_000_000
_SESSION = "5eeded00-0000-4000-8000-000000000000"
_UNSPOOL = [sys.executable, "-m", "unspool"]
_REQUESTS = 10
_WORD = "xylophonist"
"""A word that occurs in only one message."""


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Measure sync, append, list, search, pages and export."""
    folder = inputs.folder / "large"
    path = folder / "home" / ".claude" / "projects" / "-home-dev-demo" / f"{_SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    write(path, _LINES)
    with mock.patch.dict(os.environ, {"HOME": str(folder / "home"), "UNSPOOL_DATA": str(folder / "data")}):
        yield from _measures(path)
    shutil.rmtree(folder)


def _measures(path: Path) -> Iterator[Measure]:
    size = path.stat().st_size
    name = f"a session of {size / 1e9:.2f} GB, {_LINES:,} lines"
    start = time.perf_counter()
    peak = memory.peak_of([*_UNSPOOL, "sync"])
    took = time.perf_counter() - start
    yield Measure(f"{name}: first sync", took, " s", None, f"{size / took / 1e6:.0f} MB/s")
    yield Measure("  its memory", peak / 1e6, " MB", 400)
    stored = _stored_bytes()
    yield Measure("  size of the store, relative to the log", 100 * stored / size, " %", None, "before maintenance")
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(_line(_LINES, "a late crocodile")) + "\n")
    yield Measure(
        "  sync of an appended line, CPU", cpu_seconds([*_UNSPOOL, "sync"]), " s", None, "all bytes are compared"
    )
    yield Measure(
        "  the same while it is followed", 1e3 * _followed(path), " ms", 100, "CPU, median, including a search for it"
    )
    yield Measure("  ls, CPU", cpu_seconds([*_UNSPOOL, "ls"]), " s", 1.0)
    yield Measure("  search for a word, CPU", cpu_seconds([*_UNSPOOL, "search", "--no-sync", _WORD]), " s", 1.0)
    yield from _pages()
    start = time.perf_counter()
    peak = memory.peak_of([*_UNSPOOL, "export", "--format", "stream", str(path)])
    yield Measure("  export --format stream", time.perf_counter() - start, " s")
    yield Measure("  its memory", peak / 1e6, " MB", 200)


def write(path: Path, lines: int) -> None:
    """Write prompts, calls, results and responses, in turn. Word frequencies are as in natural language."""
    rng = random.Random(3)
    words = [f"{rng.choice('bcdfghjklmnprstvz')}{rng.choice('aeiou')}{number:x}" for number in range(30_000)]
    paragraphs = [" ".join(words[int(len(words) ** rng.random()) - 1] for _ in range(110)) for _ in range(4_000)]
    with open(path, "w", encoding="utf-8") as file:
        for number in range(lines):
            text = f"{number} {rng.choice(paragraphs)}"
            if number == lines // 2:
                text += f" {_WORD}"
            file.write(json.dumps(_line(number, text)) + "\n")


def _line(number: int, text: str) -> dict[str, object]:
    turn, step = divmod(number, 4)
    call = {"type": "tool_use", "id": f"toolu_{turn:012}", "name": "Bash", "input": {"command": text[:200]}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{turn:012}", "content": text}
    content: object = ([{"type": "text", "text": text}], [call], [result], [{"type": "text", "text": text}])[step]
    kind = "assistant" if step in (1, 3) else "user"
    message: dict[str, object] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {
            "id": f"msg_{number}",
            "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 9, "output_tokens": 9},
        }
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_770_000_000 + 3 * number))
    return {
        "parentUuid": f"{number - 1:08x}-0000-4000-8000-000000000000" if number else None, "isSidechain": False,
        "type": kind, "uuid": f"{number:08x}-0000-4000-8000-000000000000", "version": "2.1.325",
        "sessionId": _SESSION, "cwd": "/home/dev/demo", "timestamp": at, "message": message,
    }  # fmt: skip


def _stored_bytes() -> int:
    store = open_store(None)
    store.database.optimize()
    store.close()
    return Path(store.location).stat().st_size


def _followed(path: Path) -> float:
    """Return the CPU seconds that a process which has read the session needs until a search finds an appended line."""
    store = open_store(None)
    home = AGENTS["claude"].open(path.parents[2])
    ref = next(iter(home.refs()))
    tail = SessionTail(store, home, ref, store.sessions.from_source("claude", ref.id)[ref.id])
    times = []
    for number in range(20):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(_line(_LINES + 1 + number, f"zebra{number}")) + "\n")

        def ingest(number: int = number) -> None:
            with store.transaction():
                tail.ingest()
            assert len(store.search.run(parse(f"zebra{number}")).found) >= 1

        times.append(seconds(ingest, time.process_time))
    store.close()
    return statistics.median(times)


@contextmanager
def _server() -> Iterator[tuple[str, str]]:
    command = [*_UNSPOOL, "serve", "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    found = re.match(r"(http://[^/]+)/open\?token=(\S+)", process.stdout.readline().decode())
    assert found is not None
    try:
        yield found[1], found[2]
    finally:
        process.terminate()
        process.wait(60)


def _pages() -> Iterator[Measure]:
    """Measure the server's responses for the first and the last page of the session."""
    with (
        _server() as (base, token),
        httpx.Client(base_url=base, headers={"authorization": f"Bearer {token}"}, timeout=120) as client,
    ):
        for name, query in (("first", ""), ("last", f"?at={_LINES - 1}")):
            times = [seconds(lambda query=query: _get(client, query)) for _ in range(_REQUESTS)]  # type: ignore[misc]
            detail = f"first request {1e3 * times[0]:.0f} ms"
            yield Measure(f"  its {name} page, median", 1e3 * statistics.median(times), " ms", 300, detail)


def _get(client: httpx.Client, query: str) -> None:
    response = client.get(f"/sessions/{_SESSION}{query}")
    assert response.status_code == 200, response.text
