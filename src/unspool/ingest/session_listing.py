"""Lists the sessions of a folder, in another process if there are many.

To find sessions, an agent reads the beginning of every file and caches what it has found. Reading a session needs
little of that, and the process that writes needs nothing but the list. When another process does it, that memory is
freed as soon as the list is complete.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from ..agents import SessionRef, SessionSource
from ..io.faults import Faults, collect_faults
from .helper_process import end_with, uninterrupted

if TYPE_CHECKING:
    # Windows has none.
    from multiprocessing.context import ForkProcess

_AT_ONCE = 200
"""Number of sessions that are sent together."""


class _End(NamedTuple):
    """Sent when the list is complete."""

    faults: Faults
    """The files and folders that could not be read."""


def list_in_subprocess(home: SessionSource) -> Iterator[SessionRef]:
    """Iterate over the sessions that another process finds.

    If it fails, this process lists all sessions, so that some of them come twice.
    """
    try:
        process, receiver = _start(home)
    except OSError:
        # There are too many processes or open files.
        yield from home.refs()
        return
    try:
        is_complete = yield from _received(receiver)
    finally:
        receiver.close()
        process.join()
    if not is_complete:
        yield from home.refs()


def _start(home: SessionSource) -> tuple[ForkProcess, Connection]:
    """Start the other process; returns it, and the connection to receive from. Raises OSError."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with ExitStack() as stack, sender:
        stack.enter_context(receiver)
        process = context.Process(target=_list, args=(home, sender, os.getpid()))
        with uninterrupted():
            process.start()
        stack.pop_all()
    return process, receiver


def _received(receiver: Connection) -> Generator[SessionRef, None, bool]:
    """Iterate over the sessions that are received; returns whether the list is complete."""
    while True:
        try:
            message = receiver.recv()
        except (EOFError, OSError):
            return False
        if isinstance(message, _End):
            message.faults.pass_on()
            return True
        yield from message


# --- in the other process ---


def _list(home: SessionSource, sender: Connection, parent: int) -> None:
    end_with(parent)
    with collect_faults() as faults:
        try:
            refs = home.refs()
            while some := list(islice(refs, _AT_ONCE)):
                sender.send(some)
        except Exception:
            # The parent will run into the same error when it lists the sessions, and report it.
            return
    sender.send(_End(faults))
