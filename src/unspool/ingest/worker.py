"""Keeps a store up to date in a process of its own: `python -m unspool.ingest.worker`, started by the web server.

It tells what it does in lines of JSON: `progress` while it reads for the first time, `ready`, `seq` when the change
log has grown, `failed` with what could not be read, `error` with what is tried again. It ends when its input ends,
because then nobody listens any more.
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

_TELL_SECONDS = 0.1
_GRACE_SECONDS = 0.5
"""How long it may take to tidy up before it is ended all the same."""
_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds before it is tried again, the longer the more often it went wrong."""


class WorkerStopped(BaseException):
    """Nobody listens any more. It is no error, and nothing in between should take it for one.

    It is raised only where the main thread asks whether it should end, never by a signal: that could hit anything, and
    what is being tidied up too.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Feed a store until the input ends."""
    ending = _Ending()
    args = _parser().parse_args(argv)
    ending.start()
    try:
        _Worker(args.store, args.home, args.poll or None, ending.asked).run()
    except WorkerStopped:
        _be_silent()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m unspool.ingest.worker", description=__doc__)
    parser.add_argument("--store", metavar="PLACE", help="a file, or postgresql://…")
    parser.add_argument("--home", metavar="DIR", action="append", default=[], help="a home directory")
    parser.add_argument("--poll", action="store_true", help="look at the files again and again")
    return parser


class _Worker:
    """Reads everything once, then follows; what goes wrong is told and tried again."""

    def __init__(self, place: str | None, homes: list[str], polling: bool | None, asked: threading.Event) -> None:
        """`asked` is set when it should end."""
        self._asked = asked
        self._place = place
        self._homes = homes
        self._polling = polling
        self._seq = -1
        self._failures: dict[str, str] = {}
        self._next = 0.0
        self._went_wrong = 0

    def run(self) -> None:
        """Go on until `Ended` is raised."""
        while True:
            self._go_on()
            try:
                self._once()
            except UnspoolError as error:
                self._say(error=str(error))
            except OSError as error:
                self._say(error=str(error))
                # A system watches only so many folders; looking at them again and again always works.
                self._polling = True if "watch" in str(error) else self._polling
            except Exception as error:
                self._say(error=f"{type(error).__name__}: {error}")
            self._asked.wait(_PAUSES[min(self._went_wrong, len(_PAUSES) - 1)])
            self._went_wrong += 1

    def _once(self) -> None:
        store = open_store(self._place)
        try:
            follower = Watcher(store, *self._homes, polling=self._polling)
            self._go_on()
            self._read_all(store, follower)
            for entries in follower.follow(self._asked):
                if entries:
                    self._tell_seq(entries[-1].seq)
                self._tell_failures(follower.failures)
                self._went_wrong = 0
            # Watching ends only because it should.
            raise WorkerStopped
        finally:
            with suppress(UnspoolError):
                store.close()

    def _read_all(self, store: Store, follower: Watcher) -> None:
        follower.read_all(self._tell_progress, lambda: self._tell_seq(store.changes.last_seq()))
        self._tell_failures(follower.failures)
        self._tell_seq(store.changes.last_seq())
        self._say(ready=True)

    def _tell_progress(self, progress: Progress) -> None:
        self._go_on()
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_SECONDS
            done, total, bytes_done, bytes_total, _ = progress
            self._say(progress={"done": done, "total": total, "bytes_done": bytes_done, "bytes_total": bytes_total})

    def _tell_seq(self, seq: int) -> None:
        if seq > self._seq:
            self._seq = seq
            self._say(seq=seq)

    def _tell_failures(self, failures: dict[str, str]) -> None:
        new = {name: why for name, why in failures.items() if self._failures.get(name) != why}
        self._failures = dict(failures)
        if new:
            self._say(failed=new)

    # --- the other side ---

    def _go_on(self) -> None:
        """Here it can end: between two sessions, or before anything is said."""
        if self._asked.is_set():
            raise WorkerStopped

    def _say(self, **what: object) -> None:
        self._go_on()
        try:
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise WorkerStopped from None


def _be_silent() -> None:
    """What is left to be written would fail again at the exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Ending(threading.Thread):
    """Waits for the end of the input or a signal, and then asks the main thread to end."""

    holds_nothing = True

    def __init__(self) -> None:
        """Signals do nothing from here on but wake this thread; no Python code runs because of one."""
        super().__init__(daemon=True)
        self.asked = threading.Event()
        self._inputs = [0]
        if sys.platform == "win32":
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        else:
            woken, wake = os.pipe()
            os.set_blocking(wake, False)
            signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
            self._inputs.append(woken)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, _leave_it_to_the_thread)

    def run(self) -> None:
        """Ask for the end; what cannot ask, because it waits for a disk or a lock, is ended all the same."""
        with suppress(OSError):
            self._wait()
        self.asked.set()
        time.sleep(_GRACE_SECONDS)
        # A store is made so that this does no harm: what was not committed is read again next time.
        os._exit(0)

    def _wait(self) -> None:
        while True:
            # Windows can wait for one input only, and there no signals come through another.
            ready = self._inputs if len(self._inputs) == 1 else select.select(self._inputs, [], [])[0]
            if ready != [0] or not os.read(0, 1 << 12):
                return


def _leave_it_to_the_thread(_: int, __: FrameType | None) -> None:
    """The signal has woken it already, whatever the main thread does."""


if __name__ == "__main__":
    sys.exit(main())
