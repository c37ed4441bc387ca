"""Keeps a store up to date in a separate process: `python -m unspool.ingest.worker`, started by the web server.

It reports on stdout in lines of JSON: `progress` during the first read, `ready`, `seq` when the change log has grown,
`failed` with the sessions that could not be read, `slow` with the reason if changes are noticed late, `error` before a
retry. It exits when its stdin is closed, because then the server is gone.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from ..core.errors import UnspoolError
from ..store import Store, open_store
from .sync import Progress
from .watch import Watcher

_REPORT_SECONDS = 0.1
_GRACE_SECONDS = 0.5
"""How long cleaning up may take before the process exits anyway."""
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Delays before the next attempt, by the number of failed attempts."""


class WorkerStopped(BaseException):
    """The worker should exit. It is not an `Exception`, so that no handler mistakes it for an error.

    It is raised only where the main thread checks for it, never from a signal handler, which could interrupt anything,
    even cleaning up.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Update a store until stdin is closed."""
    listener = _StopListener()
    args = _parser().parse_args(argv)
    listener.start()
    try:
        _Worker(args.store, args.home, args.poll, listener.stop).run()
    except WorkerStopped:
        _discard_output()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m unspool.ingest.worker", description=__doc__)
    parser.add_argument("--store", metavar="ADDRESS", help="a file or a postgresql:// address")
    parser.add_argument("--home", metavar="DIR", action="append", default=[], help="a home directory")
    parser.add_argument("--poll", action="store_true", help="poll the files instead of watching them")
    return parser


class _Worker:
    """Reads everything once, then watches; failures are reported, and followed by a retry."""

    def __init__(self, address: str | None, homes: list[str], polling: bool, stop: threading.Event) -> None:
        """`stop` is set when the worker should exit."""
        self._stop = stop
        self._address = address
        self._homes = homes
        self._polling = polling
        self._seq = -1
        self._failures: dict[str, str] = {}
        self._next_report = 0.0
        self._failed_attempts = 0

    def run(self) -> None:
        """Run until `WorkerStopped` is raised."""
        while True:
            self._check_stop()
            try:
                self._watch()
            except (UnspoolError, OSError) as error:
                self._send(error=str(error))
            except Exception as error:
                self._send(error=f"{type(error).__name__}: {error}")
            self._stop.wait(_RETRY_SECONDS[min(self._failed_attempts, len(_RETRY_SECONDS) - 1)])
            self._failed_attempts += 1

    def _watch(self) -> None:
        store = open_store(self._address)
        try:
            watcher = Watcher(store, *self._homes, polling=self._polling, verifies=True)
            self._check_stop()
            self._read_all(store, watcher)
            slow = None
            for entries in watcher.follow(self._stop):
                if entries:
                    self._report_seq(entries[-1].seq)
                self._report_failures(watcher.failures)
                if watcher.slow_reason != slow:
                    slow = watcher.slow_reason
                    self._send(slow=slow)
                self._failed_attempts = 0
            # Watching ends only when `stop` is set.
            raise WorkerStopped
        finally:
            with suppress(UnspoolError):
                store.close()

    def _read_all(self, store: Store, watcher: Watcher) -> None:
        watcher.read_all(self._report_progress, lambda: self._report_seq(store.changes.last_seq()))
        self._report_failures(watcher.failures)
        self._report_seq(store.changes.last_seq())
        self._send(ready=True)

    def _report_progress(self, progress: Progress) -> None:
        self._check_stop()
        if time.monotonic() >= self._next_report:
            self._next_report = time.monotonic() + _REPORT_SECONDS
            done, total, bytes_done, bytes_total, _ = progress
            self._send(progress={"done": done, "total": total, "bytes_done": bytes_done, "bytes_total": bytes_total})

    def _report_seq(self, seq: int) -> None:
        if seq > self._seq:
            self._seq = seq
            self._send(seq=seq)

    def _report_failures(self, failures: dict[str, str]) -> None:
        new = {name: reason for name, reason in failures.items() if self._failures.get(name) != reason}
        self._failures = dict(failures)
        if new:
            self._send(failed=new)

    # --- the parent process ---

    def _check_stop(self) -> None:
        """Raise `WorkerStopped` if the worker should exit: between two sessions, or before a message is sent."""
        if self._stop.is_set():
            raise WorkerStopped

    def _send(self, **message: object) -> None:
        self._check_stop()
        try:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise WorkerStopped from None


def _discard_output() -> None:
    """Redirect stdout to the null device: flushing the rest at exit would fail again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _StopListener(threading.Thread):
    """Waits for the end of stdin or a signal, then asks the main thread to exit."""

    is_fork_safe = True

    def __init__(self) -> None:
        """Install signal handlers that only wake this thread."""
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self._inputs = [0]
        if sys.platform == "win32":
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        else:
            wake_read, wake_write = os.pipe()
            os.set_blocking(wake_write, False)
            signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
            self._inputs.append(wake_read)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, _ignore_signal)

    def run(self) -> None:
        """Wait, ask the main thread to exit, and exit anyway if it does not: it may wait for a disk or a lock."""
        with suppress(OSError):
            self._wait()
        self.stop.set()
        time.sleep(_GRACE_SECONDS)
        # This does no harm: what was not committed is read again next time.
        os._exit(0)

    def _wait(self) -> None:
        while True:
            # Windows can wait for one input only, and signals do not arrive through a pipe there.
            ready = self._inputs if len(self._inputs) == 1 else select.select(self._inputs, [], [])[0]
            if ready != [0] or not os.read(0, 1 << 12):
                return


def _ignore_signal(_: int, __: FrameType | None) -> None:
    """Do nothing: the wakeup descriptor has woken the thread already."""


if __name__ == "__main__":
    sys.exit(main())
