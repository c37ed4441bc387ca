"""The real Claude Code with a scripted model: the events, what the model gets and the session log agree."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec
from unittest import mock

import pytest

import unspool
from unspool import Library
from unspool.core import model as m
from unspool.core.errors import MissingExtraError, NotFoundError, UnspoolError, UsageError
from unspool.runs.attachments import ImageInput
from unspool.runs.drivers.claude import ClaudeDriver, ClaudeDriverFactory
from unspool.runs.drivers.claude_command import build_command, build_environment
from unspool.runs.drivers.claude_requests import REJECTED, refusal
from unspool.runs.processes import Family, is_alive, start_time
from unspool.runs.protocol import (
    AgentExited,
    Answer,
    CommandsOffered,
    MessageAccepted,
    PermissionRequest,
    RequestCancelled,
    RunSpec,
    SettingsChanged,
    Started,
    TextDelta,
    TurnEnded,
    TurnStarted,
)

from ...waiting import wait_until_async
from ..harness import EventCollector, run
from ..images import PIXEL
from ..models.claude import ClaudeModel

P = ParamSpec("P")
ALLOW = Answer(verdict="allow")


def _why_not() -> str | None:
    try:
        ClaudeDriverFactory().find_program()
    except UnspoolError as error:
        return str(error)
    return None if find_spec("claude_agent_sdk") else "its SDK is not installed: pip install 'unspool[claude]'"


real = pytest.mark.skipif(_why_not() is not None, reason=f"Claude Code cannot be run: {_why_not()}")


def bounded(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """An asynchronous test with a time limit."""

    @wraps(test)
    def bound(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return bound


class Workspace:
    """A home for the program, a project, and a scripted model."""

    def __init__(self, root: Path, model: ClaudeModel) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.model = model
        self.home.mkdir()
        self.project.mkdir()
        self.drivers: list[tuple[ClaudeDriver, EventCollector]] = []

    async def start(self, **spec: Any) -> tuple[ClaudeDriver, EventCollector]:
        """Start the program."""
        driver, events = ClaudeDriverFactory().create(), EventCollector()
        self.drivers.append((driver, events))
        await driver.start(RunSpec(folder=str(self.project), home=str(self.home), **spec), events)
        return driver, events

    def read(self, id: str | None) -> unspool.Session:
        """A session as its log has it."""
        library = Library(self.home)
        return library.load(library.find(id or ""))


@asynccontextmanager
async def workspace(root: Path) -> AsyncIterator[Workspace]:
    """A workspace; afterwards nothing is running, and every exit was reported once."""
    async with ClaudeModel() as model:
        with mock.patch.dict(os.environ, model.environment):
            found = Workspace(root, model)
            try:
                yield found
            finally:
                for driver, _ in found.drivers:
                    await driver.stop()
        for driver, events in found.drivers:
            assert len(events.all(AgentExited)) == 1
            assert isinstance(events.events[-1], AgentExited)
            program = driver._process
            if program is not None and program.pid is not None:
                assert Family(program.pid, program.started, program.mark).living() == []


def texts(session: unspool.Session, author: str) -> list[str]:
    """The texts of one author."""
    path = [message for message in session.active_path() if message.author == author]
    return [block.text for message in path for block in message.blocks if isinstance(block, m.Text)]


def results(session: unspool.Session) -> list[m.ToolResult]:
    """The results of the calls of a session."""
    blocks = [block for message in session.active_path() for block in message.blocks]
    return [block for block in blocks if isinstance(block, m.ToolResult)]


async def pid_in(path: Path) -> int:
    """A number that a command writes to a file, once it is there."""
    await wait_until_async(lambda: path.exists() and path.read_text().endswith("\n"), f"a line in {path.name}")
    return int(path.read_text())


LogCheck = Callable[[unspool.Session], None]
"""A check of the log of a session, which is complete when the program has ended."""
Scene = Callable[[Workspace, ClaudeDriver, EventCollector], Awaitable[LogCheck]]
"""What happens in one session of a program that was started in the default mode."""


def nothing_more(session: unspool.Session) -> None:
    """The log of this session shows nothing that was not checked."""


async def begin_again(at: Workspace, driver: ClaudeDriver, events: EventCollector, left: str | None) -> str | None:
    """Clear the conversation: another session in the same program, and nothing is left of the one before."""
    turns = len(events.all(TurnEnded))
    await driver.send("clear", "/clear")
    started = await events.next(Started, lambda event: event.session != left)
    await wait_until_async(lambda: len(events.all(TurnEnded)) > turns, "the end of the command")
    events.forget()
    for path in at.project.iterdir():
        path.unlink()
    at.model.requests.clear()
    at.model.cut_off = 0
    at.model.go_on.clear()
    return started.session


async def play(at: Workspace, *scenes: Scene) -> None:
    """Several sessions in one program, because its start costs more than all that is done in it."""
    driver, events = await at.start()
    started = events.all(Started)[0]
    session = started.session
    checks: list[tuple[str | None, LogCheck]] = []
    for scene in scenes:
        if checks:
            session = await begin_again(at, driver, events, session)
        checks.append((session, await scene(at, driver, events)))
    await driver.stop()
    assert events.all(AgentExited) == [AgentExited(code=0)]
    assert started.pid is not None
    assert not is_alive(started.pid, None)
    for session, check in checks:
        check(at.read(session))


# --- a conversation --------------------------------------------------------------------------------------------------


async def a_turn_is_reported_as_it_happens(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """Start, acceptance, text in pieces, thinking apart, the end; and the log has the same."""
    started = await events.next(Started)
    (offered,) = events.all(CommandsOffered)
    assert "compact" in {command.name for command in offered.commands}
    assert started.pid is not None
    assert is_alive(started.pid, start_time(started.pid))
    assert started.mode == "default"
    assert started.version
    await driver.send("first", "@do think deep;;nothing")
    assert (await events.next(MessageAccepted)).message == "first"
    assert (await events.next(TurnEnded)).outcome == "completed"
    at.model.go_on.set()
    await driver.send("second", "@do slow 5")
    await events.next(TurnEnded)
    thoughts = [word.text for word in events.all(TextDelta) if word.thinking]
    assert "".join(thoughts) == "deep"
    assert events.text() == "Thought.word0 word1 word2 word3 word4"
    assert len(events.all(TurnStarted)) == 2
    assert not events.all(PermissionRequest)

    def check(session: unspool.Session) -> None:
        assert texts(session, "human") == ["@do think deep;;nothing", "@do slow 5"]
        assert texts(session, "model") == ["Thought.", "word0 word1 word2 word3 word4"]
        assert session.info.status == "complete"

    return check


async def a_failure_of_the_model_is_reported(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """The turn fails with the error of the server; the agent continues."""
    await driver.send("1", "@do fail 400")
    ended = await events.next(TurnEnded)
    assert ended.outcome == "failed"
    assert "as the script says" in (ended.error or "")
    await driver.send("2", "@do say better")
    assert (await events.next(TurnEnded)).outcome == "completed"
    return nothing_more


async def a_message_while_a_turn_runs_waits_for_the_next(
    at: Workspace, driver: ClaudeDriver, events: EventCollector
) -> LogCheck:
    """It is accepted when the turn before it has ended, and not earlier."""
    await driver.send("long", "@do slow 4")
    await events.next(TextDelta)
    await driver.send("short", "@do say second")
    await driver.send("other", "@do say third")
    at.model.go_on.set()
    await events.next(TurnEnded)
    assert (await events.next(MessageAccepted)).message == "short"
    assert (await events.next(MessageAccepted)).message == "other"
    assert (await events.next(TurnEnded)).outcome == "completed"
    order = [event.message if isinstance(event, MessageAccepted) else "" for event in events.events]
    assert events.events.index(events.all(TurnEnded)[0]) < order.index("short") < order.index("other")
    assert "second" not in at.model.heard(0)
    assert "word3" in at.model.heard(1)

    def check(session: unspool.Session) -> None:
        said = texts(session, "human")
        assert "\n".join(said) == "@do slow 4\n@do say second\n@do say third"

    return check


async def an_image_reaches_the_model_and_the_log(
    at: Workspace, driver: ClaudeDriver, events: EventCollector
) -> LogCheck:
    """As an image block beside the text."""
    await driver.send("one", "@do say seen", [ImageInput("image/png", PIXEL)])
    assert (await events.next(TurnEnded)).outcome == "completed"
    contents = [message["content"] for message in at.model.requests[-1]["messages"]]
    (image,) = [block for content in contents for block in content if block["type"] == "image"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}

    def check(session: unspool.Session) -> None:
        blocks = [block for message in session.active_path() for block in message.blocks]
        assert [block.media_type for block in blocks if isinstance(block, m.Image)] == ["image/png"]

    return check


# --- what is asked ---------------------------------------------------------------------------------------------------


async def a_command_runs_when_it_is_allowed(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """And not before."""
    await driver.send("1", "@do run touch made")
    request = await events.next(PermissionRequest)
    assert (request.kind, request.tool, request.action.command) == ("command", "Bash", "touch made")
    assert request.verdicts == ("allow", "allow_session", "deny", "deny_stop")
    assert request.title == "Bash: touch made"
    assert not (at.project / "made").exists()
    await driver.answer(request, ALLOW)
    await events.next(TurnEnded)
    assert (at.project / "made").exists()

    def check(session: unspool.Session) -> None:
        assert [(each.call_id, each.outcome) for each in results(session)] == [(request.call_id, "ok")]

    return check


async def a_denial_reaches_the_model_with_its_reason(
    at: Workspace, driver: ClaudeDriver, events: EventCollector
) -> LogCheck:
    """The turn continues; without a reason the model gets the sentence it knows."""
    await driver.send("1", "@do run touch made;;say understood;;")
    await driver.answer(await events.next(PermissionRequest), Answer(verdict="deny", reason="Use another name."))
    assert (await events.next(TurnEnded)).outcome == "completed"
    assert at.model.results() == [refusal("Use another name.")]
    await driver.send("2", "@do run touch made")
    await driver.answer(await events.next(PermissionRequest), Answer(verdict="deny"))
    assert (await events.next(TurnEnded)).outcome == "completed"
    assert at.model.results() == [REJECTED]
    assert not (at.project / "made").exists()

    def check(session: unspool.Session) -> None:
        assert [(each.reason, each.rejection_type) for each in session.rejections] == [
            ("Use another name.", "command"),
            (None, "command"),
        ]
        assert [each.action.command for each in session.rejections if each.action] == ["touch made", "touch made"]

    return check


async def a_denial_can_stop_the_turn(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """Then the model gets the program's own sentence, and the log shows an interruption."""
    await driver.send("1", "@do run touch made")
    await driver.answer(await events.next(PermissionRequest), Answer(verdict="deny_stop", reason="No, and stop."))
    assert (await events.next(TurnEnded)).outcome == "interrupted"
    await driver.send("2", "@do say on")
    assert (await events.next(TurnEnded)).outcome == "completed"
    assert "No, and stop." not in at.model.heard()
    assert "STOP what you are doing" in at.model.heard()

    def check(session: unspool.Session) -> None:
        assert len(session.interruptions) == 1

    return check


