"""A model for Claude Code that follows a script in its prompt: the Messages API on loopback, as a stream.

The last prompt that begins with `@do` is a script; its steps are separated by `;;`, and each request makes one step:

    say TEXT          words
    think TEXT        a thought, and then a word
    slow N            N words, the last one when `go_on` is set
    run CMD           a command
    both CMD // CMD   two commands at once
    write PATH=TEXT   a new file
    question          a question with two answers
    plan TEXT         a plan, in the file that the program wants it in
    call NAME JSON    any tool by its name
    spawn SCRIPT      a sub-agent with this script, in which `//` separates the steps
    fail STATUS       an error of the server
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import threading
from typing import Any

from . import held

Json = dict[str, Any]
SCRIPT = "@do "
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


class ScriptedError(Exception):
    """The script asks for an error."""


class ClaudeModel:
    """The server. It keeps every request of a conversation that it was sent."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        """Until a test sets it, answers that are slow wait before their last word."""
        self.requests: list[Json] = []
        """The bodies of all requests that offer tools, oldest first: others are the program's own errands."""
        self.cut_off = 0
        """Answers that the client did not read to the end."""
        self.port = 0
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> ClaudeModel:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 26)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make the program use this server only."""
        return {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.port}",
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }

    # --- what it was sent ---

    def heard(self, number: int = -1) -> str:
        """All of the conversation in one request, as one text to look into."""
        return json.dumps(self.requests[number]["messages"], ensure_ascii=False)

    def results(self, number: int = -1) -> list[str]:
        """The results of tools in the last message of one request."""
        content = _turns(self.requests[number])[-1]["content"]
        return [_text_of(block.get("content")) for block in content if block.get("type") == "tool_result"]

    # --- http ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            fields = {name.strip().lower(): value.strip() for name, _, value in (at.partition(":") for at in lines[1:])}
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            method, path = lines[0].split(" ")[:2]
            if method == "POST" and path.startswith("/v1/messages") and "count_tokens" not in path:
                await self._answer(json.loads(body), reader, writer)
            else:
                _write(writer, 200, b'{"input_tokens": 10}' if method == "POST" else b"{}")
            await writer.drain()
        writer.close()

    async def _answer(self, request: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not request.get("tools"):
            await self._stream(request, [_text("{}")], reader, writer)
            return
        self.requests.append(request)
        try:
            blocks = self._play(request)
        except ScriptedError as failure:
            status = int(str(failure))
            error = {"type": "error", "error": {"type": "api_error", "message": "as the script says"}}
            _write(writer, status, json.dumps(error).encode())
            return
        try:
            await self._stream(request, blocks, reader, writer)
        except OSError:
            self.cut_off += 1

    async def _stream(
        self, request: Json, blocks: list[Json], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        uses_tools = any(block["type"] == "tool_use" for block in blocks)
        message = {
            "id": f"msg_{next(self._numbers):08}", "type": "message", "role": "assistant", "model": request["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
        }  # fmt: skip
        stop = {"stop_reason": "tool_use" if uses_tools else "end_turn", "stop_sequence": None}
        if not request.get("stream"):
            _write(writer, 200, json.dumps(message | stop | {"content": blocks}).encode())
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        await _event(writer, {"type": "message_start", "message": message})
        for index, block in enumerate(blocks):
            empty, deltas = _pieces(block)
            await _event(writer, {"type": "content_block_start", "index": index, "content_block": empty})
            for delta in deltas:
                if block.get("slow") and delta is deltas[-1]:
                    await held(reader, self.go_on)
                await _event(writer, {"type": "content_block_delta", "index": index, "delta": delta})
            await _event(writer, {"type": "content_block_stop", "index": index})
        await _event(writer, {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}})
        await _event(writer, {"type": "message_stop"})

    # --- the script ---

    def _play(self, request: Json) -> list[Json]:
        script, done = _script_in(request)
        if script is None:
            return [_text("There is no script.")]
        steps = [step.strip() for step in script.split(";;")]
        if done >= len(steps):
            return [_text("All is done.")]
        verb, _, rest = steps[done].partition(" ")
        if verb == "fail":
            raise ScriptedError(rest)
        return (
            [_text(f"Step {done + 1}."), *self._calls(verb, rest, request)] if verb in _CALLING else _saying(verb, rest)
        )

    def _calls(self, verb: str, rest: str, request: Json) -> list[Json]:
        if verb == "both":
            return [self._call("Bash", {"command": each.strip()}) for each in rest.split("//")]
        if verb == "write":
            path, _, text = rest.partition("=")
            return [self._call("Write", {"file_path": path, "content": text})]
        if verb == "spawn":
            prompt = SCRIPT + rest.replace("//", ";;")
            given = {"description": "A sub-agent", "prompt": prompt, "subagent_type": "general-purpose"}
            return [self._call("Agent", given | {"run_in_background": False})]
        if verb == "plan":
            places = _PLAN_FILE.findall(json.dumps(request))
            return [self._call("Write", {"file_path": places[-1], "content": rest})]
        if verb == "question":
            return [self._call("AskUserQuestion", {"questions": [QUESTION]})]
        if verb == "call":
            name, _, text = rest.partition(" ")
            return [self._call(name, json.loads(text))]
        return [self._call("Bash", {"command": rest, "description": "As the script says"})]

    def _call(self, name: str, given: Json) -> Json:
        return {"type": "tool_use", "id": f"toolu_{next(self._numbers):08}", "name": name, "input": given}


_CALLING = ("run", "both", "write", "question", "plan", "call", "spawn")
_PLAN_FILE = re.compile(r"(/[^\s\"\\]+/plans/[\w.-]+\.md)")


def _saying(verb: str, rest: str) -> list[Json]:
    if verb == "think":
        return [{"type": "thinking", "thinking": rest, "signature": "c2lnbmVk"}, _text("Thought.")]
    if verb == "slow":
        return [_text(" ".join(f"word{number}" for number in range(int(rest)))) | {"slow": True}]
    return [_text(rest)]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """How a block begins, and what is added to it."""
    if block["type"] == "text":
        words = [f"{word} " for word in block["text"].split(" ")]
        words[-1] = words[-1][:-1]
        return _text(""), [{"type": "text_delta", "text": word} for word in words]
    if block["type"] == "thinking":
        return {"type": "thinking", "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]


def _turns(request: Json) -> list[Json]:
    """What was said; the program also adds words of its own as a system."""
    return [message for message in request["messages"] if message["role"] != "system"]


def _script_in(request: Json) -> tuple[str | None, int]:
    """The last script, and how many answers it has had."""
    turns = _turns(request)
    for place in range(len(turns) - 1, -1, -1):
        if turns[place]["role"] != "user":
            continue
        for text in reversed(_texts_of(turns[place])):
            if text.startswith(SCRIPT):
                answers = sum(1 for message in turns[place + 1 :] if message["role"] == "assistant")
                return text.removeprefix(SCRIPT), answers
    return None, 0


def _texts_of(message: Json) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") == "text"]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [])


def _write(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    writer.write(f"{head}connection: close\r\n\r\n".encode() + body)


async def _event(writer: asyncio.StreamWriter, event: Json) -> None:
    writer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    await writer.drain()
