"""Finds turns and open calls in a rollout that is still being written."""

from __future__ import annotations

from pathlib import Path

from ...io.files import log_of, read_batches, read_end
from .schema import RECORDS

_END_SIZE = 1 << 20


def turn_at(path: Path, line: int) -> str | None:
    """Return the id of the turn that a line belongs to; recorded since 0.118."""
    turn: str | None = None
    for batch in read_batches(path, RECORDS, log_of(path)):
        for record, number, _, _ in batch.rows():
            if number > line:
                return turn
            if record.payload.type == "task_started" and record.payload.turn_id is not None:
                turn = record.payload.turn_id
    return turn


def open_scripts(path: Path) -> dict[str, str]:
    """Return the code-mode scripts near the end that have no result, by the id of their call."""
    block = read_end(path, _END_SIZE)
    found: dict[str, str] = {}
    for record in RECORDS.batch(block).records if block is not None else ():
        body = record.payload
        if body.call_id is None:
            continue
        if body.type == "custom_tool_call":
            found[body.call_id] = bytes(body.input).decode("utf-8", "replace")
        elif body.type == "custom_tool_call_output":
            found.pop(body.call_id, None)
    return found
