"""What can be searched in a message: its words, by the field they stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from .. import model as m
from ..decode import decode_any

Field = Literal["user", "answer", "thinking", "input", "output", "note"]
FIELDS: tuple[Field, ...] = get_args(Field)
AUTHORS: tuple[m.Author, ...] = get_args(m.Author)

_OF_AUTHOR: dict[m.Author, Field] = {"human": "user", "model": "answer"}


class Part(NamedTuple):
    """Some text of a message."""

    message: int
    field: Field
    author: m.Author
    tool: str | None
    model: str | None
    at: float | None
    text: str


NameOf = Callable[[str], str | None]
"""The tool of a call, by the call's id."""


def parts_of(message: m.Message, name_of: NameOf) -> list[Part]:
    """Everything in a message that can be searched: each call and each result alone, what was said together."""
    index, author, model = message.index, message.author, message.model
    at = message.timestamp.timestamp() if message.timestamp is not None else None
    found: list[Part] = []
    spoken: dict[Field, str] = {}
    for block in message.blocks:
        if type(block) is m.ToolResult:
            if block.content and not block.content.isspace():
                found.append(Part(index, "output", author, name_of(block.call_id), model, at, block.content))
        elif type(block) is m.ToolCall:
            text = words_of_input(block.raw_input)
            if text and not text.isspace():
                found.append(Part(index, "input", author, block.name, model, at, text))
        else:
            field, words = _said(block, author)
            if words and not words.isspace():
                spoken[field] = f"{spoken[field]}\n{words}" if field in spoken else words
    for field, text in spoken.items():
        found.append(Part(index, field, author, None, model, at, text))
    return found


def _said(block: m.Block, author: m.Author) -> tuple[Field, str | None]:
    """Words that are no tool's, and the field they belong to."""
    if type(block) is m.Text:
        return _OF_AUTHOR.get(author, "note"), block.text
    if type(block) is m.Thinking:
        return "thinking", block.text
    if type(block) is m.Attachment:
        return "user" if author == "human" else "note", block.text
    if type(block) is m.CompactionMark:
        return "note", block.summary
    return "note", words_of_input(block.raw) if type(block) is m.Unknown else None


def words_of_input(raw: msgspec.Raw) -> str:
    """The words in the input of a call: as they are meant, not as JSON escapes them."""
    data = bytes(raw)
    if b"\\" not in data:
        return data.decode("utf-8", "replace")
    return "\n".join(_strings(decode_any(data)))


def _strings(value: Any) -> Iterator[str]:
    """All keys and values of a JSON value; nested as deep as a decoder goes, so without recursion."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, inner in reversed(value.items()):
                waiting += (inner, key)
        elif isinstance(value, list):
            waiting += reversed(value)
        elif value is not None and not isinstance(value, bool):
            yield str(value)
