"""The supervisor with real processes: one answer, one order, two timeouts, and nothing left running."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.waiting import PATIENCE, finished, wait_until, wait_until_async
from unspool.core.errors import NotFoundError, UnspoolError, UsageError
from unspool.library import Library
from unspool.runs import driver_events as driver_events_module
from unspool.runs import processes
from unspool.runs import run as run_module
from unspool.runs import run_view as run_view_module
from unspool.runs import supervisor as supervisor_module
from unspool.runs.errors import ConflictError
from unspool.runs.processes import MARK, is_alive, start_time
from unspool.runs.protocol import Answer
from unspool.runs.run import Run
from unspool.runs.sandbox import check_sandbox
from unspool.runs.state import Limits, StopRun
from unspool.runs.supervisor import Supervisor, limits_from
from unspool.store.decision_log import recorded_decisions
from unspool.store.run_log import RunLog

from .harness import run as run_async
from .scripted import drivers, install, spec

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the scripted agent is a shell script")
Event = dict[str, Any]
ALLOW = Answer(verdict="allow")


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return install(tmp_path, monkeypatch)


class Watched:
    """A supervisor and everything it publishes."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.events: list[Event] = []
        self._more = asyncio.Event()
        supervisor.watch(self._collect)

    def _collect(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    async def until(self, fits: Callable[[], bool], what: str) -> None:
        async def look() -> None:
            while not fits():
                self._more.clear()
                await self._more.wait()

        await finished(look(), what, detail=lambda: f"Last was {self.events[-6:]}")

    async def state(self, run: Run, *states: str) -> None:
        await self.until(lambda: run.machine.state in states, f"the state {' or '.join(states)}")

    async def turns(self, count: int) -> None:
        await self.until(lambda: len(self.of("turn_ended")) == count, f"the end of turn {count}")

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["kind"] == kind]


class Clock:
    """The time as the supervisor sees it, which a test can advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        for module in (supervisor_module, run_module, run_view_module, driver_events_module):
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead  # the clock that the tests move

    def time(self) -> float:
        return time.time() + self._ahead

    async def passes(self, watched: Watched, seconds: float) -> None:
        """Let time pass; on return the supervisor has started what was due."""
        self._ahead += seconds
        wake = watched.supervisor._wake
        wake.set()
        await wait_until_async(lambda: not wake.is_set(), "the supervisor to look at its clock")


@asynccontextmanager
async def supervising(tmp_path: Path, **more: Any) -> AsyncIterator[Watched]:
    log = RunLog(tmp_path / "supervisor.db")
    supervisor = Supervisor(log, drivers(), **more)
    clock = asyncio.create_task(supervisor.keep_time())
    try:
        yield Watched(supervisor)
    finally:
        await supervisor.close()
        clock.cancel()
        await asyncio.gather(clock, return_exceptions=True)
        log.close()


def test_a_turn_with_an_answer(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "say working ;; ask touch made ;; say done", "tab 1")
            await watched.state(run, "waiting-input")
            (opened,) = run.view().questions
            assert "touch made" in opened.request.title
            await run.answer(opened.request.id, opened.digest, Answer(verdict="allow"), "tab 1")
            await watched.state(run, "idle")
            assert (tmp_path / "project" / "made").exists()
            assert [event["message"].id for event in watched.of("sent")] == ["m1"]
            assert "working" in "".join(event["text"] for event in watched.of("words"))
            states = [event["state"] for event in watched.of("state")]
            assert states == ["idle", "in-turn", "waiting-input", "in-turn", "idle"]

    run_async(body())


def test_the_first_answer_counts_and_the_second_gets_an_error(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "ask touch made", "tab 1")
            await watched.state(run, "waiting-input")
            (opened,) = run.view().questions
            results = await asyncio.gather(
                run.answer(opened.request.id, opened.digest, Answer(verdict="deny"), "tab 1"),
                run.answer(opened.request.id, opened.digest, Answer(verdict="allow"), "tab 2"),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [type(None), ConflictError]
            assert str(results[1]) == "Already answered: denied by tab 1"
            await watched.state(run, "idle")
            assert not (tmp_path / "project" / "made").exists()
            assert [event["who"] for event in watched.of("answered")] == ["tab 1"]

    run_async(body())


def test_an_answer_to_something_else_is_rejected(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "ask touch made", "tab 1")
            await watched.state(run, "waiting-input")
            (opened,) = run.view().questions
            with pytest.raises(ConflictError, match="has changed since you saw it"):
                await run.answer(opened.request.id, "0" * 24, Answer(verdict="allow"), "tab 1")
            with pytest.raises(ConflictError, match="no longer needs"):
                await run.answer("another", opened.digest, Answer(verdict="allow"), "tab 1")
            with pytest.raises(UsageError):
                await run.answer(
                    opened.request.id, opened.digest, Answer(verdict="allow", input={"command": "rm"}), "tab 1"
                )
            assert run.machine.state == "waiting-input"

    run_async(body())


def test_a_decision_that_cannot_be_recorded_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request stays open with its timeout, because the agent has not got an answer."""

    def refuse(*_: object) -> int:
        raise OSError("disk full")

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "ask touch made", "tab 1")
            await watched.state(run, "waiting-input")
            (opened,) = run.view().questions
            with monkeypatch.context() as patch:
                patch.setattr(watched.supervisor.log, "record_decision", refuse)
                with pytest.raises(OSError, match="disk full"):
                    await run.answer(opened.request.id, opened.digest, ALLOW, "tab 1")
            assert run.view().questions == [opened]
            assert run.machine.state == "waiting-input"
            assert run.machine.next_deadline() is not None
            assert watched.of("answered") == []
            await run.answer(opened.request.id, opened.digest, ALLOW, "tab 1")
            await watched.state(run, "idle")
            assert (tmp_path / "project" / "made").exists()
            assert [event["seq"] is not None for event in watched.of("answered")] == [True]

    run_async(body())


