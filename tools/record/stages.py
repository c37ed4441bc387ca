"""An agent on a stage: a home and a project that are thrown away, a scripted model, and the agent's own driver."""

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
"""The verbs of the scripts: a command that has to be asked about, a new file, a sub-agent."""

Model = ClaudeModel | CodexModel | GeminiModel

_CALL_SECONDS = 60.0
"""How long a call may take until it runs."""


class Stage:
    """One agent, which may be started several times."""

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
        """What the scripts of this agent's model call something."""
        return _WORDS[self.agent][verb]

    def configure(self, settings: dict[str, Any]) -> None:
        """Write settings of the user, before Claude Code is started."""
        path = self.home / AGENTS[self.agent].info.folder / "settings.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(settings))

    async def start(self, **spec: Any) -> None:
        """Start the program, a new one each time, in the project if no other folder is given."""
        self._driver, self._events = self.factory.create(), EventCollector()
        spec = {"folder": str(self.project), "home": str(self.home), **spec}
        await self._driver.start(RunSpec(**spec), self._events)
        started = await self._events.next(Started)
        self.version = started.version or self.version
        self._pid = started.pid
        self.session = started.session or self.session

    async def send(self, text: str) -> None:
        """Give it a message."""
        self._messages += 1
        assert self._driver is not None
        await self._driver.send(f"message-{self._messages}", text)

    async def turn(self, text: str, decision: Answer = ALLOW) -> TurnEnded:
        """A message and its whole turn, in which everything that is asked is decided alike."""
        await self.send(text)
        while True:
            event = await self._events.next(PermissionRequest | TurnEnded)  # type: ignore[arg-type]
            if isinstance(event, TurnEnded):
                return event
            assert self._driver is not None
            await self._driver.answer(event, decision)

    async def interrupt_words(self, text: str, *queued: str) -> None:
        """Stop a turn while the model speaks, and after other messages were sent that are not taken up before."""
        await self.send(text)
        await self._events.next(TextDelta)
        for message in queued:
            await self.send(message)
        await self.interrupt()

    async def interrupt_question(self, text: str) -> None:
        """Stop a turn instead of answering what it asks."""
        await self.send(text)
        await self._events.next(PermissionRequest)
        await self.interrupt()

    async def interrupt_call(self, text: str, is_running: asyncio.Event) -> None:
        """Stop a turn while a call runs; everything that is asked is allowed."""
        turn = asyncio.create_task(self.turn(text))
        await asyncio.wait_for(is_running.wait(), _CALL_SECONDS)
        assert self._driver is not None
        await self._driver.interrupt()
        await turn

    async def interrupt(self) -> None:
        """Stop the turn, and wait until it has ended."""
        assert self._driver is not None
        await self._driver.interrupt()
        await self._events.next(TurnEnded)

    async def kill_at_question(self, text: str) -> None:
        """End the program without a word while it waits for an answer; by then it has written down what it asks."""
        await self.send(text)
        await self._events.next(PermissionRequest)
        await asyncio.sleep(3)
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        await self._events.next(AgentExited)

    async def stop(self) -> None:
        """End the program."""
        if self._driver is not None:
            await self._driver.stop()
            self._driver = None

    def save(self, target: Path) -> None:
        """Copy the agent's sessions, and what a reader uses beside them; no settings, no keys, no caches."""
        info = AGENTS[self.agent].info
        for place in info.paths:
            source = self.home / info.folder / place
            copy = target / info.folder / place
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.key", "*.sock"))
            elif source.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A server that never answers: its port, and an event that is set when a client has connected."""
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
    """A stage on which nothing stays running."""
    model: Model = ClaudeModel() if agent == "claude" else CodexModel() if agent == "codex" else GeminiModel()
    async with model:
        with environment(_set_up(folder, model)):
            stage = Stage(agent, folder)
            _furnish(stage, model)
            try:
                yield stage
            finally:
                await stage.stop()


def _set_up(folder: Path, model: Model) -> dict[str, str | None]:
    """The environment: the model's address and a dummy key, and no folder of the user."""
    found: dict[str, str | None] = {AGENTS[name].info.variable: None for name in AGENTS}
    found["HOME"] = str(folder / "home")
    if isinstance(model, CodexModel):
        found["OPENAI_API_KEY"] = "dummy"
    else:
        found |= model.environment
    return found


def _furnish(stage: Stage, model: Model) -> None:
    """The settings without which a program asks first, or contacts another server."""
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
    """Change the environment for a while; None takes a variable away."""
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
