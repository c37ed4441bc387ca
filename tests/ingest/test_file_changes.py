"""Changes of files are noticed although the system does not report them: too few watches, drives without reports."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.ingest import file_changes, sync_schedule
from unspool.ingest.file_changes import FileChanges
from unspool.ingest.watch import Watcher
from unspool.store import Store

from ..file_faults import failing
from ..store.contents import contents, difference, fresh
from ..store.homes import AGENTS, append, claude_log, log_of, rest_of, write_home

Reports = Iterator[set[tuple[int, str]]]
LIMIT = 'OS file watch limit reached. about ["/home"] (Error { kind: MaxFilesWatch, paths: ["/home"] })'
"""How the package that watches folders words it."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare as often as possible."""
    monkeypatch.setattr(file_changes, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(file_changes, "_POLL_PAUSE", 0)
    monkeypatch.setattr(file_changes, "_WAKE_SECONDS", 0.001)


def reports_nothing(*_: object, **options: Any) -> Reports:
    """A drive whose changes are not reported."""
    while not options["stop_event"].is_set():
        yield set()


def refused(error: Exception) -> Callable[..., Reports]:
    """The system does not let the folders be watched."""

    def watch(*_: object, **__: object) -> Reports:
        raise error

    return watch


class Following:
    """A watcher of a home, and what is done at its wakeups, in order."""

    def __init__(self, store: Store, home: Path, *actions: Callable[[Watcher], bool]) -> None:
        """Each action is called until it returns True; then the next one is."""
        self.watcher = Watcher(store, home)
        self.watcher.read_all()
        self._actions = list(actions)
        self.reasons: list[str | None] = []

    def run(self) -> None:
        """Follow until all actions are done."""
        stop = threading.Event()
        steps = self.watcher._steps

        def steps_and_actions(paths: set[Path]) -> Iterator[None]:
            yield from steps(paths)
            if not self._actions:
                stop.set()
            elif self._actions[0](self.watcher):
                del self._actions[0]

        self.watcher._steps = steps_and_actions  # type: ignore[method-assign]
        for _ in self.watcher.follow(stop):
            if self.watcher.slow_reason not in self.reasons:
                self.reasons.append(self.watcher.slow_reason)


def is_up_to_date(store: Store, folder: Path, home: Path) -> Callable[[Watcher], bool]:
    """Wait until the store holds what a new one would."""
    return lambda _: difference(contents(store), fresh(folder, home)) == ""


def no_more_syncs(watcher: Watcher) -> bool:
    """From now on only what is noticed is read."""
    if watcher.slow_reason is None or watcher._schedule.due is not None:
        return False
    watcher._schedule.next_full_sync = float("inf")
    return True


def add_lines(paths: dict[str, Path], turns: int) -> Callable[[Watcher], bool]:
    """Every agent writes on."""

    def write(_: Watcher) -> bool:
        for agent, path in paths.items():
            append(path, rest_of(log_of(agent, turns), log_of(agent, turns - 1)))
        return True

    return write


def move(path: Path, target: Path) -> bool:
    """Move a file, perhaps to a folder that is new."""
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    return True


REFUSALS = {
    "watches": (OSError(LIMIT), "raise fs.inotify.max_user_watches"),
    "watchers": (RuntimeError("Error creating recommended watcher: Too many open files (os error 24)"), "instances"),
    "anything": (OSError(errno.ENOSYS, "Function not implemented"), "cannot be watched: [Errno 38] Function not"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_folders_that_cannot_be_watched_are_compared(
    name: str, store: Store, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change is found, also of files and folders that are new, and the reason is known."""
    error, reason = REFUSALS[name]
    monkeypatch.setattr(file_changes, "watch", refused(error))
    paths = write_home(home)
    new = claude_log(1, "another").write(tmp_path / "made")
    target = home / ".claude/projects/-another" / new.name
    following = Following(
        store,
        home,
        no_more_syncs,
        add_lines(paths, 4),
        is_up_to_date(store, tmp_path, home),
        lambda _: move(new, target),
        is_up_to_date(store, tmp_path, home),
        lambda _: move(paths["codex"], tmp_path / "gone"),
        is_up_to_date(store, tmp_path, home),
    )
    following.run()
    assert [reason in (found or "") for found in following.reasons] == [True]


def test_a_drive_without_reports_is_compared(
    store: Store, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first change is found by a sync. That it was not reported is noticed; the next ones are found by polling."""
    monkeypatch.setattr(file_changes, "watch", reports_nothing)
    monkeypatch.setattr(sync_schedule, "_FULL_SYNC_SECONDS", 0.0)
    monkeypatch.setattr(sync_schedule, "_FULL_SYNC_PAUSE", 0)
    paths = write_home(home)
    following = Following(
        store,
        home,
        lambda watcher: not watcher._file_changes._is_first_sync,
        add_lines(paths, 4),
        no_more_syncs,
        add_lines(paths, 5),
        is_up_to_date(store, tmp_path, home),
    )
    following.run()
    assert following.reasons[-1] in [f"the system does not report changes to {path}" for path in paths.values()]


def test_reported_changes_are_not_compared(store: Store, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are those that were made before the folders were watched, or found in a folder that was reported."""
    paths = write_home(home)
    new = claude_log(1, "another").write(home)
    files = FileChanges()
    files.compare_with_sync(paths.values())
    wakeups = iter([[], [paths["claude"]], [new.parent], *[[]] * 50])

    def report(*_: object, **__: object) -> Reports:
        for changed in wakeups:
            yield {(1, str(path)) for path in changed}

    monkeypatch.setattr(file_changes, "watch", report)
    for found in files.watch({home / ".claude": "claude"}, None):
        assert files.slow_reason is None
        if found == [new.parent]:
            files.note_in_folder(new)
        files.compare_with_sync([new if path == new.parent else path for path in found])


def test_what_is_reported_late_counts_as_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync may find a change before its report arrives."""
    files = FileChanges()
    late = file_changes._GRACE_WAKEUPS - 1

    def report(*_: object, **__: object) -> Reports:
        for changed in ([], [], *[[]] * late, ["/home/a"], *[[]] * 50):
            yield {(1, path) for path in changed}

    monkeypatch.setattr(file_changes, "watch", report)
    found = [Path("/home/a")]
    for number, _ in enumerate(files.watch({}, None)):
        assert files.slow_reason is None
        files.compare_with_sync(found if number == 1 else [])


def test_many_reports_before_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is forgotten before it was compared; afterwards they need no memory."""
    monkeypatch.setattr(file_changes, "_MOST_REMEMBERED", 2)
    files = FileChanges()
    paths = [Path(f"/home/{name}") for name in "abcde"]

    def report(*_: object, **__: object) -> Reports:
        for changed in ([], paths[:3], paths[3:], *[[]] * 50):
            yield {(1, str(path)) for path in changed}

    monkeypatch.setattr(file_changes, "watch", report)
    for number, _ in enumerate(files.watch({}, None)):
        if number in (0, 2):
            files.compare_with_sync(paths if number else [])
        assert files.slow_reason is None
    assert not files._reported


def test_closed_folders_are_left_out(store: Store, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are watched."""
    asked: list[bool] = []

    def watch(*_: object, ignore_permission_denied: bool, **__: object) -> Reports:
        asked.append(ignore_permission_denied)
        if not ignore_permission_denied:
            raise PermissionError(errno.EACCES, "Permission denied")
        yield set()

    monkeypatch.setattr(file_changes, "watch", watch)
    files = FileChanges()
    assert list(files.watch({home: "claude"}, None)) == [[]]
    assert (asked, files.slow_reason) == ([False, True], None)


def test_a_folder_that_is_gone_is_watched_when_it_returns(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it could not be watched for a moment does not make updates slow."""
    answers = iter([True, True, False])

    def watch(*_: object, **__: object) -> Reports:
        if next(answers):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        yield {(1, str(home))}

    monkeypatch.setattr(file_changes, "watch", watch)
    files = FileChanges()
    assert list(files.watch({home: "claude"}, None)) == [[], [], [home]]
    assert files.slow_reason is None


def same_second(path: Path) -> None:
    """A line is added, within the resolution of the clock."""
    before = path.stat()
    append(path, b'{"type":"added","uuid":"added"}\n')
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def same_length(path: Path) -> None:
    """Other bytes of the same length, and the time of the last change is set back."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"number", b"figure"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    """Another file, with the same times."""
    before = path.stat()
    path.with_name("new").write_bytes(path.read_bytes())
    os.utime(path.with_name("new"), ns=(before.st_atime_ns, before.st_mtime_ns))
    path.with_name("new").rename(path)


@pytest.mark.parametrize(
    "change", [same_second, same_length, replaced, Path.unlink], ids=lambda change: change.__name__
)
def test_comparing_finds_every_change(change: Callable[[Path], None], home: Path) -> None:
    """Once, and nothing else."""
    paths = write_home(home)
    roots = {home / f".{agent}": agent for agent in AGENTS}
    stop = threading.Event()
    found: list[list[Path]] = []
    for number, changed in enumerate(FileChanges(polls=True).watch(roots, stop)):
        found.append(changed)
        if number == 1:
            change(paths["codex"])
        if number == 3:
            stop.set()
    assert found == [[], [], [paths["codex"]], []]


@pytest.mark.parametrize("kind", ["stat", "scandir"])
def test_what_cannot_be_looked_at_is_not_a_change(kind: str, home: Path) -> None:
    """A drive that fails for a moment."""
    paths = write_home(home)
    roots = {home / f".{agent}": agent for agent in AGENTS}
    known = file_changes._stamps(roots, {})
    place = paths["claude"] if kind == "stat" else home / ".claude"
    with failing(home, lambda call, path: call == kind and path == place).active():
        assert file_changes._stamps(roots, known) == known
