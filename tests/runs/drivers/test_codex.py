"""The real Codex with a scripted model: the events, what the model gets and the session file agree."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from unspool.core.errors import MissingExtraError, NotFoundError, UnspoolError, UsageError
from unspool.core.session import Session
from unspool.library import Library
from unspool.runs.attachments import ImageInput
from unspool.runs.drivers import codex_approvals, codex_config
from unspool.runs.drivers.codex import CAPABILITIES, PROGRAM_VARIABLE, CodexDriver, CodexDriverFactory
from unspool.runs.processes import is_alive
from unspool.runs.protocol import (
    AgentExited,
    Answer,
    MessageAccepted,
    MessageReturned,
    PermissionRequest,
    ProcessesChanged,
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
from ..models.codex import CodexModel, Json, text_of

try:
    PROGRAM = CodexDriverFactory().find_program()
except UnspoolError as error:
    pytest.skip(f"{error}", allow_module_level=True)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are ended with signals")
ALLOW = Answer(verdict="allow")
QUESTION = (
    'call request_user_input {"questions":[{"id":"q1","header":"Colour","question":"Which colour?",'
    '"options":[{"label":"Blue","description":"calm"},{"label":"Red","description":"loud"}]}]}'
)


class Workspace:
    """A temporary home, a scripted model, and one driver after the other."""

    def __init__(self, home: Path, model: CodexModel) -> None:
        self.home = home
        self.model = model
        self.folder = home / "project"
        self.folder.mkdir()
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(model.config())
        self.driver = CodexDriver(PROGRAM)
        self.events = EventCollector()
        self.session = ""
        self._messages = 0

    async def start(self, **spec: Any) -> Started:
        """Start a new process."""
        self.driver, self.events = CodexDriver(PROGRAM), EventCollector()
        await self.driver.start(RunSpec(folder=str(self.folder), home=str(self.home), **spec), self.events)
        started = await self.events.next(Started)
        self.session = started.session or ""
        return started

    async def send(self, text: str) -> str:
        """Send a message; returns its id."""
        self._messages += 1
        id = f"message-{self._messages}"
        await self.driver.send(id, text)
        return id

    async def turn(self, text: str, decision: Answer | None = None) -> TurnEnded:
        """Send a message and wait for the end of its turn, giving every request the same answer."""
        await self.send(text)
        while True:
            event = await self.events.next(PermissionRequest | TurnEnded)  # type: ignore[arg-type]
            if isinstance(event, TurnEnded):
                return event
            assert decision is not None, event
            await self.driver.answer(event, decision)

    def read(self, session: str | None = None) -> Session:
        """A session as the reader sees it."""
        library = Library(self.home)
        return library.load(library.find(session or self.session))

    def sent(self, request: int = -1) -> list[str]:
        """The texts of all items of a request."""
        return [text_of(item) for item in self.model.requests[request]["input"]]

    def outputs(self) -> list[Json]:
        """The tool outputs in the newest request."""
        return [item for item in self.model.last["input"] if item["type"].endswith("_output")]


@asynccontextmanager
async def at(home: Path) -> AsyncIterator[Workspace]:
    """A workspace in which nothing stays running."""
    async with CodexModel() as model:
        made = Workspace(home, model)
        try:
            yield made
        finally:
            await made.driver.stop()


@pytest.fixture(autouse=True)
def _dummy_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    monkeypatch.delenv("CODEX_HOME", raising=False)


def in_workspace(tmp_path: Path, body: Callable[[Workspace], Awaitable[None]]) -> None:
    """Run a test in a workspace."""

    async def whole() -> None:
        async with at(tmp_path) as made:
            await body(made)

    run(whole())


async def pid_in(path: Path) -> int:
    """A number that a command writes to a file, once it is there."""
    await wait_until_async(lambda: path.exists() and path.read_text().endswith("\n"), f"a line in {path.name}")
    return int(path.read_text())


def texts(session: Session, author: str) -> list[str]:
    """The texts of one author in a session."""
    return [
        block.text
        for message in session.messages
        if message.author == author
        for block in message.blocks
        if hasattr(block, "text") and block.text
    ]


# --- turns -----------------------------------------------------------------------------------------------------------


def test_text_arrives_in_pieces(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        started = await at.start()
        assert (started.mode, started.model) == ("ask", "gpt-5.5")
        assert started.pid is not None
        assert started.version is not None
        ended = await at.turn("@do say All is well.")
        assert ended == TurnEnded(outcome="completed")
        turn = (TurnStarted, MessageAccepted, TurnEnded)
        assert [type(event) for event in at.events.events if isinstance(event, turn)] == list(turn)
        assert at.events.all(MessageAccepted) == [MessageAccepted("message-1")]
        assert at.events.text() == "All is well."
        assert len(at.events.all(TextDelta)) == 3
        await at.driver.stop()
        session = at.read()
        assert session.info.id == started.session
        assert texts(session, "human") == ["@do say All is well."]
        assert texts(session, "model") == ["All is well."]

    in_workspace(tmp_path, body)


def test_a_failed_turn_says_why(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        ended = await at.turn("@do fail")
        assert ended.outcome == "failed"
        assert "a scripted failure" in (ended.error or "")
        assert (await at.turn("@do say Again.")).outcome == "completed"

    in_workspace(tmp_path, body)


def test_a_message_reaches_the_current_turn(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        await at.send("@do ask sleep 0.2 ;; say Done.")
        request = await at.events.next(PermissionRequest)
        id = await at.send("Be quick.")
        assert MessageAccepted(id) not in at.events.events
        await at.driver.answer(request, ALLOW)
        await at.events.next(MessageAccepted, lambda event: event.message == id)
        assert (await at.events.next(TurnEnded)).outcome == "completed"
        assert len(at.events.all(TurnStarted)) == 1
        assert at.sent()[-1] == "Be quick."
        assert texts(at.read(), "human")[-1] == "Be quick."

    in_workspace(tmp_path, body)


# --- approvals -------------------------------------------------------------------------------------------------------


def test_a_command_that_is_allowed_runs(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        await at.send("@do ask touch made ;; say Done.")
        request = await at.events.next(PermissionRequest)
        assert (request.kind, request.tool, request.title, request.reason) == (
            "command",
            "exec_command",
            "touch made",
            "May I?",
        )
        assert request.action.command == "touch made"
        assert request.subagent is None
        assert request.verdicts == ("allow", "allow_session", "deny", "deny_stop")
        assert request.takes_reason
        assert not request.takes_input
        assert not (at.folder / "made").exists()
        await at.driver.answer(request, ALLOW)
        await at.events.next(TurnEnded)
        assert (at.folder / "made").exists()
        assert at.outputs()[-1]["call_id"] == request.call_id
        assert "exited with code 0" in text_of(at.outputs()[-1])
        assert at.events.all(RequestCancelled) == []
        await at.driver.answer(request, ALLOW)
        session = at.read()
        assert session.rejections == []

    in_workspace(tmp_path, body)


def escalated(command: str, **more: Any) -> str:
    """The step of a script that asks for a command outside the sandbox."""
    given = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?", **more}
    return f"call exec_command {json.dumps(given)}"


def other_shell() -> str:
    """A shell that is not the one of this user."""
    import pwd

    return next(shell for shell in ("/bin/sh", "/bin/bash") if shell != pwd.getpwuid(os.getuid()).pw_shell)


def test_what_is_allowed_for_the_session_is_what_the_rule_says(tmp_path: Path) -> None:
    """The rule says neither more nor less than what Codex allows afterwards."""

    async def body(at: Workspace) -> None:
        async def is_asked(step: str) -> bool:
            """Whether Codex asks about a step, which is then denied."""
            before = len(at.events.all(PermissionRequest))
            await at.turn(f"@do {step} ;; say Done.", Answer(verdict="deny"))
            return len(at.events.all(PermissionRequest)) > before

        await at.start(mode="read-only")
        await at.turn(f"@do {escalated('touch made')} ;; patch one.txt=a ;; say Done.", Answer(verdict="allow_session"))
        command, edit = (request.session_rule for request in at.events.all(PermissionRequest))
        assert command == (
            "In this conversation, until it is cleared or Codex exits, it no longer asks about this command in this "
            "folder, with the same shell and the same permissions. Spaces and quotes may differ."
        )
        assert edit == (
            "In this conversation, until it is cleared or Codex exits, it no longer asks about any change of "
            f"{at.folder / 'one.txt'}."
        )
        (at.folder / "one.txt").unlink()
        assert not await is_asked(escalated("touch made", justification="For another reason."))
        assert not await is_asked(escalated("touch  'made'"))
        assert not await is_asked("patch one.txt=b")
        for other in ("touch made more", "touch made && touch more", "touch more"):
            assert await is_asked(escalated(other))
        assert await is_asked(escalated("touch made", workdir=str(tmp_path)))
        assert await is_asked(escalated("touch made", shell=other_shell()))
        assert await is_asked("patch two.txt=b")
        assert await is_asked("search spawn agent ;; spawn %do ask touch made // say Child. ;; wait")
        rule = at.events.all(PermissionRequest)[-1].session_rule or ""
        assert rule.startswith("In this sub-agent, until it ends, it no longer asks")
        await at.send("/clear")
        await at.events.next(TurnEnded)
        assert await is_asked(escalated("touch made"))

    in_workspace(tmp_path, body)


def test_the_turn_continues_after_a_denial_and_the_model_gets_the_reason_with_it(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start(mode="read-only")
        ended = await at.turn("@do ask touch made ;; say Well.", Answer(verdict="deny"))
        assert ended.outcome == "completed"
        await at.send("@do patch made=text ;; say Well.")
        request = await at.events.next(PermissionRequest)
        assert request.kind == "edit"
        assert request.title.endswith("/made")
        assert request.action.diff is not None
        assert request.action.diff.endswith("@@ -0,0 +1,1 @@\n+text\n")
        await at.driver.answer(request, Answer(verdict="deny", reason="It is made already."))
        await at.events.next(MessageAccepted, lambda event: event.message == request.id)
        assert (await at.events.next(TurnEnded)).outcome == "completed"
        assert not (at.folder / "made").exists()
        assert at.sent()[-2:] == ["patch rejected by user", "It is made already."]
        assert "rejected by user" in text_of(at.outputs()[0])
        session = at.read()
        assert [(each.rejection_type, each.by) for each in session.rejections] == [
            ("command", "user"),
            ("edit", "user"),
        ]
        assert session.rejections[1].tool_use_id == request.call_id
        assert session.interruptions == []
        assert texts(session, "human")[-1] == "It is made already."

    in_workspace(tmp_path, body)


def test_what_a_script_of_the_model_asks_belongs_to_its_call(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start(model="gpt-6-sol")
        await at.send("@do script touch made ;; script touch made ;; say Well.")
        request = await at.events.next(PermissionRequest)
        assert (request.kind, request.title) == ("command", "touch made")
        assert request.call_id == at.model.called[0]
        await at.driver.answer(request, ALLOW)
        request = await at.events.next(PermissionRequest)
        assert (at.folder / "made").exists()
        assert request.call_id == at.model.called[1]
        await at.driver.answer(request, Answer(verdict="deny", reason="Once is enough."))
        await at.events.next(MessageAccepted, lambda event: event.message == request.id)
        await wait_until_async(
            lambda: len(at.events.all(TurnEnded)) == len(at.events.all(TurnStarted)), "the end of the turn"
        )
        at.events.skip()
        assert "rejected by user" in text_of(at.outputs()[-1])
        await at.turn("@do say Again.")
        assert "Once is enough." in at.sent()
        assert [each.tool_use_id for each in at.read().rejections] == [request.call_id]

    in_workspace(tmp_path, body)


def test_a_script_may_take_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its call is in the file, and from a denial until its end: only then does the model get the reason."""
    looks = 0

    def late(path: str, text: str) -> str | None:
        nonlocal looks
        looks += 1
        return codex_config.find_script(path, text) if looks > 30 else None

    async def body(at: Workspace) -> None:
        monkeypatch.setattr(codex_approvals, "find_script", late)
        await at.start(model="gpt-6-sol")
        await at.send("@do late touch made ;; say Well.")
        request = await at.events.next(PermissionRequest)
        assert request.call_id == at.model.called[0]
        await at.driver.answer(request, Answer(verdict="deny", reason="Not now."))
        await at.events.next(MessageAccepted, lambda event: event.message == request.id)
        await wait_until_async(
            lambda: len(at.events.all(TurnEnded)) == len(at.events.all(TurnStarted)), "the end of the turn"
        )
        at.events.skip()
        assert len(at.outputs()) == 1
        assert "rejected by user" in text_of(at.outputs()[0])
        assert "Script running" not in text_of(at.outputs()[0])
        await at.turn("@do say Again.")
        assert at.sent().count("Not now.") == 1

    in_workspace(tmp_path, body)


