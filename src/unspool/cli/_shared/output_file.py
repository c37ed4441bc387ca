"""Output files of commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EIO, EROFS
from pathlib import Path
from typing import Any, BinaryIO, cast

from ...core.errors import UnspoolError
from ...io.faults import WRITE_ERRNOS
from ...store.private_files import replacing_private


class OutputError(UnspoolError):
    """The output cannot be written, whichever session is read."""

    def __init__(self, path: Path | None, error: OSError) -> None:
        """Without a path, it is standard output."""
        super().__init__(f"{path or 'the output cannot be written'}: {error.strerror}")
        self.is_standard_output = path is None
        self.concerns_all = error.errno in (*WRITE_ERRNOS, EIO, EROFS)
        """Whether other files in the same folder cannot be written either."""


class _Output:
    """A file whose errors cannot be mistaken for errors of what is read at the same time."""

    def __init__(self, file: BinaryIO, path: Path | None) -> None:
        self._file = file
        self._path = path

    def write(self, data: bytes) -> int:
        try:
            return self._file.write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(self._path, error) from error

    def writelines(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.write(piece)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` only when it is complete: after Ctrl-C, the previous file is unchanged.

    Raises OutputError.
    """
    is_open = False
    try:
        with replacing_private(path) as file:
            is_open = True
            yield cast("BinaryIO", _Output(file, path))
            is_open = False
    except BrokenPipeError:
        raise
    except OSError as error:
        if is_open:
            # It was raised in the block, by something else.
            raise
        raise OutputError(path, error) from error


@contextmanager
def writing_to_standard_output() -> Iterator[BinaryIO]:
    """Return standard output. Raises OutputError."""
    yield cast("BinaryIO", _Output(sys.stdout.buffer, None))
