"""Output files of commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...core.errors import UnspoolError
from ...store.private_files import replacing_private


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` only when it is complete: after Ctrl-C, the previous file is unchanged."""
    try:
        with replacing_private(path) as file:
            yield file
    except OSError as error:
        if error.filename is None or not str(error.filename).startswith(str(path.parent)):
            raise
        raise UnspoolError(f"{path}: {error.strerror}") from error
