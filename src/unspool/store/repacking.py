"""Packs data that has not changed for a while as small as possible: first archived files, then their messages.

Every step packs one chunk or one block, and is complete in itself. Damaged data is left as it is: `unspool verify`
reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ..core.errors import DamagedError
from .messages import decode_head
from .store import Store


class Repacking:
    """Packs the files and sessions of one store."""

    def __init__(self, store: Store, quiet_since: int | None) -> None:
        """Files that changed after `quiet_since`, in nanoseconds, are left out; None for all files."""
        self._store = store
        self._quiet_since = quiet_since

    def steps(self) -> Iterator[None]:
        """Pack one part in each step."""
        yield from self._pack_files()
        yield from self._pack_messages()

    def _pack_files(self) -> Iterator[None]:
        chunks = self._store.chunks
        for file, start in chunks.loose(self._quiet_since):
            with suppress(DamagedError):
                chunks.tighten(file, start)
            yield

    def _pack_messages(self) -> Iterator[None]:
        for session, blocks in self._store.blocks.loose(self._quiet_since).items():
            with suppress(DamagedError):
                files = self._files_of(session)
                for first in blocks:
                    with self._store.transaction():
                        self._store.blocks.tighten(session, first, files)
                    yield

    def _files_of(self, session: int) -> list[int | None]:
        """The archived files of a session, in the order in which its messages refer to them."""
        archived = {file.path: file.id for file in self._store.files.of_session(session)}
        head, _ = self._store.messages.packed_head(session)
        return [archived.get(file.path) for file in decode_head(head).info.files] if head else []
