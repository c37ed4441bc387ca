"""Runs an agent with its driver in a temporary home and project, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.runs.harness import EventCollector
from tests.runs.models.claude import ClaudeModel
from tests.runs.models.codex import CodexModel
from tests.runs.models.gemini import GeminiModel

from unspool.agents import AGENTS
from unspool.runs.protocol import (
    AgentExited,
    Answer,
    Driver,
    DriverFactory,
    PermissionRequest,
    RunSpec,
    Started,
    TextDelta,
    TurnEnded,
)
from unspool.runs.registry import DRIVERS

ALLOW = Answer(verdict="allow")
LOCAL_GEMINI = Path(".agents/gemini/node_modules/.bin/gemini")
_GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ide": {"enabled": False},
}
_WORDS = {
    "claude": {"run": "run", "write": "write", "spawn": "spawn say Child."},
    "codex": {"run": "ask", "write": "patch", "spawn": "search spawn agent ;; spawn %do say Child. ;; wait"},
    "gemini": {
        "run": "run",
        "write": "write",
        "spawn": 'spawn codebase_investigator call list_directory {"dir_path": "."}',
    },
}
"""Commands of each model's scripts: run a command that needs approval, write a file, start a sub-agent."""

Model = ClaudeModel | CodexModel | GeminiModel

_CALL_SECONDS = 60.0
"""The maximum time until a call runs."""


class Stage:
    """An agent with its home and project. It can be started several times."""

    def __init__(self, agent: str, folder: Path) -> None:
        self.agent = agent
        self.factory: DriverFactory = DRIVERS[agent]
        self.home = folder / "home"
        self.project = folder / "demo"
        self.version: str | None = None
        self.session: str | None = None
        self._driver: Driver | None = None
        self._events = EventCollector()
        self._messages = 0
        self.home.mkdir(parents=True)
        self.project.mkdir()

    def word(self, verb: str) -> str:
        """Return the script command of this agent's model for a verb."""
        return _WORDS[self.agent][verb]

    def configure(self, settings: dict[str, Any]) -> None:
        """Write the user's settings. Call it before Claude Code is started."""
        path = self.home / AGENTS[self.agent].info.folder / "settings.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(settings))

    async def start(self, **spec: Any) -> None:
        """Start a new process of the agent, in the project unless another folder is given."""
        self._driver, self._events = self.factory.create(), EventCollector()
        spec = {"folder": str(self.project), "home": str(self.home), **spec}
        await self._driver.start(RunSpec(**spec), self._events)
        started = await self._events.next(Started)
        self.version = started.version or self.version
        self._pid = started.pid
        self.session = started.session or self.session

    async def send(self, text: str) -> None:
        """Send a message."""
        self._messages += 1
        assert self._driver is not None
        await self._driver.send(f"message-{self._messages}", text)

    async def turn(self, text: str, decision: Answer = ALLOW) -> TurnEnded:
        """Send a message, give all requests of its turn the same answer, and wait until the turn ends."""
        await self.send(text)
        while True:
            event = await self._events.next(PermissionRequest | TurnEnded)  # type: ignore[arg-type]
            if isinstance(event, TurnEnded):
                return event
            assert self._driver is not None
            await self._driver.answer(event, decision)

    async def interrupt_words(self, text: str, *queued: str) -> None:
        """Interrupt a turn while the model is writing, after queuing other messages."""
        await self.send(text)
        await self._events.next(TextDelta)
        for message in queued:
            await self.send(message)
        await self.interrupt()

    async def interrupt_question(self, text: str) -> None:
        """Interrupt a turn instead of answering its request."""
        await self.send(text)
        await self._events.next(PermissionRequest)
        await self.interrupt()

    async def interrupt_call(self, text: str, is_running: asyncio.Event) -> None:
        """Interrupt a turn while a call is running. All requests are allowed."""
        turn = asyncio.create_task(self.turn(text))
        await asyncio.wait_for(is_running.wait(), _CALL_SECONDS)
        assert self._driver is not None
        await self._driver.interrupt()
        await turn

    async def interrupt(self) -> None:
        """Interrupt the turn, and wait until it has ended."""
        assert self._driver is not None
        await self._driver.interrupt()
        await self._events.next(TurnEnded)

    async def kill_at_question(self, text: str) -> None:
        """Kill the process while it waits for an answer, after it has had time to log the request."""
        await self.send(text)
        await self._events.next(PermissionRequest)
        await asyncio.sleep(3)
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        await self._events.next(AgentExited)

    async def stop(self) -> None:
        """Stop the process."""
        if self._driver is not None:
            await self._driver.stop()
            self._driver = None

    def save(self, target: Path) -> None:
        """Copy the agent's sessions and the other files that a reader uses, without settings, keys and caches."""
        info = AGENTS[self.agent].info
        for path in info.paths:
            source = self.home / info.folder / path
            copy = target / info.folder / path
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.key", "*.sock"))
            elif source.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Run a server that never responds. Yields its port, and an event that is set when a client has connected."""
    reached = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        with suppress(OSError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], reached
    finally:
        server.close()


@asynccontextmanager
async def staged(agent: str, folder: Path) -> AsyncIterator[Stage]:
    """Set up a stage for an agent, and stop the agent and the model at the end."""
    model: Model = ClaudeModel() if agent == "claude" else CodexModel() if agent == "codex" else GeminiModel()
    async with model:
        with environment(_variables(folder, model)):
            stage = Stage(agent, folder)
            _write_settings(stage, model)
            try:
                yield stage
            finally:
                await stage.stop()


def _variables(folder: Path, model: Model) -> dict[str, str | None]:
    """Return environment variables with the model's address and a dummy key, and without the user's folders."""
    found: dict[str, str | None] = {AGENTS[name].info.variable: None for name in AGENTS}
    found["HOME"] = str(folder / "home")
    if isinstance(model, CodexModel):
        found["OPENAI_API_KEY"] = "dummy"
    else:
        found |= model.environment
    return found


def _write_settings(stage: Stage, model: Model) -> None:
    """Write the settings that prevent a program from asking questions first or contacting another server."""
    if isinstance(model, CodexModel):
        folder = stage.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(model.config())
    elif isinstance(model, GeminiModel):
        folder = stage.home / ".gemini"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps(_GEMINI_SETTINGS))


@contextmanager
def environment(changes: dict[str, str | None]) -> Iterator[None]:
    """Change environment variables temporarily. None removes a variable."""
    before = {name: os.environ.get(name) for name in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(before)


def _apply(changes: dict[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
