"""What is collected of errors of the file system."""

from __future__ import annotations

import gc
from pathlib import Path
from weakref import ref

from unspool.io.faults import collect_faults, report_fault


class _Large:
    """Something that a reader holds while it reads."""


def test_an_error_keeps_nothing_else(tmp_path: Path) -> None:
    """Its frames would refer to what was read, and to the errors that refer to them."""

    def read() -> ref[_Large]:
        large = _Large()
        with collect_faults() as faults:
            try:
                (tmp_path / "gone").read_bytes()
            except OSError as error:
                report_fault(error)
        assert list(faults.gone) == [tmp_path / "gone"]
        return ref(large)

    gc.disable()
    try:
        assert read()() is None
    finally:
        gc.enable()
