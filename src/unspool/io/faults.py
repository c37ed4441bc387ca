"""Collects the errors of the file system that readers cope with.

A reader reports what it cannot read as a problem of the session, or does without it. A program that replaces what it
read before has to know: an error is not a change of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from errno import ELOOP
from pathlib import Path


class NotRegularError(OSError):
    """What is at a path is neither a file nor a link to one."""


GONE = (FileNotFoundError, NotADirectoryError, NotRegularError)
"""What is raised where there is no file, which is a fact and not a fault."""


class Faults:
    """The errors that were noted in a block, by path."""

    def __init__(self) -> None:
        self.errors: dict[Path, OSError] = {}
        """What could not be read although it exists."""
        self.gone: dict[Path, OSError] = {}
        """What was looked for and does not exist."""

    def note(self, error: OSError, path: Path) -> None:
        """Add an error, without its traceback: that would keep everything its frames refer to, this object included."""
        error.__traceback__ = None
        is_gone = isinstance(error, GONE) or error.errno == ELOOP
        (self.gone if is_gone else self.errors).setdefault(path, error)

    def pass_on(self) -> None:
        """Note all of them again in the surrounding block."""
        for path, error in (*self.errors.items(), *self.gone.items()):
            note_fault(error, path)


def note_fault(error: OSError, path: Path | str | None = None) -> None:
    """Report an error to the innermost `collect_faults`, if any. `path` if the error does not have it."""
    faults = _faults.get()
    where = path if path is not None else error.filename
    if faults is not None and where is not None:
        faults.note(error, Path(where))


@contextmanager
def collect_faults() -> Iterator[Faults]:
    """Collect what is noted in a block."""
    faults = Faults()
    token = _faults.set(faults)
    try:
        yield faults
    finally:
        _faults.reset(token)


def reason_of(error: OSError) -> str:
    """Describe an error, without the path."""
    return error.strerror or str(error) or type(error).__name__


_faults: ContextVar[Faults | None] = ContextVar("faults", default=None)
