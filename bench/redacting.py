"""Measures redaction: the share of planted secrets that are found, false alarms, and the cost."""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import msgspec
from tests.redact import in_logs
from tests.redact.planted import MAKERS, Planted, planted

from unspool.cli.main import main
from unspool.core import model as m
from unspool.library import Library
from unspool.redact import Redactor, find_secrets

from .report import Measure, seconds

EACH = 8
"""Number of secrets of each kind."""
_SEEDS = (17, 18, 19)
_ROUNDS = 9
"""Exports with and without redaction, in turns; the best CPU time of each counts, so other programs matter little."""
_KEY = b"a key for placeholders".ljust(32)
_encode = msgspec.json.Encoder().encode


def measure(home: Path) -> Iterator[Measure]:
    """Measure recall, false alarms and cost, on the sessions of a home."""
    messages = [message for message in _messages(home) if message.blocks]
    yield from _recall(messages)
    yield _false_alarms(messages)
    yield _cost(home)


def _messages(home: Path) -> Iterator[m.Message]:
    library = Library(home)
    for ref in library.refs():
        yield from library.load(ref).messages


def _recall(messages: list[m.Message]) -> Iterator[Measure]:
    """Measure secrets of all kinds in the texts of recorded messages: as they are, in JSON, and in JSON in JSON."""
    missed: Counter[str] = Counter()
    count = 0
    carriers = [message for message in messages if any(isinstance(block, m.Text) for block in message.blocks)]
    for seed in _SEEDS:
        secrets = [*planted(EACH, seed), *in_logs.in_logs(EACH, seed)]
        for number, (one, message) in enumerate(zip(secrets, cycle(carriers), strict=False)):
            count += 1
            missed[one.kind] += _is_left(one, _encode(_with(message, _nested(one.text, number % 3))))
    found = 100 * (1 - sum(missed.values()) / count)
    worst = ", ".join(f"{kind} {number}" for kind, number in missed.most_common(3) if number)
    kinds = len(MAKERS) + in_logs.KINDS
    detail = f"{count:,} secrets of {kinds} kinds in recorded messages, {found:.2f} % found; missed: {worst or 'none'}"
    yield Measure("redaction: planted secrets that are not found", 100 - found, "%", 1.0, detail)


def _nested(text: str, depth: int) -> str:
    for _ in range(depth):
        text = json.dumps({"content": f"see: {text}"})
    return text


def _with(message: m.Message, text: str) -> m.Message:
    blocks = list(message.blocks)
    index = next(index for index, block in enumerate(blocks) if isinstance(block, m.Text))
    block = blocks[index]
    assert isinstance(block, m.Text)
    blocks[index] = msgspec.structs.replace(block, text=f"{block.text}\n{text}\n{block.text}")
    return msgspec.structs.replace(message, blocks=blocks)


def _is_left(one: Planted, data: bytes) -> bool:
    """Whether a secret, or a line of a private key, is still in the redacted data."""
    redacted = Redactor(_KEY).data(data)
    lines = [line.split("\t")[-1] for line in one.secret.split("\n")]
    traces = lines if len(lines) == 1 else [line for line in lines[2:-2] if line]
    return any(json.dumps(trace)[1:-1].encode() in redacted for trace in traces)


def _false_alarms(messages: list[m.Message]) -> Measure:
    """Measure false alarms in recordings as they are, with all their hashes, ids, signatures and images."""
    found = Counter(secret.kind for message in messages for secret in find_secrets(_encode(message)))
    alarms = 1000 * sum(found.values()) / len(messages)
    detail = f"{sum(found.values())} in {len(messages):,} messages: {dict(found)}"
    return Measure("redaction: false alarms in 1,000 messages", alarms, "", 1.0, detail)


def _cost(home: Path) -> Measure:
    """Measure `unspool export --format stream` with redaction and without, in turns."""
    with tempfile.NamedTemporaryFile(suffix=".ndjson") as file:
        command = ["export", "--home", str(home), "--format", "stream", "-o", file.name]

        def export(*options: str) -> float:
            gc.collect()
            return seconds(lambda: main([*command, *options]), time.process_time)

        export("--redact")
        times = [(export(), export("--redact")) for _ in range(_ROUNDS)]
    plain, redacted = min(without for without, _ in times), min(with_it for _, with_it in times)
    detail = f"{redacted:.2f} s vs. {plain:.2f} s of CPU time"
    return Measure("redaction: export of a stream, relative to one without", redacted / plain, "x", 1.15, detail)
