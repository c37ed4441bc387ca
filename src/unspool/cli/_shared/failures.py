"""A session that cannot be read must not stop the others: it is reported at once and counted for the exit code."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ...agents import SessionRef
from ...core.errors import UnspoolError, UsageError
from ...io.faults import Faults, reason_of
from ...render.sanitize import harmless
from .output import print_error


class Failures:
    """The sessions, files and folders that could not be read."""

    def __init__(self, debug: bool = False) -> None:
        self.count = 0
        self._debug = debug

    @property
    def exit_code(self) -> int:
        """1 if something failed, otherwise 0."""
        return 1 if self.count else 0

    @contextmanager
    def skipping(self, ref: SessionRef) -> Iterator[None]:
        """Report and count an error in this session, instead of raising it."""
        try:
            yield
        except (UsageError, BrokenPipeError):
            raise
        except (UnspoolError, OSError) as error:
            self._report(ref, str(error))
        except Exception as error:
            self._report(ref, f"{type(error).__name__}: {error} (a bug in unspool; --debug shows the traceback)")

    def add_faults(self, faults: Faults) -> None:
        """Report and count the files and folders that could not be read."""
        for path, error in faults.errors.items():
            self.count += 1
            print_error(f"cannot read {harmless(str(path))}: {reason_of(error)}")

    def _report(self, ref: SessionRef, what: str) -> None:
        self.count += 1
        prefix = "" if str(ref.path) in what else f"{ref.path}: "
        print_error(f"{prefix}{what}")
        if self._debug:
            traceback.print_exc()
