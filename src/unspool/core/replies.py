"""Model responses and their token usage. A response may be written to the log as several messages."""

from __future__ import annotations

from . import model as m
from .context_check import Billed
from .recent import Recent
from .tree import NONE


class OpenReply:
    """A model response."""

    __slots__ = ("first", "key", "last", "usage")

    def __init__(self, key: str, first: int) -> None:
        self.key = key
        self.first = first
        self.last = first
        self.usage: m.Usage | None = None


class Replies:
    """The responses of a session and the tokens they used, each counted once."""

    __slots__ = ("_recent", "_total", "billed", "current")

    def __init__(self) -> None:
        self.current = OpenReply("", NONE)
        """The response of the last message of the model."""
        self.billed = Billed()
        self._recent: Recent[str, OpenReply] = Recent(1 << 12)
        self._total: list[int | None] = [None] * 6

    def switch_to(self, key: str, index: int) -> OpenReply:
        """Make another response the current one: a new one, or an older one that gets a further message."""
        recent = self._recent
        reply = recent.new.get(key) or recent.old.get(key)
        if reply is None:
            reply = OpenReply(key, index)
            recent.put(key, reply)
        self.current = reply
        return reply

    def extend(
        self, reply: OpenReply, index: int, usage: m.Usage | None, model: str | None, inherited: bool
    ) -> int | None:
        """Add a further message to a response; returns the message that loses its usage to this one, if any.

        Every message of a response repeats the usage, and the last value is final, so only the last message keeps it.
        """
        last, before = reply.last, reply.usage
        if before != usage:
            if before is not None:
                self.count(before, inherited, sign=-1)
            reply.usage = None
            if usage is not None:
                self.bill(reply, usage, model, inherited)
        reply.last = index
        return last if before is not None else None

    def bill(self, reply: OpenReply, usage: m.Usage, model: str | None, inherited: bool) -> None:
        """Set the usage of a response, and count it."""
        reply.usage = usage
        self.count(usage, inherited)
        self.billed.add(reply.first, usage, model)

    def count(self, usage: m.Usage, inherited: bool, sign: int = 1) -> None:
        """Add to the total. Usage that belongs to the session this one was forked from is not counted."""
        if inherited:
            return
        total = self._total
        if (value := usage.input) is not None:
            total[0] = (total[0] or 0) + sign * value
        if (value := usage.output) is not None:
            total[1] = (total[1] or 0) + sign * value
        if (value := usage.cache_read) is not None:
            total[2] = (total[2] or 0) + sign * value
        if (value := usage.cache_write) is not None:
            total[3] = (total[3] or 0) + sign * value
        if (value := usage.reasoning) is not None:
            total[4] = (total[4] or 0) + sign * value
        if (value := usage.cache_write_1h) is not None:
            total[5] = (total[5] or 0) + sign * value

    @property
    def usage(self) -> m.Usage:
        """The total of all responses."""
        return m.Usage(*self._total)

    def forget(self) -> None:
        """Free the memory of responses that are complete."""
        self._recent = Recent()
