"""Running agents through the API: list, start, message, answer, interrupt and stop them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery
from msgspec.structs import replace

from ...agents import SessionRef, agent_named
from ...core import typed_json
from ...core.errors import NotFoundError, UnspoolError, UsageError
from ...library import Library
from ...redact import Redactor
from ...runs.fork import Branch, ForkPlan, nearest_named, plan_fork
from ...runs.messages import RunMessage
from ...runs.protocol import Answer, ForkReach, RunSpec
from ...runs.run import Run
from ...runs.supervisor import Supervisor
from ...runs.worktrees import make_worktree
from ...store import Store
from ...store.rows import SessionRow
from ...store.run_log import RunLog
from ..session_list import find
from ..session_query import SessionQuery
from ..store_pool import StorePool
from .params import find_redactor
from .run_schemas import (
    AgentKind,
    AnswerBody,
    ChangeBody,
    EditBody,
    QueueBody,
    RunList,
    SendBody,
    StartBody,
    Started,
    WhoBody,
)

Pool: TypeAlias = NamedDependency[StorePool]
Runs: TypeAlias = NamedDependency[Supervisor]
_LONGEST_BODY = 9 << 20
"""Enough for the files that can be attached to a message, in base64."""


def json_response(value: object, status: int = 200, redactor: Redactor | None = None) -> Response[bytes]:
    """Return a value as a JSON response."""
    data = msgspec.json.encode(value)
    data = data if redactor is None else redactor.data(data)
    return Response(data, status_code=status, media_type="application/json")


async def decoded_body(request: Request[Any, Any, Any], kind: type[Any]) -> Any:
    """Read, decode and validate the body of a request."""
    data = await request.body()
    if len(data) > _LONGEST_BODY:
        raise UsageError(f"The request body is too large; at most {_LONGEST_BODY >> 20} MB are accepted.")
    try:
        return typed_json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"Invalid request body: {error}") from error


# --- reading ---------------------------------------------------------------------------------------------------------


def runnable_agents(supervisor: Supervisor) -> list[AgentKind]:
    """Return the agents that this server can run, and what is missing for the others."""
    found = []
    for name, kind in supervisor.drivers.items():
        program, missing = None, None
        try:
            program = kind.find_program()
        except UnspoolError as error:
            missing = str(error)
        found.append(
            AgentKind(
                name=name,
                title=title_of(name),
                capabilities=replace(kind.capabilities, model_names=supervisor.model_names(name)),
                program=program,
                missing=missing,
            )
        )
    return found


@get("/api/agents", include_in_schema=False)
async def agents(supervisor: Runs) -> Response[bytes]:
    """List the agents that this server can run, and what is missing for the others."""
    return json_response(runnable_agents(supervisor))


@get("/api/runs", include_in_schema=False)
async def runs(
    supervisor: Runs, redact: FromQuery[bool] = False, redact_personal: FromQuery[bool] = False
) -> Response[bytes]:
    """List all runs, active and ended."""
    found = RunList(runs=supervisor.runs(), seq=supervisor.log.last_seq())
    return json_response(found, redactor=find_redactor(redact=redact, personal=redact_personal))


@get("/api/runs/{id:str}", include_in_schema=False)
async def run(
    supervisor: Runs, id: FromPath[str], redact: FromQuery[bool] = False, redact_personal: FromQuery[bool] = False
) -> Response[bytes]:
    """Return one run."""
    redactor = find_redactor(redact=redact, personal=redact_personal)
    return json_response(supervisor.run(id).view(), redactor=redactor)


# --- acting ----------------------------------------------------------------------------------------------------------


@post("/api/runs", include_in_schema=False)
async def start(
    request: Request[Any, Any, Any], pool: Pool, supervisor: Runs, homes: NamedDependency[tuple[str, ...]]
) -> Response[bytes]:
    """Start an agent: in a folder, on a past session, or forked from a message of one."""
    body: StartBody = await decoded_body(request, StartBody)
    planned = await pool.run(plan, body, homes, supervisor.log, supervisor.fork_reach)
    spec = planned.spec
    if body.worktree:
        # A rejected request must not leave a worktree behind.
        supervisor.check_startable(planned.agent, spec.folder)
        spec = replace(spec, folder=await asyncio.to_thread(make_worktree, spec.folder))
    found = await supervisor.start(planned.agent, spec, planned.ref, take_over=body.take_over)
    if body.prompt:
        await found.send(body.message_id or f"first-{found.id}", body.prompt, body.who, body.attachments)
    return json_response(Started(run=found.view(), remark=planned.remark), 201)


@post("/api/runs/{id:str}/messages", include_in_schema=False)
async def send(request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str]) -> Response[bytes]:
    """Send a message to an agent."""
    body: SendBody = await decoded_body(request, SendBody)
    message: RunMessage = await supervisor.run(id).send(body.id, body.text, body.who, body.attachments)
    return json_response(message, 201)


@post("/api/runs/{id:str}/messages/{message:str}", include_in_schema=False)
async def edit(
    request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str], message: FromPath[str]
) -> Response[bytes]:
    """Change, move or remove a message that has not been sent yet."""
    body: EditBody = await decoded_body(request, EditBody)
    found = supervisor.run(id)
    if body.remove:
        found.outbox.remove(message)
    if body.text is not None:
        found.outbox.edit(message, body.text)
    if body.position is not None:
        found.outbox.move(message, body.position)
    return json_response(found.view())


@post("/api/runs/{id:str}/queue", include_in_schema=False)
async def queue(request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str]) -> Response[bytes]:
    """Send, hold or discard messages that are queued after an interruption."""
    body: QueueBody = await decoded_body(request, QueueBody)
    found = supervisor.run(id)
    found.outbox.decide(body.action)
    return json_response(found.view())


@post("/api/runs/{id:str}/answers/{question:str}", include_in_schema=False)
async def answer(
    request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str], question: FromPath[str]
) -> Response[bytes]:
    """Answer an approval request; the first answer counts."""
    body: AnswerBody = await decoded_body(request, AnswerBody)
    decision = Answer(
        verdict=body.verdict, reason=body.reason, input=body.input, answers=body.answers, notes=body.notes
    )
    found: Run = supervisor.run(id)
    await found.answer(question, body.digest, decision, body.who)
    return json_response(found.view())


@post("/api/runs/{id:str}/interrupt", include_in_schema=False)
async def interrupt(request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str]) -> Response[bytes]:
    """Interrupt the current turn."""
    body: WhoBody = await decoded_body(request, WhoBody)
    found = supervisor.run(id)
    await found.interrupt(body.who)
    return json_response(found.view())


@post("/api/runs/{id:str}/processes/{process:str}/end", include_in_schema=False)
async def end_process(
    request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str], process: FromPath[str]
) -> Response[bytes]:
    """End a process that still runs after its turn."""
    await decoded_body(request, WhoBody)
    found = supervisor.run(id)
    await found.end_process(process)
    return json_response(found.view())


@post("/api/runs/{id:str}/stop", include_in_schema=False)
async def stop(request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str]) -> Response[bytes]:
    """Stop the agent."""
    body: WhoBody = await decoded_body(request, WhoBody)
    found = supervisor.run(id)
    if not found.machine.has_ended:
        await found.stop(f"stopped by {body.who}")
    return json_response(found.view())


@post("/api/runs/{id:str}/change", include_in_schema=False)
async def change(request: Request[Any, Any, Any], supervisor: Runs, id: FromPath[str]) -> Response[bytes]:
    """Change the mode or the model."""
    body: ChangeBody = await decoded_body(request, ChangeBody)
    found = supervisor.run(id)
    await found.change(body.mode, body.model)
    return json_response(found.view())


routes: list[HTTPRouteHandler] = [
    agents,
    runs,
    run,
    start,
    send,
    edit,
    queue,
    answer,
    interrupt,
    end_process,
    stop,
    change,
]


# --- start plans -----------------------------------------------------------------------------------------------------


class StartPlan(msgspec.Struct, kw_only=True):
    """The agent to start and its parameters, in the agent's own terms."""

    agent: str
    spec: RunSpec
    ref: SessionRef | None = None
    remark: str | None = None


