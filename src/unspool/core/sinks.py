"""Sinks, which receive the messages of a session while it is read.

A builder passes each message to its sink, and later everything that the rest of the log reveals about it. The sink
decides what to keep: all messages, only their times and ids, or only those that can still change.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from . import model as m

SkipMessage = Callable[[datetime | None, str | None, int], None]
"""Receives the time and the id of a message, and the bytes of its record."""


_NO_ID = 0


class MessageSink(Protocol):
    """Receives the messages of one session, in order, and the changes to them."""

    @property
    def skip(self) -> SkipMessage | None:
        """Called instead of `add` if the sink needs no messages, so that none are created; else None."""
        ...

    @property
    def messages(self) -> list[m.Message]:
        """All messages if the sink keeps them, else an empty list."""
        ...

    @property
    def times(self) -> array[float]:
        """When each message was written, in seconds since the epoch; 0.0 if that is unknown."""
        ...

    @property
    def lengths(self) -> array[int]:
        """Bytes of the record of each message: about how much it adds to a context."""
        ...

    def time_of(self, index: int) -> float:
        """When a message was written, in seconds since the epoch; 0.0 if that is unknown."""
        ...

    def add(self, message: m.Message) -> None:
        """Receive the next message."""
        ...

    def find_ids(self, ids: set[str]) -> dict[str, list[int]]:
        """Return the indices of all messages with these ids, including those too old for the builder to remember."""
        ...

    def set_blocks(self, index: int, blocks: list[m.Block], usage: m.Usage | None, record: int) -> None:
        """Receive the new content of a message that the log repeats in full; `record` numbers the repetition."""
        ...

    def set_author(self, index: int, author: m.Author) -> None:
        """Receive a corrected author."""
        ...

    def set_outcome(self, index: int, call_id: str, outcome: m.Outcome) -> None:
        """Receive a corrected outcome of a call."""
        ...

    def set_usage(self, index: int, usage: m.Usage | None) -> None:
        """Receive the usage of a response, or None if another message has it now."""
        ...

    def set_parent(self, index: int, parent: int, is_stitched: bool) -> None:
        """Receive a parent that was only found after the last line."""
        ...


class KeepMessages:
    """Keeps all messages."""

    skip = None

    def __init__(self) -> None:
        self.messages: list[m.Message] = []
        self._times: array[float] = array("d")
        self.add = self.messages.append

    @property
    def times(self) -> array[float]:
        """Times of all messages; computed on demand, because few sessions need them."""
        messages = self.messages
        if len(self._times) < len(messages):
            self._times.extend(seconds(message.timestamp) for message in messages[len(self._times) :])
        return self._times

    @property
    def lengths(self) -> array[int]:
        """Bytes of the records of all messages, for the few sessions that need them."""
        return array("I", [message.source.length for message in self.messages])

    def time_of(self, index: int) -> float:
        """The time of one message."""
        return seconds(self.messages[index].timestamp)

    def find_ids(self, ids: set[str]) -> dict[str, list[int]]:
        """Look through all messages."""
        found: dict[str, list[int]] = {}
        for message in self.messages:
            if message.id in ids:
                found.setdefault(message.id, []).append(message.index)
        return found

    def set_blocks(self, index: int, blocks: list[m.Block], usage: m.Usage | None, record: int) -> None:  # noqa: ARG002
        """Replace the content of a message."""
        replace_blocks(self.messages[index], blocks, usage)

    def set_author(self, index: int, author: m.Author) -> None:
        """Correct an author."""
        self.messages[index].author = author

    def set_outcome(self, index: int, call_id: str, outcome: m.Outcome) -> None:
        """Correct the outcome of a call."""
        apply_outcome(self.messages[index], call_id, outcome)

    def set_usage(self, index: int, usage: m.Usage | None) -> None:
        """Set the usage of a message."""
        self.messages[index].usage = usage

    def set_parent(self, index: int, parent: int, is_stitched: bool) -> None:
        """Link a message to its parent."""
        message = self.messages[index]
        message.parent_index = parent if parent >= 0 else None
        if is_stitched:
            message.link = "stitched"


class MessageIndex:
    """Base of sinks that keep no messages, only the time and the length of each, and a hash of its id."""

    def __init__(self) -> None:
        self.times: array[float] = array("d")
        self.lengths: array[int] = array("I")
        self._hashes: array[int] = array("q")

    @property
    def messages(self) -> list[m.Message]:
        """Always empty."""
        return []

    def time_of(self, index: int) -> float:
        """The time of one message."""
        return self.times[index]

    def note(self, timestamp: datetime | None, id: str | None, length: int) -> None:
        """Keep the time and the length of the next message, and what is needed to find it by its id."""
        self.times.append(seconds(timestamp))
        self.lengths.append(length)
        self._hashes.append(_hash(id) if id is not None else _NO_ID)

    def find_ids(self, ids: set[str]) -> dict[str, list[int]]:
        """Look through all hashes."""
        wanted = {_hash(id): id for id in ids}
        found: dict[str, list[int]] = {}
        for index, hashed in enumerate(self._hashes):
            if hashed in wanted:
                found.setdefault(wanted[hashed], []).append(index)
        return found

    def set_blocks(self, index: int, blocks: list[m.Block], usage: m.Usage | None, record: int) -> None:
        """Do nothing: there is no message to change."""

    def set_author(self, index: int, author: m.Author) -> None:
        """Do nothing: there is no message to change."""

    def set_outcome(self, index: int, call_id: str, outcome: m.Outcome) -> None:
        """Do nothing: there is no message to change."""

    def set_usage(self, index: int, usage: m.Usage | None) -> None:
        """Do nothing: there is no message to change."""

    def set_parent(self, index: int, parent: int, is_stitched: bool) -> None:
        """Do nothing: there is no message to change."""


class DropMessages(MessageIndex):
    """Drops the messages, so that a log of any size can be read for its events."""

    @property
    def skip(self) -> SkipMessage:
        """`note`, which only needs the time, the id and the length."""
        return self.note

    def add(self, message: m.Message) -> None:
        """Keep the time, the id and the length of a message."""
        self.note(message.timestamp, message.id, message.source.length)


class ReplaySink(MessageIndex):
    """For a second pass over a log: passes each message on, in order, as soon as its final content is known.

    Everything else that later lines reveal is known from the first pass.
    """

    skip = None

    def __init__(self, times: array[float], final_records: dict[int, int], emit: Callable[[m.Message], None]) -> None:
        """`final_records` has the record with the final content of each message that is repeated in full."""
        super().__init__()
        self.times = times
        self._final_records = final_records
        self._records: dict[int, int] = {}
        self._emit = emit
        self._held: deque[m.Message] = deque()

    def add(self, message: m.Message) -> None:
        """Pass a message on, unless its content is going to change."""
        self._held.append(message)
        self._release()

    def set_blocks(self, index: int, blocks: list[m.Block], usage: m.Usage | None, record: int) -> None:
        """Receive newer content, and pass on the messages held back for it."""
        self._records[index] = record
        if self._held and self._held[0].index <= index:
            replace_blocks(self._held[index - self._held[0].index], blocks, usage)
            self._release()

    def _release(self) -> None:
        held = self._held
        while held:
            index = held[0].index
            if self._final_records.get(index, 0) > self._records.get(index, 0):
                return
            self._emit(held.popleft())


def seconds(timestamp: datetime | None) -> float:
    """Convert a time to seconds since the epoch; 0.0 if it is unknown."""
    return timestamp.timestamp() if timestamp is not None else 0.0


def _hash(id: str) -> int:
    """Hash an id; the result is never that of a message without one, although `hash("")` is 0."""
    return hash(id) or 1


def apply_outcome(message: m.Message, call_id: str, outcome: m.Outcome) -> None:
    """Correct how a call ended."""
    for block in message.blocks:
        if type(block) is m.ToolResult and block.call_id == call_id:
            block.outcome = outcome


def replace_blocks(message: m.Message, blocks: list[m.Block], usage: m.Usage | None) -> None:
    """Replace the content of a message with newer content."""
    message.blocks = blocks
    if usage is not None:
        message.usage = usage
