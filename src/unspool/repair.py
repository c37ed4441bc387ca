"""Writes a repaired copy of a damaged session, which its agent can resume. The original is only read.

The copy is assembled in a temporary directory, read again like any session, and only then moved to its target, so the
report describes what a reader will find.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec

from .agents import AGENTS, RepairStrategy, SessionRef, unanswered
from .core.errors import UnspoolError, UsageError
from .core.session import Session
from .io.files import name_of, read_everything
from .library import Library
from .store.locate import data_folder

_HARMLESS = frozenset(("unknown-record", "unknown-shape", "duplicate-id"))
"""Problems that are not damage: records of a newer version, and lines that the agent wrote twice."""


class RepairedFile(msgspec.Struct, kw_only=True):
    """One file of the copy."""

    source: str
    path: str
    size: int


class Repair(msgspec.Struct, kw_only=True):
    """The files and the changes of a repaired copy."""

    session: str
    agent: str
    files: list[RepairedFile]
    changes: dict[str, int]
    """The number of changes of each kind; empty if there was nothing to repair."""
    left: dict[str, int] = {}
    """The number of problems of each kind that remain in the copy."""


def default_folder() -> Path:
    """The default folder for copies: laid out like a home directory, so that each path shows where the file belongs."""
    return data_folder() / "repaired"


def repair_session(library: Library, ref: SessionRef, target: Path | None = None, *, is_folder: bool = True) -> Repair:
    """Write a repaired copy of a session to a file, or to a directory laid out like a home directory."""
    info = AGENTS[ref.agent].info
    if info.repair is None:
        raise UsageError(f"cannot repair sessions of {info.title}")
    sources = _files_of(library, ref)
    with tempfile.TemporaryDirectory(prefix="unspool-repair-") as staging:
        copy = _Copy(ref, Path(staging), info.repair())
        for source in sources:
            copy.add(source)
        copy.complete()
        if target is not None and not is_folder:
            if len(copy.paths) > 1:
                raise UsageError(f"{ref.id} has {len(copy.paths)} files; use --to DIR/")
            targets = [target]
        else:
            folder = target or default_folder()
            targets = [folder / info.folder / path for path in copy.paths]
        _refuse_agents_folders(library, ref, targets)
        files = [
            RepairedFile(source=name_of(source), path=name_of(path), size=_write(path, data, replace=target is None))
            for source, path, data in zip(sources, targets, copy.data(), strict=True)
        ]
        return Repair(
            session=ref.id, agent=ref.agent, files=files, changes=dict(sorted(copy.changes.items())), left=copy.left()
        )


def _files_of(library: Library, ref: SessionRef) -> list[Path]:
    """The files of a session, and the files it continues."""
    if not ref.path.exists():
        raise UnspoolError(f"{ref.path} no longer exists; `unspool restore` writes it from the store")
    session = library.load(ref)
    own = {name_of(path): path for path in (ref.path, *ref.more)}
    logs = [file.path for file in session.info.files if file.role in ("log", "base")]
    return [own.get(name, Path(name)) for name in dict.fromkeys(logs)]


class _Copy:
    """A temporary home directory that contains only the copy."""

    def __init__(self, ref: SessionRef, home: Path, strategy: RepairStrategy) -> None:
        self._ref = ref
        self._strategy = strategy
        self._home = home
        self.paths: list[PurePosixPath] = []
        """The paths of the files in the agent's folder."""
        self.changes: Counter[str] = Counter()

    def add(self, source: Path) -> None:
        """Add the intact records of a file."""
        try:
            data = read_everything(source)
        except OSError as error:
            raise UnspoolError(f"{source}: {error.strerror}") from error
        clean = self._strategy.clean(source.name, source.absolute().parent.parts, data)
        if clean is None:
            raise UnspoolError(f"cannot repair {source}: too little of it is intact")
        # Files from outside the agent's folder may get the same path, because all of them name the session.
        relative = clean.path if clean.path not in self.paths else clean.path.with_name(source.name)
        self.paths.append(relative)
        self.changes.update(clean.changes)
        path = self._path(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clean.data)

    def complete(self) -> None:
        """Add what is missing from the conversation."""
        sessions = self._read()
        if not sessions or not any(session.messages for session in sessions):
            raise UnspoolError(f"cannot repair {self._ref.path}: it contains no intact conversation")
        # Sources refer to files in the order in which the reader opened them.
        names = {name_of(self._path(path)): self._path(path) for path in self.paths}
        read = [names[file.path] for file in sessions[0].info.files if file.path in names]
        logs, changes = self._strategy.complete(sessions, [path.read_bytes() for path in read])
        self.changes.update(changes)
        for path, data in zip(read, logs, strict=True):
            path.write_bytes(data)

    def data(self) -> list[bytes]:
        """The files, in the order in which they were added."""
        return [self._path(path).read_bytes() for path in self.paths]

    def left(self) -> dict[str, int]:
        """Count the problems that remain in the copy, by kind."""
        found: Counter[str] = Counter()
        for session in self._read():
            found.update(problem.reason for problem in session.problems if problem.reason not in _HARMLESS)
            found["unfinished call"] += len(unanswered(session))
        return {reason: count for reason, count in sorted(found.items()) if count}

    def _path(self, relative: PurePosixPath) -> Path:
        return self._home / AGENTS[self._ref.agent].info.folder / relative

    def _read(self) -> list[Session]:
        library = Library(self._home)
        wanted = {self._path(path) for path in self.paths}
        refs = [ref for ref in library.refs() if ref.id == self._ref.id] or [
            ref for ref in library.refs() if wanted.issuperset((ref.path, *ref.more))
        ]
        return [session for ref in refs[:1] for session in library.load_all(ref)]


def _refuse_agents_folders(library: Library, ref: SessionRef, targets: Iterable[Path]) -> None:
    """Raise UsageError if a target is the session itself, or in an agent's directory: unspool never writes there."""
    roots = {root.resolve() for _, root in (*library.homes(), *Library().homes())}
    roots |= {ref.root.resolve()} if ref.root.name == AGENTS[ref.agent].info.folder else set()
    for target in targets:
        resolved = target.expanduser().resolve()
        for root in roots:
            if resolved.is_relative_to(root):
                raise UsageError(
                    f"{target} is inside {root}, which belongs to the agent; choose another target with --to"
                )
        if resolved in {path.resolve() for path in (ref.path, *ref.more)}:
            raise UsageError(f"{target} is the session itself; choose another target with --to")


def _write(path: Path, data: bytes, replace: bool) -> int:
    """Write a file atomically; an existing file that the user named is not replaced."""
    if path.exists() and not replace:
        raise UnspoolError(f"{path} already exists; choose another target with --to")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UnspoolError(f"cannot write {path}: {error.strerror}") from error
    return len(data)
