"""Tables → what a record says, for comparison with the record itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from unspool.agents import agent_named
from unspool.core import model as m
from unspool.core.events import EVENT_KINDS
from unspool.core.session import Session
from unspool.data.batches import LARGEST
from unspool.data.schema import EVENT_TABLES, TABLES, arrow_schema

Rows = list[dict[str, Any]]


def collect(batches: Iterable[tuple[str, pa.RecordBatch]]) -> dict[str, Rows]:
    """The rows of all tables."""
    found: dict[str, Rows] = {name: [] for name in TABLES}
    for name, batch in batches:
        assert batch.schema.equals(arrow_schema(name), check_metadata=True)
        batch.validate(full=True)
        found[name] += batch.to_pylist()
    return found


def of_session(tables: dict[str, Rows], session: Session) -> dict[str, Rows]:
    """The rows of one session."""
    return {
        name: [row for row in rows if (row["agent"], row["session"]) == (session.agent, session.id)]
        for name, rows in tables.items()
    }


def text(value: str | None) -> str | None:
    """A text as a table can hold it."""
    return None if value is None else "".join("\ufffd" if "\ud800" <= sign <= "\udfff" else sign for sign in str(value))


def number(value: int | None) -> int | None:
    """A number as a table can hold it."""
    return None if value is None else max(-LARGEST, min(LARGEST, value))


def check_messages(session: Session, rows: dict[str, Rows]) -> None:
    """Messages, their blocks and where they are."""
    names = ("role", "author", "parent_index", "timestamp", "reply", "branch", "context", "link", "queued", "inherited")
    blocks: dict[int, Rows] = {}
    for row in rows["blocks"]:
        blocks.setdefault(row["message_index"], []).append(row)
    assert [row["index"] for row in rows["messages"]] == list(range(len(session)))
    for message, row in zip(session.messages, rows["messages"], strict=True):
        assert {name: row[name] for name in names} == {name: getattr(message, name) for name in names}
        assert (row["id"], row["model"]) == (text(message.id), text(message.model))
        source = message.source
        assert row["source_file"] == text(session.info.files[source.file].path)
        assert (row["source_line"], row["source_offset"], row["source_length"]) == (
            source.line,
            source.offset,
            source.length,
        )
        found = blocks.get(message.index, [])
        assert (
            [block["block_index"] for block in found] == list(range(len(message.blocks))) == list(range(row["blocks"]))
        )
        for block, of_block in zip(message.blocks, found, strict=True):
            check_block(block, of_block)


def check_block(block: m.Block, row: dict[str, Any]) -> None:
    """One block."""
    assert row["type"] == block.__struct_config__.tag
    match block:
        case m.Text() | m.Thinking() | m.Attachment():
            assert row["text"] == text(block.text)
        case m.ToolCall():
            assert (row["call_id"], row["name"]) == (text(block.id), text(block.name))
            assert row["json"].encode() == bytes(block.raw_input)
        case m.ToolResult():
            assert (row["call_id"], row["text"]) == (text(block.call_id), text(block.content))
            assert (row["outcome"], row["exit_code"]) == (block.outcome, number(block.exit_code))
            assert (row["sent"], row["synthetic"]) == (block.sent, block.synthetic)
        case m.CompactionMark():
            assert row["text"] == text(block.summary)
        case m.Unknown():
            assert row["json"].encode() == bytes(block.raw)


def check_calls(session: Session, rows: dict[str, Rows]) -> None:
    """Calls with their results."""
    calls = sorted(rows["tool_calls"], key=lambda row: (row["message_index"], row["block_index"]))
    for use, row in zip(session.tool_calls(), calls, strict=True):
        assert (row["message_index"], row["call_id"]) == (use.message_index, text(use.id))
        assert (row["outcome"], row["result_index"]) == (use.outcome, use.result_index)
        action = agent_named(session.agent).describe(use.call.name, use.call.raw_input)
        assert (row["command"], row["path"]) == (text(action.command), text(action.path))
        assert row["rejected_by"] == (use.rejection.by if use.rejection else None)
        assert row["result"] in (text(use.result.content if use.result else None), None)


def check_events(session: Session, rows: dict[str, Rows]) -> None:
    """Events of all kinds, and the tokens."""
    in_order = {(row["kind"], row["index"]): row for row in rows["events"]}
    for kind in EVENT_KINDS:
        events = kind.of(session)
        typed = [row for row in rows[EVENT_TABLES[kind.name]] if row["index"] is not None and not row.get("inherited")]
        assert [row["index"] for row in typed] == list(range(len(events)))
        for index, (event, row) in enumerate(zip(events, typed, strict=True)):
            assert in_order[kind.name, index]["message_index"] == kind.index_of(event)
            for name in ("timestamp", "tool_use_id", "reason", "by", "evidence", "tool_use_ids", "detail"):
                if hasattr(event, name):
                    value = getattr(event, name)
                    assert row[name] == (text(value) if isinstance(value, str) else value)
    for name in m.Usage.__struct_fields__:
        total = getattr(session.info.usage, name) or 0
        if abs(total) < LARGEST:
            assert sum(row[name] or 0 for row in rows["usage"]) == total


def check_contexts(session: Session, rows: dict[str, Rows]) -> None:
    """At each response, the messages whose intervals cover it are those in its context."""
    firsts = sorted({session.first_part(message.index) for message in session if message.reply is not None})
    expected = {index: set(session.context_map.before(index).indices) for index in firsts}
    found: dict[int, set[int]] = {index: set() for index in firsts}
    for row in rows["contexts"]:
        covered = [index for index in firsts if row["from_index"] <= index <= row["to_index"]]
        assert len(covered) == row["requests"]
        for index in covered:
            found[index].add(row["message_index"])
    assert found == expected


def check(session: Session, tables: dict[str, Rows]) -> None:
    """Everything that the tables promise."""
    rows = of_session(tables, session)
    (facts,) = rows["sessions"]
    assert (facts["messages"], facts["title"]) == (len(session), text(session.title))
    assert (facts["started_at"], facts["status"]) == (session.info.started_at, session.info.status)
    for step in (check_messages, check_calls, check_events, check_contexts):
        step(session, rows)
