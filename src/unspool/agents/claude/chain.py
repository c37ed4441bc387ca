"""Adds the messages of a Claude Code conversation, each attached to the parent that its record names."""

from __future__ import annotations

from msgspec import UNSET

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import MODEL, NONE, OUTPUT
from .authors import is_output
from .content import usage_of
from .schema import SYNTHETIC, ApiMessage, ClaudeRecord


class ClaudeChain:
    """Finds the parents of messages, and drops records that repeat a message."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.last = NONE
        """The last message."""
        self.lowest_parent = NONE
        """The next message is attached to this one if its record names an earlier parent."""
        self.edge = NONE
        """The last compaction."""
        self.kept: frozenset[int] = frozenset()
        """Messages before it that stay in context."""
        self.crossing: list[tuple[int, int]] = []
        """Messages that follow a compaction although their records name a parent before it, and the compaction."""
        self.pointer: tuple[str, int] | None = None
        """The leaf that the agent recorded last, and the number of messages at that point."""
        self._builder = builder
        self._ids = builder.columns.ids

    def point(self, leaf: str) -> None:
        """Read the end of the conversation, as recorded by the agent."""
        self.pointer = (leaf, len(self._builder))

    def add(
        self,
        record: ClaudeRecord,
        source: m.Source,
        role: m.Role,
        author: m.Author,
        blocks: list[m.Block],
        message: ApiMessage | None = None,
        inherited: bool = False,
        parent: int | None = None,
        queued: bool = False,
    ) -> int | None:
        """Add the message of a record; None if it repeats one that is already there.

        `message` is set if the model wrote it. A `parent` overrides the one that the record names.
        """
        builder, ids = self._builder, self._ids
        uuid, parent_uuid = record.uuid, record.parent_uuid
        missing, crosses = None, False
        if parent is None:
            parent = NONE
            if type(parent_uuid) is str:
                found = ids.new.get(parent_uuid)
                if found is None and ids.old:
                    found = ids.old.get(parent_uuid)
                if found is None:
                    missing = parent_uuid
                else:
                    parent = found if found > self.lowest_parent else self.lowest_parent
                    if parent < self.edge and self._crosses_edge(parent, message):
                        crosses, parent = True, self.edge
            elif parent_uuid is UNSET:
                parent = self.last
        if uuid is not None and (uuid in ids.new or uuid in ids.old):
            twin = ids.get(uuid) or 0
            if self._repeats(record, twin, parent):
                return None
            detail = f"message {len(builder)} has the id of message {twin}"
            builder.events.add_problem(m.Problem(reason="duplicate-id", detail=detail, source=source))
        if message is None:
            index = builder.add(role, author, blocks, source, uuid, parent, record.timestamp, inherited, queued)
            if author == "harness" and blocks and is_output(blocks[0]):
                builder.columns.flags[index] |= OUTPUT
        else:
            key = message.id or uuid or ""
            usage = usage_of(message.usage)
            model = message.model if message.model != SYNTHETIC else None
            index = builder.add_reply(blocks, source, uuid, parent, record.timestamp, model, key, usage, inherited)
        if missing is not None:
            builder.columns.wait_for_parent(index, missing, source)
        if crosses:
            self.crossing.append((index, self.edge))
        self.lowest_parent = NONE
        self.last = index
        return index

    def _crosses_edge(self, parent: int, message: ApiMessage | None) -> bool:
        """Whether a message with a parent before the last compaction follows the compaction.

        It does if the parent is one of the messages that were kept (2.1.217), or if it responds to a prompt
        and the agent compacted in between (2.1.150, 2.1.219). Otherwise a person went back to before the compaction.
        """
        if parent in self.kept:
            return True
        if message is None or message.id == self._builder.replies.current.key:
            return False
        return not any(flag & MODEL for flag in self._builder.columns.flags[parent : self.edge])

    def _repeats(self, record: ClaudeRecord, twin: int, parent: int) -> bool:
        """Whether a record repeats a message: 2.0.76 sometimes copies the lines of a fork into the original again."""
        seconds = record.timestamp.timestamp() if record.timestamp is not None else 0.0
        return self._builder.columns.parents[twin] == parent and self._builder.sink.time_of(twin) == seconds

    def link(self, record: ClaudeRecord) -> None:
        """Read a record without a message: its children are attached to its own parent."""
        if record.uuid is None:
            return
        ids = self._builder.columns.ids
        parent_uuid, parent = record.parent_uuid, None
        if isinstance(parent_uuid, str):
            parent = ids.get(parent_uuid)
        elif parent_uuid is None:
            # The hooks that run after a clear start another conversation in the same file (2.1.12, 2.1.29).
            parent = NONE
        ids.put(record.uuid, self.last if parent is None else parent)
