"""Converts the content of Codex CLI's items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...core import model as m
from ...core import typed_json
from ...io.decode import clean_raw, decode_any
from .schema import CodexContent, CodexPayload

_raw = typed_json.decoder(msgspec.Raw)


def tool_of(payload: CodexPayload) -> str:
    """Return the name of the tool that is called."""
    name = payload.name or payload.type.removesuffix("_call")
    if payload.namespace is None or not payload.namespace.startswith("mcp__"):
        return name
    # Earlier versions, and other agents, write the server and the tool as one name.
    return payload.namespace.rstrip("_") + (name if name.startswith("_") else f"__{name}")


def input_of(payload: CodexPayload) -> msgspec.Raw:
    """Return the input of a call as JSON: arguments are JSON in a string, a script is a plain string."""
    raw = payload.arguments or payload.input or payload.action
    if not raw:
        return msgspec.Raw(b"{}")
    if payload.arguments and bytes(raw).startswith(b'"'):
        inner = string_of(raw) or ""
        try:
            return clean_raw(_raw.decode(inner))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return clean_raw(raw)
    return clean_raw(raw)


def thinking_of(summary: list[CodexContent] | str | None) -> m.Thinking:
    """Return the reasoning of the model; without a text, it is marked as encrypted."""
    if summary is None or isinstance(summary, str):
        return m.Thinking(summary or "", encrypted=not summary)
    text = "\n\n".join(part.text for part in summary if part.text)
    return m.Thinking(text, encrypted=not text)


def query_of(action: msgspec.Raw) -> str | None:
    """Return the query of a web search."""
    given = decode_any(action)
    query = given.get("query") if isinstance(given, dict) else None
    return query if isinstance(query, str) else None


def blocks_of(content: list[CodexContent] | str | None, raw_at: Callable[[int], msgspec.Raw]) -> list[m.Block]:
    """Return content as blocks; `raw_at` returns the JSON of a part, for those of unknown shape."""
    if isinstance(content, str):
        return [m.Text(content)]
    blocks: list[m.Block] = []
    for index, part in enumerate(content or ()):
        if part.text is not None:
            blocks.append(m.Text(part.text))
        elif part.image_url is not None:
            blocks.append(_image(part.image_url))
        else:
            blocks.append(m.Unknown(part.type, raw_at(index)))
    return blocks


def _image(url: str) -> m.Image:
    if url.startswith("data:") and ";base64," in url:
        head, data = url.split(";base64,", 1)
        return m.Image(head[5:], data)
    return m.Image(None, None, url)


def joined_text(content: list[CodexContent] | str | None) -> str:
    """Return the text of content."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text is not None)


def string_of(raw: msgspec.Raw) -> str | None:
    """Return a JSON value if it is a string."""
    value = decode_any(raw)
    return value if isinstance(value, str) else None


def flat_output(value: Any) -> tuple[str, list[m.Image | m.Unknown]]:
    """Return the text and the other parts of an output: a string, a list of parts, or an object with either."""
    if isinstance(value, str):
        return value, []
    if isinstance(value, dict):
        value = value.get("content", value)
        if isinstance(value, str):
            return value, []
    if not isinstance(value, list):
        return ("" if value is None else msgspec.json.encode(value).decode()), []
    texts: list[str] = []
    parts: list[m.Image | m.Unknown] = []
    for item in value:
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            texts.append(item["text"])
        elif isinstance(item, dict) and isinstance(item.get("image_url"), str):
            parts.append(_image(item["image_url"]))
        else:
            parts.append(m.Unknown("part", msgspec.Raw(msgspec.json.encode(item))))
    return "".join(texts), parts
