"""The real Gemini CLI with a scripted model: the events, what the model gets and the session file agree."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from unspool.core import model as m
from unspool.core.errors import UnspoolError, UsageError
from unspool.core.session import Session
from unspool.library import Library
from unspool.runs.drivers.gemini import PROGRAM_VARIABLE, GeminiDriver, GeminiDriverFactory
from unspool.runs.processes import Family
from unspool.runs.protocol import (
    AgentExited,
    Answer,
    MessageAccepted,
    Notice,
    PermissionRequest,
    RequestCancelled,
    RunSpec,
    SettingsChanged,
    Started,
    TextDelta,
    TurnEnded,
    TurnStarted,
    Verdict,
)

from ...waiting import wait_until_async
from ..harness import EventCollector, needs_acp, run
from ..models.gemini import LOCAL, PROGRAM, SETTINGS, GeminiModel

HELPER = """---
name: helper
description: Helps
tools:
  - run_shell_command
---
You help.
"""


pytestmark = [
    needs_acp,
    pytest.mark.skipif(
        PROGRAM is None,
        reason=f"Gemini CLI is not installed: set {PROGRAM_VARIABLE}, or put it into {LOCAL.parents[2]}",
    ),
]


class Workspace:
    """A temporary home and project, a scripted model, and an agent that runs in them."""

    def __init__(self, folder: Path, model: GeminiModel) -> None:
        self.home = folder / "home"
        self.project = folder / "demo"
        self.model = model
        self.driver: GeminiDriver = GeminiDriverFactory().create()
        self.events = EventCollector()
        (self.home / ".gemini" / "agents").mkdir(parents=True)
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
        (self.home / ".gemini" / "agents" / "helper.md").write_text(HELPER)
        self.project.mkdir()

    async def start(self, **wanted: Any) -> Started:
        """Start an agent, or another one."""
        self.driver = GeminiDriverFactory().create()
        self.events = EventCollector()
        await self.driver.start(RunSpec(folder=str(self.project), home=str(self.home), **wanted), self.events)
        return await self.events.next(Started)

    async def begin_again(self) -> Started:
        """Clear the conversation: another session in the same process, with nothing left of the one before."""
        self.events.skip()
        await self.driver.send("m", "/clear")
        started = await self.events.next(Started)
        self.events.forget()
        for path in self.project.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.model.requests.clear()
        self.model.models.clear()
        self.model.go_on.clear()
        return started

    async def say(self, text: str) -> TurnEnded:
        """A turn without requests."""
        await self.driver.send("m", text)
        return await self.events.next(TurnEnded)

    async def request(self, text: str) -> PermissionRequest:
        """Send a message and wait for the agent's request."""
        await self.driver.send("m", text)
        return await self.events.next(PermissionRequest)

    async def answer(self, request: PermissionRequest, verdict: Verdict, reason: str | None = None) -> TurnEnded:
        """Answer, and wait for the end of the turn."""
        await self.driver.answer(request, Answer(verdict=verdict, reason=reason))
        return await self.events.next(TurnEnded)

    async def stop(self) -> AgentExited:
        """Stop the agent; nothing of it is left."""
        pid = self.driver._connection.process.pid if self.driver._connection else 0
        mark = self.driver._connection.process.mark if self.driver._connection else ""
        await self.driver.stop()
        assert Family(pid, 0.0, mark).living() == []
        assert len(self.events.all(AgentExited)) == 1
        return self.events.all(AgentExited)[0]

    def let_a_minute_pass(self) -> None:
        """Rename the session files as if they had been created long ago."""
        for path in self.files():
            path.rename(path.with_name(f"session-2026-01-01T00-00-{path.stem[-8:]}.jsonl"))

    def files(self) -> list[Path]:
        return sorted((self.home / ".gemini" / "tmp").glob("*/chats/session-*.jsonl"))

    def read(self, session: str | None = None) -> Session:
        """A session as the reader sees it, without a name that of the agent."""
        library = Library(self.home)
        return library.load(next(ref for ref in library.refs() if ref.id == (session or self.driver.session)))


@asynccontextmanager
async def workspace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workspace]:
    assert PROGRAM is not None
    async with GeminiModel() as model:
        monkeypatch.setenv(PROGRAM_VARIABLE, PROGRAM)
        for name, value in model.environment.items():
            monkeypatch.setenv(name, value)
        set_up = Workspace(folder, model)
        try:
            yield set_up
        finally:
            await set_up.driver.stop()


def said(session: Session, role: m.Role) -> list[str]:
    """The texts of one author on the active path."""
    return [
        block.text
        for message in session.active_path()
        if message.role == role
        for block in message.blocks
        if isinstance(block, m.Text)
    ]


