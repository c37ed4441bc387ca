"""Exports a context as a request to Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core import model as m
from .conversation import UNKNOWN_MODEL, ContextTurn, Conversation, Names
from .images import media_type_of, web_url
from .values import arguments_of

_LONGEST_NAME = 128
_LONGEST_ID = 128
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MAX_TOKENS = 8_192
"""The API requires a limit for the response."""


def anthropic_request(conversation: Conversation, model: str | None = None) -> dict[str, Any]:
    """Return the body of the request."""
    blocks = _Blocks()
    contents = [list(blocks.of(turn)) for turn in conversation.turns]
    if conversation.turns[-1].role == "assistant" and "text" in contents[-1][-1]:
        # The API rejects a final assistant text, which the model would continue, with trailing whitespace.
        contents[-1][-1]["text"] = contents[-1][-1]["text"].rstrip()
    messages = [
        {"role": turn.role, "content": content} for turn, content in zip(conversation.turns, contents, strict=True)
    ]
    request: dict[str, Any] = {"model": model or conversation.model or UNKNOWN_MODEL, "max_tokens": MAX_TOKENS}
    if conversation.system:
        request["system"] = [{"type": "text", "text": text} for text in conversation.system]
    tools = [{"name": blocks.name(name), "input_schema": {"type": "object"}} for name in conversation.tools]
    return {**request, "messages": messages, **({"tools": tools} if tools else {})}


class _Blocks:
    """Converts turns to content blocks, with consistent ids and names."""

    def __init__(self) -> None:
        self._id = Names(_LONGEST_ID, "call")
        self.name = Names(_LONGEST_NAME, "tool")

    def of(self, turn: ContextTurn) -> Iterator[dict[str, Any]]:
        """Yield the blocks of a turn. Results come first, as the API requires."""
        yield from map(self._result, turn.results)
        yield from _texts(turn.texts)
        yield from filter(None, map(_image, turn.images))
        yield from map(self._call, turn.calls)

    def _call(self, call: m.ToolCall) -> dict[str, Any]:
        return {
            "type": "tool_use", "id": self._id(call.id), "name": self.name(call.name),
            "input": arguments_of(call.raw_input),
        }  # fmt: skip

    def _result(self, result: m.ToolResult) -> dict[str, Any]:
        images = [image for part in result.parts if isinstance(part, m.Image) and (image := _image(part))]
        content = [*_texts([result.content]), *images]
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": self._id(result.call_id)}
        if content:
            block["content"] = content
        return block if result.outcome in ("ok", "unknown") else {**block, "is_error": True}


def _texts(texts: list[str]) -> Iterator[dict[str, Any]]:
    """Yield text blocks. The API rejects blank texts."""
    return ({"type": "text", "text": text} for text in texts if text.strip())


def _image(image: m.Image) -> dict[str, Any] | None:
    kind, url = media_type_of(image), web_url(image)
    if image.data and kind in _IMAGES:
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": image.data}}
    if url is not None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "text", "text": f"[image {image.url or kind}]"} if image.url or kind else None
