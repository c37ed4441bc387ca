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


def parts_of(message: m.Message, name_of: NameOf) -> Iterator[Part]:
    """Everything in a message that can be searched: each call and each result alone, what was said together."""
    at = message.timestamp.timestamp() if message.timestamp is not None else None
    spoken: dict[Field, list[str]] = {}
    for block in message.blocks:
        for field, tool, text in _texts(block, message.author, name_of):
            if not text or text.isspace():
                continue
            if field in ("input", "output"):
                yield Part(message.index, field, message.author, tool, message.model, at, text)
            else:
                spoken.setdefault(field, []).append(text)
    for field, texts in spoken.items():
        yield Part(message.index, field, message.author, None, message.model, at, "\n".join(texts))


def _texts(block: m.Block, author: m.Author, name_of: NameOf) -> Iterator[tuple[Field, str | None, str]]:
    match block:
        case m.Text(text=text):
            yield _OF_AUTHOR.get(author, "note"), None, text
        case m.Thinking(text=text):
            yield "thinking", None, text
        case m.ToolCall(name=name, raw_input=raw):
            yield "input", name, words_of_input(raw)
        case m.ToolResult(call_id=call_id, content=content):
            yield "output", name_of(call_id), content
        case m.CompactionMark(summary=str(summary)):
            yield "note", None, summary
        case m.Attachment(text=str(text)):
            yield "user" if author == "human" else "note", None, text
        case m.Unknown(raw=raw):
            yield "note", None, words_of_input(raw)


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
