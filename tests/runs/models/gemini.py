"""A model for Gemini CLI that follows a script in its prompt: `streamGenerateContent` on loopback.

The last prompt that begins with `@do` is a script; its steps are separated by `;;`, and each request makes one step:

    say TEXT             words                       think TEXT    a thought, and then a word
    slow N               N words, the last one when `go_on` is set; more than three
    run CMD              a command                   both CMD // CMD   two commands at once
    write PATH=TEXT      a new file                  edit PATH=OLD=NEW a change of one
    question             a question with two answers
    call NAME JSON       any tool by its name
    spawn AGENT SCRIPT   a sub-agent with this script, in which `//` separates the steps
    fail STATUS          an error of the server

A prompt without a script is answered with `You said: …`, and a script that is over with `That is all.`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

from unspool.runs.drivers.gemini import PROGRAM_VARIABLE

from . import held

Json = dict[str, Any]
SCRIPT = "@do "
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "type": "choice",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ide": {"enabled": False},
}
LOCAL = Path(__file__).parents[3] / ".agents" / "gemini" / "node_modules" / ".bin" / "gemini"


def found_program() -> str | None:
    """The program that the tests run."""
    return os.environ.get(PROGRAM_VARIABLE) or shutil.which("gemini") or (str(LOCAL) if LOCAL.exists() else None)


PROGRAM = found_program()
"""None if Gemini CLI is not installed."""


class ScriptedError(Exception):
    """The script asks for an error."""


class GeminiModel:
    """The server. It keeps every request of a conversation that it was sent."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        """Until a test sets it, answers that are slow wait before their last word."""
        self.requests: list[Json] = []
        """The bodies of all requests that offer tools, oldest first: others are the program's own errands."""
        self.models: list[str] = []
        """The model that each of them was meant for."""
        self.cut_off = 0
        """Answers that the client did not read to the end."""
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> GeminiModel:
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
            "GEMINI_API_KEY": "dummy",
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{self.port}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    # --- what it was sent ---

    def heard(self, number: int = -1) -> str:
        """All of the conversation in one request, as one text to look into."""
        return json.dumps(self.requests[number]["contents"], ensure_ascii=False)

    def results(self, number: int = -1) -> list[str]:
        """The results of the calls of the last answer, as sent to the model."""
        parts = _parts(self.requests[number]["contents"][-1])
        return [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]

    # --- the wire ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?im)^content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b"{}"
            await self._answer(head.split(" ", 2)[1], json.loads(body or b"{}"), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.cut_off += 1
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, path: str, body: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match = re.search(r"models/([^:/?]+):(\w+)", path)
        if match is None:
            return await _send(writer, 404, {"error": {"code": 404, "message": "no", "status": "NOT_FOUND"}})
        if match[2] == "countTokens":
            return await _send(writer, 200, {"totalTokens": 100})
        config = body.get("generationConfig") or {}
        schema = config.get("responseJsonSchema") or config.get("responseSchema")
        if schema is not None or not _tools(body):
            parts = [{"text": json.dumps(_filled(schema)) if schema is not None else "A summary."}]
        else:
            self.requests.append(body)
            self.models.append(match[1])
            try:
                parts = _next_parts(body)
            except ScriptedError as error:
                message = {"code": int(str(error)), "message": "scripted failure", "status": "INVALID_ARGUMENT"}
                return await _send(writer, int(str(error)), {"error": message})
        if match[2] != "streamGenerateContent":
            return await _send(writer, 200, _chunk(parts, match[1], is_last=True))
        return await self._stream(parts, match[1], reader, writer)

    async def _stream(
        self, parts: list[Json], model: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        calls = [part for part in parts if "functionCall" in part]
        groups = [[part] for part in parts if "functionCall" not in part] + ([calls] if calls else [])
        for number, group in enumerate(groups):
            is_last = number == len(groups) - 1
            if is_last and len(groups) > 3:
                await held(reader, self.go_on)
            data = json.dumps(_chunk(group, model, is_last=is_last))
            writer.write(f"data: {data}\r\n\r\n".encode())
            await writer.drain()


async def _send(writer: asyncio.StreamWriter, status: int, answer: Json) -> None:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    await writer.drain()


def _chunk(parts: list[Json], model: str, *, is_last: bool) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    chunk: Json = {"candidates": [candidate], "modelVersion": model, "responseId": "scripted"}
    if is_last:
        candidate["finishReason"] = "STOP"
        chunk["usageMetadata"] = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    return chunk


# --- the script ------------------------------------------------------------------------------------------------------


def _next_parts(body: Json) -> list[Json]:
    contents = body["contents"]
    prompt, answers = "", 0
    for content in reversed(contents):
        texts = [part["text"] for part in _parts(content) if part.get("text")]
        if content.get("role") == "user" and texts and not texts[-1].startswith("<session_context>"):
            prompt = texts[-1]
            break
        answers += content.get("role") == "model"
    at = prompt.find(SCRIPT)
    if at < 0:
        return [{"text": f"You said: {prompt.strip()}"}]
    is_subagent = "complete_task" in _tools(body)
    script = prompt[at + len(SCRIPT) :]
    if is_subagent:  # Its prompt is put into a template, which continues below it.
        script = script.splitlines()[0].replace("//", ";;")
    steps = [step.strip() for step in script.split(";;")]
    if answers < len(steps):
        name, _, rest = steps[answers].partition(" ")
        return _step(name, rest.strip())
    if is_subagent:
        return [_call("complete_task", _filled(_tools(body)["complete_task"]))]
    return [{"text": "That is all."}]


def _step(name: str, rest: str) -> list[Json]:
    if name == "say":
        return [{"text": rest}]
    if name == "think":
        return [{"text": f"**A thought**\n{rest}", "thought": True}, {"text": "Thought."}]
    if name == "slow":
        return [{"text": f"{number} "} for number in range(int(rest))]
    if name == "fail":
        raise ScriptedError(rest)
    before = {"text": "A call. "}
    if name in ("run", "both"):
        commands = [command.strip() for command in rest.split("//")] if name == "both" else [rest]
        return [before, *(_call("run_shell_command", {"command": command}) for command in commands)]
    if name == "write":
        path, _, text = rest.partition("=")
        return [before, _call("write_file", {"file_path": path, "content": text})]
    if name == "edit":
        path, old, new = rest.split("=")
        given = {"file_path": path, "old_string": old, "new_string": new, "instruction": "change it"}
        return [before, _call("replace", given)]
    if name == "question":
        return [before, _call("ask_user", {"questions": [QUESTION]})]
    if name == "spawn":
        agent, _, script = rest.partition(" ")
        return [before, _call("invoke_agent", {"agent_name": agent, "prompt": SCRIPT + script})]
    if name == "call":
        tool, _, raw = rest.partition(" ")
        return [before, _call(tool, json.loads(raw or "{}"))]
    raise AssertionError(f"no such step: {name}")


def _call(name: str, given: Json) -> Json:
    return {"functionCall": {"name": name, "args": given}, "thoughtSignature": "c2NyaXB0ZWQ="}


def _parts(content: Json) -> list[Json]:
    return content.get("parts") or []


def _tools(body: Json) -> dict[str, Json]:
    declared = (tool for tools in body.get("tools") or [] for tool in tools.get("functionDeclarations") or [])
    return {tool["name"]: tool.get("parametersJsonSchema") or tool.get("parameters") or {} for tool in declared}


def _filled(schema: Json) -> Any:
    """Something that fits a schema."""
    kind = str(schema.get("type", "string")).lower()
    if schema.get("enum"):
        return schema["enum"][0]
    if kind == "object":
        return {key: _filled(value) for key, value in (schema.get("properties") or {}).items()}
    return {"array": [], "number": 1, "integer": 1, "boolean": False}.get(kind, "scripted")
