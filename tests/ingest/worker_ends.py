"""Ends the worker at each of its lines in turn: `python -m tests.ingest.worker_ends HOW STORE HOME`.

HOW is `input` or `signals`.

Each run is a fork. At its n-th line the worker is asked to stop, and the line only continues when the worker knows.
Signals come again at every line after that, also while it cleans up, and once more when the interpreter exits. A run
that reaches the point where it would only wait is stopped there, so that the lines after that are counted as well.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from unspool.ingest import worker
from unspool.ingest.sync import Syncer
from unspool.ingest.watch import Watcher
from unspool.store import open_store

from ..waiting import PATIENCE

_LINES = 800
"""More lines than a feed runs: something is wrong with the counting when they are reached."""

_EXITS = 10
"""One run of so many goes through the exit of the interpreter, which takes longer than all the rest. It is the same in
all of them."""


class Injection:
    """Asks the worker to stop at one line."""

    def __init__(self, how: str, line: int, inputs: int, told: int) -> None:
        self._how = how
        self._line = line
        self._inputs = inputs
        self._told = told
        self._seen = 0
        self._is_over = False

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Count the lines of the worker."""
        if frame.f_code.co_filename != worker.__file__ or threading.current_thread() is not threading.main_thread():
            return None
        if event == "line":
            self._seen += 1
            if self._seen == self._line:
                os.write(self._told, f"{frame.f_code.co_qualname}:{frame.f_lineno}".encode())
                self._ask(signal.SIGTERM)
            elif self._seen > self._line and self._how == "signals":
                self._send(signal.SIGINT)
        return self.trace

    def ask(self) -> None:
        """The end, if it has not been asked for."""
        self._ask(signal.SIGTERM)

    def exits(self) -> None:
        """Both signals once more."""
        self._send(signal.SIGINT)
        self._send(signal.SIGTERM)

    def _ask(self, number: int) -> None:
        if self._how == "signals":
            self._send(number)
        elif not self._is_over:
            self._is_over = True
            os.close(self._inputs)
        for thread in threading.enumerate():
            if isinstance(thread, worker._StopListener):
                assert thread.stop.wait(PATIENCE), "the worker was not asked to stop"

    def _send(self, number: int) -> None:
        # Before the worker has started, signals have their default effect.
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            os.kill(os.getpid(), number)


def _run(how: str, line: int, arguments: list[str], told: int) -> int:
    """One run, ended at a line."""
    inputs, end = os.pipe()
    os.dup2(inputs, 0)
    os.close(inputs)
    injection = Injection(how, line, end, told)

    def follow(_: Watcher, stop: threading.Event | None = None) -> Iterator[list[Any]]:
        yield []
        injection.ask()
        assert stop is not None
        stop.wait()

    Watcher.follow = follow  # type: ignore[method-assign, assignment]
    atexit.register(injection.exits)
    sys.settrace(injection.trace)
    code = worker.main(arguments)
    sys.settrace(None)
    if line % _EXITS:
        injection.exits()
        sys.stdout.flush()
        os._exit(code)
    return code


def main(how: str, store: str, home: str) -> int:
    """All runs; returns in each."""
    # What is imported on the way is imported once.
    opened = open_store(store)
    Syncer(opened, home).run()
    opened.close()
    gc.freeze()
    for line in range(1, _LINES):
        where, told = os.pipe()
        process = os.fork()
        if process == 0:
            return _run(how, line, ["--store", store, "--home", home], told)
        os.close(told)
        place = os.read(where, 1 << 12).decode()
        os.close(where)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code != 0:
            print(f"ended at line {line}, {place}: code {code}", file=sys.stderr, flush=True)
        if not place:
            print(line - 1)
            return 0
    print("it never ended", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
