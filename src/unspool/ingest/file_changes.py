"""Detects changed files: the operating system reports them, or all files are polled.

A system may not report a change: it limits how many folders can be watched, and network drives only report what this
computer writes. Then files are polled, and changes are noticed a few seconds later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from watchfiles import watch

from ..agents import AGENTS
from ..io.files import name_of
from ..io.sources import Stamp

# watchfiles logs every Ctrl+C.
logging.getLogger("watchfiles").setLevel(logging.ERROR)

_WAKE_SECONDS = 0.25
"""The caller gets control at least this often, even without changes."""
_POLL_SECONDS = 1.0
_POLL_PAUSE = 20
"""The pause after polling all files, as a multiple of how long that took."""
_GRACE_WAKEUPS = 8
"""Number of wakeups without any report after which a change that a sync found counts as not reported."""
_MOST_REMEMBERED = 100_000
"""Number of reported paths from which they are forgotten after a sync. Until then it has to know them."""

Homes = Mapping[Path, str]
"""The agents' folders, each with the name of its agent."""


class FileChanges:
    """Detects changes to files in the agents' folders."""

    def __init__(self, polls: bool = False) -> None:
        """With `polls`, files are polled from the start."""
        self._polls = polls
        self.slow_reason: str | None = None
        """Why changes are noticed late; None if they are not, or if polling was requested."""
        self._reported: set[Path] = set()
        self._found_in_folders: set[Path] = set()
        self._unreported: dict[Path, int] = {}
        """Changes that were found but not reported, and how many wakeups are left for the report."""
        self._is_first_sync = True

    def watch(self, homes: Homes, stop: threading.Event | None) -> Iterator[list[Path]]:
        """Iterate over lists of changed paths until `stop` is set; the list is empty if nothing changed for a while."""
        self._is_first_sync = True
        self._unreported.clear()
        while not self._polls:
            try:
                yield from self._reports(homes, stop)
                if not self._polls:
                    return
            except FileNotFoundError:
                # A folder was removed after it had been found. The caller looks for folders regularly.
                yield []
                pause(_WAKE_SECONDS, stop)
            except (OSError, RuntimeError) as error:
                self._poll_because(_why_not_watched(error))
        yield from self._polled(homes, stop)

    def note_in_folder(self, path: Path) -> None:
        """Note a file that was found in a reported folder, because the file itself may not be reported."""
        self._found_in_folders.add(path)

    def compare_with_sync(self, found: Iterable[Path]) -> None:
        """Note the files that a sync found changed. If one of them is not reported soon, polling starts."""
        unreported = set(found) - self._reported - self._found_in_folders
        self._found_in_folders.clear()
        # Changes from before the folders were watched could not be reported.
        if not self._polls and not self._is_first_sync:
            self._unreported |= {path: _GRACE_WAKEUPS for path in unreported if path not in self._unreported}
        self._is_first_sync = False
        if len(self._reported) > _MOST_REMEMBERED:
            self._reported.clear()

    # --- reported ---

    def _reports(self, homes: Homes, stop: threading.Event | None) -> Iterator[list[Path]]:
        try:
            yield from self._watched(homes, stop)
        except PermissionError:
            # Skip folders without permission. Exceeding the system's limit is then ignored as well.
            yield from self._watched(homes, stop, ignores_denied=True)

    def _watched(
        self, homes: Homes, stop: threading.Event | None, ignores_denied: bool = False
    ) -> Iterator[list[Path]]:
        for changes in watch(
            *homes,
            stop_event=stop,
            debounce=50,
            step=20,
            rust_timeout=int(_WAKE_SECONDS * 1000),
            recursive=True,
            yield_on_timeout=True,
            force_polling=False,
            raise_interrupt=False,
            watch_filter=None,
            ignore_permission_denied=ignores_denied,
        ):
            paths = [Path(path) for _, path in changes]
            self._note_reported(paths)
            yield paths
            if self._polls:
                return

    def _note_reported(self, paths: list[Path]) -> None:
        self._reported.update(paths)
        for path, left in list(self._unreported.items()):
            if path in self._reported:
                del self._unreported[path]
            elif not paths:
                self._unreported[path] = left - 1
                if left <= 1:
                    self._poll_because(f"the system does not report changes to {name_of(path)}")
                    return

    # --- polled ---

    def _poll_because(self, reason: str) -> None:
        self._polls = True
        self.slow_reason = reason

    def _polled(self, homes: Homes, stop: threading.Event | None) -> Iterator[list[Path]]:
        known = _stamps(homes, {})
        due = 0.0
        while stop is None or not stop.is_set():
            changed: list[Path] = []
            if (started := time.monotonic()) >= due:
                found = _stamps(homes, known)
                changed = [path for path in found.keys() | known.keys() if found.get(path) != known.get(path)]
                known = found
                due = time.monotonic() + max(_POLL_SECONDS, (time.monotonic() - started) * _POLL_PAUSE)
            yield changed
            pause(_WAKE_SECONDS, stop)


def _stamps(homes: Homes, known: Mapping[Path, Stamp]) -> dict[Path, Stamp]:
    """Return the current state of all logs; the known state of those that cannot be examined."""
    found: dict[Path, Stamp] = {}
    for root, agent in homes.items():
        try:
            for log in AGENTS[agent].logs(root):
                try:
                    stamp = log.stamp(known.get(log.path))
                except OSError:
                    stamp = known.get(log.path)
                if stamp is not None:
                    found[log.path] = stamp
        except OSError:
            found |= {path: stamp for path, stamp in known.items() if path.is_relative_to(root)}
    return found


def _why_not_watched(error: OSError | RuntimeError) -> str:
    text = str(error)
    if "watch limit" in text:
        return "the system's limit on watched folders is reached; raise fs.inotify.max_user_watches"
    if "os error 24" in text:
        return "the system's limit on watchers is reached; raise fs.inotify.max_user_instances"
    return f"the folders cannot be watched: {text}"


def pause(seconds: float, stop: threading.Event | None) -> None:
    """Wait for some seconds, or until `stop` is set."""
    if stop is None:
        time.sleep(seconds)
    else:
        stop.wait(seconds)