async def an_input_can_be_changed(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """The changed input runs; the log keeps the model's."""
    await driver.send("1", "@do run touch made")
    request = await events.next(PermissionRequest)
    assert request.takes_input
    changed = {**request.action.input, "command": "touch other && echo it is other"}
    await driver.answer(request, Answer(verdict="allow", input=changed))
    await events.next(TurnEnded)
    assert sorted(path.name for path in at.project.iterdir()) == ["other"]
    assert at.model.results() == ["it is other"]

    def check(session: unspool.Session) -> None:
        assert results(session)[0].content == "it is other"

    return check


async def an_edit_shows_its_diff(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """Allowing one for the session allows all edits, and is reported as a change of mode."""
    await driver.send("1", f"@do write {at.project}/a.txt=hello;;write {at.project}/b.txt=again;;run touch c")
    request = await events.next(PermissionRequest)
    assert request.kind == "edit"
    assert "+hello" in (request.action.diff or "")
    await driver.answer(request, Answer(verdict="allow_session"))
    assert (await events.next(SettingsChanged, lambda event: event.mode is not None)).mode == "acceptEdits"
    await events.next(TurnEnded)
    assert (at.project / "b.txt").read_text() == "again"
    assert not [each for each in events.all(PermissionRequest) if each.action.path == f"{at.project}/b.txt"]
    return nothing_more


async def a_command_can_be_allowed_for_the_session(
    at: Workspace, driver: ClaudeDriver, events: EventCollector
) -> LogCheck:
    """Similar commands need no further approval, others do, and no settings are written."""
    await driver.send("1", "@do run touch one;;run touch one two;;run touch three")
    await driver.answer(await events.next(PermissionRequest), Answer(verdict="allow_session"))
    other = await events.next(PermissionRequest)
    assert other.action.command == "touch three"
    await driver.answer(other, Answer(verdict="deny", reason="no"))
    await events.next(TurnEnded)
    assert sorted(path.name for path in at.project.iterdir()) == ["one", "two"]
    assert not any(event.mode for event in events.all(SettingsChanged))
    return nothing_more


async def calls_made_together_are_asked_about_one_by_one(
    at: Workspace, driver: ClaudeDriver, events: EventCollector
) -> LogCheck:
    """Each gets its own answer."""
    await driver.send("1", "@do both touch one // touch two")
    for _ in range(2):
        request = await events.next(PermissionRequest)
        refused = request.action.command == "touch one"
        await driver.answer(request, Answer(verdict="deny", reason="not this") if refused else ALLOW)
    await events.next(TurnEnded)
    assert sorted(path.name for path in at.project.iterdir()) == ["two"]
    assert at.model.results()[0] == refusal("not this")
    assert len({request.id for request in events.all(PermissionRequest)}) == 2
    return nothing_more


async def a_question_is_answered(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """With one of its options, with a text, or not at all."""
    for chosen in ("Blue", "A dark green"):
        await driver.send("1", "@do question")
        request = await events.next(PermissionRequest)
        assert (request.kind, request.title) == ("question", "Which colour?")
        assert [option.label for option in request.choices[0].options] == ["Red", "Blue"]
        answers, notes = {"Which colour?": [chosen]}, {"Which colour?": "but matte"}
        await driver.answer(request, Answer(verdict="allow", answers=answers, notes=notes))
        await events.next(TurnEnded)
        assert f'"Which colour?"="{chosen}"' in at.model.results()[0]
        assert "but matte" in at.model.results()[0]
    await driver.send("2", "@do question")
    await driver.answer(await events.next(PermissionRequest), Answer(verdict="deny", reason="Ask me later."))
    await events.next(TurnEnded)
    assert at.model.results() == [refusal("Ask me later.")]

    def check(session: unspool.Session) -> None:
        rejection = session.rejections[0]
        assert (rejection.rejection_type, rejection.reason) == ("option", "Ask me later.")

    return check


@real
@bounded
async def test_a_plan_is_shown_denied_and_approved(tmp_path: Path) -> None:
    """Approval ends the plan mode."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start(mode="plan")
        assert (await events.next(Started)).mode == "plan"
        await driver.send("1", "@do plan # A plan;;call ExitPlanMode {};;call ExitPlanMode {};;say done")
        request = await events.next(PermissionRequest)
        assert (request.kind, request.action.plan) == ("plan", "# A plan")
        await driver.answer(request, Answer(verdict="deny", reason="Shorter, please."))
        again = await events.next(PermissionRequest)
        assert at.model.results() == [refusal("Shorter, please.")]
        await driver.answer(again, ALLOW)
        assert (await events.next(SettingsChanged, lambda event: event.mode is not None)).mode == "default"
        await events.next(TurnEnded)
        await driver.set_mode("plan")
        await driver.send("2", "@do call ExitPlanMode {};;say done")
        last = await events.next(PermissionRequest)
        assert "(mode acceptEdits)" in (last.session_rule or "")
        await driver.answer(last, Answer(verdict="allow_session"))
        assert (await events.next(SettingsChanged, lambda event: event.mode == "acceptEdits")).mode is not None
        await events.next(TurnEnded)
        await driver.stop()
        rejections = at.read(events.all(Started)[0].session).rejections
        assert [(each.rejection_type, each.reason) for each in rejections] == [("plan", "Shorter, please.")]


async def a_sub_agent_asks_in_its_own_name(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """Its text is marked as its own, and a denial reaches it rather than the main agent."""
    await driver.send("1", "@do spawn run touch made // say the sub-agent is done")
    request = await events.next(PermissionRequest)
    assert request.subagent is not None
    await driver.answer(request, Answer(verdict="deny", reason="Not you."))
    await events.next(TurnEnded)
    own = "".join(word.text for word in events.all(TextDelta) if word.subagent == request.subagent)
    assert "the sub-agent is done" in own
    assert "the sub-agent is done" in at.model.results()[0]
    assert any("Not you." in at.model.heard(number) for number in range(len(at.model.requests) - 1))

    def check(session: unspool.Session) -> None:
        subagents = session.subagents
        assert [each.agent_id for each in subagents] == [request.subagent]
        inner = at.read(subagents[0].session)
        assert [each.reason for each in inner.rejections] == ["Not you."]

    return check


# --- interrupting ----------------------------------------------------------------------------------------------------


async def a_response_can_be_interrupted(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """The response is cut off, and the next message continues from there."""
    await driver.interrupt()
    await driver.send("1", "@do slow 7")
    await events.next(TextDelta, lambda word: word.text == "word5 ")
    await driver.interrupt()
    assert (await events.next(TurnEnded)).outcome == "interrupted"
    await wait_until_async(lambda: at.model.cut_off == 1, "the model to be left")
    await driver.send("2", "@do say on")
    assert (await events.next(TurnEnded)).outcome == "completed"
    assert "word5" in at.model.heard()
    assert "[Request interrupted by user]" in at.model.heard()

    def check(session: unspool.Session) -> None:
        assert [each.during for each in session.interruptions] == ["response"]

    return check


@real
@bounded
async def test_a_turn_can_be_interrupted_before_it_has_started(tmp_path: Path) -> None:
    """Right after the message, before the program has read it."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start()
        await driver.send("1", "@do slow 7")
        await driver.interrupt()
        assert (await events.next(TurnEnded)).outcome == "interrupted"


@real
@bounded
async def test_the_program_has_commands_of_its_own(tmp_path: Path) -> None:
    """They are a turn like any message; one of them starts another session."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start()
        for number, text in enumerate(("/plan", "/clear", "@do say on")):
            await driver.send(str(number), text)
            assert (await events.next(MessageAccepted)).message == str(number)
            assert (await events.next(TurnEnded)).outcome == "completed"
        first, second = events.all(Started)
        assert first.session != second.session
        await driver.stop()
        assert texts(at.read(second.session), "model")[-1] == "on"


@real
@bounded
async def test_a_program_that_is_not_logged_in_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it has no key at all, or one that the server does not accept; and it names its models."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start()
        assert "sonnet" in driver.capabilities.model_names
        with pytest.raises(UsageError, match=r"has no model 'sonet'; it offers: .*sonnet"):
            await driver.set_model("sonet")
        await driver.send("1", "@do fail 401")
        assert (await events.next(TurnEnded)).needs_login
        await driver.send("2", "@do say on")
        assert not (await events.next(TurnEnded)).needs_login
        await driver.stop()
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        driver, events = await at.start()
        await driver.send("1", "@do say on")
        ended = await events.next(TurnEnded)
        assert (ended.outcome, ended.needs_login) == ("failed", True)
        await driver.stop()


async def a_tool_can_be_interrupted(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """Its process ends, and the agent continues."""
    await driver.send("1", "@do run echo $$ > pid; tail -f /dev/null")
    await driver.answer(await events.next(PermissionRequest), ALLOW)
    pid = await pid_in(at.project / "pid")
    await driver.interrupt()
    assert (await events.next(TurnEnded)).outcome == "interrupted"
    await wait_until_async(lambda: not is_alive(pid, None), "the end of the command")
    await driver.send("2", "@do say on")
    assert (await events.next(TurnEnded)).outcome == "completed"

    def check(session: unspool.Session) -> None:
        assert [each.during for each in session.interruptions] == ["tool"]

    return check


async def an_interrupt_cancels_open_requests(at: Workspace, driver: ClaudeDriver, events: EventCollector) -> LogCheck:
    """An answer that arrives too late is ignored."""
    await driver.send("1", "@do run touch made")
    request = await events.next(PermissionRequest)
    await driver.interrupt()
    assert (await events.next(RequestCancelled)).id == request.id
    assert (await events.next(TurnEnded)).outcome == "interrupted"
    await driver.answer(request, ALLOW)
    await driver.send("2", "@do say on")
    await events.next(TurnEnded)
    assert not (at.project / "made").exists()
    return nothing_more


# --- all of this -----------------------------------------------------------------------------------------------------


@real
@bounded
async def test_conversations_and_interruptions(tmp_path: Path) -> None:
    async with workspace(tmp_path) as at:
        await play(
            at,
            a_turn_is_reported_as_it_happens,
            a_failure_of_the_model_is_reported,
            a_message_while_a_turn_runs_waits_for_the_next,
            an_image_reaches_the_model_and_the_log,
            a_response_can_be_interrupted,
            a_tool_can_be_interrupted,
            an_interrupt_cancels_open_requests,
        )


@real
@bounded
async def test_requests(tmp_path: Path) -> None:
    async with workspace(tmp_path) as at:
        await play(
            at,
            a_command_runs_when_it_is_allowed,
            a_denial_reaches_the_model_with_its_reason,
            a_denial_can_stop_the_turn,
            an_input_can_be_changed,
            calls_made_together_are_asked_about_one_by_one,
            a_question_is_answered,
            a_sub_agent_asks_in_its_own_name,
            # What is allowed for the session may stay allowed in this program, so these come last.
            a_command_can_be_allowed_for_the_session,
            an_edit_shows_its_diff,
        )


# --- mode and model --------------------------------------------------------------------------------------------------


@real
@bounded
async def test_mode_and_model_can_be_changed(tmp_path: Path) -> None:
    """From the next request on, and never to a mode that skips approvals."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start(model="claude-sonnet-4-5-20250929")
        await driver.set_mode("acceptEdits")
        assert (await events.next(SettingsChanged)).mode == "acceptEdits"
        await driver.send("1", f"@do write {at.project}/a.txt=hello")
        await events.next(TurnEnded)
        assert not events.all(PermissionRequest)
        assert at.model.requests[-1]["model"] == "claude-sonnet-4-5-20250929"
        await driver.set_model("claude-haiku-4-5-20251001")
        assert (await events.next(SettingsChanged)).model == "claude-haiku-4-5-20251001"
        await driver.set_mode("default")
        await driver.send("2", f"@do write {at.project}/b.txt=hello")
        await driver.answer(await events.next(PermissionRequest), ALLOW)
        await events.next(TurnEnded)
        assert at.model.requests[-1]["model"] == "claude-haiku-4-5-20251001"
        for mode in ("bypassPermissions", "auto", "dontAsk", "anything"):
            with pytest.raises(UsageError):
                await driver.set_mode(mode)
        await driver.stop()
        models = at.read(events.all(Started)[0].session).info.models
        assert models == ["claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"]


# --- resuming and forking --------------------------------------------------------------------------------------------


@real
@bounded
async def test_a_session_is_resumed_after_its_end(tmp_path: Path) -> None:
    """In the same log, with the whole conversation so far."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start()
        await driver.send("1", "@do say before")
        await events.next(TurnEnded)
        await driver.stop()
        id = events.all(Started)[0].session
        driver, events = await at.start(session=id)
        assert (await events.next(Started)).session == id
        await driver.send("2", "@do say after")
        await events.next(TurnEnded)
        assert "before" in at.model.heard()
        await driver.stop()
        assert [event.session for event in events.all(Started)] == [id]
        assert texts(at.read(id), "model") == ["before", "after"]
        assert len(list(Library(at.home).refs())) == 1


@real
@bounded
async def test_a_session_is_resumed_after_it_was_killed_during_a_request(tmp_path: Path) -> None:
    """The call is lost: it is not asked again, and the model learns that."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start()
        await driver.send("1", "@do run touch made")
        request = await events.next(PermissionRequest)
        started = events.all(Started)[0]
        assert started.pid is not None
        await wait_until_async(lambda: (request.call_id or "?") in _log_of(at, started.session), "the call in the log")
        os.kill(started.pid, signal.SIGKILL)
        exited = await events.next(AgentExited)
        assert exited.code == -signal.SIGKILL
        assert exited.error
        assert [event.id for event in events.all(RequestCancelled)] == [request.id]
        with pytest.raises(UnspoolError):
            await driver.send("2", "too late")
        driver, events = await at.start(session=started.session)
        await driver.send("3", "@do say on")
        assert (await events.next(TurnEnded)).outcome == "completed"
        assert not events.all(PermissionRequest)
        assert "[Tool call interrupted" in at.model.heard()
        await driver.stop()
        session = at.read(started.session)
        assert [orphan.tool_use_id for orphan in session.orphans] == [request.call_id]
        assert not (at.project / "made").exists()


def _log_of(at: Workspace, session: str | None) -> str:
    return "".join(path.read_text() for path in at.home.rglob(f"{session}.jsonl"))


@real
@bounded
async def test_a_fork_continues_from_the_end_or_from_any_message(tmp_path: Path) -> None:
    """The original session does not change."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start()
        for word in ("alpha", "beta"):
            await driver.send(word, f"@do say {word}")
            await events.next(TurnEnded)
        await driver.stop()
        id = events.all(Started)[0].session
        before = _log_of(at, id)
        alpha = next(message for message in at.read(id).messages if message.author == "model")
        for place_in_it, kept in ((None, ["alpha", "beta"]), (alpha.id, ["alpha"])):
            driver, events = await at.start(session=id, fork=True, at=place_in_it)
            fork = (await events.next(Started)).session
            assert fork != id
            await driver.send("fork", "@do say gamma")
            await events.next(TurnEnded)
            await driver.stop()
            assert [event.session for event in events.all(Started)] == [fork]
            assert [word for word in ("alpha", "beta") if f'"{word}"' in at.model.heard()] == kept
            session = at.read(fork)
            assert texts(session, "model") == [*kept, "gamma"]
            assert session.info.origin.session == id
        assert _log_of(at, id) == before


# --- its end ---------------------------------------------------------------------------------------------------------


@real
@bounded
async def test_nothing_is_left_running_after_a_stop(tmp_path: Path) -> None:
    """Neither the tool, nor what it started in a session of its own, nor a waiting message."""
    async with workspace(tmp_path) as at:
        driver, events = await at.start()
        aside = "(setsid sleep 300 & echo $! > aside)"
        await driver.send("1", f"@do run {aside}; echo $$ > pid; tail -f /dev/null")
        await driver.answer(await events.next(PermissionRequest), ALLOW)
        pids = [await pid_in(at.project / "pid"), await pid_in(at.project / "aside"), events.all(Started)[0].pid or 0]
        assert all(is_alive(pid, None) for pid in pids)
        await driver.send("2", "@do say this is never said")
        requests = len(at.model.requests)
        await asyncio.gather(driver.stop(), driver.stop())
        assert not any(is_alive(pid, None) for pid in pids)
        assert len(at.model.requests) == requests
        with pytest.raises(UnspoolError):
            await driver.send("3", "too late")
        await driver.interrupt()
        assert [each.during for each in at.read(events.all(Started)[0].session).interruptions] == ["tool"]


@real
@bounded
async def test_a_failed_start_says_why(tmp_path: Path) -> None:
    """With the error of the program if it has one."""
    async with workspace(tmp_path) as at:
        with pytest.raises(UnspoolError, match="No conversation found"):
            await at.start(session="00000000-0000-4000-8000-000000000000")
        for wrong in ({"mode": "anything"}, {"fork": True}, {"session": "x", "at": "y"}):
            with pytest.raises(UsageError):
                await at.start(**wrong)
        broken = tmp_path / "broken"
        broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
        broken.chmod(0o755)
        with (
            mock.patch.dict(os.environ, UNSPOOL_CLAUDE_PROGRAM=str(broken)),
            pytest.raises(UnspoolError, match="it is broken"),
        ):
            await at.start()
        with mock.patch.dict(os.environ, UNSPOOL_CLAUDE_PROGRAM=str(at.project)), pytest.raises(NotFoundError):
            await at.start()
        assert not any(events.all(Started) for _, events in at.drivers)


@real
@bounded
async def test_an_unexpected_exit_is_reported_with_the_error_output(tmp_path: Path) -> None:
    """Only the end of it, and the exit code."""
    dying = tmp_path / "dying.py"
    dying.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "id = json.loads(sys.stdin.readline())['request_id']\n"
        "print(json.dumps({'type': 'control_response', 'response': {'subtype': 'success', 'request_id': id,"
        " 'response': {}}}), flush=True)\n"
        "sys.stdin.readline()\n"
        "sys.stderr.write('noise ' * 2000 + 'the last words')\n"
        "sys.exit(9)\n"
    )
    dying.chmod(0o755)
    async with workspace(tmp_path) as at:
        with mock.patch.dict(os.environ, UNSPOOL_CLAUDE_PROGRAM=str(dying)):
            driver, events = await at.start()
        await driver.send("1", "anything")
        exited = await events.next(AgentExited)
        assert exited.code == 9
        assert (exited.error or "").endswith("the last words")
        assert len(exited.error or "") <= 2048


# --- without the program ---------------------------------------------------------------------------------------------


def test_the_environment_of_the_program_is_small() -> None:
    """Its own variables and the common ones; with another home, none that point to its settings."""
    ours = {
        "PATH": "/bin", "HOME": "/home/me", "SOME_SECRET": "x", "OPENAI_API_KEY": "x", "AWS_SECRET_ACCESS_KEY": "x",
        "ANTHROPIC_API_KEY": "k", "CLAUDE_CONFIG_DIR": "/c", "CLAUDE_CODE_SSE_PORT": "1", "CLAUDECODE": "1",
        "UNSPOOL_STORE": "x",
    }  # fmt: skip
    kept = build_environment(RunSpec(folder="/p"), ours)
    assert {name: kept[name] for name in ("PATH", "HOME", "ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR")} == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CONFIG_DIR": "/c",
    }
    assert not {"SOME_SECRET", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "CLAUDE_CODE_SSE_PORT", "CLAUDECODE"} & set(
        kept
    )
    assert "UNSPOOL_STORE" not in kept
    elsewhere = build_environment(RunSpec(folder="/p", home="/other"), ours)
    assert elsewhere["HOME"] == "/other"
    assert "CLAUDE_CONFIG_DIR" not in elsewhere
    assert "AWS_SECRET_ACCESS_KEY" in build_environment(RunSpec(folder="/p"), ours | {"CLAUDE_CODE_USE_BEDROCK": "1"})


def test_the_permission_mode_is_always_given() -> None:
    """The mode is always given, whatever the user's settings are, and no value is taken for an option."""
    assert "--permission-mode=default" in build_command("claude", RunSpec(folder="/p"), "id")
    assert not set(ClaudeDriverFactory.capabilities.modes) & {"bypassPermissions", "dontAsk", "auto"}
    arguments = build_command("claude", RunSpec(folder="/p", session="--x", fork=True, at="--y", model="--z"), "id")
    assert {"--resume=--x", "--resume-session-at=--y", "--model=--z", "--session-id=id"} <= set(arguments)
    assert json.dumps(arguments).count("dangerously") == 0


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("UNSPOOL_CLAUDE_PROGRAM", raising=False)
    with pytest.raises(NotFoundError, match="unspool\\[claude\\]"):
        ClaudeDriverFactory().find_program()
    with pytest.raises(MissingExtraError, match="unspool\\[claude\\]"):
        run(ClaudeDriverFactory().create().start(RunSpec(folder=str(tmp_path)), EventCollector()))
