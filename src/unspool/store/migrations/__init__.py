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
        """All scripts by number. They are not read yet, because most stores are up to date."""
        scripts = sorted((Path(__file__).parent / self._kind).glob("*.sql"))
        return [(int(script.name.split("_")[0]), script) for script in scripts]

    @property
    def newest(self) -> int:
        """The number of the last script."""
        return self._all[-1][0]

    def after(self, version: int, location: str) -> list[tuple[int, str]]:
        """The scripts to apply to a store of a version."""
        if version > self.newest:
            raise UnspoolError(
                f"{location} was written by a newer unspool (store version {version}, supported: {self.newest}); "
                "upgrade unspool to read it"
            )
        return [(number, script.read_text()) for number, script in self._all if number > version]
