"""Output files of commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...core.errors import UnspoolError
from ...io.faults import WRITE_ERRNOS
from ...store.private_files import replacing_private


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` only when it is complete: after Ctrl-C, the previous file is unchanged."""
    try:
        with replacing_private(path) as file:
            yield file
    except OSError as error:
        is_named = error.filename is not None and str(error.filename).startswith(str(path.parent))
        if not is_named and error.errno not in WRITE_ERRNOS:
            raise
        raise UnspoolError(f"{path}: {error.strerror}") from error
