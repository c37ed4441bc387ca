"""Compiles unspool and the tests once for all workers of a run.

In a fresh checkout, every worker would compile all of unspool and rewrite the assertions of all tests at the same time.
"""

from __future__ import annotations

import compileall
import multiprocessing
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import unspool

from .isolation import is_worker

with suppress(ImportError):  # Not public: without them, each worker does it for itself.
    from _pytest.assertion.rewrite import (
        PYC_TAIL,
        _read_pyc,
        _rewrite_test,
        _write_pyc,
        assertstate_key,
        get_cache_dir,
    )

FOLDER = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Compile what has changed, before the workers start."""
    if is_worker(config) or not config.getoption("numprocesses", None) or sys.dont_write_bytecode:
        return
    if "_rewrite_test" not in globals() or "fork" not in multiprocessing.get_all_start_methods():
        return
    _Compiler.config = config
    tests = [path for path in FOLDER.rglob("*.py") if "corpus" not in path.parts]
    sources = [path for path in Path(unspool.__file__).parent.rglob("*.py") if "samples" not in path.parts]
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        pool.map(_Compiler.compile, [*tests, *sources], chunksize=20)


class _Compiler:
    config: pytest.Config

    @classmethod
    def compile(cls, path: Path) -> None:
        # A file that cannot be compiled is reported where it is imported.
        with suppress(Exception):
            if not path.is_relative_to(FOLDER):
                compileall.compile_file(path, quiet=2)
                return
            folder = get_cache_dir(path)
            folder.mkdir(exist_ok=True)
            compiled = folder / (path.name[:-3] + PYC_TAIL)
            if _read_pyc(path, compiled) is None:
                digest, code = _rewrite_test(path, cls.config)
                _write_pyc(cls.config.stash[assertstate_key], code, digest, compiled)