def plan(
    store: Store, body: StartBody, homes: tuple[str, ...], log: RunLog, fork_reach: Callable[[str], ForkReach]
) -> StartPlan:
    """Find the session to resume or fork, and the point in it."""
    home = homes[0] if homes else None
    spec = RunSpec(folder=body.folder or "", mode=body.mode, model=body.model, home=home, sandbox=body.sandbox)
    if body.session is None:
        if body.agent is None or body.folder is None:
            raise UsageError("A new session needs `agent` and `folder`; to resume one, pass its key as `session`.")
        return StartPlan(agent=body.agent, spec=spec)
    forks = body.fork or body.at is not None
    spec = replace(spec, session=body.session, fork=forks)
    try:
        query = SessionQuery(store, find(store, body.session))
    except NotFoundError:
        location = log.last_location(body.session)
        if location is None or body.at is not None:
            raise
        # Unspool ran an agent on this session, but the log is not in the store yet.
        return StartPlan(
            agent=location.agent,
            spec=replace(spec, folder=body.folder or location.folder),
            ref=_ref_on_disk(body.session, homes),
        )
    row = query.row
    if row.kind != "main":
        raise UsageError("The session of a sub-agent cannot be resumed. Resume the session that started it.")
    folder = body.folder or _folder(row, log)
    at, remark = None, None
    if body.at is not None:
        at, remark = _fork_point(query, fork_reach(row.agent), body.at)
    elif forks:
        _plan_fork(query, fork_reach(row.agent), 0, None)
    spec = replace(spec, folder=folder, session=row.name, at=at)
    return StartPlan(agent=row.agent, spec=spec, ref=_ref(store, row.id), remark=remark)


