"""The searchable texts of a message, by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from ..core import model as m
from ..io.decode import decode_any
from .rows import NOTHING

Field = Literal["user", "answer", "thinking", "input", "output", "note"]
FIELDS: tuple[Field, ...] = get_args(Field)
AUTHORS: tuple[m.Author, ...] = get_args(m.Author)

_FIELD_OF_AUTHOR: dict[m.Author, Field] = {"human": "user", "model": "answer"}


FIELD_NUMBER: dict[Field, int] = {field: number for number, field in enumerate(FIELDS)}
AUTHOR_NUMBER: dict[m.Author, int] = {author: number for number, author in enumerate(AUTHORS)}


_INPUT, _OUTPUT = FIELD_NUMBER["input"], FIELD_NUMBER["output"]


class IndexedText(NamedTuple):
    """A searchable text of a message."""

    message: int
    field: Field
    author: m.Author
    tool: str | None
    model: str | None
    at: float | None
    text: str


ToolNameOf = Callable[[str], str | None]
"""Returns the tool of a call by the call's id."""


TextRow = tuple[int, int, int, str, str, int, str]
"""A row for the index: message, numbers of field and author, tool, model, seconds, text.

Unknown values are empty or `NOTHING`. A plain tuple, because there are very many: a class would cost more than indexing
the words does.
"""
EncodedRow = tuple[int, int, int, str, str, int, bytes]
"""The same with the text in UTF-8, as worker processes send it. The index accepts this form as well."""


def rows_of(message: m.Message, tool_name_of: ToolNameOf, at: int) -> list[TextRow]:
    """The index rows of a message: one for each call and each result, and one for all other text of a field."""
    index, author, model = message.index, message.author, message.model or ""
    who = AUTHOR_NUMBER[author]
    found: list[TextRow] = []
    spoken: dict[Field, str] | None = None
    for block in message.blocks:
        if type(block) is m.ToolResult:
            if block.content and not block.content.isspace():
                found.append((index, _OUTPUT, who, tool_name_of(block.call_id) or "", model, at, block.content))
            if block.saved is not None and block.saved.text:
                found.append((index, _OUTPUT, who, tool_name_of(block.call_id) or "", model, at, block.saved.text))
        elif type(block) is m.ToolCall:
            text = words_of_input(block.raw_input)
            if text and not text.isspace():
                found.append((index, _INPUT, who, block.name, model, at, text))
        else:
            field, words = _text_of_block(block, author)
            if words and not words.isspace():
                spoken = {} if spoken is None else spoken
                spoken[field] = f"{spoken[field]}\n{words}" if field in spoken else words
    if spoken is not None:
        for field, text in spoken.items():
            found.append((index, FIELD_NUMBER[field], who, "", model, at, text))
    return found


def texts_of(message: m.Message, tool_name_of: ToolNameOf) -> list[IndexedText]:
    """The searchable texts of a message, with named columns."""
    return [indexed_text(message, row) for row in rows_of(message, tool_name_of, NOTHING)]


def indexed_text(message: m.Message, row: TextRow) -> IndexedText:
    """Convert an index row of a message to one with named columns."""
    index, field, _, tool, _, _, text = row
    at = message.timestamp.timestamp() if message.timestamp is not None else None
    return IndexedText(index, FIELDS[field], message.author, tool or None, message.model, at, text)


def _text_of_block(block: m.Block, author: m.Author) -> tuple[Field, str | None]:
    """The text of a block that is neither a call nor a result, and its field."""
    if type(block) is m.Text:
        return _FIELD_OF_AUTHOR.get(author, "note"), block.text
    if type(block) is m.Thinking:
        return "thinking", block.text
    if type(block) is m.Attachment:
        return "user" if author == "human" else "note", block.text
    if type(block) is m.CompactionMark:
        return "note", block.summary
    return "note", words_of_input(block.raw) if type(block) is m.Unknown else None


def words_of_input(raw: msgspec.Raw) -> str:
    """The text in the input of a call, without the escapes of JSON."""
    data = bytes(raw)
    if b"\\" not in data:
        return data.decode("utf-8", "replace")
    return "\n".join(_strings(decode_any(data)))


def _strings(value: Any) -> Iterator[str]:
    """All keys and values of a JSON value. Not recursive: the value may be nested as deep as the decoder allows."""
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


def no_tool_name(_: str) -> None:
    """A `ToolNameOf` for callers that need no tool names."""
    return