def results(session: Session) -> dict[str, tuple[str, str]]:
    """The outcome and the text of every result, by call."""
    blocks = (block for message in session.messages for block in message.blocks)
    return {block.call_id: (block.outcome, block.content) for block in blocks if isinstance(block, m.ToolResult)}


LogCheck = Callable[[Session], None]
"""A check of the log of a session, which is complete when the program has ended."""
Scene = Callable[[Workspace, Started], Awaitable[LogCheck]]
"""What happens in one session."""


async def play(at: Workspace, started: Started, *scenes: Scene) -> None:
    """Several sessions in one process, because the start of the program costs more than all that is done in it."""
    checks: list[tuple[str | None, LogCheck]] = []
    for scene in scenes:
        if checks:
            started = await at.begin_again()
        check = await scene(at, started)
        checks.append((at.driver.session, check))
    if not at.events.all(AgentExited):
        assert (await at.stop()).error is None
    for session, check in checks:
        check(at.read(session))


async def a_command_and_edits(at: Workspace, started: Started) -> LogCheck:
    """Text arrives in pieces, requests show what will happen, and the log has the same."""
    assert started.session == at.driver.session
    assert (started.mode, started.model) == ("default", "auto")
    assert started.version
    assert at.driver.capabilities.modes == ("default", "autoEdit", "plan")
    await at.driver.send("m1", "@do think hm")
    assert isinstance(at.events.events[-1], Started)
    await at.events.next(TurnStarted)
    assert (await at.events.next(MessageAccepted)).message == "m1"
    assert await at.events.next(TextDelta, lambda words: words.thinking and "hm" in words.text)
    assert (await at.events.next(TurnEnded)).outcome == "completed"
    command = await at.request("@do run echo hi; touch ran.txt")
    assert (command.kind, command.tool, command.action.command) == (
        "command",
        "run_shell_command",
        "echo hi; touch ran.txt",
    )
    assert command.verdicts == ("allow", "allow_session", "deny", "deny_stop")
    assert not (at.project / "ran.txt").exists()
    assert (await at.answer(command, "allow")).outcome == "completed"
    assert (at.project / "ran.txt").exists()
    assert "hi" in at.model.results()[0]
    new = await at.request("@do write a.txt=alpha")
    assert (new.kind, new.action.path) == ("edit", str(at.project / "a.txt"))
    assert "+alpha" in (new.action.diff or "")
    await at.answer(new, "allow")
    edit = await at.request("@do edit a.txt=alpha=beta")
    assert "-alpha" in (edit.action.diff or "")
    assert "+beta" in (edit.action.diff or "")
    await at.answer(edit, "allow")
    assert (at.project / "a.txt").read_text() == "beta"

    def check(session: Session) -> None:
        outcomes = results(session)
        assert [outcomes[one.call_id or ""][0] for one in (command, new, edit)] == ["ok"] * 3
        assert said(session, "assistant")[-1] == "That is all."
        assert session.info.project == m.Project(str(at.project), "demo")

    return check


async def denials(at: Workspace, _started: Started) -> LogCheck:
    """A denied call does not run. Its reason is the next message; with a stop it waits for the next message."""
    plain = await at.request("@do run touch no1.txt")
    assert (await at.answer(plain, "deny")).outcome == "completed"
    assert "canceled by the user" in at.model.results()[0]
    reasoned = await at.request("@do run touch no2.txt")
    assert (await at.answer(reasoned, "deny", "Use the other file.")).outcome == "completed"
    assert (await at.events.next(TurnEnded)).outcome == "completed"
    assert "Use the other file." in at.model.heard()
    assert "Use the other file." not in at.model.heard(-2)
    stopping = await at.request("@do run touch no3.txt")
    requests = len(at.model.requests)
    assert (await at.answer(stopping, "deny_stop", "Not today.")).outcome == "interrupted"
    assert len(at.model.requests) == requests
    await at.say("@do say fine")
    assert "Not today." in at.model.heard()
    assert at.events.all(RequestCancelled) == []
    assert sorted(path.name for path in at.project.iterdir()) == []

    def check(session: Session) -> None:
        # The program does not record a rejection that ends the turn.
        refused = [rejection.tool_use_id for rejection in session.rejections]
        assert refused == [plain.call_id, reasoned.call_id]

    return check


