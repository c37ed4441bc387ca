"""Running Codex itself: what its driver tells, what the model is sent, and what the reader finds in the file agree."""

from __future__ import annotations

import asyncio
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
from unspool.runs.drivers import codex_approvals, codex_config
from unspool.runs.drivers.codex import CAPABILITIES, PROGRAM_VARIABLE, CodexDriver, CodexDriverFactory
from unspool.runs.processes import is_alive
from unspool.runs.protocol import (
    AgentExited,
    Answer,
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


class Bench:
    """A home of its own, a model, and one driver after the other."""

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
        """A new program."""
        self.driver, self.events = CodexDriver(PROGRAM), EventCollector()
        await self.driver.start(RunSpec(folder=str(self.folder), home=str(self.home), **spec), self.events)
        started = await self.events.next(Started)
        self.session = started.session or ""
        return started

    async def send(self, text: str) -> str:
        """A message; its id."""
        self._messages += 1
        id = f"message-{self._messages}"
        await self.driver.send(id, text)
        return id

    async def turn(self, text: str, decision: Answer | None = None) -> TurnEnded:
        """A message and its whole turn, in which everything that is asked is decided alike."""
        await self.send(text)
        while True:
            event = await self.events.next(PermissionRequest | TurnEnded)  # type: ignore[arg-type]
            if isinstance(event, TurnEnded):
                return event
            assert decision is not None, event
            await self.driver.answer(event, decision)

    def read(self, session: str | None = None) -> Session:
        """What the reader says of a session."""
        library = Library(self.home)
        return library.load(library.find(session or self.session))

    def sent(self, request: int = -1) -> list[str]:
        """The words of all items of a request."""
        return [text_of(item) for item in self.model.requests[request]["input"]]

    def outputs(self) -> list[Json]:
        """What tools gave back, in the newest request."""
        return [item for item in self.model.last["input"] if item["type"].endswith("_output")]


@asynccontextmanager
async def bench(home: Path) -> AsyncIterator[Bench]:
    """A bench on which nothing stays running."""
    async with CodexModel() as model:
        made = Bench(home, model)
        try:
            yield made
        finally:
            await made.driver.stop()


@pytest.fixture(autouse=True)
def _dummy_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    monkeypatch.delenv("CODEX_HOME", raising=False)


def on_bench(tmp_path: Path, body: Callable[[Bench], Awaitable[None]]) -> None:
    """Run a test on a bench."""

    async def whole() -> None:
        async with bench(tmp_path) as made:
            await body(made)

    run(whole())


async def pid_in(path: Path) -> int:
    """A number, once a command has written it into a file."""
    await wait_until_async(lambda: path.exists() and path.read_text().endswith("\n"), f"a line in {path.name}")
    return int(path.read_text())


def texts(session: Session, author: str) -> list[str]:
    """What somebody said in a session."""
    return [
        block.text
        for message in session.messages
        if message.author == author
        for block in message.blocks
        if hasattr(block, "text") and block.text
    ]


# --- turns -----------------------------------------------------------------------------------------------------------


def test_words_come_as_they_are_said(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        started = await bench.start()
        assert (started.mode, started.model) == ("ask", "gpt-5.5")
        assert started.pid is not None
        assert started.version is not None
        ended = await bench.turn("@do say All is well.")
        assert ended == TurnEnded(outcome="completed")
        turn = (TurnStarted, MessageAccepted, TurnEnded)
        assert [type(event) for event in bench.events.events if isinstance(event, turn)] == list(turn)
        assert bench.events.all(MessageAccepted) == [MessageAccepted("message-1")]
        assert bench.events.text() == "All is well."
        assert len(bench.events.all(TextDelta)) == 3
        await bench.driver.stop()
        session = bench.read()
        assert session.info.id == started.session
        assert texts(session, "human") == ["@do say All is well."]
        assert texts(session, "model") == ["All is well."]

    on_bench(tmp_path, body)


def test_a_failed_turn_says_why(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        ended = await bench.turn("@do fail")
        assert ended.outcome == "failed"
        assert "a scripted failure" in (ended.error or "")
        assert (await bench.turn("@do say Again.")).outcome == "completed"

    on_bench(tmp_path, body)


def test_a_message_reaches_the_turn_that_runs(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        await bench.send("@do ask sleep 0.2 ;; say Done.")
        asked = await bench.events.next(PermissionRequest)
        id = await bench.send("Be quick.")
        assert MessageAccepted(id) not in bench.events.events
        await bench.driver.answer(asked, ALLOW)
        await bench.events.next(MessageAccepted, lambda event: event.message == id)
        assert (await bench.events.next(TurnEnded)).outcome == "completed"
        assert len(bench.events.all(TurnStarted)) == 1
        assert bench.sent()[-1] == "Be quick."
        assert texts(bench.read(), "human")[-1] == "Be quick."

    on_bench(tmp_path, body)


# --- approvals -------------------------------------------------------------------------------------------------------


def test_a_command_that_is_allowed_runs(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        await bench.send("@do ask touch made ;; say Done.")
        asked = await bench.events.next(PermissionRequest)
        assert (asked.kind, asked.tool, asked.title, asked.reason) == (
            "command",
            "exec_command",
            "touch made",
            "May I?",
        )
        assert asked.action.command == "touch made"
        assert asked.subagent is None
        assert asked.verdicts == ("allow", "allow_session", "deny", "deny_stop")
        assert asked.takes_reason
        assert not asked.takes_input
        assert not (bench.folder / "made").exists()
        await bench.driver.answer(asked, ALLOW)
        await bench.events.next(TurnEnded)
        assert (bench.folder / "made").exists()
        assert bench.outputs()[-1]["call_id"] == asked.call_id
        assert "exited with code 0" in text_of(bench.outputs()[-1])
        assert bench.events.all(RequestCancelled) == []
        await bench.driver.answer(asked, ALLOW)
        session = bench.read()
        assert session.rejections == []

    on_bench(tmp_path, body)


def test_what_is_allowed_for_the_session_is_not_asked_again(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        await bench.turn("@do ask touch made ;; ask touch made ;; say Done.", Answer(verdict="allow_session"))
        assert len(bench.events.all(PermissionRequest)) == 1
        assert len(bench.outputs()) == 2

    on_bench(tmp_path, body)


def test_a_refusal_lets_the_turn_go_on_and_its_reason_is_read_with_it(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start(mode="read-only")
        ended = await bench.turn("@do ask touch made ;; say Well.", Answer(verdict="deny"))
        assert ended.outcome == "completed"
        await bench.send("@do patch made=text ;; say Well.")
        asked = await bench.events.next(PermissionRequest)
        assert asked.kind == "edit"
        assert asked.title.endswith("/made")
        assert asked.action.diff is not None
        assert asked.action.diff.endswith("@@ -0,0 +1,1 @@\n+text\n")
        await bench.driver.answer(asked, Answer(verdict="deny", reason="It is made already."))
        await bench.events.next(MessageAccepted, lambda event: event.message == asked.id)
        assert (await bench.events.next(TurnEnded)).outcome == "completed"
        assert not (bench.folder / "made").exists()
        assert bench.sent()[-2:] == ["patch rejected by user", "It is made already."]
        assert "rejected by user" in text_of(bench.outputs()[0])
        session = bench.read()
        assert [(each.rejection_type, each.by) for each in session.rejections] == [
            ("command", "user"),
            ("edit", "user"),
        ]
        assert session.rejections[1].tool_use_id == asked.call_id
        assert session.interruptions == []
        assert texts(session, "human")[-1] == "It is made already."

    on_bench(tmp_path, body)


def test_what_a_script_of_the_model_asks_belongs_to_its_call(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start(model="gpt-6-sol")
        await bench.send("@do script touch made ;; script touch made ;; say Well.")
        asked = await bench.events.next(PermissionRequest)
        assert (asked.kind, asked.title) == ("command", "touch made")
        assert asked.call_id == bench.model.called[0]
        await bench.driver.answer(asked, ALLOW)
        asked = await bench.events.next(PermissionRequest)
        assert (bench.folder / "made").exists()
        assert asked.call_id == bench.model.called[1]
        await bench.driver.answer(asked, Answer(verdict="deny", reason="Once is enough."))
        await bench.events.next(MessageAccepted, lambda event: event.message == asked.id)
        await wait_until_async(
            lambda: len(bench.events.all(TurnEnded)) == len(bench.events.all(TurnStarted)), "the end of the turn"
        )
        bench.events.skip()
        assert "rejected by user" in text_of(bench.outputs()[-1])
        await bench.turn("@do say Again.")
        assert "Once is enough." in bench.sent()
        assert [each.tool_use_id for each in bench.read().rejections] == [asked.call_id]

    on_bench(tmp_path, body)


def test_a_script_may_take_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its call is in the file, and from a refusal until its end: only then the model reads the reason."""
    looks = 0

    def late(path: str, text: str) -> str | None:
        nonlocal looks
        looks += 1
        return codex_config.find_script(path, text) if looks > 30 else None

    async def body(bench: Bench) -> None:
        monkeypatch.setattr(codex_approvals, "find_script", late)
        await bench.start(model="gpt-6-sol")
        await bench.send("@do late touch made ;; say Well.")
        asked = await bench.events.next(PermissionRequest)
        assert asked.call_id == bench.model.called[0]
        await bench.driver.answer(asked, Answer(verdict="deny", reason="Not now."))
        await bench.events.next(MessageAccepted, lambda event: event.message == asked.id)
        await wait_until_async(
            lambda: len(bench.events.all(TurnEnded)) == len(bench.events.all(TurnStarted)), "the end of the turn"
        )
        bench.events.skip()
        assert len(bench.outputs()) == 1
        assert "rejected by user" in text_of(bench.outputs()[0])
        assert "Script running" not in text_of(bench.outputs()[0])
        await bench.turn("@do say Again.")
        assert bench.sent().count("Not now.") == 1

    on_bench(tmp_path, body)


def test_a_refusal_can_end_the_turn(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        refusal = Answer(verdict="deny_stop", reason="Never do that.")
        ended = await bench.turn("@do ask touch made ;; say Never.", refusal)
        assert ended.outcome == "interrupted"
        asked = bench.events.all(PermissionRequest)[0]
        await bench.events.next(MessageAccepted, lambda event: event.message == asked.id)
        assert len(bench.model.requests) == 1
        await bench.turn("@do say Better.")
        assert bench.sent()[-2:] == ["Never do that.", "@do say Better."]
        session = bench.read()
        assert [each.tool_use_id for each in session.rejections] == [asked.call_id]
        assert not (bench.folder / "made").exists()

    on_bench(tmp_path, body)


def test_a_question_is_answered_with_one_of_its_options(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        await bench.send(f"@do {QUESTION} ;; say Done.")
        asked = await bench.events.next(PermissionRequest)
        assert (asked.kind, asked.title) == ("question", "Which colour?")
        assert [option.label for option in asked.choices[0].options] == ["Blue", "Red"]
        assert asked.action.questions[0].options == ["Blue", "Red"]
        await bench.driver.answer(asked, Answer(verdict="allow", answers={"Which colour?": ["Red"]}))
        await bench.events.next(TurnEnded)
        assert text_of(bench.outputs()[-1]) == '{"answers":{"q1":{"answers":["Red"]}}}'
        await bench.send(f"@do {QUESTION} ;; say Done.")
        await bench.driver.answer(await bench.events.next(PermissionRequest), Answer(verdict="deny_stop"))
        assert (await bench.events.next(TurnEnded)).outcome == "interrupted"

    on_bench(tmp_path, body)


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
    async def body(bench: Bench) -> None:
        (bench.home / "server.py").write_text(SERVER)
        with (bench.home / ".codex" / "config.toml").open("a") as config:
            config.write(f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{bench.home}/server.py"]\n')
        await bench.start()
        await bench.send('@do search wipe ;; call wipe {"what": "all"} ;; say Done.')
        asked = await bench.events.next(PermissionRequest)
        assert (asked.kind, asked.tool, asked.action.input) == ("tool", "wipe", {"what": "all"})
        assert asked.call_id == bench.model.called[-1]
        await bench.driver.answer(asked, Answer(verdict="deny", reason="Not all."))
        assert (await bench.events.next(TurnEnded)).outcome == "completed"
        assert "user rejected MCP tool call" in text_of(bench.outputs()[-1])
        assert bench.sent()[-1] == "Not all."
        await bench.turn('@do call wipe {"what": "some"} ;; call wipe {} ;; say Done.', Answer(verdict="allow_session"))
        assert len(bench.events.all(PermissionRequest)) == 2
        assert "wiped" in text_of(bench.outputs()[-1])

    on_bench(tmp_path, body)


def test_a_subagent_asks_for_itself(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        await bench.send("@do search spawn agent ;; spawn %do ask touch made // say Child. ;; wait ;; say Parent.")
        asked = await bench.events.next(PermissionRequest)
        assert asked.subagent not in (None, bench.session)
        await bench.driver.answer(asked, Answer(verdict="deny", reason="Not you."))
        assert (await bench.events.next(TurnEnded)).outcome == "completed"
        assert len(bench.events.all(TurnStarted)) == 1
        assert any(words.subagent == asked.subagent and words.text for words in bench.events.all(TextDelta))
        session = bench.read()
        assert [each.session for each in session.subagents] == [asked.subagent]
        child = bench.read(asked.subagent)
        assert [each.tool_use_id for each in child.rejections] == [asked.call_id]
        assert session.rejections == []
        assert any(texts_of[-1] == "Not you." for texts_of in map(bench.sent, range(len(bench.model.requests))))

    on_bench(tmp_path, body)


def test_the_agent_is_at_work_until_its_subagents_are_done(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        spawn = "@do search spawn agent ;; spawn %do ask touch made // say Child. ;; say Parent."
        await bench.send(spawn)
        asked = await bench.events.next(PermissionRequest)
        await wait_until_async(lambda: "Parent." in bench.events.text(), "the parent's last word")
        await asyncio.sleep(0.3)  # Nothing tells that the end of the turn is not told.
        assert bench.events.all(TurnEnded) == []
        await bench.driver.answer(asked, ALLOW)
        assert await bench.events.next(TurnEnded) == TurnEnded(outcome="completed")
        assert (bench.folder / "made").exists()
        await bench.send(spawn)
        asked = await bench.events.next(PermissionRequest)
        await wait_until_async(lambda: bench.events.text().count("Parent.") == 2, "the parent's last word")
        await bench.driver.interrupt()
        assert (await bench.events.next(RequestCancelled)).id == asked.id
        await bench.events.next(TurnEnded)

    on_bench(tmp_path, body)


# --- interrupting ----------------------------------------------------------------------------------------------------


def test_interrupting_words(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        await bench.driver.interrupt()
        await bench.send("@do slow 3")
        await bench.events.next(TextDelta)
        await bench.driver.interrupt()
        assert (await bench.events.next(TurnEnded)).outcome == "interrupted"
        await wait_until_async(lambda: bench.model.cut_off == 1, "the model to be left")
        await bench.driver.interrupt()
        await bench.turn("@do say Again.")
        assert any(text.startswith("<turn_aborted>") for text in bench.sent())
        session = bench.read()
        assert [(each.type, each.during) for each in session.interruptions] == [("user", "response")]

    on_bench(tmp_path, body)


def test_interrupting_a_command_ends_it_and_loses_no_message(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start(mode="full")
        await bench.send("@do run echo $$ > pid; sleep 300 ;; say Never.")
        pid = await pid_in(bench.folder / "pid")
        later = await bench.send("@do say Instead.")
        await bench.driver.interrupt()
        assert (await bench.events.next(TurnEnded)).outcome == "interrupted"
        await bench.events.next(MessageAccepted, lambda event: event.message == later)
        assert (await bench.events.next(TurnEnded)).outcome == "completed"
        assert bench.events.text() == "Instead."
        await wait_until_async(lambda: not is_alive(pid, None), "the end of the command")
        session = bench.read()
        assert [(each.type, each.during) for each in session.interruptions] == [("user", "tool")]
        assert texts(session, "human") == ["@do run echo $$ > pid; sleep 300 ;; say Never.", "@do say Instead."]

    on_bench(tmp_path, body)


def test_what_was_asked_in_a_turn_that_is_interrupted_is_withdrawn(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        await bench.send("@do ask touch made ;; say Never.")
        asked = await bench.events.next(PermissionRequest)
        await bench.driver.interrupt()
        assert (await bench.events.next(RequestCancelled)).id == asked.id
        assert (await bench.events.next(TurnEnded)).outcome == "interrupted"
        await bench.driver.answer(asked, ALLOW)
        await bench.turn("@do say Again.")
        assert not (bench.folder / "made").exists()

    on_bench(tmp_path, body)


# --- going on --------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_after_it_was_stopped(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        first = await bench.start()
        await bench.turn("@do say First.")
        await bench.driver.stop()
        assert bench.events.all(AgentExited) == [AgentExited(code=0)]
        second = await bench.start(session=first.session)
        assert second.session == first.session
        await bench.turn("@do say Second.")
        assert [text for text in bench.sent() if text in ("First.", "@do say Second.")] == ["First.", "@do say Second."]
        assert texts(bench.read(), "model") == ["First.", "Second."]

    on_bench(tmp_path, body)


def test_a_session_goes_on_after_its_program_was_killed_while_it_asked(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        started = await bench.start()
        await bench.send("@do ask touch made ;; say Never.")
        asked = await bench.events.next(PermissionRequest)
        assert started.pid is not None
        # A call that is not in the file yet is lost with the program.
        await wait_until_async(lambda: str(asked.call_id) in str(bench.read().messages), "the call in the file")
        os.kill(started.pid, signal.SIGKILL)
        exited = await bench.events.next(AgentExited)
        assert exited.code == -signal.SIGKILL
        assert bench.events.all(RequestCancelled) == [RequestCancelled(asked.id)]
        with pytest.raises(UnspoolError, match="is not running"):
            await bench.send("Hello?")
        await bench.driver.answer(asked, ALLOW)
        await bench.driver.stop()
        assert bench.events.all(AgentExited) == [exited]
        assert [each.tool_use_id for each in bench.read().orphans] == [asked.call_id]
        await bench.start(session=bench.session)
        await bench.turn("@do say Alive.")
        assert text_of(bench.outputs()[-1]) == "aborted"
        session = bench.read()
        assert [(each.tool_use_id, each.reason) for each in session.orphans] == [(asked.call_id, "killed")]
        assert texts(session, "model") == ["Alive."]

    on_bench(tmp_path, body)


def test_a_fork_goes_on_after_a_turn(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        for word in ("One.", "Two.", "Three."):
            await bench.turn(f"@do say {word}")
        await bench.driver.stop()
        origin, session = bench.session, bench.read()
        at = next(message.id for message in session.messages if message.author == "human" and "Two" in str(message))
        await bench.start(session=origin, fork=True, at=at)
        assert bench.session != origin
        await bench.turn("@do say Other.")
        said = [text for text in bench.sent() if text in ("One.", "Two.", "Three.")]
        assert said == ["One.", "Two."]
        fork = bench.read()
        assert (fork.info.origin.kind, fork.info.origin.session) == ("fork", origin)
        assert texts(fork, "model") == ["One.", "Two.", "Other."]
        assert texts(bench.read(origin), "model") == ["One.", "Two.", "Three."]
        await bench.driver.stop()
        await bench.start(session=origin, fork=True)
        await bench.turn("@do say End.")
        assert texts(bench.read(), "model") == ["One.", "Two.", "Three.", "End."]

    on_bench(tmp_path, body)


def test_what_cannot_be_gone_on_with_is_said(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        with pytest.raises(UnspoolError, match=r"Could not start Codex: thread/resume"):
            await bench.start(session="01a1e25f-ded1-71f0-acda-21103c6e4c7f")
        with pytest.raises(UsageError, match="needs a session to fork from"):
            await bench.start(fork=True)
        with pytest.raises(UsageError, match="Unknown mode 'yolo'"):
            await bench.start(mode="yolo")
        assert bench.events.all(Started) == []
        assert bench.events.all(AgentExited) == []

    on_bench(tmp_path, body)


# --- mode and model --------------------------------------------------------------------------------------------------


def test_mode_and_model_change_with_the_next_turn(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.start()
        assert "full" not in bench.driver.capabilities.modes
        with pytest.raises(UsageError, match="can only be set at start"):
            await bench.driver.set_mode("full")
        await bench.send("@do ask true ;; say Done.")
        asked = await bench.events.next(PermissionRequest)
        await bench.driver.set_model("gpt-5.4")
        await bench.driver.set_mode("plan")
        assert bench.events.all(SettingsChanged) == []
        await bench.driver.answer(asked, ALLOW)
        await bench.events.next(TurnEnded)
        assert await bench.events.next(SettingsChanged) == SettingsChanged(mode="plan", model="gpt-5.4")
        await bench.turn("@do say Planned.")
        assert [request["model"] for request in bench.model.requests] == ["gpt-5.5", "gpt-5.5", "gpt-5.4"]
        assert any("Plan Mode" in text for text in bench.sent())
        await bench.driver.set_mode("read-only")
        assert await bench.events.next(SettingsChanged) == SettingsChanged(mode="read-only")
        await bench.driver.set_model("gpt-5.5")
        assert await bench.events.next(SettingsChanged) == SettingsChanged(model="gpt-5.5")
        await bench.turn("@do patch made=text ;; say Done.", ALLOW)
        assert len(bench.events.all(PermissionRequest)) == 2
        assert (bench.folder / "made").read_text() == "text\n"
        assert bench.read().info.models == ["gpt-5.5", "gpt-5.4"]

    on_bench(tmp_path, body)


def test_a_plan_is_told_as_words(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        assert (await bench.start(mode="plan")).mode == "plan"
        await bench.turn("@do say <proposed_plan>\n# Plan\n\nFirst this.\n</proposed_plan>\n")
        assert "First this." in bench.events.text()
        await bench.driver.set_mode("ask")
        assert await bench.events.next(SettingsChanged) == SettingsChanged(mode="ask")

    on_bench(tmp_path, body)


def test_nothing_is_asked_only_where_that_was_named(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        config = bench.home / ".codex" / "config.toml"
        config.write_text('approval_policy = "never"\nsandbox_mode = "danger-full-access"\n' + config.read_text())
        await bench.start()
        await bench.turn("@do ask true ;; say Done.", ALLOW)
        assert len(bench.events.all(PermissionRequest)) == 1
        await bench.driver.stop()
        assert (await bench.start(mode="full")).mode == "full"
        assert bench.driver.capabilities.modes == (*CAPABILITIES.modes, "full")
        await bench.turn("@do run touch made ;; say Done.")
        assert (bench.folder / "made").exists()

    on_bench(tmp_path, body)


# --- the end ---------------------------------------------------------------------------------------------------------


def test_stopping_leaves_nothing_behind(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        started = await bench.start(mode="full")
        away = "setsid sh -c 'trap : TERM HUP; echo $$ > away; while :; do sleep 1; done' &"
        await bench.send(f"@do run {away} echo $$ > near; sleep 300 ;; say Never.")
        pids = [started.pid or 0, await pid_in(bench.folder / "away"), await pid_in(bench.folder / "near")]
        assert all(is_alive(pid, None) for pid in pids)
        await asyncio.gather(bench.driver.stop(), bench.driver.stop())
        assert not any(is_alive(pid, None) for pid in pids)
        assert len(bench.events.all(AgentExited)) == 1
        assert bench.events.all(AgentExited)[0].error is None
        session = bench.read()
        assert len(session.interruptions) == 1

    on_bench(tmp_path, body)


def test_a_program_that_ends_by_itself_has_the_last_word(tmp_path: Path) -> None:
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 3\n")
    program.chmod(0o755)

    async def body() -> None:
        driver = CodexDriver(str(program))
        with pytest.raises(UnspoolError, match="no such luck"):
            await driver.start(RunSpec(folder=str(tmp_path), home=str(tmp_path)), EventCollector())
        await driver.stop()

    run(body())


def test_the_program_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
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
