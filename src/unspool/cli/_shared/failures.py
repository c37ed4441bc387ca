"""A session that cannot be read must not stop the others: it is reported at once and counted for the exit code."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ...agents import SessionRef
from ...core.errors import UnspoolError, UsageError
from ...io.faults import Faults, collect_faults, describe_fault, reason_of
from ...render.sanitize import harmless
from .output import print_error
from .output_file import OutputError

T = TypeVar("T")


class _End:
    """Follows the last item."""


_END = _End()


class Failures:
    """The sessions, files and folders that could not be read."""

    def __init__(self, debug: bool = False) -> None:
        self._debug = debug
        self._reported: set[str] = set()

    @property
    def count(self) -> int:
        """The number of sessions, files and folders that were reported."""
        return len(self._reported)

    @property
    def exit_code(self) -> int:
        """1 if something failed, otherwise 0."""
        return 1 if self.count else 0

    @contextmanager
    def skipping(self, ref: SessionRef) -> Iterator[None]:
        """Report and count an error in this session, instead of raising it."""
        try:
            with collect_faults() as faults:
                yield
            self.add_faults(faults)
        except (UsageError, OutputError, BrokenPipeError):
            # The output is incomplete, so it must not replace an earlier one.
            raise
        except UnspoolError as error:
            self._report(ref, str(error))
        except OSError as error:
            self._report(ref, describe_fault(error))
        except Exception as error:
            self._report(ref, f"{type(error).__name__}: {error} (a bug in unspool; --debug shows the traceback)")

    def listing(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items, and report and count the files and folders that could not be read to find them."""
        found = iter(items)
        while True:
            with collect_faults() as faults:
                item = next(found, _END)
            self.add_faults(faults)
            if isinstance(item, _End):
                return
            yield item

    def add_faults(self, faults: Faults) -> None:
        """Report and count the files and folders that could not be read, each once."""
        for path, error in faults.errors.items():
            if str(path) not in self._reported:
                self._reported.add(str(path))
                print_error(f"cannot read {harmless(str(path))}: {reason_of(error)}")

    def _report(self, ref: SessionRef, what: str) -> None:
        self._reported.add(f"{ref.agent} {ref.id} {ref.path}")
        prefix = "" if str(ref.path) in what else f"{ref.path}: "
        print_error(f"{prefix}{what}")
        if self._debug:
            traceback.print_exc()