def test_every_decision_is_recorded_and_counts_as_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))

    async def body() -> str:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "ask touch made", "tab 1")
            await watched.state(run, "waiting-input")
            (opened,) = run.view().questions
            answer = Answer(verdict="deny", reason="use the other folder")
            await run.answer(opened.request.id, opened.digest, answer, "tab 1")
            await watched.state(run, "idle")
            assert run.session is not None
            (decided,) = watched.supervisor.log.decisions("gemini", run.session)
            assert (decided.verdict, decided.reason, decided.who) == ("deny", "use the other folder", "tab 1")
            assert decided.action is not None
            return run.session

    name = run_async(body())
    library = Library(tmp_path / "home", evidence=recorded_decisions)
    session = library.load(library.find(name))
    (refusal,) = session.rejections
    assert (refusal.reason, refusal.by, refusal.evidence) == ("use the other folder", "user", "supervisor")
    assert refusal.confidence == 1.0


def test_the_idle_timeout_stops_the_process_and_a_message_cancels_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = 10 * PATIENCE
    clock = Clock(monkeypatch)

    async def body() -> None:
        async with supervising(tmp_path, limits=Limits(idle=idle)) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            pid = run.pid
            assert pid is not None
            started = start_time(pid)
            # A turn that takes longer than the clock is not touched.
            await run.send("m1", "busy enough ;; say done", "tab 1")
            await clock.passes(watched, 2 * idle)
            (tmp_path / "project" / "enough").touch()
            await watched.turns(1)
            assert is_alive(pid, started)
            # Nor is one that began shortly before the end of the clock.
            await clock.passes(watched, idle / 2)
            await run.send("m2", "say again", "tab 1")
            await watched.turns(2)
            await clock.passes(watched, idle / 2)
            assert run.machine.state == "idle"
            await clock.passes(watched, idle)
            await watched.state(run, "ended")
            assert run.machine.reason == "idle"
            assert not is_alive(pid, started)
            session = run.session
            again = await watched.supervisor.start("gemini", spec(tmp_path, session), _ref(tmp_path, session))
            await again.send("m3", "say more", "tab 1")
            await watched.turns(3)
            assert again.session == session

    run_async(body())


def _ref(tmp_path: Path, session: str | None) -> Any:
    assert session is not None
    return Library(tmp_path / "home").find(session)


