"""Copies of files from before a supervised agent changed them, so that a person can revert one.

A file is copied when the agent asks to change it, and again when the request is allowed if it has changed by then. The
agent waits for the answer, so the copy is older than the change. Copies are stored in the data directory, named by the
hash of their content; the run log records which file each of them belongs to. There are no copies for changes that an
agent makes without asking.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import zstandard

from ..agents import agent_named
from ..core import model as m
from ..core import typed_json
from ..core.errors import NotFoundError
from ..render.diff import changed_files
from ..store.run_log import RunLog
from .approvals import OpenRequest

MAX_FILE_BYTES = 4 << 20
"""Larger files are not copied."""
MAX_FILES = 100
"""The most files that are copied for one request."""
MAX_TOTAL_BYTES = 512 << 20
"""If the copies take more, the oldest are removed when the server starts."""
_log = logging.getLogger("unspool.runs")
IMAGES_SAVED = "kept"
"""The kind of these entries in the run log."""
FOLDER = "before"

FileStatus = Literal["kept", "absent", "too_large", "unreadable"]


class FileState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The file at a path, at one moment."""

    status: FileStatus
    """`absent`: there is no file. `kept`: the content of the file is known."""
    digest: str = ""
    """SHA-256 of the content; empty unless it is known."""
    size: int = 0
    mode: int = 0o644
    detail: str | None = None
    """Why the content is not known."""

    @property
    def content_id(self) -> str:
        """Identifies the content. A request to replace it has to repeat this."""
        return self.digest or self.status


