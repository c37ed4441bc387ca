"""Offsets of a stream: the time of the last change, and the files that changed shortly before it.

Offsets are written to the checkpoint of the query, so they do not list all files.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from ..agents import AGENTS
from ..io.files import name_of
from ..library import Library
from .file_systems import resolve_paths
from .homes import Homes, open_homes
from .options import Options

_WINDOW = 300 * 10**9
"""Files that changed within this many nanoseconds before the last change, or after it, are listed in the offset.

Clocks are coarse and differ between machines, so a new file can have an older time than a known one.
"""


class Log(NamedTuple):
    """A file that sessions are read from."""

    path: str
    root: Path
    """The agent's folder that contains it, or the file itself."""
    size: int
    changed: int
    """When it last changed, in nanoseconds since 1970."""
    url: str
    """The URL or path, which is the same on all machines."""

    @property
    def mark(self) -> str:
        """A short hash that is different after every change of the file."""
        return blake2b(f"{self.url} {self.size} {self.changed}".encode(), digest_size=8).hexdigest()


def find_logs(homes: Homes) -> Iterator[Log]:
    """Yield all logs."""
    homes.list_everything()
    for folder in homes.local:
        library = Library(folder)
        for name, root in library.homes():
            yield from (_log(homes, path, root, tuple(stamp)) for path, *stamp in AGENTS[name].stamps(root))
        if not library.homes():
            for ref in library.refs():
                for path in (ref.path, *ref.more):
                    stamp = AGENTS[ref.agent].log(path).stamp()
                    if stamp is not None:
                        yield _log(homes, name_of(path), path, stamp)


def _log(homes: Homes, path: str, root: Path, stamp: tuple[int, ...]) -> Log:
    _, _, size, written, changed = stamp
    url = homes.url_of(path)
    # A program that copies a file can set its mtime but not its ctime.
    return Log(path, root, size, max(written, changed) if url == path else written, url)


def find_latest(options: Options) -> dict[str, Any]:
    """Return the offset after all current data."""
    with open_homes(resolve_paths(options.paths, options.file_system)) as homes:
        logs = list(find_logs(homes))
    # A wrong clock can give a file a time in the future. Such files are listed, so that later changes are still found.
    now = time.time_ns()
    until = max((log.changed for log in logs if log.changed <= now), default=0)
    recent = sorted(log.mark for log in logs if log.changed > until - _WINDOW)
    return {"until": until, "recent": dict.fromkeys(recent, 1)} if logs else {}


def changed_between(logs: Iterable[Log], start: dict[str, Any], end: dict[str, Any]) -> list[Log]:
    """Return the logs that changed after the first offset, up to the second."""
    before, after = start.get("recent", {}), end.get("recent", {})
    since, until = start.get("until", 0) - _WINDOW, end.get("until", 0)
    return [
        log
        for log in logs
        if log.changed > since and log.mark not in before and (log.changed <= until or log.mark in after)
    ]
