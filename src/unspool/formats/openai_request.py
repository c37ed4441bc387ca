"""Exports a context as a request to OpenAI's Chat Completions API, which many other servers support, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core import model as m
from .conversation import UNKNOWN_MODEL, ContextTurn, Conversation, Names
from .images import data_url, web_url
from .values import arguments_of, encode

_LONGEST_ID = 40
_LONGEST_NAME = 64
_NO_OUTPUT = "(no output)"


def openai_request(conversation: Conversation, model: str | None = None) -> dict[str, Any]:
    """Return the body of the request."""
    messages = OpenAIMessages()
    request: dict[str, Any] = {
        "model": model or conversation.model or UNKNOWN_MODEL,
        "messages": [*messages.system(conversation.system), *messages.of(conversation.turns)],
    }
    tools = [_tool(messages.name(name)) for name in conversation.tools]
    return {**request, "tools": tools} if tools else request


def _tool(name: str) -> dict[str, Any]:
    """Declare a tool. The log has only its name, so its parameters are empty."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


class OpenAIMessages:
    """Converts turns to messages, with consistent ids and names."""

    def __init__(self) -> None:
        self._id = Names(_LONGEST_ID, "call")
        self.name = Names(_LONGEST_NAME, "tool")

    def system(self, texts: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the instructions."""
        return ({"role": "system", "content": text} for text in texts)

    def of(self, turns: list[ContextTurn]) -> Iterator[dict[str, Any]]:
        """Yield the messages of turns."""
        for turn in turns:
            if turn.role == "assistant":
                yield self.response("\n\n".join(turn.texts), turn.calls)
                continue
            yield from map(self._result, turn.results)
            images = [part for result in turn.results for part in result.parts if isinstance(part, m.Image)]
            parts = [*_texts(turn.texts), *filter(None, map(_image, [*images, *turn.images]))]
            if parts:
                only_text = len(parts) == 1 and parts[0]["type"] == "text"
                yield {"role": "user", "content": parts[0]["text"] if only_text else parts}

    def response(self, text: str, calls: list[m.ToolCall]) -> dict[str, Any]:
        """Return a message of the model."""
        message: dict[str, Any] = {"role": "assistant"}
        if text or not calls:
            message["content"] = text
        if calls:
            message["tool_calls"] = [self._call(call) for call in calls]
        return message

    def _call(self, call: m.ToolCall) -> dict[str, Any]:
        function = {"name": self.name(call.name), "arguments": encode(arguments_of(call.raw_input)).decode()}
        return {"id": self._id(call.id), "type": "function", "function": function}

    def _result(self, result: m.ToolResult) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": result.content or _NO_OUTPUT}


def _texts(texts: list[str]) -> Iterator[dict[str, Any]]:
    return ({"type": "text", "text": text} for text in texts)


def _image(image: m.Image) -> dict[str, Any] | None:
    url = data_url(image) or web_url(image)
    if url is None:
        return {"type": "text", "text": f"[image {image.url}]"} if image.url else None
    return {"type": "image_url", "image_url": {"url": url}}
