"""Collects file system errors that readers tolerate.

A reader reports what it cannot read as a problem of the session, or continues without it. A program that replaces what
it read before has to know about the error, because it does not mean that the file changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from errno import EDQUOT, EFBIG, ELOOP, ENOSPC
from pathlib import Path


class NotRegularError(OSError):
    """There is something at a path that is neither a file nor a link to one."""


GONE = (FileNotFoundError, NotADirectoryError, NotRegularError)
"""Errors that are raised if there is no file, which is not a fault."""


WRITE_ERRNOS = (ENOSPC, EDQUOT, EFBIG)
"""Errors that only writing causes: they say nothing about what is read."""


class Faults:
    """The errors that were reported in a block, by path."""

    def __init__(self) -> None:
        self.errors: dict[Path, OSError] = {}
        """Paths that exist but could not be read."""
        self.gone: dict[Path, OSError] = {}
        """Paths that were looked up and do not exist."""

    def note(self, error: OSError, path: Path) -> None:
        """Add an error, without its traceback, which would keep everything in memory that its frames refer to."""
        error.__traceback__ = None
        is_gone = isinstance(error, GONE) or error.errno == ELOOP
        (self.gone if is_gone else self.errors).setdefault(path, error)

    def pass_on(self) -> None:
        """Report all of them to the enclosing block."""
        for path, error in (*self.errors.items(), *self.gone.items()):
            report_fault(error, path)


def report_fault(error: OSError, path: Path | str | None = None) -> bool:
    """Report an error to the innermost `collect_faults`; returns whether there is one.

    `path` is needed if the error has no file name.
    """
    faults = _faults.get()
    where = path if path is not None else error.filename
    if faults is None or where is None:
        return False
    faults.note(error, Path(where))
    return True


@contextmanager
def collect_faults() -> Iterator[Faults]:
    """Collect the errors that are reported in a block."""
    faults = Faults()
    token = _faults.set(faults)
    try:
        yield faults
    finally:
        _faults.reset(token)


def reason_of(error: OSError) -> str:
    """Describe an error, without the path."""
    return error.strerror or str(error) or type(error).__name__


def describe_fault(error: OSError) -> str:
    """Describe an error, with the path if it is known."""
    return f"{error.filename}: {reason_of(error)}" if error.filename else reason_of(error)


_faults: ContextVar[Faults | None] = ContextVar("faults", default=None)
