"""Which turn a line of a rollout belongs to; Codex names turns in its files since 0.118."""

from __future__ import annotations

from pathlib import Path

from ...logs import log_of, read_batches
from .wire import LINES


def turn_at(path: Path, line: int) -> str | None:
    """The id of the turn in which a line was written: the last that had begun by then."""
    turn: str | None = None
    for batch in read_batches(path, LINES, log_of(path)):
        for record, number, _, _ in batch.rows():
            if number > line:
                return turn
            if record.payload.type == "task_started" and record.payload.turn_id is not None:
                turn = record.payload.turn_id
    return turn
