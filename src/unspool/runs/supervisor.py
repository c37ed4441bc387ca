"""The supervisor: starts agents, allows only one per session, applies timeouts, and stops what it started."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..agents import SessionRef
from ..core.errors import NotFoundError, UnspoolError, UsageError
from ..store.decision_log import FILE_NAME
from ..store.run_log import OpenRun, RunLog
from .errors import ConflictError, SessionInUseError
from .live_text_file import recover_live_text
from .ownership import find_owner
from .processes import end_group, is_alive
from .protocol import DriverEvent, DriverFactory, ForkReach, RunSpec
from .run import Run, interruption
from .run_view import RunView
from .sandbox import check_sandbox
from .session_runs import SessionKey, SessionRun, past_runs, runs_by_session
from .state import IDLE_SECONDS, IN_TURN, WAITING_SECONDS, Limits, RunState, StopRun

MAX_AGENTS = 32
_MAX_ENDED_SHOWN = 50
_START_SECONDS = 300.0
"""More than any driver needs to start."""
KILLED = "the server was killed"
SERVER_ENDED = "the server ended"
_VIEW_ORDER = ("waiting-input", "in-turn", "starting", "needs-login", "interrupted", "idle", "ended")

Watcher = Callable[[dict[str, Any]], None]


def limits_from(environ: Mapping[str, str]) -> Limits:
    """Read the timeouts from the variables `IDLE_TIMEOUT` and `WAITING_TIMEOUT`, in seconds."""
    return Limits(
        idle=_seconds(environ, "IDLE_TIMEOUT", IDLE_SECONDS),
        waiting=_seconds(environ, "WAITING_TIMEOUT", WAITING_SECONDS),
    )


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if value < 0:
        raise UsageError(f"{name} must be a number of seconds, or 0 for no timeout; not {text!r}")
    return value


class Supervisor:
    """All runs of one server. It belongs to one event loop."""

    def __init__(
        self,
        log: RunLog,
        drivers: Mapping[str, DriverFactory],
        *,
        limits: Limits | None = None,
        max_agents: int = MAX_AGENTS,
        hidden: tuple[str, ...] = (),
        sandbox: bool = False,
    ) -> None:
        """Agents in a sandbox cannot see the paths in `hidden`. With `sandbox`, all agents are started in one,
        otherwise only those whose spec asks for it.
        """
        self.log = log
        self.drivers = drivers
        self._limits = limits or Limits()
        self._max_agents = max_agents
        self._hidden = hidden
        self.sandbox = sandbox
        self._runs: dict[str, Run] = {}
        self._watchers: set[Watcher] = set()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closing = False
        self._past: dict[SessionKey, SessionRun] = {}

    # --- reading ---

    def runs(self) -> list[RunView]:
        """Return all runs: those that need a person first, then those that are working, then the others."""
        views = [run.view() for run in self._runs.values()]
        return sorted(views, key=lambda view: (_VIEW_ORDER.index(view.state), -view.since.timestamp()))

    def session_runs(self) -> dict[SessionKey, SessionRun]:
        """Return the latest run on each session, by this server or an earlier one."""
        return runs_by_session(self._runs.values(), self._past)

    def run(self, id: str) -> Run:
        """Return a run by its id or a unique prefix of it."""
        if id in self._runs:
            return self._runs[id]
        found = [run for name, run in self._runs.items() if id and name.startswith(id)]
        if len(found) != 1:
            raise NotFoundError(f"No running agent matches {id!r}; list them with `unspool ps`")
        return found[0]

    def find_running(self, agent: str, session: str) -> Run | None:
        """Return the run that is working on a session."""
        runs = (run for run in self._runs.values() if run.agent == agent and run.session == session)
        return next((run for run in runs if not run.machine.has_ended), None)

    def find_former(self, agent: str, session: str) -> Run | None:
        """Return the run that worked on a session and is working on another one now."""
        runs = (run for run in self._runs.values() if run.agent == agent and session in run.former_sessions)
        return next((run for run in runs if not run.machine.has_ended), None)

    def model_names(self, agent: str) -> tuple[str, ...]:
        """Return the models that an agent offers, as reported by the latest run that knows them."""
        runs = (run for run in reversed(self._runs.values()) if run.agent == agent)
        return next((names for run in runs if (names := run.driver.capabilities.model_names)), ())

    def fork_reach(self, agent: str) -> ForkReach:
        """Return where the sessions of an agent can be forked."""
        return self.drivers[agent].capabilities.fork if agent in self.drivers else "none"

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with every event; returns a function that removes it again."""
        self._watchers.add(watcher)
        return lambda: self._watchers.discard(watcher)

    # --- starting ---

    def check_startable(self, agent: str, folder: str) -> tuple[DriverFactory, Path]:
        """Return the driver factory and the folder for an agent, or raise if it cannot be started there."""
        factory = self._factory(agent)
        path = Path(folder).expanduser()
        if not path.is_absolute() or not path.is_dir():
            raise UsageError(f"{folder!r} is not an existing directory; give an absolute path")
        self._check_capacity()
        return factory, path

    async def start(self, agent: str, spec: RunSpec, ref: SessionRef | None = None, *, take_over: bool = False) -> Run:
        """Start an agent on a new session or a past one; `ref` is the log of the past session, if any."""
        hidden = await self._hidden_from(agent, spec)
        # From here on, nothing is awaited until the run is registered, so no other start can come in between.
        factory, folder = self.check_startable(agent, spec.folder)
        if spec.session is not None and not spec.fork:
            self._check_owner(agent, spec.session, ref, take_over)
        id = uuid.uuid4().hex[:12]
        spec = msgspec.structs.replace(spec, folder=str(folder.resolve()), mark=id, hidden=hidden)
        machine = RunState(self._limits, time.monotonic())
        run = Run(id, agent, spec, factory.create(), machine, self.log, self._publish)
        self._runs[id] = run
        facts = {"agent": agent, "session": run.session, "folder": spec.folder}
        self._emit(id, "run.started", facts, self.log.start_run(id, agent, run.session, spec.folder, spec))
        await self._start_driver(run)
        return run

    async def _hidden_from(self, agent: str, spec: RunSpec) -> tuple[str, ...]:
        """Return what an agent must not see. A session that was started in a sandbox is continued in one."""
        if self.sandbox:
            return self._hidden
        if not spec.sandbox and not (spec.session is not None and self.log.was_sandboxed(agent, spec.session)):
            return ()
        await asyncio.to_thread(check_sandbox)
        return self._hidden

    async def _start_driver(self, run: Run) -> None:
        try:
            await asyncio.wait_for(run.driver.start(run.spec, lambda event: self._handle(run, event)), _START_SECONDS)
        except BaseException as error:
            run.machine.stopping("not started")
            with suppress(Exception):
                await run.driver.stop()
            run.fail("not started", str(error) or type(error).__name__)
            if isinstance(error, TimeoutError):
                raise UnspoolError(f"{run.agent} was not ready within {_START_SECONDS:.0f} s") from error
            raise

    def _handle(self, run: Run, event: DriverEvent) -> None:
        run.handle(event)
        self._wake.set()

    def _factory(self, agent: str) -> DriverFactory:
        if agent not in self.drivers:
            known = ", ".join(self.drivers) or "(none)"
            raise UsageError(f"Unknown agent {agent!r}; choose from {known}")
        return self.drivers[agent]

    def _check_capacity(self) -> None:
        if self._is_closing:
            raise ConflictError("The server is shutting down")
        running = sum(not run.machine.has_ended for run in self._runs.values())
        if running >= self._max_agents:
            raise ConflictError(f"{running} agents are running, which is the limit; stop one first")
        ended = [run for run in self._runs.values() if run.machine.has_ended]
        dropped = sorted(ended, key=lambda run: run.machine.since)[:-_MAX_ENDED_SHOWN]
        self._past = runs_by_session(dropped, self._past)
        for run in dropped:
            del self._runs[run.id]

    def _check_owner(self, agent: str, session: str, ref: SessionRef | None, take_over: bool) -> None:
        running = self.find_running(agent, session)
        if running is not None:
            raise ConflictError(f"Agent {running.id} is already working on this session; send the message to it")
        if ref is None:
            return
        owner = find_owner(ref, ours_until=self.log.last_end(ref.agent, ref.id))
        if owner is not None and not take_over:
            raise SessionInUseError(
                f"{owner.name} seems to be using this session ({owner.evidence}); to continue here anyway, take it over"
            )

    # --- timeouts ---

    async def keep_time(self) -> None:
        """Carry out the actions that are due, until cancelled."""
        while True:
            now = time.monotonic()
            for run in list(self._runs.values()):
                for action in run.machine.tick(now):
                    if isinstance(action, StopRun):
                        self._spawn(run.stop(action.reason, by="timeout"))
                    else:
                        self._spawn(run.deny_unanswered(action.request))
            deadlines = [at for run in self._runs.values() if (at := run.machine.next_deadline()) is not None]
            self._wake.clear()
            wait = max(0.01, min(deadlines) - time.monotonic()) if deadlines else None
            # Not `wait_for`: on Python 3.11 it loses a cancellation that arrives together with the result.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._wake.set()  # If it failed, it may be due again.
        if not task.cancelled():
            task.exception()  # Retrieved, so that asyncio does not warn about it.

    # --- shutting down, and recovering from a crash ---

    async def recover(self) -> int:
        """Stop the agents that a killed server left behind; return their number."""
        orphaned = self.log.open_runs()
        # Recorded before anything is awaited, so that nobody reads the agents' files first, where this looks like a
        # rejection.
        for old in orphaned:
            self._record_kill(old)
            if (text := recover_live_text(self.log.live_text_path(old.id))) is not None:
                self.log.record(old.id, "cut_off", {"text": text})
        for old in orphaned:
            # The agent may have exited while its children are still running, or may not have reported its process yet.
            pid = old.pid if old.pid_started is not None else None
            await end_group(pid, started=old.pid_started, mark=old.id, polite_seconds=0)
            self._emit(old.id, "state", {"state": "ended", "reason": KILLED}, self.log.end_run(old.id, KILLED))
        self._past = past_runs(self.log.session_ends())
        return len(orphaned)

    def _record_kill(self, old: OpenRun) -> None:
        """Record that the server was killed during a turn. Some agents finish such a turn, so its log decides."""
        last = self.log.last_state(old.id)
        if last is None or last[0] not in IN_TURN:
            return
        is_cut_off = old.pid is not None and is_alive(old.pid, old.pid_started)
        decision = interruption(
            old.agent,
            old.session,
            self.log.unanswered(old.id),
            by="agent",
            who=KILLED,
            at=None if is_cut_off else last[1],
            turn="interrupted" if is_cut_off else "unknown",
        )
        self.log.record_decision(old.id, decision, {"who": KILLED})

    async def close(self) -> None:
        """Stop all agents."""
        self._is_closing = True
        running = [run for run in self._runs.values() if not run.machine.has_ended]
        await asyncio.gather(*(run.stop(SERVER_ENDED, by="agent") for run in running), return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        for run in running:
            if not run.machine.has_ended:
                run.fail(SERVER_ENDED)

    # --- publishing ---

    def _publish(self, run: str, kind: str, facts: dict[str, Any], seq: int | None) -> None:
        self._wake.set()
        self._emit(run, kind, facts, seq)

    def _emit(self, run: str, kind: str, facts: dict[str, Any], seq: int | None) -> None:
        event = {"seq": seq, "run": run, "kind": kind, **facts}
        for watcher in list(self._watchers):
            watcher(event)


def run_log_path(folder: Path) -> Path:
    """Return the path of the run log in the data directory."""
    return folder / FILE_NAME
