"""Compactions of a Claude Code conversation: a boundary record, and a summary that follows it."""

from __future__ import annotations

from collections.abc import Iterable

from ...core import model as m
from ...core.builder import SessionBuilder
from .chain import ClaudeChain
from .schema import ClaudeRecord, MicrocompactMetadata


class ClaudeCompactions:
    """Adds the compactions."""

    def __init__(self, builder: SessionBuilder, chain: ClaudeChain) -> None:
        self._builder = builder
        self._chain = chain
        self._without_summary: m.Boundary | None = None
        self._kept: list[tuple[m.Boundary, list[str]]] = []

    def read_boundary(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> bool:
        """Read a boundary record; False if it repeats one that is already there."""
        above = self._last_before(record)
        blocks: list[m.Block] = [m.CompactionMark()]
        index = self._chain.add(record, source, "system", "harness", blocks, inherited=inherited, parent=above)
        if index is None:
            return False
        meta = record.compact_metadata
        boundary = m.Boundary(
            after_message_index=above if above >= 0 else None,
            message_index=index,
            trigger=_trigger(meta.trigger if meta is not None else None),
            uuid=record.uuid,
            timestamp=record.timestamp,
        )
        if meta is not None:
            boundary.pre_tokens, boundary.post_tokens = meta.pre_tokens, meta.post_tokens
            boundary.pre_tokens_source = "recorded" if meta.pre_tokens is not None else None
        kept = meta.preserved_messages if meta is not None else None
        uuids = (kept.all_uuids or kept.uuids) if kept is not None else []
        self._kept.append((boundary, uuids))
        self._builder.events.add_boundary(boundary, inherited)
        self._without_summary = boundary
        self._chain.edge = index
        self._chain.kept = self._known(uuids)
        return True

    def read_partial(self, record: ClaudeRecord, source: m.Source, inherited: bool) -> None:
        """Read a compaction that only dropped the content of old tool results and attachments."""
        blocks: list[m.Block] = [m.CompactionMark()]
        index = self._chain.add(record, source, "system", "harness", blocks, inherited=inherited)
        if index is None:
            return
        meta = record.microcompact_metadata or MicrocompactMetadata()
        above = self._builder.columns.parents[index]
        boundary = m.Boundary(
            after_message_index=above if above >= 0 else None,
            message_index=index,
            trigger=_trigger(meta.trigger),
            uuid=record.uuid,
            timestamp=record.timestamp,
            pre_tokens=meta.pre_tokens,
            replaced_message_indices=sorted(self._known(meta.cleared_attachments)),
            scope="results",
            dropped_tool_use_ids=meta.compacted_tool_ids,
        )
        if meta.pre_tokens is not None:
            boundary.pre_tokens_source = "recorded"
            boundary.post_tokens = meta.pre_tokens - meta.tokens_saved if meta.tokens_saved is not None else None
        self._builder.events.add_boundary(boundary, inherited)

    def _last_before(self, record: ClaudeRecord) -> int:
        """Return the last message before a compaction.

        If a person chose the point to summarize from or up to, the record names the edge of the kept messages as its
        parent, but the conversation continued up to the line before the boundary.
        """
        last, parents = self._chain.last, self._builder.columns.parents
        named = self._builder.find(record.logical_parent_uuid)
        if named is None:
            return last
        index = last
        while index > named:
            index = parents[index]
        return last if index == named else named

    def read_summary(self, record: ClaudeRecord, source: m.Source, text: str, inherited: bool) -> None:
        """Read a summary."""
        boundary, self._without_summary = self._without_summary, None
        # 1.0.60 writes no boundary: the summary starts a new chain and follows the line before it.
        above = self._chain.last if boundary is None and record.parent_uuid is None else None
        blocks: list[m.Block] = [m.CompactionMark(text)]
        index = self._chain.add(record, source, "user", "harness", blocks, inherited=inherited, parent=above)
        if index is None:
            return
        if boundary is None:
            before = self._builder.columns.parents[index]
            boundary = m.Boundary(
                after_message_index=before if before >= 0 else None,
                message_index=index,
                trigger=None,
                uuid=record.uuid,
                timestamp=record.timestamp,
            )
            self._builder.events.add_boundary(boundary, inherited)
            # From the second compaction on, 1.0.60 names the first summary as the parent of what follows.
            self._chain.lowest_parent = index
        boundary.summary = text
        boundary.summary_source = "inline"
        boundary.summary_message_index = index

    def finish(self) -> None:
        """Find the messages that were kept: their records may come after the boundary."""
        summaries = {}
        for boundary, uuids in self._kept:
            boundary.preserved_message_indices = sorted(self._known(uuids))
            summaries[boundary.message_index] = boundary.summary_message_index
        for index, edge in self._chain.crossing:
            # The summary may come after the response to it.
            summary = summaries[edge]
            if summary is not None and not self._is_above(index, summary, edge):
                self._builder.set_parent(index, summary)

    def _is_above(self, index: int, message: int, edge: int) -> bool:
        """Whether a message follows `index`, as in a damaged log, so that making it the parent would form a cycle."""
        parents = self._builder.columns.parents
        # At most one step per message: parents that were changed before may already form a cycle.
        for _ in parents:
            if message <= edge or message == index:
                break
            message = parents[message]
        return message == index

    def _known(self, uuids: Iterable[str]) -> frozenset[int]:
        return frozenset(index for uuid in uuids if (index := self._builder.find(uuid)) is not None)


def _trigger(recorded: str | None) -> m.Trigger | None:
    return "manual" if recorded == "manual" else "auto" if recorded == "auto" else None
