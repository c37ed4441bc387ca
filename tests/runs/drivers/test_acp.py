"""The driver of the Agent Client Protocol with a scripted agent: what a well-behaved program would not show."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import wait_until_async
from unspool.core import model as m
from unspool.core.errors import MissingExtraError, NotFoundError, UnspoolError, UsageError
from unspool.core.session import Session
from unspool.library import Library
from unspool.runs import processes
from unspool.runs.drivers import acp as acp_driver
from unspool.runs.drivers import acp_turns, gemini, line_process
from unspool.runs.drivers.gemini import PROGRAM_VARIABLE, GeminiDriver, GeminiDriverFactory
from unspool.runs.processes import Family, is_alive
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
)

from .. import scripted_agent
from ..harness import EventCollector, needs_acp, run

pytestmark = needs_acp


class Workspace:
    """A temporary home and project, and agents that run in them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "demo"
        self.driver: GeminiDriver = GeminiDriverFactory().create()
        self.events = EventCollector()
        self.home.mkdir()
        self.project.mkdir()

    async def start(self, **wanted: Any) -> Started:
        self.driver = GeminiDriverFactory().create()
        self.events = EventCollector()
        await self.driver.start(RunSpec(folder=str(self.project), home=str(self.home), **wanted), self.events)
        return await self.events.next(Started)

    async def say(self, text: str) -> TurnEnded:
        await self.driver.send("m", text)
        return await self.events.next(TurnEnded)

    async def request(self, text: str) -> PermissionRequest:
        await self.driver.send("m", text)
        return await self.events.next(PermissionRequest)

    async def answer(self, request: PermissionRequest, **decision: Any) -> TurnEnded:
        await self.driver.answer(request, Answer(**decision))
        return await self.events.next(TurnEnded)

    def left(self) -> list[Any]:
        """The processes of the agent that are still running."""
        assert self.driver._connection is not None
        return Family(self.driver._connection.process.pid, 0.0, self.driver._connection.process.mark).living()

    def files(self) -> list[Path]:
        return sorted((self.home / ".gemini" / "tmp").glob("*/chats/session-*.jsonl"))

    def read(self) -> Session:
        library = Library(self.home)
        return library.load(next(ref for ref in library.refs() if ref.id == self.driver.session))


