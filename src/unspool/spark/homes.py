"""Homes to read, as local folders: those in a remote file system are mirrored."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from ..agents import AGENTS, SessionRef
from ..core.errors import UnspoolError
from ..data.sources import Unreadable
from .file_systems import RemoteFolder
from .mirror import Mirror, mount_mirrors

_NO_NAME = "its name cannot be the name of a file"


class Homes:
    """Local and remote folders, all of which can be read as local ones."""

    def __init__(self, folder: Path, paths: Sequence[Path | RemoteFolder]) -> None:
        """Mirrors are created in `folder`. Remote files are listed by `list_everything` or `list_around`."""
        self._folder = folder
        self.mirrors: list[Mirror] = []
        self.remotes: list[RemoteFolder] = []
        """One folder of each remote file system, in the order of the mirrors."""
        self._paths: list[tuple[Mirror, str]] = []
        self.local = [path if isinstance(path, Path) else self._mirror(path) for path in paths]
        """All folders as local paths."""
        self.unreadable: list[Unreadable] = []
        """Files that cannot be mirrored."""

    def _mirror(self, remote: RemoteFolder) -> Path:
        files, path = remote.open()
        mirror = next((mirror for mirror in self.mirrors if mirror.start == files.start), None)
        if mirror is None:
            mirror = Mirror(self._folder / str(len(self.mirrors)), files)
            self.mirrors.append(mirror)
            self.remotes.append(remote)
        self._paths.append((mirror, path))
        return mirror.local(path)

    def list_everything(self) -> None:
        """Add all logs in all remote folders to the mirrors."""
        for mirror, path in self._paths:
            self._list(mirror, path)
            if not mirror.local(path).exists():
                mirror.local(path).mkdir(parents=True)

    def list_around(self, refs: Iterable[SessionRef]) -> None:
        """Add the files that are needed to read these sessions to the mirrors."""
        listed: set[Path] = set()
        for ref in refs:
            roots = [ref.root / path for path in AGENTS[ref.agent].info.paths]
            # A log outside of an agent's folder is read together with its neighbours.
            parents = [path.parent for path in (ref.path, *ref.more) if not any(path.is_relative_to(r) for r in roots)]
            for folder in (*roots, *parents):
                if folder not in listed and (mirror := self._mirror_of(folder)) is not None:
                    listed.add(folder)
                    self._list(mirror, folder.relative_to(mirror.folder).as_posix())

    def _mirror_of(self, path: Path) -> Mirror | None:
        return next((mirror for mirror in self.mirrors if path.is_relative_to(mirror.folder)), None)

    def _list(self, mirror: Mirror, path: str) -> None:
        try:
            for file in mirror.walk(path):
                agent = next((agent for agent in AGENTS.values() if agent.is_log(Path(file.path))), None)
                if agent is not None and not mirror.add(file):
                    name = mirror.start + file.path
                    self.unreadable.append(Unreadable(agent.info.name, Path(file.path).stem, name, _NO_NAME))
        except OSError as error:
            raise UnspoolError(f"{mirror.start}{path} cannot be listed: {error}") from error

    def check(self) -> None:
        """Raise UnspoolError if a remote file system failed, because the data that was read may be incomplete."""
        for mirror in self.mirrors:
            if mirror.failure is not None:
                raise UnspoolError(f"reading failed; it may succeed later: {mirror.failure}")

    def last_changed(self, ref: SessionRef) -> int:
        """Return when the logs of a session last changed, in nanoseconds since 1970.

        This includes the ctime, because a program that copies a file can set its mtime but not its ctime.
        """
        found = 0
        for path in (ref.path, *ref.more):
            stamp = AGENTS[ref.agent].log(path).stamp()
            if stamp is not None:
                found = max(found, stamp.changed, 0 if self._mirror_of(path) else stamp.ctime)
        return found

    # --- references that can be sent to other machines ---

    def portable(self, ref: SessionRef) -> SessionRef:
        """Return a reference in which paths in a mirror are relative."""
        return _with_paths(ref, lambda path: path.relative_to(self._folder) if self._mirror_of(path) else path)

    def here(self, ref: SessionRef) -> SessionRef:
        """Return a portable reference with the paths on this machine."""
        return _with_paths(ref, lambda path: self._folder / path)

    def url_of(self, path: str) -> str:
        """Return the URL of a file in a mirror. Other paths are returned unchanged."""
        found = next(((start, url) for start, url in self.url_prefixes if path.startswith(start)), ("", ""))
        return found[1] + path.removeprefix(found[0])

    @property
    def url_prefixes(self) -> list[tuple[str, str]]:
        """The local path prefix of each mirror, and the URL prefix that it represents."""
        return [(f"{mirror.folder}{os.sep}", mirror.start) for mirror in self.mirrors]


def _with_paths(ref: SessionRef, moved: Callable[[Path], Path]) -> SessionRef:
    return replace(ref, root=moved(ref.root), path=moved(ref.path), more=tuple(map(moved, ref.more)))


@contextmanager
def open_homes(paths: Sequence[Path | RemoteFolder]) -> Iterator[Homes]:
    """Open local and remote folders for reading."""
    if all(isinstance(path, Path) for path in paths):
        yield Homes(Path(os.sep), paths)
        return
    with tempfile.TemporaryDirectory(prefix="unspool-spark-") as folder:
        homes = Homes(Path(folder).resolve(), paths)
        with mount_mirrors(homes.mirrors):
            yield homes