async def interruptions(at: Workspace, _started: Started) -> LogCheck:
    """A response, a running command and a request are stopped, and the session continues."""
    await at.driver.interrupt()
    assert (await at.say("@do say first")).outcome == "completed"
    await at.driver.send("m", "@do slow 5")
    await at.events.next(TextDelta, lambda words: "3" in words.text)
    await at.driver.interrupt()
    assert (await at.events.next(TurnEnded)).outcome == "interrupted"
    command = await at.request("@do run touch began.txt; sleep 300; touch ended.txt")
    await at.driver.answer(command, Answer(verdict="allow"))
    await wait_until_async((at.project / "began.txt").exists, "the command to begin")
    await at.driver.interrupt()
    assert (await at.events.next(TurnEnded)).outcome == "interrupted"
    waiting = await at.request("@do run touch never.txt")
    await at.driver.interrupt()
    assert (await at.events.next(RequestCancelled)).id == waiting.id
    assert (await at.events.next(TurnEnded)).outcome == "interrupted"
    await at.driver.answer(waiting, Answer(verdict="allow"))
    assert (await at.say("@do say last")).outcome == "completed"
    assert "@do slow" not in at.model.heard()
    assert [path.name for path in at.project.iterdir()] == ["began.txt"]

    def check(session: Session) -> None:
        # The one at the question is not written down.
        assert [interruption.during for interruption in session.interruptions] == ["response", "tool"]
        assert results(session)[command.call_id or ""][0] == "interrupted"
        assert said(session, "assistant")[-1] == "last"

    return check


async def messages_wait_for_the_end_of_the_turn(at: Workspace, _started: Started) -> LogCheck:
    """A message sent during a response is the next turn, and is reported when it is accepted."""
    await at.driver.send("m1", "@do slow 20")
    await at.events.next(TextDelta)
    await at.driver.send("m2", "second")
    await at.driver.send("m3", "third")
    at.model.go_on.set()
    for _ in range(3):
        assert (await at.events.next(TurnEnded)).outcome == "completed"
    kinds = [event for event in at.events.events if isinstance(event, MessageAccepted | TurnEnded)]
    assert [event.message if isinstance(event, MessageAccepted) else "end" for event in kinds] == [
        "m1",
        "end",
        "m2",
        "end",
        "m3",
        "end",
    ]

    def check(session: Session) -> None:
        assert said(session, "user") == ["@do slow 20", "second", "third"]

    return check


async def mode_and_model(at: Workspace, _started: Started) -> LogCheck:
    """Both can be changed, but not to the mode that skips all approvals."""
    await at.say("@do say one")
    assert at.model.models[-1] == "gemini-2.5-pro"
    await at.driver.set_model("gemini-2.5-flash")
    assert (await at.events.next(SettingsChanged)).model == "gemini-2.5-flash"
    await at.say("@do say two")
    assert at.model.models[-1] == "gemini-2.5-flash"
    await at.driver.set_mode("autoEdit")
    assert (await at.events.next(SettingsChanged)).mode == "autoEdit"
    await at.say("@do write b.txt=beta")
    assert at.events.all(PermissionRequest) == []
    assert (at.project / "b.txt").exists()
    with pytest.raises(UsageError, match="yolo"):
        await at.driver.set_mode("yolo")
    await at.answer(await at.request("@do run touch asked.txt"), "deny")
    assert "[MODE_UPDATE]" not in at.events.text()

    def check(session: Session) -> None:
        assert "gemini-2.5-flash" in {message.model for message in session.messages}

    return check


async def allowed_for_the_session(at: Workspace, _started: Started) -> LogCheck:
    """The same command needs no further approval while this process is running."""
    await at.answer(await at.request("@do run touch one.txt"), "allow_session")
    await at.say("@do run touch two.txt")
    assert (at.project / "two.txt").exists()
    assert len(at.events.all(PermissionRequest)) == 1
    both = await at.request("@do both mkdir three // mkdir four")
    await at.driver.answer(both, Answer(verdict="deny"))
    other = await at.events.next(PermissionRequest)
    assert other.id != both.id
    await at.answer(other, "allow")
    assert (at.project / "four").exists()
    assert not (at.project / "three").exists()
    assert not list(at.home.rglob("*.toml"))

    def check(session: Session) -> None:
        assert [rejection.tool_use_id for rejection in session.rejections] == [both.call_id]
        assert results(session)[other.call_id or ""][0] == "ok"

    return check


async def a_plan(at: Workspace, _started: Started) -> LogCheck:
    """The plan itself is shown, not only its file; approval ends the plan mode."""
    exit_with = '{"plan_filename": "plan.md"}'
    plan = await at.request(f"@do write plan.md=First this.;;call exit_plan_mode {exit_with};;say ok")
    assert (plan.kind, plan.action.plan) == ("plan", "First this.")
    assert "allow_session" not in plan.verdicts
    await at.answer(plan, "deny")
    assert at.driver._settings.mode == "plan"
    again = await at.request(f"@do call exit_plan_mode {exit_with};;say ok")
    await at.answer(again, "allow")
    assert at.events.all(SettingsChanged) == [SettingsChanged(mode="default")]
    assert "Plan approved" in at.model.results()[0]
    assert set(at.model.models) == {"gemini-2.5-pro"}
    return lambda _: None