def _folder(row: SessionRow, log: RunLog) -> str:
    """Return the folder of a session: from its own log, or from the run log if its own does not have it yet."""
    if row.project is not None and Path(row.project).is_absolute():
        return row.project
    if (location := log.last_location(row.name, row.agent)) is not None:
        return location.folder
    raise UsageError(f"The folder of session {row.name} is not known; pass one as `folder`.")


def _ref_on_disk(session: str, homes: tuple[str, ...]) -> SessionRef | None:
    try:
        return Library(*homes).find(session)
    except NotFoundError:
        return None


def _ref(store: Store, session: int) -> SessionRef:
    for file in store.files.of_session(session):
        if Path(file.path).exists():
            return Library.empty().ref_of(Path(file.path))
    raise NotFoundError(
        "The files of this session are gone. Run `unspool restore` to write them back from the archive."
    )


class _ForkPoint(NamedTuple):
    """The id of the message to fork after, and a remark for the user, if any."""

    id: str
    remark: str | None


def _fork_point(query: SessionQuery, reach: ForkReach, index: int) -> _ForkPoint:
    branch = query.branch_of(index)
    plan = _plan_fork(query, reach, branch, index)
    named, id = nearest_named(query.path(branch), plan.at, lambda each: query.message(each).id)
    moved = f"forked after message {named}, the closest one the agent can fork from"
    return _ForkPoint(id, moved if named != index else None)


def _plan_fork(query: SessionQuery, reach: ForkReach, branch: int, at: int | None) -> ForkPlan:
    plan = plan_fork(title_of(query.row.agent), reach, fork_branch(query, branch), at)
    if not plan.is_possible:
        raise UsageError(plan.explanation)
    return plan


def fork_branch(query: SessionQuery, branch: int) -> Branch:
    """Return a branch in the form that `plan_fork` needs."""
    return Branch(query.path(branch), query.turn_starts(branch), is_active=branch == 0)


def title_of(agent: str) -> str:
    """Return the display name of an agent."""
    return agent_named(agent).info.title