@asynccontextmanager
async def workspace(folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> AsyncIterator[Workspace]:
    monkeypatch.setenv(PROGRAM_VARIABLE, scripted_agent.install(folder))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    at = Workspace(folder)
    try:
        yield at
    finally:
        await at.driver.stop()
        if at.driver._connection is not None and at.driver._connection.process.pid:
            assert at.left() == []


def said(session: Session) -> list[str]:
    """The texts of the model on the active path."""
    return [
        block.text
        for message in session.active_path()
        if message.role == "assistant"
        for block in message.blocks
        if isinstance(block, m.Text)
    ]


# --- what goes well --------------------------------------------------------------------------------------------------


def test_a_turn_from_start_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All events arrive in order, and the session file can be read."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            started = await at.start()
            assert (started.mode, started.model, started.version) == ("default", "auto", "0.61.0")
            await at.driver.send("m1", "think hm;;say one;;ask touch x;;say two")
            request = await at.events.next(PermissionRequest)
            await at.driver.answer(request, Answer(verdict="allow"))
            await at.driver.answer(request, Answer(verdict="deny"))
            ended = await at.events.next(TurnEnded)
            assert at.events.events == [
                started,
                TurnStarted(),
                MessageAccepted("m1"),
                TextDelta("hm", thinking=True),
                TextDelta("one"),
                request,
                TextDelta("two"),
                ended,
            ]
            await at.driver.stop()
            assert at.events.events[-1] == AgentExited(code=0)
            session = at.read()
            assert said(session) == ["one", "two"]
            assert (at.project / "x").exists()
            assert session.info.project == m.Project(str(at.project), "demo")

    run(body())


def test_denials_and_their_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason is the next message, before all others; with a stop it is sent along with the next message."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            request = await at.request("ask touch no;;say went on")
            await at.driver.send("m2", "say queued")
            await at.answer(request, verdict="deny", reason="say the reason")
            for _ in range(2):
                assert (await at.events.next(TurnEnded)).outcome == "completed"
            assert at.events.text() == "went onthe reasonqueued"
            assert [event.message for event in at.events.all(MessageAccepted)] == ["m", "m2"]
            assert at.events.all(Notice)
            stopping = await at.request("ask touch no;;say not said")
            ended = await at.answer(stopping, verdict="deny_stop", reason="say held back")
            assert ended.outcome == "interrupted"
            assert not at.events.text().endswith("held back")
            await at.say("say last")
            assert at.events.text().endswith("held backlast")
            # One for each message and one for the reason: what was held back made no turn of its own.
            assert len(at.events.all(TurnStarted)) == len(at.events.all(TurnEnded)) == 5
            assert at.events.all(RequestCancelled) == []
            with pytest.raises(UsageError, match="input of a request cannot be changed"):
                await at.driver.answer(request, Answer(verdict="allow", input={"command": "ls"}))
            await at.driver.stop()
            assert not (at.project / "no").exists()
            assert [one.tool_use_id for one in at.read().rejections] == [request.call_id]

    run(body())


def test_allowing_for_a_session_and_changing_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is asked again, and the mode without approvals must be chosen at the start."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            edit = await at.request("edit new.txt alpha")
            assert (edit.kind, edit.action.path) == ("edit", str(at.project / "new.txt"))
            assert "+alpha" in (edit.action.diff or "")
            await at.answer(edit, verdict="allow")
            change = await at.request("edit new.txt beta")
            assert "-alpha" in (change.action.diff or "")
            await at.answer(change, verdict="allow_session")
            await at.say("edit new.txt gamma")
            assert len(at.events.all(PermissionRequest)) == 2
            await at.driver.set_mode("plan")
            await at.driver.set_mode("plan")
            await at.say("mode autoEdit")
            assert at.events.all(SettingsChanged) == [SettingsChanged(mode="plan"), SettingsChanged(mode="autoEdit")]
            await at.driver.set_model("scripted-small")
            assert at.events.all(SettingsChanged)[-1] == SettingsChanged(model="scripted-small")
            await at.say("say small")
            for mode in ("yolo", "nonsense"):
                with pytest.raises(UsageError, match=mode):
                    await at.driver.set_mode(mode)
            await at.driver.stop()
            assert [one.model for one in at.read().messages if one.model][-1] == "scripted-small"
            started = await at.start(mode="yolo", model="scripted-large")
            assert (started.mode, started.model) == ("yolo", "scripted-large")
            await at.say("ask touch free")
            assert (at.project / "free").exists()

    run(body())


def test_messages_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across an interrupt: only the current turn is stopped."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            await at.driver.interrupt()
            await at.driver.send("m1", "stream 1000 0.01")
            await at.events.next(TextDelta)
            await at.driver.send("m2", "say second")
            await at.driver.send("m3", "say third")
            await at.driver.interrupt()
            outcomes = [(await at.events.next(TurnEnded)).outcome for _ in range(3)]
            assert outcomes == ["interrupted", "completed", "completed"]
            assert at.events.text().endswith("secondthird")
            await at.driver.stop()
            session = at.read()
            assert said(session) == ["second", "third"]
            assert len(session.interruptions) == 1

    run(body())


def test_interrupting_a_command_and_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends with the turn; requests are cancelled, and a late answer changes nothing."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            request = await at.request("ask touch began; sleep 300")
            await at.driver.answer(request, Answer(verdict="allow"))
            await wait_until_async((at.project / "began").exists, "the command to run")
            await at.driver.interrupt()
            assert (await at.events.next(TurnEnded)).outcome == "interrupted"
            assert at.driver._connection is not None
            pid = at.driver._connection.process.pid
            # The shell has ended then; what it had started got the same signal.
            await wait_until_async(lambda: [one.pid for one in at.left()] == [pid], "the command to end")
            waiting = await at.request("ask touch never")
            await at.driver.interrupt()
            await at.driver.interrupt()
            assert (await at.events.next(TurnEnded)).outcome == "interrupted"
            assert at.events.all(RequestCancelled) == [RequestCancelled(waiting.id)]
            await at.driver.answer(waiting, Answer(verdict="allow"))
            assert (await at.say("say on")).outcome == "completed"
            assert not (at.project / "never").exists()

    run(body())


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "code"), [("crash", 3), ("die", -signal.SIGKILL)])
def test_an_unexpected_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, code: int) -> None:
    """The turn has no end of its own, the exit is reported once with the error output, and no child is left."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            await at.say("spawn")
            spawned = int(re.findall(r"spawned (\d+)", at.events.text())[0])
            assert is_alive(spawned, None)
            await at.driver.send("m", f"say last;;{script}")
            await at.driver.send("not taken up", "say never")
            exited = await at.events.next(AgentExited)
            assert exited == AgentExited(code=code, error="scripted crash" if code == 3 else None)
            assert [event.outcome for event in at.events.all(TurnEnded)] == ["completed"]
            assert [event.message for event in at.events.all(MessageAccepted)] == ["m", "m"]
            assert not is_alive(spawned, None)
            for again in (at.driver.send("m", "x"), at.driver.set_mode("plan"), at.driver.set_model("auto")):
                with pytest.raises(UnspoolError, match="is not running"):
                    await again
            await at.driver.interrupt()
            await at.driver.stop()
            await at.driver.stop()
            assert len(at.events.all(AgentExited)) == 1

    run(body())


def test_killed_during_a_request_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request is cancelled; after a resume the conversation is known and not reported again."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            started = await at.start()
            await at.say("say before")
            request = await at.request("say text;;ask touch never")
            os.kill(started.pid or 0, signal.SIGKILL)
            await at.events.next(AgentExited)
            assert at.events.all(RequestCancelled) == [RequestCancelled(request.id)]
            for number in range(2):
                again = await at.start(session=started.session)
                assert again.session == started.session
                assert at.events.all(TextDelta) == []
                await at.say(f"say after {number}")
                await at.driver.stop()
            assert said(at.read()) == ["before", "text", "after 0", "after 1"]

    run(body())


@pytest.mark.parametrize(
    "script", ["hang", "close", "say x;;close", "busy never", "say x;;sleep 600", "ask touch began; sleep 600"]
)
def test_stopping_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Whatever it does: the agent has exited when stop returns."""
    monkeypatch.setattr(line_process, "POLITE_SECONDS", 0.2)
    monkeypatch.setattr(line_process, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(processes, "TERM_SECONDS", 0.2)

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            started = await at.start()
            if script != "close":  # What it has started would keep its output open.
                await at.say("spawn")
            await at.driver.send("m", script)
            await at.events.next(TurnStarted)
            if script.startswith("ask"):
                await at.driver.answer(await at.events.next(PermissionRequest), Answer(verdict="allow"))
                await wait_until_async((at.project / "began").exists, "the command to run")
            elif script == "close":
                assert at.driver._connection is not None
                process = at.driver._connection.process
                await wait_until_async(lambda: process.is_silent, "the output to be closed")
            else:
                await at.events.next(TextDelta)
            await at.driver.stop()
            assert not is_alive(started.pid or 0, None)
            assert at.left() == []
            assert len(at.events.all(AgentExited)) == 1

    run(body())


def test_output_between_the_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and oversized messages are skipped, large messages are not, and the turn continues."""
    monkeypatch.setattr(line_process, "MAX_LINE_BYTES", 8 << 20)

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            assert (await at.say("noise;;say heard")).outcome == "completed"
            assert at.events.text() == "heard"
            assert (await at.say("size 6000000")).outcome == "completed"
            assert len(at.events.text()) == 6_000_005
            assert at.events.all(Notice) == []
            assert (await at.say("size 9000000;;say short")).outcome == "completed"
            assert at.events.text().endswith("xshort")
            assert len(at.events.text()) == 6_000_010
            assert "too long" in at.events.all(Notice)[0].text
            assert (await at.say("stream 5000 0;;say end")).outcome == "completed"
            assert at.events.text().endswith("4999 end")

    run(body())


def test_a_request_with_half_a_character_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node cuts texts between surrogates and writes the remaining half as an escape."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            request = await at.request("ask touch cut \ud83d")
            assert request.action.command == "touch cut \ufffd"
            assert (await at.answer(request, verdict="deny")).outcome == "completed"

    run(body())


def test_turns_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, and an unusual stop reason, are explained."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            failed = await at.say("fail no credit left")
            assert failed.outcome == "failed"
            assert "no credit left" in (failed.error or "")
            for reason in ("max_tokens", "max_turn_requests", "refusal"):
                assert (await at.say(f"stop {reason}")).outcome == "failed"
            assert (await at.say("stop something_new")).outcome == "completed"

    run(body())


def test_a_turn_that_cannot_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice is emitted, and the turn continues to its end."""
    monkeypatch.setattr(acp_turns, "REACTION_SECONDS", 0.1)

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            await at.driver.send("m", "busy done")
            await at.events.next(TextDelta)
            await at.driver.interrupt()
            assert "does not" in (await at.events.next(Notice)).text
            (at.project / "done").touch()
            assert (await at.events.next(TurnEnded)).outcome == "interrupted"

    run(body())


def test_a_clear_that_fails_leaves_the_session_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversation goes on, and its text and its mode are reported."""

    async def fail() -> None:
        raise UnspoolError("no more sessions")

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            started = await at.start()
            with monkeypatch.context() as patch:
                patch.setattr(at.driver, "_open_session", fail)
                with pytest.raises(UnspoolError, match="no more sessions"):
                    await at.driver.send("c", "/clear")
            assert (await at.say("say on;;mode plan")).outcome == "completed"
            assert at.events.text() == "on"
            assert at.events.all(SettingsChanged) == [SettingsChanged(mode="plan")]
            assert at.driver.session == started.session
            # The other session exists, but cannot get the mode of this one.
            with monkeypatch.context() as patch:
                patch.setattr(at.driver, "_apply_settings", fail)
                with pytest.raises(UnspoolError, match="no more sessions"):
                    await at.driver.send("c", "/clear")
            assert at.driver.session == at.driver._turns._session == started.session
            assert (at.driver._settings.mode, at.driver._settings.is_reporting) == ("plan", True)
            assert at.events.all(Started) == [started]

    run(body())


# --- starting --------------------------------------------------------------------------------------------------------


def test_failed_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is rejected with an explanation, and nothing is left running."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            with pytest.raises(UsageError, match="cannot fork"):
                await at.start(session="x", fork=True)
            with pytest.raises(UnspoolError, match="No previous sessions"):
                await at.start(session="12345678-no-such-session")
            assert at.left() == []
            await at.driver.stop()
            assert len(at.events.all(AgentExited)) == 1
            with pytest.raises(UsageError, match="nonsense"):
                await at.start(mode="nonsense")
            at.project.rmdir()
            with pytest.raises(NotFoundError, match="is not a directory"):
                await at.start()
            await at.driver.stop()
            assert at.events.events == [AgentExited(code=None)]
            at.project.mkdir()
            broken = tmp_path / "broken"
            broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 7\n")
            broken.chmod(0o755)
            monkeypatch.setenv(PROGRAM_VARIABLE, str(broken))
            with pytest.raises(UnspoolError, match="it is broken"):
                await at.start()
            monkeypatch.setenv(PROGRAM_VARIABLE, str(tmp_path / "missing"))
            with pytest.raises(NotFoundError, match="missing is not a program"):
                GeminiDriverFactory().create()

    run(body())


def test_a_silent_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start fails, and the program is stopped."""
    monkeypatch.setattr(acp_driver, "START_SECONDS", 0.5)
    monkeypatch.setattr(line_process, "POLITE_SECONDS", 0.2)

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            silent = tmp_path / "silent"
            silent.write_text("#!/bin/sh\nexec sleep 600\n")
            silent.chmod(0o755)
            monkeypatch.setenv(PROGRAM_VARIABLE, str(silent))
            with pytest.raises(UnspoolError, match="did not respond"):
                await at.start()
            assert at.left() == []

    run(body())


def test_an_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started with another argument, offers less, and cannot resume a session."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch, GEMINI_SCRIPTED_OLD="1") as at:
            old = tmp_path / "old"
            agent = os.environ[PROGRAM_VARIABLE]
            complaint = "echo '  --experimental-acp  Starts it' >&2; exit 1"
            old.write_text(f'#!/bin/sh\n[ "$1" = --acp ] && {{ {complaint}; }}\nexec {agent}\n')
            old.chmod(0o755)
            monkeypatch.setenv(PROGRAM_VARIABLE, str(old))
            started = await at.start()
            assert started.version is None
            assert (at.driver.capabilities.modes, at.driver.capabilities.models) == ((), False)
            assert not at.driver.capabilities.resume
            assert (await at.say("say hello")).outcome == "completed"
            with pytest.raises(UsageError, match="cannot change its model"):
                await at.driver.set_model("auto")
            await at.driver.stop()
            with pytest.raises(UnspoolError, match="cannot resume"):
                await at.start(session=started.session)

    run(body())


def test_loading_waits_for_the_next_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the minute in which a session was created loading would empty it; the file that loading leaves is removed."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch, GEMINI_SCRIPTED_NOW="1") as at:
            started = await at.start()
            await at.say("say one")
            await at.driver.stop()
            path = next(path for path in at.files() if str(started.session)[:8] in path.name)
            begun = datetime.strptime(path.stem[8:24], "%Y-%m-%dT%H-%M").replace(tzinfo=UTC)
            now = begun + timedelta(seconds=59.8)
            slept: list[float] = []

            async def sleep(seconds: float) -> None:
                nonlocal now
                slept.append(seconds)
                now += timedelta(seconds=seconds)

            monkeypatch.setattr(gemini, "_now", lambda: now)
            monkeypatch.setattr(gemini, "asyncio", SimpleNamespace(sleep=sleep))
            await at.start(session=started.session)
            assert slept == [pytest.approx(0.7)]
            assert "minute" in at.events.all(Notice)[0].text
            await at.driver.stop()
            path.rename(path.with_name(f"session-2026-01-01T00-00-{path.stem[-8:]}.jsonl"))
            monkeypatch.setenv("GEMINI_SCRIPTED_STUBS", "1")
            for text in ("two", "three"):
                await at.start(session=started.session)
                assert len([one for one in at.files() if str(started.session)[:8] in one.name]) == 1
                await at.say(f"say {text}")
                await at.driver.stop()
            assert said(at.read()) == ["one", "two", "three"]

    run(body())


def test_a_late_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that starts late is not taken for the response to a new message."""

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch, GEMINI_SCRIPTED_LATE="1") as at:
            started = await at.start()
            await at.say("say past")
            await at.driver.stop()
            await at.start(session=started.session)
            await at.say("say present")
            assert at.events.text() == "present"
            assert at.events.all(SettingsChanged) == []

    run(body())


def test_late_error_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit is reported with them, even if they are read last."""
    pipes = line_process._Pipes
    received, lost = pipes.pipe_data_received, pipes.pipe_connection_lost

    def later(fd: int, call: Callable[[], None]) -> None:
        if fd == 2:
            asyncio.get_running_loop().call_later(0.3, call)
        else:
            call()

    monkeypatch.setattr(pipes, "pipe_data_received", lambda self, fd, data: later(fd, lambda: received(self, fd, data)))
    monkeypatch.setattr(pipes, "pipe_connection_lost", lambda self, fd, exc: later(fd, lambda: lost(self, fd, exc)))

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            await at.driver.send("m", "crash")
            assert await at.events.next(AgentExited) == AgentExited(code=3, error="scripted crash")

    run(body())


def test_the_environment_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent gets its own variables and few others; a variable does not override another home."""
    monkeypatch.setenv("SOME_SECRET", "secret")
    monkeypatch.setenv("GEMINI_CLI_HOME", "/elsewhere")

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            await at.start()
            request = await at.request("ask env > env.txt")
            await at.answer(request, verdict="allow")
            known = dict(line.split("=", 1) for line in (at.project / "env.txt").read_text().splitlines())
            assert known["HOME"] == str(at.home)
            assert "SOME_SECRET" not in known
            assert "GEMINI_CLI_HOME" not in known

    run(body())


def test_the_package_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "acp.connection", None)

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            with pytest.raises(MissingExtraError, match=r"unspool\[gemini\]"):
                await at.start()

    run(body())


def test_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten agents in one project, some of them killed: none disturbs another."""

    async def one(at: Workspace, number: int) -> str:
        driver, events = GeminiDriverFactory().create(), EventCollector()
        await driver.start(RunSpec(folder=str(at.project), home=str(at.home)), events)
        for turn in range(5):
            await driver.send("m", f"say {number}.{turn};;ask touch f{number}.{turn}")
            request = await events.next(PermissionRequest)
            if (number, turn) == (3, 3):
                os.kill(driver._connection.process.pid if driver._connection else 0, signal.SIGKILL)
                await events.next(AgentExited)
                break
            await driver.answer(request, Answer(verdict="allow"))
            await events.next(TurnEnded)
        await driver.stop()
        assert len(events.all(AgentExited)) == 1
        return str(driver.session)

    async def body() -> None:
        async with workspace(tmp_path, monkeypatch) as at:
            ids = await asyncio.gather(*(one(at, number) for number in range(10)))
            library = Library(at.home)
            sessions = {ref.id: library.load(ref) for ref in library.refs()}
            assert set(sessions) == set(ids)
            for number, id in enumerate(ids):
                turns = 4 if number == 3 else 5
                assert said(sessions[id]) == [f"{number}.{turn}" for turn in range(turns)]

    run(body())
