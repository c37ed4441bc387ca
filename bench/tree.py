"""Measures a tree with very many leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from unspool.agents import AGENTS, finish
from unspool.core.assemble import SessionAssembler
from unspool.core.builder import SessionBuilder
from unspool.library import Library

from .report import Measure, seconds

_MESSAGES = 60_000
_LEAVES = 20_000


def measure(folder: Path) -> Iterator[Measure]:
    """Measure assembling 60,000 messages with 20,000 leaves, after they were read."""
    path = folder / "many.jsonl"
    write(path)
    library = Library(path)
    (ref,) = library.refs()
    whole = seconds(lambda: library.load(ref))
    (builder,) = finish(AGENTS["claude"].open(ref.root).read(ref, lambda id, kind: SessionBuilder("claude", id, kind)))
    start = time.perf_counter()
    session = SessionAssembler(builder).session()
    took = time.perf_counter() - start
    detail = f"{len(session.branches) + 1} leaves found; {whole:.2f} s with reading"
    yield Measure("assemble 60,000 messages with 20,000 leaves", took, " s", 1.0, detail)


def write(path: Path) -> None:
    """Write a session with a trunk and many short branches, as rewinds create them."""
    per_leaf = _MESSAGES // _LEAVES
    with open(path, "w", encoding="utf-8") as file:
        trunk: str | None = None
        number = 0
        for leaf in range(_LEAVES):
            parent = trunk
            for step in range(per_leaf):
                name = f"{number:08x}-0000-4000-8000-000000000000"
                file.write(json.dumps(_line(name, parent, number)) + "\n")
                parent = name
                number += 1
                if step == 0 and leaf % 10 == 0:
                    trunk = name


def _line(name: str, parent: str | None, number: int) -> dict[str, object]:
    kind = "assistant" if number % 2 else "user"
    return {
        "parentUuid": parent, "isSidechain": False, "type": kind, "uuid": name, "version": "2.1.325",
        "sessionId": "00000000-0000-4000-8000-00000000000a", "cwd": "/home/dev/demo",
        "timestamp": f"2026-03-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "message": {"role": kind, "content": [{"type": "text", "text": f"message {number}"}]},
    }  # fmt: skip
