"""The supervisor: starts agents, keeps them apart, watches the clock, and ends what it began."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..agents import SessionRef
from ..core.errors import NotFoundError, UnspoolError, UsageError
from ..store.decision_log import FILE_NAME
from .log import RunLog
from .ownership import owner_of
from .processes import end_group
from .protocol import DriverEvent, Kind, RunSpec
from .run import ConflictError, Run, RunView, interruption
from .state import IDLE_SECONDS, WAITING_SECONDS, End, Limits, RunState

MOST_AGENTS = 32
_KEPT_ENDED = 50
"""So many agents that have ended are still shown."""
_START_SECONDS = 300.0
"""More than each driver has for all that it does at a start."""
_KILLED = "the server was killed"

Watch = Callable[[dict[str, Any]], None]


def limits_from(environ: Mapping[str, str]) -> Limits:
    """`IDLE_TIMEOUT` and `WAITING_TIMEOUT`, in seconds."""
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
        raise UsageError(f"{name} is a number of seconds, 0 for ever; not {text!r}")
    return value


class Supervisor:
    """All agents that run here. It belongs to one event loop."""

    def __init__(
        self, book: RunLog, kinds: Mapping[str, Kind], *, limits: Limits | None = None, most: int = MOST_AGENTS
    ) -> None:
        self.book = book
        self.kinds = kinds
        self._limits = limits or Limits()
        self._most = most
        self._runs: dict[str, Run] = {}
        self._watchers: set[Watch] = set()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    # --- looking ---

    def runs(self) -> list[RunView]:
        """All agents: those that need a person first, then those at work, then the others."""
        order = {"waiting-input": 0, "in-turn": 1, "starting": 2, "interrupted": 3, "idle": 4, "ended": 5}
        views = [run.view() for run in self._runs.values()]
        return sorted(views, key=lambda view: (order[view.state], -view.since.timestamp()))

    def run(self, id: str) -> Run:
        """One of them, by its id or the beginning of it."""
        found = [run for name, run in self._runs.items() if name == id] or [
            run for name, run in self._runs.items() if id and name.startswith(id)
        ]
        if len(found) != 1:
            raise NotFoundError(f"no agent {id!r} runs here; `unspool ps` lists them")
        return found[0]

    def run_of(self, agent: str, session: str) -> Run | None:
        """The agent that works on a session."""
        runs = (run for run in self._runs.values() if run.agent == agent and run.session == session)
        return next((run for run in runs if not run.machine.has_ended), None)

    def watch(self, watcher: Watch) -> Callable[[], None]:
        """Be told of everything; returns how to end that."""
        self._watchers.add(watcher)
        return lambda: self._watchers.discard(watcher)

    # --- acting ---

    async def start(self, agent: str, spec: RunSpec, ref: SessionRef | None = None, *, take_over: bool = False) -> Run:
        """Start an agent: a new session, or one that goes on. `ref` is its log, where there is one."""
        kind = self._kind(agent)
        folder = Path(spec.folder).expanduser()
        if not folder.is_absolute() or not folder.is_dir():
            raise UsageError(f"{spec.folder} is not a folder; name an absolute path that exists")
        self._check_room()
        if spec.session is not None and not spec.fork:
            self._check_owner(agent, spec.session, ref, take_over)
        id = uuid.uuid4().hex[:12]
        spec = msgspec.structs.replace(spec, folder=str(folder.resolve()), mark=id)
        machine = RunState(self._limits, time.monotonic())
        run = Run(id, agent, spec, kind.make(), machine, self.book, self._publish)
        self._runs[id] = run
        facts = {"agent": agent, "session": run.session, "folder": spec.folder}
        self._tell(id, "run.started", facts, self.book.begin(id, agent, run.session, spec.folder, spec))
        await self._begin(run)
        return run

    async def _begin(self, run: Run) -> None:
        try:
            await asyncio.wait_for(run.driver.start(run.spec, lambda told: self._hear(run, told)), _START_SECONDS)
        except BaseException as error:
            run.machine.ending("not started")
            with suppress(Exception):
                await run.driver.stop()
            run.error = str(error) or type(error).__name__
            run.machine.exited("not started", time.monotonic())
            run._tell_state()
            if isinstance(error, TimeoutError):
                raise UnspoolError(f"{run.agent} did not become ready within {_START_SECONDS:.0f} s") from error
            raise

    def _hear(self, run: Run, told: DriverEvent) -> None:
        run.hear(told)
        self._wake.set()

    def _kind(self, agent: str) -> Kind:
        if agent not in self.kinds:
            raise UsageError(f"agents are {', '.join(self.kinds)}, not {agent!r}")
        return self.kinds[agent]

    def _check_room(self) -> None:
        if self._is_closing:
            raise ConflictError("the server is ending")
        running = sum(not run.machine.has_ended for run in self._runs.values())
        if running >= self._most:
            raise ConflictError(f"{running} agents run already, and no more are allowed; stop one first")
        ended = [run for run in self._runs.values() if run.machine.has_ended]
        for run in sorted(ended, key=lambda run: run.machine.since)[:-_KEPT_ENDED]:
            del self._runs[run.id]

    def _check_owner(self, agent: str, session: str, ref: SessionRef | None, take_over: bool) -> None:
        own = self.run_of(agent, session)
        if own is not None:
            raise ConflictError(f"agent {own.id} works on this session already; send the message to it")
        if ref is None:
            return
        owner = owner_of(ref, ours_until=self.book.last_end(ref.agent, ref.id))
        if owner is not None and not take_over:
            raise ConflictError(
                f"{owner.what} seems to work on this session ({owner.evidence}); take it over on purpose"
            )

    # --- the clock ---

    async def keep_time(self) -> None:
        """Do what is due, until this is cancelled."""
        while True:
            now = time.monotonic()
            for run in list(self._runs.values()):
                for todo in run.machine.tick(now):
                    work = run.stop(todo.reason) if isinstance(todo, End) else run.refuse_for_nobody(todo.request)
                    self._do(work)
            dues = [due for run in self._runs.values() if (due := run.machine.due()) is not None]
            self._wake.clear()
            wait = max(0.01, min(dues) - time.monotonic()) if dues else None
            # Not `wait_for`: in Python 3.11 that loses a cancellation which comes together with what is waited for.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    def _do(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    # --- the end, and the beginning after a bad one ---

    async def recover(self) -> int:
        """End what a server that was killed has left behind; returns how many agents that were."""
        left = self.book.open_runs()
        # Before anything is awaited, and so before anybody reads the files in which this looks like a refusal.
        for old in left:
            if call_ids := self.book.unanswered(old.id):
                decided = interruption(old.agent, old.session, call_ids, by="agent", who=_KILLED)
                self.book.decide(old.id, decided, {"who": _KILLED})
        for old in left:
            # The agent may have ended while what it started still runs, or may not have told its id yet.
            pid = old.pid if old.pid_started is not None else None
            await end_group(pid, started=old.pid_started, mark=old.id, polite_seconds=0)
            self._tell(old.id, "state", {"state": "ended", "reason": _KILLED}, self.book.end(old.id, _KILLED))
        return len(left)

    async def close(self) -> None:
        """End all agents."""
        self._is_closing = True
        running = [run for run in self._runs.values() if not run.machine.has_ended]
        await asyncio.gather(*(run.stop("the server ended", by="agent") for run in running), return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        for run in running:
            if not run.machine.has_ended:
                run.machine.exited("the server ended", time.monotonic())
                run._tell_state()

    # --- telling ---

    def _publish(self, run: str, kind: str, facts: dict[str, Any], seq: int | None) -> None:
        self._wake.set()
        self._tell(run, kind, facts, seq)

    def _tell(self, run: str, kind: str, facts: dict[str, Any], seq: int | None) -> None:
        event = {"seq": seq, "run": run, "kind": kind, **facts}
        for watcher in list(self._watchers):
            watcher(event)


def book_path(folder: Path) -> Path:
    """Where the book is, in the user's data folder."""
    return folder / FILE_NAME
