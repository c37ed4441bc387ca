"""The addresses under which agents are watched, started, talked to, answered and ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, HeaderParameter
from litestar.response import Stream
from msgspec.structs import replace

from ..agents import AGENTS, SessionRef
from ..core.errors import AmbiguousError, NotFoundError, UnspoolError, UsageError
from ..library import Library
from ..runs.errors import ConflictError
from ..runs.fork import Branch, ForkPlan, nearest_named, plan_fork
from ..runs.log import RunLog
from ..runs.messages import RunMessage
from ..runs.protocol import Answer, ForkReach, RunSpec
from ..runs.run import Run
from ..runs.supervisor import Supervisor
from ..store import Store
from ..store.rows import SessionRow
from .api import error_response
from .api.run_schemas import AgentKind, AnswerBody, ChangeBody, RunList, SendBody, StartBody, Started, WhoBody
from .run_sse import RunEvents
from .session_list import find
from .session_query import SessionQuery
from .store_pool import StorePool

TheDesk: TypeAlias = NamedDependency[StorePool]
TheSupervisor: TypeAlias = NamedDependency[Supervisor]
_LONGEST_BODY = 4 << 20


def _json(value: object, status: int = 200) -> Response[bytes]:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


async def _body(request: Request[Any, Any, Any], kind: type[Any]) -> Any:
    data = await request.body()
    if len(data) > _LONGEST_BODY:
        raise UsageError(f"a request has at most {_LONGEST_BODY >> 20} MB")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise UsageError(f"the request cannot be understood: {error}") from error


# --- looking ---------------------------------------------------------------------------------------------------------


def kinds_here(supervisor: Supervisor) -> list[AgentKind]:
    """The agents that can be run here, and what is missing for the others."""
    found = []
    for name, kind in supervisor.drivers.items():
        program, missing = None, None
        try:
            program = kind.find_program()
        except UnspoolError as error:
            missing = str(error)
        found.append(
            AgentKind(name=name, title=title_of(name), capabilities=kind.capabilities, program=program, missing=missing)
        )
    return found


@get("/api/agents", include_in_schema=False)
async def agents(supervisor: TheSupervisor) -> Response[bytes]:
    """The agents that can be run here, and what is missing for the others."""
    return _json(kinds_here(supervisor))


@get("/api/runs", include_in_schema=False)
async def runs(supervisor: TheSupervisor) -> Response[bytes]:
    """All agents that run or ran."""
    return _json(RunList(runs=supervisor.runs(), seq=supervisor.log.last_seq()))


@get("/api/runs/{id:str}", include_in_schema=False)
async def run(supervisor: TheSupervisor, id: FromPath[str]) -> Response[bytes]:
    """One of them."""
    return _json(supervisor.run(id).view())


@get("/api/runs/events", include_in_schema=False)
async def run_events(
    feed: NamedDependency[RunEvents],
    since: FromQuery[int | None] = None,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> Stream:
    """What happens to them, as server-sent events."""
    if last_event_id and last_event_id.isdecimal():
        since = int(last_event_id)
    headers = {"x-accel-buffering": "no"}
    return Stream(feed.watch(since), media_type="text/event-stream", headers=headers)


# --- acting ----------------------------------------------------------------------------------------------------------


@post("/api/runs", include_in_schema=False)
async def start(
    request: Request[Any, Any, Any], desk: TheDesk, supervisor: TheSupervisor, homes: NamedDependency[tuple[str, ...]]
) -> Response[bytes]:
    """Start an agent: in a folder, or on a past session, at its tip or forked from a message of it."""
    body: StartBody = await _body(request, StartBody)
    planned = await desk.ask(plan, body, homes, supervisor.log, supervisor.fork_reach)
    found = await supervisor.start(planned.agent, planned.spec, planned.ref, take_over=body.take_over)
    if body.prompt:
        await found.send(body.message_id or f"first-{found.id}", body.prompt, body.who)
    return _json(Started(run=found.view(), remark=planned.remark), 201)


@post("/api/runs/{id:str}/messages", include_in_schema=False)
async def send(request: Request[Any, Any, Any], supervisor: TheSupervisor, id: FromPath[str]) -> Response[bytes]:
    """Say something to an agent."""
    body: SendBody = await _body(request, SendBody)
    message: RunMessage = await supervisor.run(id).send(body.id, body.text, body.who)
    return _json(message, 201)


@post("/api/runs/{id:str}/answers/{question:str}", include_in_schema=False)
async def answer(
    request: Request[Any, Any, Any], supervisor: TheSupervisor, id: FromPath[str], question: FromPath[str]
) -> Response[bytes]:
    """Answer what it asked: the first answer counts."""
    body: AnswerBody = await _body(request, AnswerBody)
    decision = Answer(verdict=body.verdict, reason=body.reason, input=body.input, answers=body.answers)
    found: Run = supervisor.run(id)
    await found.answer(question, body.digest, decision, body.who)
    return _json(found.view())


@post("/api/runs/{id:str}/interrupt", include_in_schema=False)
async def interrupt(request: Request[Any, Any, Any], supervisor: TheSupervisor, id: FromPath[str]) -> Response[bytes]:
    """Stop the turn that runs."""
    body: WhoBody = await _body(request, WhoBody)
    found = supervisor.run(id)
    await found.interrupt(body.who)
    return _json(found.view())


@post("/api/runs/{id:str}/stop", include_in_schema=False)
async def stop(request: Request[Any, Any, Any], supervisor: TheSupervisor, id: FromPath[str]) -> Response[bytes]:
    """End the agent."""
    body: WhoBody = await _body(request, WhoBody)
    found = supervisor.run(id)
    if not found.machine.has_ended:
        await found.stop(f"stopped by {body.who}")
    return _json(found.view())


@post("/api/runs/{id:str}/change", include_in_schema=False)
async def change(request: Request[Any, Any, Any], supervisor: TheSupervisor, id: FromPath[str]) -> Response[bytes]:
    """Change the mode or the model."""
    body: ChangeBody = await _body(request, ChangeBody)
    found = supervisor.run(id)
    await found.change(body.mode, body.model)
    return _json(found.view())


def on_error(_: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """What was wrong, as JSON."""
    status = 409 if isinstance(error, ConflictError) else 404 if isinstance(error, NotFoundError) else 400
    if isinstance(error, HTTPException):
        status = error.status_code
    elif isinstance(error, UnspoolError) and not isinstance(
        error, ConflictError | NotFoundError | UsageError | AmbiguousError
    ):
        status = 503
    return error_response(status, str(getattr(error, "detail", error)))


_HANDLERS: list[HTTPRouteHandler] = [agents, runs, run, run_events, start, send, answer, interrupt, stop, change]
routes: list[Router] = [
    Router("/", route_handlers=_HANDLERS, exception_handlers={UnspoolError: on_error, HTTPException: on_error})
]


# --- what is to be started -------------------------------------------------------------------------------------------


class Planned(msgspec.Struct, kw_only=True):
    """What was asked for, in the agent's own terms."""

    agent: str
    spec: RunSpec
    ref: SessionRef | None = None
    remark: str | None = None


