"""`unspool serve` as somebody starts it, with the real agents and models that say what their prompts tell them to.

Of every session there are three accounts: what the model was sent, what the agent's own file says, and what the server
says. `Whole.agreed` lets nobody go on before the last two are one, and `Whole.last` is the first.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from unspool import Library, Session
from unspool.core import model as m
from unspool.core.decisions import RecordedDecision
from unspool.core.errors import UnspoolError
from unspool.runs.drivers.claude import ClaudeDriverFactory
from unspool.runs.drivers.codex import CodexDriverFactory
from unspool.runs.drivers.gemini import PROGRAM_VARIABLE, GeminiDriverFactory
from unspool.runs.processes import Family, is_alive
from unspool.runs.supervisor import run_log_path
from unspool.store.decision_log import recorded_decisions
from unspool.store.run_log import LogEntry, RunLog

from ..waiting import PATIENCE, wait_until
from ..web.browser import Server
from .models.claude import ClaudeModel
from .models.codex import CodexModel, text_of
from .models.gemini import PROGRAM, SETTINGS, GeminiModel

Json = dict[str, Any]
_TOLD = ("rejections", "interruptions", "input_changes", "orphans", "errors", "rollbacks", "branches")
"""What the file and the server report of a session, besides its messages."""


# --- the agents ------------------------------------------------------------------------------------------------------


class Claude:
    """Claude Code and its model."""

    name = "claude"
    factory = ClaudeDriverFactory()
    asking = "run"
    """The step of a script that makes the agent ask for a command."""

    def __init__(self) -> None:
        self.model = ClaudeModel()

    def prepare(self, home: Path) -> dict[str, str]:
        """Make a home in which the program uses this model; returns the environment variables for it."""
        (home / ".claude").mkdir()
        return self.model.environment

    def calls(self, request: Json) -> list[str]:
        """The ids of all calls in a request, in order."""
        return [block["id"] for block in _blocks(request) if block["type"] == "tool_use"]

    def results(self, request: Json) -> list[tuple[str, str]]:
        """The results of the calls: id and text."""
        found = [block for block in _blocks(request) if block["type"] == "tool_result"]
        return [(block["tool_use_id"], json.dumps(block.get("content"))) for block in found]

    def words(self, request: Json) -> list[str]:
        """All texts of the conversation."""
        return [block["text"] for block in _blocks(request) if block["type"] == "text"]


def _blocks(request: Json) -> Iterator[Json]:
    for message in request["messages"]:
        content = message["content"]
        yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


class Codex:
    """Codex CLI and its model."""

    name = "codex"
    factory = CodexDriverFactory()
    asking = "ask"

    def __init__(self) -> None:
        self.model = CodexModel()

    def prepare(self, home: Path) -> dict[str, str]:
        """Make a home in which the program uses this model; returns the environment variables for it."""
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(self.model.config())
        return {"OPENAI_API_KEY": "dummy"}

    def calls(self, request: Json) -> list[str]:
        """The ids of all calls in a request, in order."""
        return [item["call_id"] for item in request["input"] if item["type"].endswith("_call")]

    def results(self, request: Json) -> list[tuple[str, str]]:
        """The results of the calls: id and text."""
        return [(item["call_id"], text_of(item)) for item in request["input"] if item["type"].endswith("_output")]

    def words(self, request: Json) -> list[str]:
        """All texts of the conversation."""
        return [text_of(item) for item in request["input"] if item["type"] == "message"]


class Gemini:
    """Gemini CLI and its model."""

    name = "gemini"
    factory = GeminiDriverFactory()
    asking = "run"

    def __init__(self) -> None:
        self.model = GeminiModel()

    def prepare(self, home: Path) -> dict[str, str]:
        """Make a home in which the program uses this model; returns the environment variables for it."""
        (home / ".gemini").mkdir()
        (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
        return self.model.environment | ({PROGRAM_VARIABLE: PROGRAM} if PROGRAM is not None else {})

    def calls(self, request: Json) -> list[str]:
        """The names of all calls in a request, in order: the model gives them no ids."""
        return [part["functionCall"]["name"] for part in _parts(request) if "functionCall" in part]

    def results(self, request: Json) -> list[tuple[str, str]]:
        """The results of the calls: name and text."""
        found = [part["functionResponse"] for part in _parts(request) if "functionResponse" in part]
        return [(each["name"], json.dumps(each["response"])) for each in found]

    def words(self, request: Json) -> list[str]:
        """All texts of the conversation."""
        return [part["text"] for part in _parts(request) if "text" in part]


def _parts(request: Json) -> Iterator[Json]:
    for message in request["contents"]:
        yield from message["parts"]


Agent = Claude | Codex | Gemini
AGENTS: dict[str, type[Claude] | type[Codex] | type[Gemini]] = {"claude": Claude, "codex": Codex, "gemini": Gemini}


def installed(agent: str) -> Agent:
    """An agent; skips the test if it is not installed."""
    made = AGENTS[agent]()
    if isinstance(made, Gemini) and PROGRAM is not None:
        return made
    try:
        made.factory.find_program()
    except UnspoolError as error:
        pytest.skip(str(error))
    return made


@contextmanager
def playing(model: ClaudeModel | CodexModel | GeminiModel) -> Iterator[None]:
    """A model on a thread of its own, because the test itself blocks."""
    is_ready, is_over = threading.Event(), threading.Event()

    async def play() -> None:
        async with model:
            is_ready.set()
            await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=asyncio.run, args=(play(),), daemon=True)
    thread.start()
    assert is_ready.wait(PATIENCE)
    try:
        yield
    finally:
        is_over.set()
        thread.join(PATIENCE)


# --- everything together ---------------------------------------------------------------------------------------------


class Whole:
    """A home, a project, an agent with its model, and the server that runs it."""

    def __init__(self, folder: Path, agent: Agent, *options: str) -> None:
        self.agent = agent
        self.folder = folder
        self.home, self.project = folder / "home", folder / "project"
        self.data = folder / "data"
        for path in (self.home, self.project, self.data):
            path.mkdir(parents=True)
        self.server = Server(folder, self.home, *options)
        self.until = self.server.wait_for
        self.runs: list[str] = []

    def work_in(self, name: str) -> None:
        """Start the next agents in a new folder, so that they find nothing of those before them."""
        self.project = self.folder / name
        self.project.mkdir()

    # --- asking the server ---

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        """Send a request; returns the status and the response."""
        request = urllib.request.Request(
            f"{self.server.base}/api{path}",
            json.dumps(body).encode(),
            method="POST",
            headers={"authorization": f"Bearer {self.server.token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def start(self, prompt: str, **more: Any) -> str:
        """Start an agent; returns the id of the run."""
        return self._begun(agent=self.agent.name, folder=str(self.project), prompt=prompt, **more)

    def resume(self, session: str, prompt: str, **more: Any) -> str:
        """Resume or fork a session, even if another program seems to use it."""
        return self._begun(session=session, prompt=prompt, **more)

    def _begun(self, **body: Any) -> str:
        status, reply = self.post("/runs", who="the tests", **body)
        assert status == 201, reply
        self.runs.append(reply["run"]["id"])
        return self.runs[-1]

    def view(self, run: str) -> Json:
        """A run as it is now."""
        found: Json = self.server.api(f"/runs/{run}")
        return found

    def until_in(self, run: str, *states: str) -> Json:
        """Wait until a run is in one of these states; returns it."""

        def seen() -> Json | None:
            view = self.view(run)
            return view if view["state"] in states else None

        found: Json = self.until(seen, f"{states} of {run}")
        return found

    def stop_all(self) -> None:
        """Stop all agents and wait for their end."""

        def running() -> list[str]:
            return [view["id"] for view in self.server.api("/runs")["runs"] if view["state"] != "ended"]

        for run in running():
            self.post(f"/runs/{run}/stop")
        self.until(lambda: not running(), "the end of all agents")

    def send(self, run: str, message: str, text: str) -> None:
        """Send a message to an agent that runs."""
        status, reply = self.post(f"/runs/{run}/messages", id=message, text=text, who="the tests")
        assert status == 201, reply

    def asked(self, run: str) -> Json:
        """The next request of an agent."""
        found: Json = self.until_in(run, "waiting-input")["questions"][0]
        return found

    def answer(self, run: str, question: Json, verdict: str, who: str = "the tests", **more: Any) -> tuple[int, Any]:
        """Answer it."""
        path = f"/runs/{run}/answers/{question['asked']['id']}"
        return self.post(path, digest=question["digest"], verdict=verdict, who=who, **more)

    # --- the three accounts ---

    @property
    def last(self) -> Json:
        """The last request to the model."""
        return self.agent.model.requests[-1]

    def record(self, session: str) -> Session:
        """The session as its file has it, with the recorded decisions."""
        library = Library(self.home, evidence=recorded_decisions)
        with mock.patch.dict("os.environ", UNSPOOL_DATA=str(self.data)):
            return library.load(library.find(session))

    def messages_shown(self, session: str) -> int:
        """How many messages of a session the server shows."""
        found = [listed["row"] for listed in self.server.sessions() if listed["row"]["name"] == session]
        return found[0]["messages"] if found else 0

    def shown(self, session: str) -> Json:
        """What the server says."""
        found: Json = self.server.api(f"/sessions/{session}/messages")
        found |= self.server.api(f"/sessions/{session}")
        return found

    def listed(self, kind: str, session: str) -> list[Json]:
        """What the server lists of one session among the events of all."""
        entries: list[Json] = self.server.api(f"/events/{kind}?limit=500")["entries"]
        return [entry for entry in entries if entry["session"]["name"] == session]

    def agreed(self, session: str, holds: Callable[[Session], bool] = lambda _: True) -> Session:
        """The record, once the server has the same and a condition holds."""
        ours: Json = {}
        theirs: Json = {}

        def agree() -> Session | None:
            nonlocal ours, theirs
            record = self.record(session)
            shown = self.shown(session) if self.messages_shown(session) else {}
            ours, theirs = _told(json.loads(msgspec.json.encode(record))), _told(shown)
            return record if ours == theirs and holds(record) else None

        found = wait_until(
            agree,
            f"what is told of session {session}",
            detail=lambda: _difference(ours, theirs) or f"both say {_last_of(ours)}",
        )
        assert found is not None
        return found

    # --- the run log ---

    def entries(self, run: str, *kinds: str) -> list[LogEntry]:
        """The entries of a run in the run log."""
        log = RunLog(run_log_path(self.data), read_only=True)
        try:
            return [entry for entry in log.entries(0, 10_000, run) if entry.kind in kinds]
        finally:
            log.close()

    def decisions(self, session: str) -> list[RecordedDecision]:
        """The recorded decisions about a session."""
        log = RunLog(run_log_path(self.data), read_only=True)
        try:
            return log.decisions(self.agent.name, session)
        finally:
            log.close()

    def nothing_runs(self) -> bool:
        """Whether no agent started here is running, nor any of its children."""
        return not any(Family(None, mark=run).living() for run in self.runs)


def _told(record: Json) -> Json:
    if not record:
        return {}
    return {"messages": record["messages"]} | {name: record.get(name, []) for name in _TOLD}


def _difference(ours: Json, theirs: Json) -> str:
    names = [name for name in ours if ours[name] != theirs.get(name)]
    return "\n".join(f"{name}: the file says {ours[name]}, the server {theirs.get(name)}" for name in names)


def _last_of(reply: Json) -> Json:
    return reply | {"messages": reply["messages"][-3:]}


@contextmanager
def whole(folder: Path, agent: str, *options: str, **environment: str) -> Iterator[Whole]:
    """A server with an agent and options of its own. Afterwards nothing is running, and the server has not failed."""
    chosen = installed(agent)
    with playing(chosen.model):
        made = Whole(folder, chosen, *options)
        with mock.patch.dict("os.environ", chosen.prepare(made.home) | environment):
            try:
                made.server.start()
                yield made
            finally:
                made.server.stop()
        assert made.nothing_runs()
        assert "failed" not in made.server.errors, made.server.errors


class Listening:
    """Receives the live events, as a page does."""

    def __init__(self, server: Server) -> None:
        self.events: list[Json] = []
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        self._connection.request("GET", "/api/runs/events?since=0", headers={"authorization": f"Bearer {server.token}"})
        self._answer = self._connection.getresponse()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with self._answer:
            for line in self._answer:
                if line.startswith(b"data: "):
                    self.events.append(json.loads(line[6:]))
        self._connection.close()

    def of(self, kind: str) -> list[Json]:
        """Everything of one kind."""
        return [event for event in self.events if event["kind"] == kind]

    def words(self) -> str:
        """The text of the model."""
        return "".join(event["text"] for event in self.of("words") if not event["thinking"])


def said(session: Session, author: str) -> list[str]:
    """The texts of one author on the active path."""
    path = [message for message in session.active_path() if message.author == author]
    return [block.text for message in path for block in message.blocks if isinstance(block, m.Text)]


def results(session: Session) -> list[m.ToolResult]:
    """How the calls of a session ended, on all its branches."""
    blocks = [block for message in session.messages for block in message.blocks]
    return [block for block in blocks if isinstance(block, m.ToolResult)]


def calls(session: Session) -> list[str]:
    """The calls of a session, on all its branches."""
    blocks = [block for message in session.messages for block in message.blocks]
    return [block.id for block in blocks if isinstance(block, m.ToolCall)]


def cut_off(session: Session) -> set[str]:
    """The unfinished calls: those without a result, and those whose result says so."""
    found = {each.tool_use_id for each in session.orphans}
    found |= {id for each in session.interruptions for id in each.tool_use_ids}
    return found | {each.call_id for each in results(session) if each.outcome == "interrupted"}


def is_gone(pid: int) -> bool:
    """Whether no process has this id."""
    return not is_alive(pid, None)