async def sub_agents(at: Workspace, _started: Started) -> LogCheck:
    """One that only reads runs without approval; the program denies one that could do more."""
    await at.say('@do spawn codebase_investigator call list_directory {"dir_path": "."}')
    assert at.events.all(PermissionRequest) == []
    assert "codebase_investigator" in at.model.results()[0]
    await at.say("@do spawn helper run touch sub.txt")
    assert "denied by policy" in at.model.results()[0]
    assert at.events.all(PermissionRequest) == []
    assert not (at.project / "sub.txt").exists()

    def check(session: Session) -> None:
        assert len(session.subagents) >= 1

    return check


async def a_clear_starts_another_session(at: Workspace, started: Started) -> LogCheck:
    """In the same process and with the same mode; the model gets nothing of the conversation before."""
    assert (await at.say("@do say before")).outcome == "completed"
    await at.driver.set_mode("plan")
    await at.driver.send("m", "/clear")
    second = await at.events.next(Started)
    assert (await at.events.next(TurnEnded)).outcome == "completed"
    assert (second.pid, second.mode) == (started.pid, "plan")
    assert second.session not in (None, started.session)
    assert (await at.say("@do say after")).outcome == "completed"
    assert "before" not in at.model.heard()
    assert said(at.read(), "assistant") == ["after"]
    assert said(at.read(started.session), "assistant") == ["before"]

    def check(session: Session) -> None:
        assert said(session, "assistant") == ["after"]

    return check


async def stopping_leaves_nothing_behind(at: Workspace, _started: Started) -> LogCheck:
    """Neither the running command nor one in the background in a session of its own."""
    command = "setsid sleep 777 & touch began.txt; sleep 778"
    request = await at.request(f"@do run {command}")
    await at.driver.answer(request, Answer(verdict="allow"))
    await wait_until_async((at.project / "began.txt").exists, "the command to begin")
    await at.stop()
    assert [event.outcome for event in at.events.all(TurnEnded)] == ["interrupted"]
    await at.driver.stop()
    assert len(at.events.all(AgentExited)) == 1
    assert at.events.all(Notice) == []
    with pytest.raises(UnspoolError, match="is not running"):
        await at.driver.send("m", "hello")
    return lambda _: None


def test_sessions_in_the_default_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            scenes = (a_command_and_edits, denials, interruptions, messages_wait_for_the_end_of_the_turn, sub_agents)
            # What is allowed for the session stays allowed while the process is running, so it comes after all others.
            await play(at, await at.start(), *scenes, allowed_for_the_session, a_clear_starts_another_session)

    run(body())


def test_a_mode_and_a_model_chosen_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And changed later, until the program is stopped in the middle of a turn."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            started = await at.start(mode="plan", model="gemini-2.5-pro")
            assert (started.mode, started.model) == ("plan", "gemini-2.5-pro")
            await play(at, started, a_plan, mode_and_model, stopping_leaves_nothing_behind)

    run(body())


def test_skipping_approvals_must_be_chosen_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode that skips all approvals can be chosen at the start. And errors end a turn."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            started = await at.start(mode="yolo")
            assert started.mode == "yolo"
            assert "yolo" in at.driver.capabilities.modes
            await at.say("@do run touch free.txt")
            assert (at.project / "free.txt").exists()
            failed = await at.say("@do fail 400")
            assert failed.outcome == "failed"
            assert "scripted failure" in (failed.error or "")
            assert (await at.say("@do say on")).outcome == "completed"

    run(body())


def test_resuming_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was killed during a request, and again, because the second time the program would have deleted it.

    The exit is reported once, the call was never made, and the past is not reported again.
    """

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            started = await at.start()
            id = started.session
            await at.say("@do say one")
            request = await at.request("@do run touch never.txt")
            os.kill(started.pid or 0, signal.SIGKILL)
            ended = await at.events.next(AgentExited)
            assert ended.code == -signal.SIGKILL
            assert at.events.all(RequestCancelled) == [RequestCancelled(request.id)]
            assert [event.outcome for event in at.events.all(TurnEnded)] == ["completed"]
            await at.driver.answer(request, Answer(verdict="allow"))
            await at.stop()
            assert said(at.read(), "assistant") == ["one", "A call."]
            for text in ("two", "three"):
                at.let_a_minute_pass()
                assert (await at.start(session=id)).session == id
                assert at.events.all(TextDelta) == []
                assert (await at.say(f"@do say {text}")).outcome == "completed"
                assert at.events.text() == text
                assert "@do say one" in at.model.heard()
                assert "A call." in at.model.heard()
                assert len([path for path in at.files() if path.stem.endswith(str(id)[:8])]) == 1
                await at.stop()
                assert said(at.read(), "assistant")[-1] == text
            assert said(at.read(), "assistant") == ["one", "A call.", "two", "three"]
            assert not (at.project / "never.txt").exists()
            with pytest.raises(UnspoolError, match="cannot fork"):
                await at.start(session=id, fork=True)

    run(body())
