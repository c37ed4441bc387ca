"""Measures searching in fifty copies of recordings of all versions, each with some words of its own."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from unspool.ingest.sync import Syncer
from unspool.store.backends.sqlite import SqliteDatabase
from unspool.store.store import Store

from . import storing
from .inputs import CORPUS, Inputs, size_of
from .multiply import multiply, recordings
from .report import Measure

_COPIES = 50
_EVERY = 4
"""Every fourth recording is used, because all of them would be several gigabytes."""
_TEXT = re.compile(rb'"(?:text|content|stdout|thinking|message|output)":"((?:[^"\\]|\\.)*)"')
_WORD = re.compile(rb"\b[a-z]{6,}\b")
_OWN = 64
"""Of 256 words, the number that differ in each copy."""


def measure(inputs: Inputs) -> Iterator[Measure]:
    """Measure searches for words, pairs of words and phrases."""
    home = inputs.folder / "varied"
    homes = recordings(CORPUS, 1000)[::_EVERY]
    for copy in range(_COPIES):
        multiply(homes, home / f"copy{copy}", 1, 1, first=copy)
        vary(home / f"copy{copy}", copy)
    store = Store(SqliteDatabase(inputs.folder / "varied.db", machine=("bench", "bench")))
    for copy in range(_COPIES):
        Syncer(store, home / f"copy{copy}").run()
    detail = f"{size_of(home) / 1e6:.0f} MB, {store.sessions.count():,} sessions"
    yield from storing.search_times(store, "search in 50 times as many varied recordings", detail, "not measured")
    store.close()
    shutil.rmtree(home)
    (inputs.folder / "varied.db").unlink()


def vary(home: Path, copy: int) -> None:
    """Replace some words with words that only this copy has, as in different conversations."""
    for path in home.rglob("*.json*"):
        data = path.read_bytes()
        path.write_bytes(_TEXT.sub(lambda match: _WORD.sub(lambda word: _varied(word[0], copy), match[0]), data))


def _varied(word: bytes, copy: int) -> bytes:
    if word in (b"content", b"stdout", b"thinking", b"message", b"output"):
        return word
    digest = hashlib.blake2b(b"%d %s" % (copy, word), digest_size=4).digest()
    return word + digest.hex().encode() if digest[0] < _OWN else word
