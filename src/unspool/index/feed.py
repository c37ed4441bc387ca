"""Keeping a store up to date in a process of its own: `python -m unspool.index.feed`, started by who shows the store.

It tells what it does in lines of JSON: `progress` while it reads for the first time, `ready`, `seq` when the journal
has grown, `failed` with what could not be read, `error` with what is tried again. It ends when its input ends, because
then nobody listens any more.
"""

from __future__ import annotations

import _thread
import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from ..errors import UnspoolError
from ..store import Store, open_store
from .follow import Follower
from .sync import Progress

_TELL_SECONDS = 0.1
_GRACE_SECONDS = 0.2
_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds before it is tried again, the longer the more often it went wrong."""


class Ended(BaseException):
    """Nobody listens any more. It is no error, and nothing in between should take it for one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Feed a store until the input ends."""
    args = _parser().parse_args(argv)
    _end_when_asked()
    _Listener().start()
    try:
        _Feed(args.store, args.home, polling=args.poll or None).run()
    except (Ended, KeyboardInterrupt, BrokenPipeError):
        _be_silent()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m unspool.index.feed", description=__doc__)
    parser.add_argument("--store", metavar="PLACE", help="a file, or postgresql://…")
    parser.add_argument("--home", metavar="DIR", action="append", default=[], help="a home directory")
    parser.add_argument("--poll", action="store_true", help="look at the files again and again")
    return parser


class _Feed:
    """Reads everything once, then follows; what goes wrong is told and tried again."""

    def __init__(self, place: str | None, homes: list[str], polling: bool | None) -> None:
        self._place = place
        self._homes = homes
        self._polling = polling
        self._seq = -1
        self._failures: dict[str, str] = {}
        self._next = 0.0
        self._went_wrong = 0

    def run(self) -> None:
        """Go on for ever."""
        while True:
            try:
                self._once()
            except UnspoolError as error:
                _say(error=str(error))
            except BrokenPipeError:
                raise
            except OSError as error:
                _say(error=str(error))
                # A system watches only so many folders; looking at them again and again always works.
                self._polling = True if "watch" in str(error) else self._polling
            except Exception as error:
                _say(error=f"{type(error).__name__}: {error}")
            time.sleep(_PAUSES[min(self._went_wrong, len(_PAUSES) - 1)])
            self._went_wrong += 1

    def _once(self) -> None:
        store = open_store(self._place)
        try:
            follower = Follower(store, *self._homes, polling=self._polling)
            self._read_all(store, follower)
            for entries in follower.follow():
                if entries:
                    self._tell_seq(entries[-1].seq)
                self._tell_failures(follower.failures)
                self._went_wrong = 0
            # Watching ends only because of a signal, and that one of ours.
            raise Ended
        finally:
            with suppress(UnspoolError):
                store.close()

    def _read_all(self, store: Store, follower: Follower) -> None:
        follower.read_all(self._tell_progress, lambda: self._tell_seq(store.last_entry()))
        self._tell_failures(follower.failures)
        self._tell_seq(store.last_entry())
        _say(ready=True)

    def _tell_progress(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_SECONDS
            done, total, bytes_done, bytes_total, _ = progress
            _say(progress={"done": done, "total": total, "bytes_done": bytes_done, "bytes_total": bytes_total})

    def _tell_seq(self, seq: int) -> None:
        if seq > self._seq:
            self._seq = seq
            _say(seq=seq)

    def _tell_failures(self, failures: dict[str, str]) -> None:
        new = {name: why for name, why in failures.items() if self._failures.get(name) != why}
        self._failures = dict(failures)
        if new:
            _say(failed=new)


# --- the other side --------------------------------------------------------------------------------------------------


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _be_silent() -> None:
    """What is left to be written would fail again at the exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_when_asked() -> None:
    """Raise `Ended` in whatever is being done."""

    def end(_: int, __: FrameType | None) -> None:
        # Once: what is tidied up is not to be disturbed.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Ended

    signal.signal(signal.SIGTERM, end)


class _Listener(threading.Thread):
    """Waits for the end of the input."""

    holds_nothing = True

    def __init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        """Ask for the end; what cannot be asked, because it waits for a disk or a lock, is ended all the same."""
        with suppress(OSError):
            while os.read(0, 1 << 12):
                pass
        if sys.platform == "win32":
            _thread.interrupt_main(signal.SIGTERM)
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(_GRACE_SECONDS)
        # A store is made so that this does no harm.
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