class BeforeImage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of a file before a tool call."""

    at: datetime
    run: str
    path: str
    state: FileState
    request: str | None = None
    """The request to change it; None for the state before a revert."""
    call_id: str | None = None


class SavedImages(msgspec.Struct, kw_only=True):
    """An entry in the run log."""

    session: str | None
    images: list[BeforeImage]


def read_state(path: Path) -> tuple[FileState, bytes | None]:
    """Return the state of a path, and its content: empty if there is no file, None if it was not read.

    Only regular files are read, and only if they are not too large.
    """
    try:
        # Do not follow a link that has replaced the file, and do not block on a pipe that nobody writes to.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return FileState(status="absent"), b""
    except OSError as error:
        detail = "a symbolic link" if error.errno == errno.ELOOP else error.strerror
        return FileState(status="unreadable", detail=detail), None
    found = os.fstat(descriptor)
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        return FileState(status="unreadable", detail="not a regular file"), None
    with open(descriptor, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        detail = f"larger than {MAX_FILE_BYTES >> 20} MB"
        return FileState(status="too_large", size=found.st_size, mode=mode, detail=detail), None
    return FileState(status="kept", digest=hashlib.sha256(data).hexdigest(), size=len(data), mode=mode), data


class ImageStore:
    """The content of the copies. Each content is stored once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, digest: str, data: bytes) -> None:
        """Store a content."""
        path = self._path(digest)
        if path.exists():
            os.utime(path)
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        packed = zstandard.ZstdCompressor().compress(data)
        temporary = path.with_suffix(f".{os.getpid()}")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(packed)
        temporary.replace(path)

    def get(self, digest: str) -> bytes:
        """Return a content by its digest."""
        try:
            data = zstandard.ZstdDecompressor().decompress(self._path(digest).read_bytes(), MAX_FILE_BYTES)
        except (OSError, zstandard.ZstdError) as error:
            raise NotFoundError(f"The copy made before the change cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise NotFoundError("The copy from before the change is damaged; nothing was written.")
        return data

    def prune(self, most: int = MAX_TOTAL_BYTES) -> None:
        """Remove the oldest copies until the rest takes no more than `most` bytes."""
        found = [(path.stat(), path) for path in self._folder.glob("??/*") if path.is_file()]
        total = sum(each.st_size for each, _ in found)
        for each, path in sorted(found, key=lambda one: one[0].st_mtime):
            if total <= most:
                return
            with suppress(OSError):
                path.unlink()
                total -= each.st_size

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest


class BeforeImages:
    """Copies the files that requests would change. Register `on_event` as a watcher of a supervisor."""

    def __init__(self, log: RunLog, store: ImageStore, run_of: Callable[[str], Any]) -> None:
        self._log = log
        self._store = store
        self._run_of = run_of
        self._open: dict[tuple[str, str], list[BeforeImage]] = {}

    def on_event(self, event: dict[str, Any]) -> None:
        """Copy files when an agent asks, and when it is allowed. The agent continues only after this returns."""
        try:
            self._handle(event)
        except Exception:
            # A request must reach the person even if its files could not be copied.
            _log.exception("Could not copy the files of a request of run %s", event["run"])

    def _handle(self, event: dict[str, Any]) -> None:
        if event["kind"] == "asked":
            self._on_asked(event["run"], event["question"])
        elif event["kind"] == "answered" and event["verdict"].startswith("allow"):
            self._on_allowed(event["run"], event["request"])
        elif event["kind"] in ("answered", "withdrawn"):
            self._open.pop((event["run"], event["request"]), None)

    def _on_asked(self, run_id: str, open_request: OpenRequest) -> None:
        request, run = open_request.request, self._run_of(run_id)
        paths = changed_paths(run.agent, request.tool, request.action, run.spec.folder)
        images = self._save(run, paths, request.id, request.call_id)
        if images or request.takes_input:
            self._open[run_id, request.id] = images

    def _on_allowed(self, run_id: str, request: str) -> None:
        """Copy again: the file may have changed since, and the person may have changed the path in the input."""
        known = self._open.pop((run_id, request), None)
        if known is None:
            return
        run = self._run_of(run_id)
        paths = [image.path for image in known]
        call_id = next((image.call_id for image in known), None)
        decisions = self._log.decisions(run.agent, run.session) if run.session else []
        if decisions and decisions[-1].request == request and isinstance(decisions[-1].input, msgspec.Raw):
            tool = decisions[-1].tool or ""
            action = agent_named(run.agent).describe(tool, decisions[-1].input)
            paths += changed_paths(run.agent, tool, action, run.spec.folder)
            call_id = next(iter(decisions[-1].call_ids), call_id)
        self._save(run, paths, request, call_id, {image.path: image.state for image in known})

    def _save(
        self,
        run: Any,
        paths: Iterable[str],
        request: str,
        call_id: str | None,
        known: dict[str, FileState] | None = None,
    ) -> list[BeforeImage]:
        images = []
        for path in list(dict.fromkeys(paths))[:MAX_FILES]:
            state = self.save_content(path)
            if known is None or known.get(path) != state:
                now = datetime.now(UTC)
                images.append(BeforeImage(at=now, run=run.id, path=path, state=state, request=request, call_id=call_id))
        if images:
            self._log.record(run.id, IMAGES_SAVED, SavedImages(session=run.session, images=images))
        return images

    def save_content(self, path: str) -> FileState:
        """Store the current content of a path; return its state."""
        state, data = read_state(Path(path))
        if state.status == "kept" and data is not None:
            try:
                self._store.put(state.digest, data)
            except OSError as error:
                detail = f"the copy cannot be written: {error.strerror}"
                return FileState(status="unreadable", size=state.size, detail=detail)
        return state


def changed_paths(agent: str, tool: str, action: m.Action, folder: str) -> list[str]:
    """Return the files that a call would change, as absolute paths with links in their folders resolved."""
    if not action.diff:
        return []
    named = [one.path for one in changed_files(action.diff, action.path)]
    named += [action.path] if action.path else []
    named += agent_named(agent).touched(tool, action.raw_input)
    return list(dict.fromkeys(resolved(name, folder) for name in named if name and "\0" not in name))


def resolved(path: str, folder: str) -> str:
    """Return an absolute path. Links are resolved, except for the file itself."""
    absolute = Path(folder, path)
    try:
        return os.path.join(os.path.realpath(absolute.parent), absolute.name)
    except ValueError:
        # No file can have this name: it contains a null character, or half of a surrogate pair.
        return str(absolute)


def images_of(log: RunLog, agent: str, session: str) -> list[BeforeImage]:
    """Return the copies of a session's files, oldest first."""
    entries = log.entries_about(agent, session, IMAGES_SAVED)
    return [image for entry in entries for image in typed_json.decode(entry.data, type=SavedImages).images]