def plan(
    store: Store, body: StartBody, homes: tuple[str, ...], log: RunLog, fork_reach: Callable[[str], ForkReach]
) -> Planned:
    """Find the session that is meant, and the point in it."""
    home = homes[0] if homes else None
    spec = RunSpec(folder=body.folder or "", mode=body.mode, model=body.model, home=home)
    if body.session is None:
        if body.agent is None or body.folder is None:
            raise UsageError("a new session needs an agent and a folder; a past one needs its key as session")
        return Planned(agent=body.agent, spec=spec)
    forks = body.fork or body.at is not None
    spec = replace(spec, session=body.session, fork=forks)
    try:
        reader = SessionQuery(store, find(store, body.session))
    except NotFoundError:
        place = log.last_location(body.session)
        if place is None or body.at is not None:
            raise
        # An agent of ours worked on it, but its log has not been taken into the store yet.
        return Planned(
            agent=place.agent,
            spec=replace(spec, folder=body.folder or place.folder),
            ref=_ref_on_disk(body.session, homes),
        )
    row = reader.row
    if row.kind != "main":
        raise UsageError("a sub-agent's session cannot be resumed; resume the session that started it")
    folder = body.folder or _folder(row, log)
    at, remark = None, None
    if body.at is not None:
        at, remark = _fork_point(reader, fork_reach(row.agent), body.at)
    elif forks:
        _plan_fork(reader, fork_reach(row.agent), 0, None)
    spec = replace(spec, folder=folder, session=row.name, at=at)
    return Planned(agent=row.agent, spec=spec, ref=_ref(store, row.id), remark=remark)


def _folder(row: SessionRow, log: RunLog) -> str:
    """Where a session worked: its log says so, or the book, where the log does not say it yet."""
    if row.project is not None and Path(row.project).is_absolute():
        return row.project
    if (place := log.last_location(row.name, row.agent)) is not None:
        return place.folder
    raise UsageError(f"it is not known in which folder session {row.name} worked; name one")


def _ref_on_disk(session: str, homes: tuple[str, ...]) -> SessionRef | None:
    try:
        return Library(*homes).find(session)
    except NotFoundError:
        return None


def _ref(store: Store, session: int) -> SessionRef:
    for file in store.files.of_session(session):
        if Path(file.path).exists():
            return Library.of_nothing().ref_of(Path(file.path))
    raise NotFoundError("the files of this session are gone; `unspool restore` writes them back from the archive")


class _ForkPoint(NamedTuple):
    """Where a fork continues, in the agent's own terms, and what the person should know about it."""

    id: str
    remark: str | None


def _fork_point(reader: SessionQuery, reach: ForkReach, index: int) -> _ForkPoint:
    branch = reader.branch_of(index)
    plan = _plan_fork(reader, reach, branch, index)
    named, id = nearest_named(reader.trail(branch), plan.at, lambda each: reader.message(each).id)
    moved = f"forked after message {named}, the closest one the agent can fork from"
    return _ForkPoint(id, moved if named != index else None)


def _plan_fork(reader: SessionQuery, reach: ForkReach, branch: int, at: int | None) -> ForkPlan:
    plan = plan_fork(title_of(reader.row.agent), reach, fork_branch(reader, branch), at)
    if not plan.is_possible:
        raise UsageError(plan.explanation)
    return plan


def fork_branch(reader: SessionQuery, branch: int) -> Branch:
    """A branch as the policy on forks sees it."""
    return Branch(reader.trail(branch), reader.turn_starts(branch), is_active=branch == 0)


def title_of(agent: str) -> str:
    """The name of an agent as it is shown."""
    return AGENTS[agent].info.title if agent in AGENTS else agent
