"""Reverts a file to a copy from before a supervised agent changed it.

This is the only code that writes to a project, and only at the request of a person, who sees what would be written and
identifies the content that it replaces. That content is copied first, so that a revert can be reverted.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import NotFoundError, UnspoolError, UsageError
from ..core.proposed_actions import joined, lines_of
from ..store.run_log import RunLog
from .before_images import (
    FOLDER,
    IMAGES_SAVED,
    BeforeImage,
    BeforeImages,
    FileState,
    ImageStore,
    SavedImages,
    images_of,
    read_state,
)
from .errors import ConflictError

MAX_DIFF_LINES = 20_000
"""Comparing longer files takes too long; their sizes are shown instead."""


class FileReview(msgspec.Struct, kw_only=True):
    """A file as it was before a run, and as it is now."""

    path: str
    before: FileState
    now: FileState
    changed_at: float | None
    """When the file was last written, in seconds since 1970."""
    copies: list[BeforeImage]
    """All copies of it, oldest first."""
    diff: str | None
    """From before to now; None if the contents cannot be compared."""
    note: str | None
    """Why there is no diff, or why the file cannot be reverted."""

    @property
    def is_changed(self) -> bool:
        """Whether the file differs from the first copy, or might because the content of the copy is not known."""
        return self.before.content_id != self.now.content_id or self.before.status in ("too_large", "unreadable")


class RevertPlan(msgspec.Struct, kw_only=True):
    """The changes that a revert would make."""

    path: str
    target: FileState
    now: FileState
    diff: str | None
    note: str | None


class Reverts:
    """The copies of one server: creates them, compares files with them, and reverts files to them."""

    def __init__(self, log: RunLog, folder: Path, run_of: Callable[[str], Any]) -> None:
        self._log = log
        self._store = ImageStore(folder / FOLDER)
        self.before_images = BeforeImages(log, self._store, run_of)
        self._store.prune()

    def files(self, agent: str, session: str) -> list[FileReview]:
        """Return the files with a copy, in the order of their first requests."""
        return review_files(images_of(self._log, agent, session), self._store)

    def plan(self, agent: str, session: str, path: str, content_id: str) -> RevertPlan:
        """Plan to revert a file to one of its copies, without writing anything."""
        return plan_revert(images_of(self._log, agent, session), self._store, path, content_id)

    def revert(self, agent: str, session: str, plan: RevertPlan, seen: str, who: str) -> None:
        """Carry out a plan if `seen` identifies the current content, which is copied first."""
        if (obstacle := _obstacle(plan.target, plan.now)) is not None:
            raise UsageError(obstacle)
        path = Path(plan.path)
        if os.path.realpath(path.parent) != str(path.parent):
            raise ConflictError(f"The folder of {path} is now a link to another one; nothing was written.")
        data = self._store.get(plan.target.digest) if plan.target.status == "kept" else None
        if seen != plan.now.content_id or self.before_images.save_content(plan.path) != plan.now:
            raise ConflictError(f"{path} has changed since you saw it. Review it again; nothing was written.")
        run = next(each.run for each in images_of(self._log, agent, session) if each.path == plan.path)
        image = BeforeImage(at=datetime.now(UTC), run=run, path=plan.path, state=plan.now)
        self._log.record(run, IMAGES_SAVED, SavedImages(session=session, images=[image]))
        facts = {
            "session": session,
            "path": plan.path,
            "from": plan.now.content_id,
            "to": plan.target.content_id,
            "who": who,
        }
        self._log.record(run, "reverted", facts)
        try:
            if data is None:
                path.unlink()
            else:
                _write(path, data, plan.target.mode)
        except OSError as error:
            raise UnspoolError(f"{path} cannot be written: {error.strerror}") from error


def review_files(images: list[BeforeImage], store: ImageStore) -> list[FileReview]:
    """Return the files with a copy, in the order of their first requests."""
    by_path: dict[str, list[BeforeImage]] = {}
    for image in images:
        by_path.setdefault(image.path, []).append(image)
    return [_review(path, copies, store) for path, copies in by_path.items()]


def _review(path: str, copies: list[BeforeImage], store: ImageStore) -> FileReview:
    first = copies[0].state
    now, data = read_state(Path(path))
    diff, note = _difference(path, _content(first, store), data, first, now)
    try:
        changed_at: float | None = os.lstat(path).st_mtime
    except OSError:
        changed_at = None
    return FileReview(path=path, before=first, now=now, changed_at=changed_at, copies=copies, diff=diff, note=note)


def plan_revert(images: list[BeforeImage], store: ImageStore, path: str, content_id: str) -> RevertPlan:
    """Plan to revert a file to one of its copies, without writing anything."""
    target = _target(images, path, content_id)
    now, data = read_state(Path(path))
    diff, note = _difference(path, data, _content(target, store), now, target)
    return RevertPlan(path=path, target=target, now=now, diff=diff, note=note or _obstacle(target, now))


def _target(images: list[BeforeImage], path: str, content_id: str) -> FileState:
    for image in images:
        if image.path == path and image.state.content_id == content_id:
            return image.state
    raise NotFoundError(f"This session has no such copy of {path}.")


def _obstacle(target: FileState, now: FileState) -> str | None:
    if target.status not in ("kept", "absent"):
        return f"The file was not copied before the change: {target.detail}."
    if now.status not in ("kept", "absent"):
        return f"The file cannot be replaced, because its content cannot be copied first: {now.detail}."
    return "The file is already in this state." if target.content_id == now.content_id else None


def _content(state: FileState, store: ImageStore) -> bytes | None:
    """Return the content of a state: empty if there is no file, None if it is not known."""
    if state.status != "kept":
        return b"" if state.status == "absent" else None
    try:
        return store.get(state.digest)
    except NotFoundError:
        return None


def _difference(
    path: str, old: bytes | None, new: bytes | None, old_state: FileState, new_state: FileState
) -> tuple[str | None, str | None]:
    """Return the diff between two contents, or the reason why there is none."""
    if old is None or new is None:
        return None, old_state.detail or new_state.detail or "The copy from before the change is no longer available."
    try:
        before, after = (lines_of(data.decode("utf-8")) for data in (old, new))
    except UnicodeDecodeError:
        return None, f"Not a text file: {len(old):,} bytes before, {len(new):,} bytes after."
    if len(before) + len(after) > MAX_DIFF_LINES:
        return None, f"Too long to compare: {len(before):,} lines before, {len(after):,} lines after."
    # Different names indicate that the line numbers refer to the whole file.
    old_name = "/dev/null" if old_state.status == "absent" else f"{path} (before)"
    new_name = "/dev/null" if new_state.status == "absent" else path
    return joined(difflib.unified_diff(before, after, old_name, new_name)), None


def _write(path: Path, data: bytes, mode: int) -> None:
    """Replace a file in one step, so that it is never half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