def test_a_timeout_that_cannot_be_recorded_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the agent would wait forever for a person who is not there."""

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            log = watched.supervisor.log
            record, attempts = log.record_decision, list[object]()

            def record_later(*given: Any) -> int:
                attempts.append(given)
                if len(attempts) == 1:
                    raise OSError("disk full")
                return record(*given)

            monkeypatch.setattr(log, "record_decision", record_later)
            run.machine.limits = Limits(idle=0, waiting=0.1)
            await run.send("m1", "ask touch made", "tab 1")
            await watched.until(lambda: bool(watched.of("answered")), "an answer")
            assert watched.of("answered")[0]["by"] == "timeout"
            assert len(attempts) == 2

    run_async(body())


def test_a_request_that_nobody_answers_is_denied(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path, limits=Limits(idle=0)) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "ask touch made ;; say done", "tab 1")
            # From here on nothing else happens, so it does not matter how late each timeout is noticed.
            run.machine.limits = Limits(idle=0.3, waiting=0.3)
            await watched.until(lambda: bool(watched.of("answered")), "an answer")
            assert watched.of("answered")[0]["by"] == "timeout"
            await watched.state(run, "ended")
            assert run.machine.reason == "idle"
            assert not (tmp_path / "project" / "made").exists()
            assert run.session is not None
            (decided,) = watched.supervisor.log.decisions("gemini", run.session)
            assert decided.by == "timeout"

    run_async(body())


def test_interrupting(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            with pytest.raises(ConflictError, match="Nothing to interrupt: the agent is idle"):
                await run.interrupt("tab 1")
            await run.send("m1", "sleep 30", "tab 1")
            await watched.state(run, "in-turn")
            await run.interrupt("tab 1")
            await watched.state(run, "interrupted")
            await run.send("m2", "say on", "tab 1")
            await watched.state(run, "idle")

    run_async(body())


def test_messages_of_several_tabs_have_one_order(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await asyncio.gather(*(run.send(f"m{number}", f"say {number}", f"tab {number % 3}") for number in range(9)))
            await watched.until(lambda: len(watched.of("taken_up")) == 9, "all messages to be taken up")
            await watched.state(run, "idle")
            order = [event["message"].id for event in watched.of("sent")]
            assert order == [event["message"] for event in watched.of("taken_up")]
            assert order == [message.id for message in run.view().messages]
            same = await run.send("m3", "said twice", "tab 1")
            assert same.text == "say 3"

    run_async(body())


def test_a_session_is_never_run_twice(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "say hello", "tab 1")
            await watched.state(run, "idle")
            ref = _ref(tmp_path, run.session)
            with pytest.raises(ConflictError, match=run.id):
                await watched.supervisor.start("gemini", spec(tmp_path, run.session), ref)
        async with supervising(tmp_path) as watched:
            # What our own agent has just written needs no confirmation.
            again = await watched.supervisor.start("gemini", spec(tmp_path, ref.id), ref)
            await again.stop("enough")
            # Another program has just written to it. (A time in the future counts as now, however long this takes.)
            later = time.time() + 3600
            os.utime(ref.path, (later, later))
            with pytest.raises(ConflictError, match="take it over"):
                await watched.supervisor.start("gemini", spec(tmp_path, ref.id), ref)
            taken = await watched.supervisor.start("gemini", spec(tmp_path, ref.id), ref, take_over=True)
            assert taken.session == ref.id

    run_async(body())


def test_a_session_is_not_run_twice_by_starts_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if both wait until it is known that a sandbox works."""
    monkeypatch.setattr(supervisor_module, "check_sandbox", lambda: None)

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "say hello", "tab 1")
            await watched.turns(1)
            await run.stop("enough")
            sandboxed = msgspec.structs.replace(spec(tmp_path, run.session), sandbox=True)
            results = await asyncio.gather(
                *(watched.supervisor.start("gemini", sandboxed) for _ in range(2)), return_exceptions=True
            )
            assert sorted(type(result).__name__ for result in results) == ["ConflictError", "Run"]

    run_async(body())


def test_limits_are_explained(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path, max_agents=1) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            with pytest.raises(ConflictError, match="1 agents are running"):
                await watched.supervisor.start("gemini", spec(tmp_path))
            with pytest.raises(UsageError, match="characters"):
                await run.send("m1", " ", "tab 1")
            with pytest.raises(UsageError):
                await watched.supervisor.start("nobody", spec(tmp_path))
            with pytest.raises(NotFoundError):
                watched.supervisor.run("nothing")
            with pytest.raises(UsageError, match="modes"):
                await run.change("everything", None)

    run_async(body())


