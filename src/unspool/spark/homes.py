"""Homes on this machine: those in another file system as mirrors."""

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
    """Places whose sessions can be read as if all were on this machine."""

    def __init__(self, folder: Path, places: Sequence[Path | RemoteFolder]) -> None:
        """`folder` is for mirrors. Nothing is listed yet."""
        self._folder = folder
        self.mirrors: list[Mirror] = []
        self.remotes: list[RemoteFolder] = []
        """One place of each file system, in the order of the mirrors."""
        self._paths: list[tuple[Mirror, str]] = []
        self.local = [place if isinstance(place, Path) else self._mirror(place) for place in places]
        """The places as local paths."""
        self.unreadable: list[Unreadable] = []
        """Files that cannot be in a mirror."""

    def _mirror(self, place: RemoteFolder) -> Path:
        files, path = place.open()
        mirror = next((mirror for mirror in self.mirrors if mirror.start == files.start), None)
        if mirror is None:
            mirror = Mirror(self._folder / str(len(self.mirrors)), files)
            self.mirrors.append(mirror)
            self.remotes.append(place)
        self._paths.append((mirror, path))
        return mirror.local(path)

    def list_everything(self) -> None:
        """Make all logs of all mirrored places visible."""
        for mirror, path in self._paths:
            self._list(mirror, path)
            if not mirror.local(path).exists():
                mirror.local(path).mkdir(parents=True)

    def list_around(self, refs: Iterable[SessionRef]) -> None:
        """Make visible what some sessions are read with."""
        listed: set[Path] = set()
        for ref in refs:
            roots = [ref.root / place for place in AGENTS[ref.agent].info.paths]
            # A log that is not in an agent's folder is read with the files beside it.
            beside = [path.parent for path in (ref.path, *ref.more) if not any(path.is_relative_to(r) for r in roots)]
            for place in (*roots, *beside):
                if place not in listed and (mirror := self._mirror_of(place)) is not None:
                    listed.add(place)
                    self._list(mirror, place.relative_to(mirror.folder).as_posix())

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
        """Raise UnspoolError if another file system failed: what was read is not all that there is."""
        for mirror in self.mirrors:
            if mirror.failure is not None:
                raise UnspoolError(f"reading failed, and may succeed later: {mirror.failure}")

    def last_changed(self, ref: SessionRef) -> int:
        """When anything about the logs of a session last changed, in nanoseconds since 1970.

        Whoever copies a file can set its time of writing, but not when the file system changed it.
        """
        found = 0
        for path in (ref.path, *ref.more):
            stamp = AGENTS[ref.agent].log(path).stamp()
            if stamp is not None:
                found = max(found, stamp.changed, 0 if self._mirror_of(path) else stamp.ctime)
        return found

    # --- references that can be sent to other machines ---

    def portable(self, ref: SessionRef) -> SessionRef:
        """A reference with paths that are relative if they are in a mirror."""
        return _with_paths(ref, lambda path: path.relative_to(self._folder) if self._mirror_of(path) else path)

    def here(self, ref: SessionRef) -> SessionRef:
        """The same session on this machine."""
        return _with_paths(ref, lambda path: self._folder / path)

    def address_of(self, path: str) -> str:
        """The address of a file in a mirror; any other path as it is."""
        found = next(((start, address) for start, address in self.addresses if path.startswith(start)), ("", ""))
        return found[1] + path.removeprefix(found[0])

    @property
    def addresses(self) -> list[tuple[str, str]]:
        """How local paths in mirrors begin, and the addresses of the same files."""
        return [(f"{mirror.folder}{os.sep}", mirror.start) for mirror in self.mirrors]


def _with_paths(ref: SessionRef, moved: Callable[[Path], Path]) -> SessionRef:
    return replace(ref, root=moved(ref.root), path=moved(ref.path), more=tuple(map(moved, ref.more)))


@contextmanager
def open_homes(places: Sequence[Path | RemoteFolder]) -> Iterator[Homes]:
    """Open places for reading."""
    if all(isinstance(place, Path) for place in places):
        yield Homes(Path(os.sep), places)
        return
    with tempfile.TemporaryDirectory(prefix="unspool-spark-") as folder:
        homes = Homes(Path(folder).resolve(), places)
        with mount_mirrors(homes.mirrors):
            yield homes