def test_a_denial_can_end_the_turn(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        refusal = Answer(verdict="deny_stop", reason="Never do that.")
        ended = await at.turn("@do ask touch made ;; say Never.", refusal)
        assert ended.outcome == "interrupted"
        request = at.events.all(PermissionRequest)[0]
        await at.events.next(MessageAccepted, lambda event: event.message == request.id)
        assert len(at.model.requests) == 1
        await at.turn("@do say Better.")
        assert at.sent()[-2:] == ["Never do that.", "@do say Better."]
        session = at.read()
        assert [each.tool_use_id for each in session.rejections] == [request.call_id]
        assert not (at.folder / "made").exists()

    in_workspace(tmp_path, body)


def test_a_question_is_answered_with_one_of_its_options(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        await at.send(f"@do {QUESTION} ;; say Done.")
        request = await at.events.next(PermissionRequest)
        assert (request.kind, request.title) == ("question", "Which colour?")
        assert [option.label for option in request.choices[0].options] == ["Blue", "Red"]
        assert request.action.questions[0].options == ["Blue", "Red"]
        await at.driver.answer(request, Answer(verdict="allow", answers={"Which colour?": ["Red"]}))
        await at.events.next(TurnEnded)
        assert text_of(at.outputs()[-1]) == '{"answers":{"q1":{"answers":["Red"]}}}'
        await at.send(f"@do {QUESTION} ;; say Done.")
        await at.driver.answer(await at.events.next(PermissionRequest), Answer(verdict="deny_stop"))
        assert (await at.events.next(TurnEnded)).outcome == "interrupted"

    in_workspace(tmp_path, body)


SERVER = """
import json, sys
tool = {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
results = {
    "initialize": {"capabilities": {"tools": {}}, "serverInfo": {"name": "demo", "version": "1"}},
    "tools/list": {"tools": [tool]},
    "tools/call": {"content": [{"type": "text", "text": "wiped"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = results.get(message["method"], {})
        if message["method"] == "initialize":
            result["protocolVersion"] = message["params"]["protocolVersion"]
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_a_tool_of_a_server_is_asked_for(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        (at.home / "server.py").write_text(SERVER)
        with (at.home / ".codex" / "config.toml").open("a") as config:
            config.write(f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{at.home}/server.py"]\n')
        await at.start()
        await at.send('@do search wipe ;; call wipe {"what": "all"} ;; say Done.')
        request = await at.events.next(PermissionRequest)
        assert (request.kind, request.tool, request.action.input) == ("tool", "wipe", {"what": "all"})
        assert request.call_id == at.model.called[-1]
        await at.driver.answer(request, Answer(verdict="deny", reason="Not all."))
        assert (await at.events.next(TurnEnded)).outcome == "completed"
        assert "user rejected MCP tool call" in text_of(at.outputs()[-1])
        assert at.sent()[-1] == "Not all."
        await at.turn('@do call wipe {"what": "some"} ;; call wipe {} ;; say Done.', Answer(verdict="allow_session"))
        assert len(at.events.all(PermissionRequest)) == 2
        assert "wiped" in text_of(at.outputs()[-1])

    in_workspace(tmp_path, body)


def test_a_subagent_asks_for_itself(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        await at.send("@do search spawn agent ;; spawn %do ask touch made // say Child. ;; wait ;; say Parent.")
        request = await at.events.next(PermissionRequest)
        assert request.subagent not in (None, at.session)
        await at.driver.answer(request, Answer(verdict="deny", reason="Not you."))
        assert (await at.events.next(TurnEnded)).outcome == "completed"
        assert len(at.events.all(TurnStarted)) == 1
        assert any(words.subagent == request.subagent and words.text for words in at.events.all(TextDelta))
        session = at.read()
        assert [each.session for each in session.subagents] == [request.subagent]
        child = at.read(request.subagent)
        assert [each.tool_use_id for each in child.rejections] == [request.call_id]
        assert session.rejections == []
        assert any(texts_of[-1] == "Not you." for texts_of in map(at.sent, range(len(at.model.requests))))

    in_workspace(tmp_path, body)


def test_the_agent_is_working_until_its_subagents_are_done(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        spawn = "@do search spawn agent ;; spawn %do ask touch made // say Child. ;; say Parent."
        await at.send(spawn)
        request = await at.events.next(PermissionRequest)
        await wait_until_async(lambda: "Parent." in at.events.text(), "the parent's last word")
        await asyncio.sleep(0.3)  # Nothing announces that the end of the turn is not reported.
        assert at.events.all(TurnEnded) == []
        await at.driver.answer(request, ALLOW)
        assert await at.events.next(TurnEnded) == TurnEnded(outcome="completed")
        assert (at.folder / "made").exists()
        await at.send(spawn)
        request = await at.events.next(PermissionRequest)
        await wait_until_async(lambda: at.events.text().count("Parent.") == 2, "the parent's last word")
        await at.driver.interrupt()
        assert (await at.events.next(RequestCancelled)).id == request.id
        await at.events.next(TurnEnded)

    in_workspace(tmp_path, body)


# --- interrupting ----------------------------------------------------------------------------------------------------


def test_interrupting_a_response(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        await at.driver.interrupt()
        await at.send("@do slow 3")
        await at.events.next(TextDelta)
        await at.driver.interrupt()
        assert (await at.events.next(TurnEnded)).outcome == "interrupted"
        await wait_until_async(lambda: at.model.cut_off == 1, "the model to be left")
        await at.driver.interrupt()
        await at.turn("@do say Again.")
        assert any(text.startswith("<turn_aborted>") for text in at.sent())
        session = at.read()
        assert [(each.type, each.during) for each in session.interruptions] == [("user", "response")]

    in_workspace(tmp_path, body)


def test_interrupting_a_command_ends_it_and_loses_no_message(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start(mode="full")
        await at.send("@do run echo $$ > pid; sleep 300 ;; say Never.")
        pid = await pid_in(at.folder / "pid")
        later = await at.send("@do say Instead.")
        await at.driver.interrupt()
        # The message is given back; a person decides whether it is sent.
        assert (await at.events.next(TurnEnded)).outcome == "interrupted"
        assert (await at.events.next(MessageReturned)).message == later
        await at.driver.send(later, "@do say Instead.")
        await at.events.next(MessageAccepted, lambda event: event.message == later)
        assert (await at.events.next(TurnEnded)).outcome == "completed"
        assert at.events.text() == "Instead."
        await wait_until_async(lambda: not is_alive(pid, None), "the end of the command")
        session = at.read()
        assert [(each.type, each.during) for each in session.interruptions] == [("user", "tool")]
        assert texts(session, "human") == ["@do run echo $$ > pid; sleep 300 ;; say Never.", "@do say Instead."]

    in_workspace(tmp_path, body)


def test_a_command_that_was_left_running_is_reported_and_can_be_ended(tmp_path: Path) -> None:
    """It outlives its turn, and an interrupt of a later one."""

    async def body(at: Workspace) -> None:
        await at.start(mode="full")
        given = {"cmd": "echo $$ > pid; sleep 300", "yield_time_ms": 250}
        await at.turn(f"@do call exec_command {json.dumps(given)} ;; say Left it.")
        (left,) = (await at.events.next(ProcessesChanged)).processes
        assert left.command == given["cmd"]
        pid = await pid_in(at.folder / "pid")
        await at.send("@do slow 7")
        await at.events.next(TextDelta)
        await at.driver.interrupt()
        assert (await at.events.next(TurnEnded)).outcome == "interrupted"
        assert is_alive(pid, None)
        await at.driver.end_process(left.id)
        assert (await at.events.next(ProcessesChanged)).processes == []
        await wait_until_async(lambda: not is_alive(pid, None), "the end of the command")
        with pytest.raises(NotFoundError, match="no longer running"):
            await at.driver.end_process(left.id)

    in_workspace(tmp_path, body)


def test_a_clear_starts_another_session(tmp_path: Path) -> None:
    """In the same process; the model gets nothing of the old one."""

    async def body(at: Workspace) -> None:
        first = await at.start()
        await at.turn("@do say First.")
        assert (await at.turn("/clear")).outcome == "completed"
        second = at.events.all(Started)[-1]
        assert (second.pid, second.mode, second.model) == (first.pid, first.mode, first.model)
        assert second.session != first.session
        await at.turn("@do say Second.")
        assert not any("First" in text for text in at.sent())
        assert texts(at.read(second.session), "model") == ["Second."]
        assert texts(at.read(first.session), "model") == ["First."]

    in_workspace(tmp_path, body)


def test_an_interrupt_cancels_open_requests(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        await at.send("@do ask touch made ;; say Never.")
        request = await at.events.next(PermissionRequest)
        await at.driver.interrupt()
        assert (await at.events.next(RequestCancelled)).id == request.id
        assert (await at.events.next(TurnEnded)).outcome == "interrupted"
        await at.driver.answer(request, ALLOW)
        await at.turn("@do say Again.")
        assert not (at.folder / "made").exists()

    in_workspace(tmp_path, body)


# --- going on --------------------------------------------------------------------------------------------------------


def test_a_session_is_resumed_after_it_was_stopped(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        first = await at.start()
        await at.turn("@do say First.")
        await at.driver.stop()
        assert at.events.all(AgentExited) == [AgentExited(code=0)]
        second = await at.start(session=first.session)
        assert second.session == first.session
        await at.turn("@do say Second.")
        assert [text for text in at.sent() if text in ("First.", "@do say Second.")] == ["First.", "@do say Second."]
        assert texts(at.read(), "model") == ["First.", "Second."]

    in_workspace(tmp_path, body)


def test_a_session_is_resumed_after_it_was_killed_during_a_request(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        started = await at.start()
        await at.send("@do ask touch made ;; say Never.")
        request = await at.events.next(PermissionRequest)
        assert started.pid is not None
        # A call that is not in the file yet is lost with the program.
        await wait_until_async(lambda: str(request.call_id) in str(at.read().messages), "the call in the file")
        os.kill(started.pid, signal.SIGKILL)
        exited = await at.events.next(AgentExited)
        assert exited.code == -signal.SIGKILL
        assert at.events.all(RequestCancelled) == [RequestCancelled(request.id)]
        with pytest.raises(UnspoolError, match="is not running"):
            await at.send("Hello?")
        await at.driver.answer(request, ALLOW)
        await at.driver.stop()
        assert at.events.all(AgentExited) == [exited]
        assert [each.tool_use_id for each in at.read().orphans] == [request.call_id]
        await at.start(session=at.session)
        await at.turn("@do say Alive.")
        assert text_of(at.outputs()[-1]) == "aborted"
        session = at.read()
        assert [(each.tool_use_id, each.reason) for each in session.orphans] == [(request.call_id, "killed")]
        assert texts(session, "model") == ["Alive."]

    in_workspace(tmp_path, body)


def test_a_fork_continues_after_a_turn(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        for word in ("One.", "Two.", "Three."):
            await at.turn(f"@do say {word}")
        await at.driver.stop()
        origin, session = at.session, at.read()
        message_id = next(
            message.id for message in session.messages if message.author == "human" and "Two" in str(message)
        )
        await at.start(session=origin, fork=True, at=message_id)
        assert at.session != origin
        await at.turn("@do say Other.")
        said = [text for text in at.sent() if text in ("One.", "Two.", "Three.")]
        assert said == ["One.", "Two."]
        fork = at.read()
        assert (fork.info.origin.kind, fork.info.origin.session) == ("fork", origin)
        assert texts(fork, "model") == ["One.", "Two.", "Other."]
        assert texts(at.read(origin), "model") == ["One.", "Two.", "Three."]
        await at.driver.stop()
        await at.start(session=origin, fork=True)
        await at.turn("@do say End.")
        assert texts(at.read(), "model") == ["One.", "Two.", "Three.", "End."]

    in_workspace(tmp_path, body)


def test_a_failed_start_says_why(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        with pytest.raises(UnspoolError, match=r"Could not start Codex: thread/resume"):
            await at.start(session="01a1e25f-ded1-71f0-acda-21103c6e4c7f")
        with pytest.raises(UsageError, match="needs a session to fork from"):
            await at.start(fork=True)
        with pytest.raises(UsageError, match="Unknown mode 'yolo'"):
            await at.start(mode="yolo")
        assert at.events.all(Started) == []
        assert at.events.all(AgentExited) == []

    in_workspace(tmp_path, body)


# --- mode and model --------------------------------------------------------------------------------------------------


def test_mode_and_model_change_with_the_next_turn(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        await at.start()
        assert "full" not in at.driver.capabilities.modes
        with pytest.raises(UsageError, match="can only be set at start"):
            await at.driver.set_mode("full")
        await at.send("@do ask true ;; say Done.")
        request = await at.events.next(PermissionRequest)
        await at.driver.set_model("gpt-5.4")
        await at.driver.set_mode("plan")
        assert at.events.all(SettingsChanged) == []
        await at.driver.answer(request, ALLOW)
        await at.events.next(TurnEnded)
        assert await at.events.next(SettingsChanged) == SettingsChanged(mode="plan", model="gpt-5.4")
        await at.turn("@do say Planned.")
        assert [request["model"] for request in at.model.requests] == ["gpt-5.5", "gpt-5.5", "gpt-5.4"]
        assert any("Plan Mode" in text for text in at.sent())
        await at.driver.set_mode("read-only")
        assert await at.events.next(SettingsChanged) == SettingsChanged(mode="read-only")
        await at.driver.set_model("gpt-5.5")
        assert await at.events.next(SettingsChanged) == SettingsChanged(model="gpt-5.5")
        await at.turn("@do patch made=text ;; say Done.", ALLOW)
        assert len(at.events.all(PermissionRequest)) == 2
        assert (at.folder / "made").read_text() == "text\n"
        assert at.read().info.models == ["gpt-5.5", "gpt-5.4"]

    in_workspace(tmp_path, body)


def test_a_plan_arrives_as_text(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        assert (await at.start(mode="plan")).mode == "plan"
        await at.turn("@do say <proposed_plan>\n# Plan\n\nFirst this.\n</proposed_plan>\n")
        assert "First this." in at.events.text()
        await at.driver.set_mode("ask")
        assert await at.events.next(SettingsChanged) == SettingsChanged(mode="ask")

    in_workspace(tmp_path, body)


def test_full_access_must_be_chosen_at_the_start(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        config = at.home / ".codex" / "config.toml"
        config.write_text('approval_policy = "never"\nsandbox_mode = "danger-full-access"\n' + config.read_text())
        await at.start()
        await at.turn("@do ask true ;; say Done.", ALLOW)
        assert len(at.events.all(PermissionRequest)) == 1
        await at.driver.stop()
        assert (await at.start(mode="full")).mode == "full"
        assert at.driver.capabilities.modes == (*CAPABILITIES.modes, "full")
        await at.turn("@do run touch made ;; say Done.")
        assert (at.folder / "made").exists()

    in_workspace(tmp_path, body)


# --- the end ---------------------------------------------------------------------------------------------------------


def test_stopping_leaves_nothing_behind(tmp_path: Path) -> None:
    async def body(at: Workspace) -> None:
        started = await at.start(mode="full")
        away = "setsid sh -c 'trap : TERM HUP; echo $$ > away; while :; do sleep 1; done' &"
        await at.send(f"@do run {away} echo $$ > near; sleep 300 ;; say Never.")
        pids = [started.pid or 0, await pid_in(at.folder / "away"), await pid_in(at.folder / "near")]
        assert all(is_alive(pid, None) for pid in pids)
        await asyncio.gather(at.driver.stop(), at.driver.stop())
        assert not any(is_alive(pid, None) for pid in pids)
        assert len(at.events.all(AgentExited)) == 1
        assert at.events.all(AgentExited)[0].error is None
        session = at.read()
        assert len(session.interruptions) == 1

    in_workspace(tmp_path, body)


def test_an_unexpected_exit_is_reported_with_the_error_output(tmp_path: Path) -> None:
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 3\n")
    program.chmod(0o755)

    async def body() -> None:
        driver = CodexDriver(str(program))
        with pytest.raises(UnspoolError, match="no such luck"):
            await driver.start(RunSpec(folder=str(tmp_path), home=str(tmp_path)), EventCollector())
        await driver.stop()

    run(body())


def test_the_program_can_be_set_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, "/bin/sh")
    assert CodexDriverFactory().find_program() == "/bin/sh"
    monkeypatch.setenv(PROGRAM_VARIABLE, "/nowhere/codex")
    with pytest.raises(NotFoundError, match="UNSPOOL_CODEX_PROGRAM"):
        CodexDriverFactory().find_program()
    monkeypatch.delenv(PROGRAM_VARIABLE)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
    with pytest.raises(MissingExtraError, match=r"unspool\[codex\]"):
        CodexDriverFactory().find_program()


def test_an_image_reaches_the_model(tmp_path: Path) -> None:
    """As an image beside the text."""

    async def body(at: Workspace) -> None:
        await at.start()
        await at.driver.send("one", "say seen", [ImageInput("image/png", PIXEL)])
        assert (await at.events.next(TurnEnded)).outcome == "completed"
        parts = [part for item in at.model.last["input"] for part in item.get("content") or []]
        images = [part["image_url"] for part in parts if part["type"] == "input_image"]
        assert images == [f"data:image/png;base64,{PIXEL}"]

    in_workspace(tmp_path, body)
