"""A copy of a session that its agent can go on with, however damaged the original is. The original is only read.

The copy is put together in a folder of its own, read again as any session is, and only then put where it belongs: so
what is told of it is what a reader will find.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec

from .agents import AGENTS, SessionRef, unanswered
from .core.errors import UnspoolError, UsageError
from .core.session import Session
from .io.files import name_of, read_everything
from .library import Library
from .store.locate import data_folder

_HARMLESS = frozenset(("unknown-record", "unknown-shape", "duplicate-id"))
"""Problems that are no damage: what a newer version writes, and lines that a version wrote twice."""


class RepairedFile(msgspec.Struct, kw_only=True):
    """One file of the copy."""

    source: str
    path: str
    size: int


class Repair(msgspec.Struct, kw_only=True):
    """What was done."""

    session: str
    agent: str
    files: list[RepairedFile]
    changes: dict[str, int]
    """How many of each kind; empty when there was nothing to repair."""
    left: dict[str, int] = {}
    """What a reader still finds wrong with the copy."""


def default_folder() -> Path:
    """Where copies go: laid out as a home directory, so that each file shows where it belongs."""
    return data_folder() / "repaired"


def repair_session(library: Library, ref: SessionRef, target: Path | None = None, *, is_folder: bool = True) -> Repair:
    """Write a repaired copy of a session below a folder laid out as a home, or to a file."""
    sources = _files_of(library, ref)
    with tempfile.TemporaryDirectory(prefix="unspool-repair-") as staging:
        copy = _Copy(ref, Path(staging))
        for source in sources:
            copy.add(source)
        copy.complete()
        if target is not None and not is_folder:
            if len(copy.places) > 1:
                raise UsageError(f"{ref.id} has {len(copy.places)} files; give a folder with --to FOLDER/")
            targets = [target]
        else:
            folder = target or default_folder()
            targets = [folder / AGENTS[ref.agent].info.folder / place for place in copy.places]
        _refuse_agents_folders(library, ref, targets)
        files = [
            RepairedFile(source=name_of(source), path=name_of(path), size=_write(path, data, replace=target is None))
            for source, path, data in zip(sources, targets, copy.data(), strict=True)
        ]
        return Repair(
            session=ref.id, agent=ref.agent, files=files, changes=dict(sorted(copy.changes.items())), left=copy.left()
        )


def _files_of(library: Library, ref: SessionRef) -> list[Path]:
    """The files of a session, and those whose beginning it shares."""
    if not ref.path.exists():
        raise UnspoolError(f"{ref.path} is gone; `unspool restore` writes what the store kept of it")
    session = library.load(ref)
    own = {name_of(path): path for path in (ref.path, *ref.more)}
    logs = [file.path for file in session.info.files if file.role in ("log", "base")]
    return [own.get(name, Path(name)) for name in dict.fromkeys(logs)]


class _Copy:
    """A home directory with nothing but the copy in it."""

    def __init__(self, ref: SessionRef, home: Path) -> None:
        self._ref = ref
        self._mender = AGENTS[ref.agent].repair_strategy
        self._home = home
        self.places: list[PurePosixPath] = []
        self.changes: Counter[str] = Counter()

    def add(self, source: Path) -> None:
        """Take in what is intact of a file."""
        try:
            data = read_everything(source)
        except OSError as error:
            raise UnspoolError(f"{source}: {error.strerror}") from error
        clean = self._mender.clean(source.name, source.absolute().parent.parts, data)
        if clean is None:
            raise UnspoolError(f"{source} cannot be repaired: too little of it is intact")
        self.places.append(clean.place)
        self.changes.update(clean.changes)
        path = self._path(clean.place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clean.data)

    def complete(self) -> None:
        """Add what the conversation lacks."""
        sessions = self._read()
        if not sessions or not any(session.messages for session in sessions):
            raise UnspoolError(f"{self._ref.path} cannot be repaired: no conversation is intact in it")
        # The order in which a reader took the files is the one that its places refer to.
        names = {name_of(self._path(place)): self._path(place) for place in self.places}
        read = [names[file.path] for file in sessions[0].info.files if file.path in names]
        logs, changes = self._mender.complete(sessions, [path.read_bytes() for path in read])
        self.changes.update(changes)
        for path, data in zip(read, logs, strict=True):
            path.write_bytes(data)

    def data(self) -> list[bytes]:
        """The files, in the order in which they were added."""
        return [self._path(place).read_bytes() for place in self.places]

    def left(self) -> dict[str, int]:
        """What is wrong with the copy."""
        found: Counter[str] = Counter()
        for session in self._read():
            found.update(problem.reason for problem in session.problems if problem.reason not in _HARMLESS)
            found["call without a result"] += len(unanswered(session))
        return {reason: count for reason, count in sorted(found.items()) if count}

    def _path(self, place: PurePosixPath) -> Path:
        return self._home / AGENTS[self._ref.agent].info.folder / place

    def _read(self) -> list[Session]:
        library = Library(self._home)
        wanted = {self._path(place) for place in self.places}
        refs = [ref for ref in library.refs() if ref.id == self._ref.id] or [
            ref for ref in library.refs() if wanted.issuperset((ref.path, *ref.more))
        ]
        return [session for ref in refs[:1] for session in library.load_all(ref)]


def _refuse_agents_folders(library: Library, ref: SessionRef, targets: Iterable[Path]) -> None:
    """The agents' folders are only ever read: a person may put the copy there."""
    roots = {root.resolve() for _, root in (*library.homes(), *Library().homes())}
    roots |= {ref.root.resolve()} if ref.root.name == AGENTS[ref.agent].info.folder else set()
    for target in targets:
        place = target.expanduser().resolve()
        for root in roots:
            if place.is_relative_to(root):
                raise UsageError(f"{target} lies in {root}, which belongs to the agent; choose another place with --to")
        if place in {path.resolve() for path in (ref.path, *ref.more)}:
            raise UsageError(f"{target} is the session itself; choose another place with --to")


def _write(path: Path, data: bytes, replace: bool) -> int:
    """Write a file, all of it or nothing; one that somebody named and that is there stays."""
    if path.exists() and not replace:
        raise UnspoolError(f"{path} is there already; choose another place with --to")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    except OSError as error:
        raise UnspoolError(f"{path} cannot be written: {error.strerror}") from error
    return len(data)
