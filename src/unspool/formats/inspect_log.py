"""Exports sessions as an Inspect log in the `.eval` format: a ZIP archive with one sample per session.

Samples are compressed one at a time, so a file with any number of sessions needs little memory to write, and
`inspect view` reads only the sample that it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from .._version import __version__
from ..core.session import Session
from .extension import NAMESPACE
from .file_names import FileNames, safe_name
from .inspect_sample import sample_of, time_text
from .values import encode

LOG_VERSION = 2
_SUMMARY_TEXT = 1_000
_SUMMARY_FIELDS = (
    "id", "epoch", "input", "target", "metadata", "model_usage", "started_at", "completed_at", "total_time", "uuid",
)  # fmt: skip
_DATE = (1980, 1, 1, 0, 0, 0)
"""A fixed date, so that the same sessions always result in the same archive."""
_UNKNOWN_MODEL = "unknown"


class _Sink:
    """Collects the output of a ZIP archive until it is taken. Like a pipe, it is not seekable."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Collect bytes."""
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def close(self) -> None:
        """Do nothing: there is no file."""

    def take(self) -> bytes:
        """Return what was written since the last call."""
        data, self._pieces = b"".join(self._pieces), []
        return data


class InspectLog:
    """Writes one log."""

    def __init__(self) -> None:
        self._sink = _Sink()
        self._archive = ZipFile(self._sink, "w", ZIP_DEFLATED)
        self._summaries: list[dict[str, Any]] = []
        self._names = FileNames()
        self._spec: dict[str, Any] = {}
        self._usage: dict[str, Counter[str]] = {}

    def begin(self, first: Session | None) -> bytes:
        """Return the start of the archive, with the description of the log."""
        self._spec = _spec(first)
        self._add("_journal/start.json", {"version": LOG_VERSION, "eval": self._spec, "plan": _plan(first)})
        self._plan = _plan(first)
        return self._sink.take()

    def session(self, session: Session) -> Iterator[bytes]:
        """Yield the archive data of a session's sample."""
        id = self._names.next(session.id)
        sample = sample_of(session, id)
        data = encode(sample)
        self._add_data(f"samples/{id}_epoch_1.json", data)
        self._summaries.append(_summary(sample))
        for model, usage in sample["model_usage"].items():
            self._usage.setdefault(model, Counter()).update(usage)
        yield self._sink.take()

    def end(self) -> bytes:
        """Return the end of the archive, with the summaries and the header."""
        count = len(self._summaries)
        times = [one["started_at"] for one in self._summaries if "started_at" in one]
        ends = [one["completed_at"] for one in self._summaries if "completed_at" in one]
        stats = {
            "started_at": min(times, default=""),
            "completed_at": max(ends, default=""),
            "model_usage": {model: dict(usage) for model, usage in self._usage.items()},
        }
        self._spec["dataset"] |= {"samples": count, "sample_ids": [one["id"] for one in self._summaries]}
        self._add("summaries.json", self._summaries)
        header = {
            "version": LOG_VERSION, "status": "success", "eval": self._spec, "plan": self._plan,
            "results": {"total_samples": count, "completed_samples": count, "scores": []}, "stats": stats,
        }  # fmt: skip
        self._add("header.json", header)
        self._archive.close()
        return self._sink.take()

    def _add(self, name: str, value: Any) -> None:
        self._add_data(name, encode(value))

    def _add_data(self, name: str, data: bytes) -> None:
        entry = ZipInfo(name, _DATE)
        entry.compress_type = ZIP_DEFLATED
        self._archive.writestr(entry, data)


def _spec(first: Session | None) -> dict[str, Any]:
    """Return what Inspect calls the eval spec. A log of several sessions is described by the first one."""
    info = first.info if first is not None else None
    project = info.project.name if info is not None and info.project is not None else None
    return {
        "eval_id": safe_name(info.id) if info is not None else "empty",
        "run_id": safe_name(info.id) if info is not None else "empty",
        "created": time_text(info.started_at if info is not None else None),
        "task": project or (info.agent if info is not None else NAMESPACE),
        "task_id": safe_name(info.id) if info is not None else "empty",
        "task_version": 0,
        "solver": info.agent if info is not None else None,
        "tags": [NAMESPACE],
        "dataset": {"name": "sessions"},
        "model": info.models[-1] if info is not None and info.models else _UNKNOWN_MODEL,
        "config": {},
        "packages": {NAMESPACE: __version__},
        "metadata": {NAMESPACE: {"version": __version__}},
    }


def _plan(first: Session | None) -> dict[str, Any]:
    steps = [{"solver": first.agent, "params": {}}] if first is not None else []
    return {"name": "plan", "steps": steps, "config": {}}


def _summary(sample: dict[str, Any]) -> dict[str, Any]:
    summary = {name: sample[name] for name in _SUMMARY_FIELDS if name in sample}
    metadata = sample["metadata"][NAMESPACE]
    return {
        **summary,
        "input": sample["input"][:_SUMMARY_TEXT],
        "metadata": {
            name: str(metadata[name])[:_SUMMARY_TEXT] for name in ("agent", "status", "title") if name in metadata
        },
        "completed": True,
        "message_count": len(sample["messages"]),
    }
