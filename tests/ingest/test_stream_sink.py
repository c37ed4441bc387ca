"""Messages that go to the store in blocks while a session is read."""

from __future__ import annotations

from unspool.core import model as m
from unspool.ingest.stream_sink import WINDOW, StreamSink
from unspool.store.blocks import BLOCK

from ..core.test_sinks import build, fill


def test_messages_are_emitted_in_blocks() -> None:
    """The last ones can still change; the rest is emitted at the end."""
    blocks: list[list[m.Message]] = []
    sink = StreamSink(blocks.append)
    builder = build(sink)
    fill(builder, BLOCK + WINDOW)
    assert [len(block) for block in blocks] == [BLOCK]
    assert sink.sealed == BLOCK
    assert [message.index for block in (*blocks, *sink.rest()) for message in block] == list(range(len(builder)))


def test_changes_out_of_reach_are_collected() -> None:
    """In reach they are made in the message itself."""
    sink = StreamSink(lambda _: None)
    builder = build(sink)
    fill(builder, BLOCK + WINDOW)
    near, far = len(builder) - 1, 1
    for index in (near, far):
        builder.replace(index, [m.Text("completed")], 2)
        builder.set_usage(index, m.Usage(output=8))
        builder.set_author(index, "harness")
        builder.set_outcome(index, "c1", "error")
    patches = sink.patches
    assert [set(found) for found in (patches.rewritten, patches.usages, patches.authors, patches.outcomes)] == [
        {far}
    ] * 4
    *_, last = sink.held()
    assert (last.blocks, last.usage, last.author) == ([m.Text("completed")], m.Usage(output=8), "harness")


def test_stored_messages_are_not_emitted_again() -> None:
    """The first ones are known already."""
    blocks: list[list[m.Message]] = []
    sink = StreamSink(blocks.append, known=3)
    fill(build(sink), 5)
    assert [message.index for block in sink.rest() for message in block] == [3, 4]
    assert (blocks, sink.sealed) == ([], 3)