def test_sessions_of_ended_runs_are_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the latest ended runs are kept, but it stays known when an agent last worked on each session."""
    monkeypatch.setattr(supervisor_module, "_MAX_ENDED_SHOWN", 1)

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            sessions = []
            for _ in range(3):
                run = await watched.supervisor.start("gemini", spec(tmp_path))
                await run.stop("enough")
                sessions.append(("gemini", run.session))
            await watched.supervisor.start("gemini", spec(tmp_path))
            assert len(watched.supervisor.runs()) == 2
            known = watched.supervisor.session_runs()
            assert [known[session].state for session in sessions] == ["ended"] * 3  # type: ignore[index]
            assert all(known[session].ended_at is not None for session in sessions)  # type: ignore[index]

    run_async(body())


def test_a_run_that_fails_has_no_open_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waiting for an answer any more, although the agent did not say so."""

    async def ignored() -> None:
        pass

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "ask touch made", "tab 1")
            await watched.state(run, "waiting-input")
            (opened,) = run.view().questions
            with monkeypatch.context() as patch:
                patch.setattr(run.driver, "stop", ignored)
                await watched.supervisor.close()
            left = (run.view().questions, run.waiting_calls)
            await run.driver.stop()
            assert run.machine.has_ended
            assert left == ([], frozenset())
            assert [event["request"] for event in watched.of("withdrawn")] == [opened.request.id]
            # The next server still offers it, as after any other end of this one.
            assert watched.supervisor.log.unanswered(run.id) == [opened.request.call_id]

    run_async(body())


def test_an_agent_that_crashes(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "say before ;; crash", "tab 1")
            await watched.state(run, "ended")
            assert run.machine.reason == "it ended unexpectedly"
            with pytest.raises(ConflictError, match="resume"):
                await run.send("m2", "say after", "tab 1")

    run_async(body())


def test_a_sandbox_for_one_session(tmp_path: Path) -> None:
    """What is hidden is not there for the agent, also when the session is resumed, and is there for other agents."""
    try:
        check_sandbox()
    except UnspoolError as error:
        pytest.skip(str(error))
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "token").touch()

    async def body() -> None:
        async with supervising(tmp_path, hidden=(str(secret),)) as watched:

            async def seen_by(run: Run) -> str:
                """What an agent finds where the secret is."""
                await run.send(f"look {run.id}", f"ask ls {secret} > seen", "tab 1")
                await watched.state(run, "waiting-input")
                (opened,) = run.approvals.open()
                await run.answer(opened.request.id, opened.digest, ALLOW, "tab 1")
                await watched.state(run, "idle")
                await run.stop("stopped")
                return (tmp_path / "project" / "seen").read_text()

            sandboxed = msgspec.structs.replace(spec(tmp_path), sandbox=True)
            first = await watched.supervisor.start("gemini", sandboxed)
            assert await seen_by(first) == ""
            again = await watched.supervisor.start("gemini", spec(tmp_path, first.session))
            assert await seen_by(again) == ""
            other = await watched.supervisor.start("gemini", spec(tmp_path))
            assert await seen_by(other) == "token\n"
            assert [run.view().is_sandboxed for run in (first, again, other)] == [True, True, False]

    run_async(body())


