"""Numbered SQL scripts that create and change the tables. Each is applied once, in order."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from ...core.errors import UnspoolError


class Migrations:
    """The scripts for one kind of database."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @cached_property
    def _all(self) -> list[tuple[int, Path]]:
        """All scripts by their numbers. Few stores lack one, so that they are not read yet."""
        scripts = sorted((Path(__file__).parent / self._kind).glob("*.sql"))
        return [(int(script.name.split("_")[0]), script) for script in scripts]

    @property
    def newest(self) -> int:
        """The number of the last script."""
        return self._all[-1][0]

    def after(self, version: int, location: str) -> list[tuple[int, str]]:
        """The scripts that a store of some version lacks."""
        if version > self.newest:
            raise UnspoolError(
                f"{location} was written by a newer unspool (store version {version}, this one knows {self.newest}); "
                "update unspool to read it"
            )
        return [(number, script.read_text()) for number, script in self._all if number > version]
