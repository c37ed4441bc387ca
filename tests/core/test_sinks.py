"""What a builder passes on to each kind of sink, and what stays there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from unspool.core import model as m
from unspool.core.builder import SessionBuilder
from unspool.core.sinks import DropMessages, KeepMessages, MessageSink
from unspool.core.tree import NONE

START = datetime(2026, 3, 1, tzinfo=UTC)


def source(line: int) -> m.Source:
    return m.Source(0, line, 0, 1)


def build(sink: MessageSink | None = None) -> SessionBuilder:
    return SessionBuilder("claude", "s1", "main", sink)


def fill(builder: SessionBuilder, count: int) -> None:
    """Add a chain of messages, by a person and the model in turn."""
    for index in range(count):
        at = START + timedelta(seconds=index)
        if index % 2:
            usage = m.Usage(input=1, output=index)
            builder.add_reply(
                [m.Text(f"answer {index}")], source(index), f"m{index}", index - 1, at, "model", f"r{index}", usage
            )
        else:
            builder.add("user", "human", [m.Text(f"prompt {index}")], source(index), f"m{index}", index - 1, at)


def correct(builder: SessionBuilder) -> None:
    """Change the second message in every way."""
    builder.add("user", "harness", [m.ToolResult("c1", "stopped", "ok")], source(9), "late", 1, None)
    result = len(builder) - 1
    builder.set_outcome(result, "c1", "interrupted")
    builder.set_author(0, "harness")
    builder.replace(1, [m.Text("completed")], 2, m.Usage(output=7))
    builder.set_usage(1, m.Usage(output=8))


def test_all_messages_are_kept_with_their_changes() -> None:
    """As `load` needs them."""
    builder = build(KeepMessages())
    fill(builder, 2)
    correct(builder)
    first, second, result = builder.messages
    assert first.author == "harness"
    assert (second.blocks, second.usage) == ([m.Text("completed")], m.Usage(output=8))
    assert isinstance(result.blocks[0], m.ToolResult)
    assert result.blocks[0].outcome == "interrupted"
    assert list(builder.times) == [START.timestamp(), START.timestamp() + 1, 0.0]


def test_times_follow_messages_that_come_later() -> None:
    """They are computed when they are asked for, as often as that happens."""
    builder = build()
    fill(builder, 2)
    assert len(builder.times) == 2
    fill(builder, 1)
    assert list(builder.times)[2:] == [START.timestamp()]


def test_the_time_of_one_message_is_that_in_the_list() -> None:
    """Whatever is kept of the messages; those of the others are not computed for it."""
    for sink in (KeepMessages(), DropMessages()):
        builder = build(sink)
        fill(builder, 3)
        correct(builder)
        assert [sink.time_of(index) for index in range(4)] == list(builder.times)
    sink = KeepMessages()
    fill(build(sink), 3)
    assert sink.time_of(2) == START.timestamp() + 2
    assert len(sink._times) == 0


def test_usage_that_is_repeated_is_billed_once() -> None:
    """Every message of a response repeats its usage; only another value is a correction."""
    builder = build()
    same, final = m.Usage(input=1, output=2), m.Usage(input=1, output=9)
    for index, usage in enumerate((same, same, final)):
        builder.add_reply([m.Text("a")], source(index), f"m{index}", index - 1, START, "model", "r", usage)
    builder.add_reply([m.Text("b")], source(3), "m3", 2, START, "model", "other", same)
    builder.add_reply([m.Text("c")], source(4), "m4", 3, START, "model", "r", final)
    assert builder.replies.usage == m.Usage(input=2, output=11)
    assert list(builder.replies.billed.firsts) == [0, 3]
    assert [message.usage for message in builder.messages] == [None, None, None, same, final]


def test_only_times_and_ids_are_kept() -> None:
    """No message is made."""
    builder = build(DropMessages())
    fill(builder, 4)
    correct(builder)
    assert builder.messages == []
    assert list(builder.times)[:2] == [START.timestamp(), START.timestamp() + 1]
    assert builder.sink.find_ids({"m2", "unknown"}) == {"m2": [2]}
    assert builder.sink.find_ids({"m2"}) == _kept(4).find_ids({"m2"})


def _kept(count: int) -> MessageSink:
    builder = build()
    fill(builder, count)
    return builder.sink


def test_a_replay_passes_on_what_was_kept() -> None:
    """In order, and with the final content, although that is only known later."""
    kept, first = build(), build(DropMessages())
    for builder in (kept, first):
        fill(builder, 6)
        correct(builder)
    found: list[m.Message] = []
    second = first.replay(found.append)
    fill(second, 6)
    assert [message.index for message in found] == [0]
    correct(second)
    assert [message.index for message in found] == list(range(7))
    for message in found:
        first.complete(message)
    assert found == kept.messages


def test_a_parent_that_comes_later_is_found() -> None:
    """Whatever is kept of the messages."""
    for sink in (KeepMessages(), DropMessages()):
        builder = build(sink)
        late = builder.add("user", "human", [], source(0), "child", NONE, None)
        builder.columns.wait_for_parent(late, "parent", source(0))
        builder.add("user", "human", [], source(1), "parent", NONE, None)
        builder.settle()
        assert list(builder.columns.parents) == [1, NONE]
        assert builder.events.problems == []


def test_a_missing_parent_is_replaced_and_reported() -> None:
    """So is one that closes a ring."""
    builder = build()
    for index, parent in enumerate(("m1", "m0", "gone")):
        builder.add("user", "human", [], source(index), f"m{index}", NONE, None)
        builder.columns.wait_for_parent(index, parent, source(index))
    builder.settle()
    assert list(builder.columns.parents) == [NONE, 0, 1]
    assert [problem.reason for problem in builder.events.problems] == ["missing-parent", "cycle"]
    assert [message.link for message in builder.messages] == ["stitched", "recorded", "stitched"]


def test_usage_moves_to_the_last_message_of_a_response() -> None:
    """Every message of it repeats the usage, which is counted once."""
    builder = build()
    for index in range(3):
        usage = m.Usage(input=5, output=index)
        builder.add_reply([m.Text("part")], source(index), f"m{index}", index - 1, None, "model", "r1", usage)
    assert [message.usage for message in builder.messages] == [None, None, m.Usage(input=5, output=2)]
    assert builder.replies.usage == m.Usage(input=5, output=2)


def test_an_empty_id_is_not_that_of_a_message_without_one() -> None:
    """Its parent is missing, whatever is kept of the messages."""
    for sink in (KeepMessages(), DropMessages()):
        builder = build(sink)
        builder.add("user", "human", [m.Text("no id")], source(0), None, NONE, START)
        builder.add("user", "human", [m.Text("next")], source(1), "m1", 0, START)
        builder.add("user", "human", [m.Text("lost")], source(2), "m2", NONE, START)
        builder.columns.wait_for_parent(2, "", source(2))
        builder.settle()
        assert [problem.reason for problem in builder.events.problems] == ["missing-parent"]
        assert list(builder.columns.parents) == [NONE, 0, 1]


def test_a_message_with_an_empty_id_is_found() -> None:
    for sink in (KeepMessages(), DropMessages()):
        builder = build(sink)
        builder.add("user", "human", [m.Text("no id")], source(0), None, NONE, START)
        builder.add("user", "human", [m.Text("empty id")], source(1), "", NONE, START)
        assert sink.find_ids({"", "other"}) == {"": [1]}