def test_closing_the_supervisor_leaves_no_process(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervising(tmp_path) as watched:
            runs = [await watched.supervisor.start("gemini", spec(tmp_path)) for _ in range(3)]
            await runs[0].send("m1", "sleep 600", "tab 1")
            await runs[1].send("m1", "ask touch made", "tab 1")
            await watched.state(runs[1], "waiting-input")
            pids = [run.pid for run in runs]
        assert not any(is_alive(pid, None) for pid in pids if pid is not None)
        assert {run.machine.reason for run in runs} == {"the server ended"}

    run_async(body())


async def ended(tasks: set[asyncio.Task[Any]]) -> None:
    """Wait for tasks that were cancelled, if there are any."""
    await asyncio.gather(*tasks, return_exceptions=True)


def test_the_agents_of_a_killed_server_are_stopped(tmp_path: Path) -> None:
    """Only the run log is left; the process is still running."""

    async def begin() -> int:
        log = RunLog(tmp_path / "supervisor.db")
        supervisor = Supervisor(log, drivers())
        run = await supervisor.start("gemini", spec(tmp_path))
        await run.send("m1", "ask touch made", "tab 1")
        await wait_until_async(lambda: run.machine.state == "waiting-input", "a question")
        assert run.pid is not None
        # As after kill -9: nothing is closed.
        os.kill(run.pid, signal.SIGSTOP)
        return run.pid

    async def again(pid: int, started: float | None) -> None:
        os.kill(pid, signal.SIGCONT)
        async with supervising(tmp_path) as watched:
            assert is_alive(pid, started)
            assert await watched.supervisor.recover() == 1
            assert watched.of("state")[-1]["reason"] == "the server was killed"
            assert watched.supervisor.log.open_runs() == []
        assert not is_alive(pid, started)

    loop = asyncio.new_event_loop()
    try:
        pid = loop.run_until_complete(finished(begin(), "the first server"))
        loop.run_until_complete(finished(again(pid, start_time(pid)), "the second server"))
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(ended(pending))
        loop.close()


def test_children_of_an_agent_are_found_by_its_mark(tmp_path: Path) -> None:
    """Killed together with the server, the agent cannot stop its children, and its process id is not known any more."""

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            watched.supervisor.log.start_run("a-run", "gemini", None, str(tmp_path), spec(tmp_path))
            left = subprocess.Popen(["sleep", "900"], env={**os.environ, MARK: "a-run"}, start_new_session=True)
            stranger = subprocess.Popen(["sleep", "900"], env={**os.environ, MARK: "another"}, start_new_session=True)
            try:
                assert await watched.supervisor.recover() == 1
                assert left.wait(PATIENCE) < 0
                assert stranger.poll() is None
            finally:
                for process in (left, stranger):
                    process.kill()
                    process.wait()

    run_async(body())


@pytest.mark.parametrize(("text", "seconds"), [("20", 20.0), ("0", 0.0), (None, 300.0)])
def test_the_idle_timeout_can_be_set_in_the_environment(text: str | None, seconds: float) -> None:
    environ = {} if text is None else {"IDLE_TIMEOUT": text}
    assert limits_from(environ).idle == seconds


@pytest.mark.parametrize("text", ["soon", "-1"])
def test_an_invalid_timeout(text: str) -> None:
    with pytest.raises(UsageError, match="IDLE_TIMEOUT"):
        limits_from({"IDLE_TIMEOUT": text})


def test_numbers_in_the_run_log_only_grow(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "supervisor.db")
    first = log.record("r", "remarked", {"text": "one"})
    log.close()
    log = RunLog(tmp_path / "supervisor.db")
    assert log.record("r", "remarked", {"text": "two"}) == first + 1
    assert [entry.seq for entry in log.entries(first)] == [first + 1]
    log.close()


@pytest.fixture(autouse=True)
def _no_children_left() -> Iterator[None]:
    before = _children()
    yield
    # Whoever waits for those that have ended is another thread.
    wait_until(lambda: _children() <= before, "all children to be gone", detail=lambda: _children() - before)


def _children() -> set[int]:
    """All children, including zombies."""
    return {process.pid for process in processes._table() if process.parent == os.getpid()}


def test_an_interruption_that_comes_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent was done before it could react, so nothing was interrupted."""

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))

            async def ignored() -> None:
                pass

            await run.send("m0", "sleep 600", "tab 1")
            await watched.state(run, "in-turn")
            await run.interrupt("tab 1")
            await watched.turns(1)
            await run.send("m1", "busy go", "tab 1")
            await watched.state(run, "in-turn")
            monkeypatch.setattr(run.driver, "interrupt", ignored)
            await run.interrupt("tab 1")
            (tmp_path / "project" / "go").touch()
            await watched.turns(2)
            assert run.session is not None
            decided = watched.supervisor.log.decisions("gemini", run.session)
            assert [(each.verdict, each.turn) for each in decided] == [
                ("interrupt", "interrupted"),
                ("interrupt", "completed"),
            ]

    run_async(body())


def test_a_time_limit_is_not_a_decision_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if a turn starts after the limit was reached and before the agent is stopped."""

    async def body() -> None:
        async with supervising(tmp_path) as watched:
            run = await watched.supervisor.start("gemini", spec(tmp_path))
            await run.send("m1", "sleep 600", "tab 1")
            await watched.state(run, "in-turn")
            due = [StopRun("idle")]
            monkeypatch.setattr(run.machine, "tick", lambda _: [due.pop()] if due else [])
            watched.supervisor._wake.set()
            await watched.state(run, "ended")
            (decision,) = watched.supervisor.log.decisions("gemini", run.session or "")
            assert (decision.verdict, decision.by, decision.who) == ("interrupt", "timeout", "idle")

    run_async(body())


def test_what_was_stopped_with_the_server_is_recorded(tmp_path: Path) -> None:
    """Only what was in a turn, and not as a decision of the user."""

    async def body() -> list[str]:
        async with supervising(tmp_path) as watched:
            runs = [await watched.supervisor.start("gemini", spec(tmp_path)) for _ in range(2)]
            await runs[0].send("m1", "sleep 600", "tab 1")
            await watched.state(runs[0], "in-turn")
        return [run.session or "" for run in runs]

    working, idle = run_async(body())
    log = RunLog(tmp_path / "supervisor.db")
    (decision,) = log.decisions("gemini", working)
    assert (decision.verdict, decision.by, decision.who) == ("interrupt", "agent", "the server ended")
    assert log.decisions("gemini", idle) == []
    log.close()
