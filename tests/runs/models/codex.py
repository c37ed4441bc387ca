"""A model for Codex that follows a script in its prompt: the Responses API on loopback, as a stream of events.

The last prompt that begins with `@do` is a script; its steps are separated by `;;`, and each request makes one step:

    say TEXT          words
    slow N            N words, the last one when `go_on` is set
    run CMD           a command
    ask CMD           a command outside the sandbox, which a person must allow
    patch PATH=TEXT   a new file
    script CMD        the same in code mode: a script that asks for the command
    late CMD          the same, and the script takes another second when the command has been refused
    call NAME JSON    any tool by its name, or by that of its namespace, a dot and its name
    search TEXT       look for tools that are not offered at first
    spawn TEXT        a sub-agent with this prompt, in which `%do` begins a script and `//` separates its steps
    wait              wait for the sub-agent that was started last
    fail              an error of the server
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import threading
from collections.abc import Coroutine
from typing import Any

from . import held

Json = dict[str, Any]
_AGENT_ID = re.compile(r'agent_id\\?"\s*:\s*\\?"([0-9a-f-]{36})')


class CodexModel:
    """The server. It keeps every request it was sent."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        """Until a test sets it, answers that are slow wait before their last word."""
        self.requests: list[Json] = []
        """The bodies of all requests, oldest first."""
        self.called: list[str] = []
        """The ids of all calls it made."""
        self.cut_off = 0
        """Answers that the client did not read to the end."""
        self.port = 0
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> CodexModel:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *args: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def last(self) -> Json:
        """The newest request."""
        return self.requests[-1]

    def config(self, model: str = "gpt-5.5") -> str:
        """The `config.toml` with which Codex uses this model only."""
        return f"""
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "Scripted"
base_url = "http://127.0.0.1:{self.port}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[features]
apps = false
plugins = false
remote_plugin = false
daemon_auto_start = false
default_mode_request_user_input = true
"""

    # --- http ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            found = re.search(r"content-length: *(\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(found[1]) if found else 0)
            path = head.split(" ", 2)[1].partition("?")[0]
            if head.startswith("POST") and path.endswith("/responses"):
                await self._respond(json.loads(body), reader, writer)
            else:
                _answer(writer, 200 if path.endswith("/models") else 404, {"models": [], "data": [], "object": "list"})
            await writer.drain()
        writer.close()

    async def _respond(self, body: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(body)
        script, number = script_of(body["input"])
        steps = [step.strip() for step in script.split(";;")]
        verb, _, rest = (steps[number] if number < len(steps) else "say Done.").partition(" ")
        if verb == "fail":
            _answer(writer, 400, {"error": {"message": "a scripted failure", "type": "invalid_request_error"}})
            return
        answer = _Answer(writer, next(self._numbers))
        try:
            await answer.begin()
            if verb in ("say", "slow"):
                words = [f"w{n} " for n in range(int(rest))] if verb == "slow" else re.findall(r"\S+\s*", rest)
                await answer.say(words, held(reader, self.go_on) if verb == "slow" else None)
            else:
                call = _call(verb, rest, number, next(self._numbers), body)
                self.called.append(call["call_id"])
                await answer.item(call)
            await answer.end()
        except OSError:
            self.cut_off += 1


def _answer(writer: asyncio.StreamWriter, status: int, value: Json) -> None:
    data = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
    writer.write(head.encode() + b"connection: close\r\n\r\n" + data)


class _Answer:
    """One answer, event by event."""

    def __init__(self, writer: asyncio.StreamWriter, number: int) -> None:
        self._writer = writer
        self._id = f"resp_{number}"
        self._output: list[Json] = []

    async def begin(self) -> None:
        self._writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        await self._event("response.created", response={"id": self._id})

    async def say(self, words: list[str], hold: Coroutine[Any, Any, None] | None) -> None:
        item: Json = {"type": "message", "id": f"msg_{self._id}", "role": "assistant", "content": []}
        await self._event("response.output_item.added", output_index=0, item=item)
        for number, word in enumerate(words, 1):
            if hold is not None and number == len(words):
                await hold
            await self._event(
                "response.output_text.delta", item_id=item["id"], output_index=0, content_index=0, delta=word
            )
        item["content"] = [{"type": "output_text", "text": "".join(words), "annotations": []}]
        await self._done(item)

    async def item(self, item: Json) -> None:
        await self._event("response.output_item.added", output_index=0, item=item)
        await self._done(item)

    async def end(self) -> None:
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        response = {"id": self._id, "status": "completed", "output": self._output, "usage": usage}
        await self._event("response.completed", response=response)

    async def _done(self, item: Json) -> None:
        self._output.append(item)
        await self._event("response.output_item.done", output_index=0, item=item)

    async def _event(self, kind: str, **fields: Any) -> None:
        data = json.dumps({"type": kind, **fields})
        self._writer.write(f"event: {kind}\ndata: {data}\n\n".encode())
        await self._writer.drain()
        if self._writer.is_closing():
            raise ConnectionResetError


def _call(verb: str, rest: str, step: int, number: int, body: Json) -> Json:
    """A call of a tool; its id contains the number of the step."""
    tools = tools_of(body)
    head: Json = {"id": f"fc_{number}", "call_id": f"call_{step}_{number}"}
    if verb == "patch":
        path, _, text = rest.partition("=")
        patch = f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n"
        return {"type": "custom_tool_call", "name": "apply_patch", "input": patch, **head}
    if verb in ("script", "late"):
        given = {"cmd": rest, "sandbox_permissions": "require_escalated", "justification": "May I?"}
        script = f"const r = await tools.exec_command({json.dumps(given)}); text(r.output);"
        if verb == "late":
            rest = 'text(String(error)); await tools.exec_command({"cmd": "sleep 1"});'
            script = f"try {{ {script} }} catch (error) {{ {rest} }}"
        return {"type": "custom_tool_call", "name": "exec", "input": script, **head}
    if verb == "search":
        return {"type": "tool_search_call", "execution": "client", "arguments": {"query": rest, "limit": 8}, **head}
    full, arguments = _tool(verb, rest, tools, body)
    namespace, _, name = full.rpartition(".")
    call = {"type": "function_call", "name": name, "arguments": json.dumps(arguments), **head}
    if space := namespace or tools.get(name, {}).get("namespace"):
        call["namespace"] = space
    return call


def _tool(verb: str, rest: str, tools: dict[str, Json], body: Json) -> tuple[str, Json]:
    if verb == "call":
        name, _, text = rest.partition(" ")
        return name, json.loads(text or "{}")
    if verb == "spawn":
        return "spawn_agent", {"message": rest.replace("%do", "@do").replace("//", ";;")}
    if verb == "wait":
        return "wait_agent", {"targets": _AGENT_ID.findall(json.dumps(body["input"]))[-1:], "timeout_ms": 30000}
    given: Json = {"cmd": rest, "yield_time_ms": 20000}
    if verb == "ask":
        given |= {"sandbox_permissions": "require_escalated", "justification": "May I?"}
    return "exec_command", given


def script_of(items: list[Json]) -> tuple[str, int]:
    """The script that is under way, and the number of its next step."""
    script, step = "say Hello.", 0
    for item in items:
        text = text_of(item)
        if item.get("role") == "user" and text.startswith("@do "):
            script, step = text[4:], 0
        elif found := re.match(r"call_(\d+)_", item.get("call_id") or ""):
            step = max(step, int(found[1]) + 1)
    return script, step


def text_of(item: Json) -> str:
    """The words of an item of a request: of a message, or of what a tool gave back."""
    content = item.get("content") or item.get("output") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def tools_of(body: Json) -> dict[str, Json]:
    """The tools that a request offers, by name; those in a namespace know it."""
    found: dict[str, Json] = {}
    offered = list(body.get("tools") or [])
    for item in body["input"]:
        offered += item.get("tools") or [] if item.get("type") in ("additional_tools", "tool_search_output") else []
    for tool in offered:
        if tool.get("type") == "namespace":
            found |= {each["name"]: {**each, "namespace": tool["name"]} for each in tool["tools"]}
        else:
            found[tool.get("name") or tool["type"]] = tool
    return found
