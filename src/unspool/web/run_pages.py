"""The pages on which agents are run: the board of all of them, where one is written to, and what one asks.

They show the supervisor's own state each time they are asked for. A page that is told of an event asks again and
changes what differs, so all tabs show the same.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from litestar import MediaType, Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery
from litestar.response import Redirect

from ..core import model as m
from ..core.errors import NotFoundError
from ..render.sanitize import pretty
from ..runs.approvals import OpenRequest
from ..runs.fork import plan_fork
from ..runs.log import RunLog
from ..runs.messages import RunMessage
from ..runs.protocol import Capabilities
from ..runs.run import RunView
from ..runs.supervisor import Supervisor
from ..store import Store
from ..store.filters import SessionFilter
from ..store.rows import SessionRow
from .api.run_schemas import AgentKind
from .overviews import Frame, frame_of
from .runs import fork_branch, kinds_here, title_of
from .session_list import list_projects
from .session_pages import reader_of
from .session_query import SessionQuery
from .store_pool import StorePool
from .templating import link, render

TheDesk: TypeAlias = NamedDependency[StorePool]
TheRoom: TypeAlias = NamedDependency[Any]
TheSupervisor: TypeAlias = NamedDependency[Supervisor]
_REMEMBERED = 2000
"""So many lines of the book are looked through for agents of a server that has ended."""
_PAST_SHOWN = 20
_LAST_WORDS = 400
_TAIL = 40
"""So many of the last messages may hold what is being said just now."""
_PROJECTS = 50


class PastRun(msgspec.Struct, kw_only=True):
    """An agent of a server that is no more."""

    id: str
    agent: str
    folder: str
    session: str | None
    ended_at: datetime
    reason: str


class Card(msgspec.Struct, kw_only=True):
    """A running agent on the board."""

    run: RunView
    row: SessionRow | None
    address: str | None
    waiting: list[RunMessage]
    words: str


class Board(msgspec.Struct, kw_only=True):
    """All agents: those that run, and those that have ended."""

    running: list[Card]
    ended: list[Card]
    past: list[tuple[PastRun, SessionRow | None]]
    needs: int
    seq: int


class ForkPoint(msgspec.Struct, kw_only=True):
    """Where a new session would part from this one, or why it cannot."""

    at: int
    words: str
    is_possible: bool
    back: str = ""
    """Where the line that went on is; empty where it is this page."""


class Composer(msgspec.Struct, kw_only=True):
    """Where something is said to one agent."""

    agent: str
    title: str
    capabilities: Capabilities
    run: RunView | None
    past: PastRun | None = None
    session: str | None = None
    home: str | None = None
    """The page of the session, on which the conversation is shown."""
    fork: ForkPoint | None = None
    refusal: str | None = None
    """Why nothing can be sent."""
    waiting: list[RunMessage] = []
    words: str = ""
    models: list[str] = []
    seq: int = 0

    @property
    def is_running(self) -> bool:
        """A message goes to an agent that is there already."""
        return self.run is not None and self.run.state != "ended" and self.fork is None


# --- the addresses ---------------------------------------------------------------------------------------------------


def _html(text: str) -> Response[str]:
    return Response(text, media_type=MediaType.HTML, headers={"cache-control": "no-cache"})


@get("/agents", include_in_schema=False)
async def agents(desk: TheDesk, room: TheRoom) -> Response[str]:
    """All agents that run, and the form that starts one."""
    progress = room.progress
    frame = Frame(kind="agents", progress=(progress["done"], progress["total"]) if progress else None)
    if room.settings.data is None:
        return _html(await desk.ask(_agents_page, None, [], frame))
    supervisor: Supervisor = room.supervisor
    kinds = await asyncio.to_thread(kinds_here, supervisor)
    board = await _board(desk, supervisor)
    return _html(await desk.ask(_agents_page, board, kinds, frame))


@get("/agents/board", include_in_schema=False)
async def board(desk: TheDesk, supervisor: TheSupervisor) -> Response[str]:
    """The board alone."""
    return _html(render("board.html", board=await _board(desk, supervisor)))


@get("/agents/needs", include_in_schema=False)
async def needs(supervisor: TheSupervisor) -> dict[str, int]:
    """How many answers are waited for, and the number from which to go on listening."""
    return {"needs": sum(len(run.questions) for run in supervisor.runs()), "seq": supervisor.log.last_seq()}


@get("/runs/{id:str}", include_in_schema=False)
async def run(desk: TheDesk, supervisor: TheSupervisor, id: FromPath[str]) -> Response[Any]:
    """The session an agent works on; until its first words are in the log, a page that waits for them."""
    composer = await _of_run(desk, supervisor, id)
    if composer.home is not None:
        return Redirect(composer.home, status_code=303)
    return _html(await desk.ask(_run_page, composer))


@get("/runs/{id:str}/composer", include_in_schema=False)
async def run_composer(desk: TheDesk, supervisor: TheSupervisor, id: FromPath[str]) -> Response[str]:
    """Where something is said to an agent whose session is not in the store yet."""
    return _html(render("composer.html", composer=await _of_run(desk, supervisor, id)))


@get("/runs/{id:str}/questions/{request_id:str}", include_in_schema=False)
async def question(supervisor: TheSupervisor, id: FromPath[str], request_id: FromPath[str]) -> Response[str]:
    """What an agent asks, as it is shown."""
    view, asked = _asked(supervisor, id, request_id)
    return _html(render("question.html", run=view, question=asked))


@get("/runs/{id:str}/questions/{request_id:str}/whole", include_in_schema=False)
async def whole(supervisor: TheSupervisor, id: FromPath[str], request_id: FromPath[str]) -> Response[str]:
    """All of a change that is too long to be shown at once."""
    _, asked = _asked(supervisor, id, request_id)
    action = asked.request.action
    kind, text = ("diff", action.diff) if action.diff else ("json", pretty(action.raw_input))
    return _html(render("output.html", kind=kind, text=text, path=action.path))


@get("/sessions/{key:str}/composer", include_in_schema=False)
async def composer(
    desk: TheDesk, supervisor: TheSupervisor, key: FromPath[str], branch: FromQuery[int] = 0,
    at: FromQuery[int | None] = None,
) -> Response[str]:  # fmt: skip
    """Where a session goes on."""
    views, past = supervisor.runs(), _past(supervisor.log)
    found = await desk.ask(_of_session, key, branch, at, views, past, supervisor)
    return _html(render("composer.html", composer=found))


routes: list[HTTPRouteHandler] = [agents, board, needs, run, run_composer, question, whole, composer]


# --- the board -------------------------------------------------------------------------------------------------------


async def _board(desk: StorePool, supervisor: Supervisor) -> Board:
    # First the number: what happens from here on comes as an event.
    seq = supervisor.log.last_seq()
    views = supervisor.runs()
    known = {view.id for view in views}
    past = [one for one in _past(supervisor.log) if one.id not in known][:_PAST_SHOWN]
    return await desk.ask(_laid_out, views, past, seq)


def _laid_out(store: Store, views: list[RunView], past: list[PastRun], seq: int) -> Board:
    cards = [_card(store, view) for view in views]
    return Board(
        running=[card for card in cards if card.run.state != "ended"],
        ended=[card for card in cards if card.run.state == "ended"],
        past=[(one, _row(store, one.agent, one.session)) for one in past],
        needs=sum(len(view.questions) for view in views),
        seq=seq,
    )


def _card(store: Store, view: RunView) -> Card:
    row = _row(store, view.agent, view.session)
    words = view.text.lstrip()
    return Card(
        run=view, row=row, address=_end_of(row) if row is not None else None, waiting=_waiting(view),
        words=words[-_LAST_WORDS:],
    )  # fmt: skip


def _waiting(view: RunView) -> list[RunMessage]:
    return [message for message in view.messages if message.state == "sent"]


def _row(store: Store, agent: str, session: str | None) -> SessionRow | None:
    if session is None:
        return None
    found = store.sessions.select(SessionFilter(agent=agent, name=session, is_empty=False), limit=1)
    return found[0] if found else None


def _end_of(row: SessionRow) -> str:
    """The address of a session, opened where it goes on."""
    return f"{link(row)}?at={row.messages - 1}"


def _past(log: RunLog) -> list[PastRun]:
    """Agents of which the book tells, the last that ended first."""
    began: dict[str, dict[str, Any]] = {}
    ended: dict[str, PastRun] = {}
    for entry in log.entries(max(0, log.last_seq() - _REMEMBERED), _REMEMBERED):
        if entry.kind not in ("run.started", "session", "run.ended"):
            continue
        facts = msgspec.json.decode(entry.data)
        if entry.kind == "run.ended" and entry.run in began:
            known = began[entry.run]
            ended[entry.run] = PastRun(
                id=entry.run, agent=known["agent"], folder=known["folder"], session=known["session"],
                ended_at=entry.at, reason=facts["reason"],
            )  # fmt: skip
        elif entry.kind != "run.ended":
            began.setdefault(entry.run, {}).update(facts)
    return sorted(ended.values(), key=lambda one: one.ended_at, reverse=True)


def _agents_page(store: Store, board: Board | None, kinds: list[AgentKind], base: Frame) -> str:
    projects = [project.path for project in list_projects(store)[:_PROJECTS]]
    return render(
        "agents.html", frame=frame_of(store, "agents", base), board=board, kinds=kinds, projects=projects
    )  # fmt: skip


# --- what one agent is told ------------------------------------------------------------------------------------------


def _asked(supervisor: Supervisor, id: str, request: str) -> tuple[RunView, OpenRequest]:
    view = supervisor.run(id).view()
    for question in view.questions:
        if question.request.id == request:
            return view, question
    raise NotFoundError("this is not asked any more")


async def _of_run(desk: StorePool, supervisor: Supervisor, id: str) -> Composer:
    seq = supervisor.log.last_seq()
    view = supervisor.run(id).view()
    row = await desk.ask(_row, view.agent, view.session)
    return Composer(
        agent=view.agent, title=title_of(view.agent), capabilities=view.capabilities, run=view,
        home=_end_of(row) if row is not None else None, waiting=_waiting(view),
        words=view.text, seq=seq,
    )  # fmt: skip


def _run_page(store: Store, composer: Composer) -> str:
    return render("run.html", frame=frame_of(store, "run", Frame(kind="run")), composer=composer)


def _of_session(
    store: Store, key: str, branch: int, at: int | None, views: list[RunView], past: list[PastRun],
    supervisor: Supervisor,
) -> Composer:  # fmt: skip
    reader = reader_of(store, key)
    row = reader.row
    kind = supervisor.drivers.get(row.agent)
    own = [view for view in views if view.agent == row.agent and view.session == row.name]
    # Those that run come before those that have ended, and of these the last one first.
    run = own[0] if own else None
    ended = [one for one in past if one.agent == row.agent and one.session == row.name]
    capabilities = run.capabilities if run else kind.capabilities if kind else Capabilities(resume=False)
    composer = Composer(
        agent=row.agent, title=title_of(row.agent), capabilities=capabilities, run=run,
        past=ended[0] if ended and run is None else None, session=row.name,
        home=link(row), models=reader.head.info.models, seq=supervisor.log.last_seq(),
    )  # fmt: skip
    if at is not None or branch:
        composer.fork = _fork_point(reader, branch, at, capabilities, composer.title)
        composer.fork.back = link(row) if branch else ""
    if run is not None:
        composer.waiting = _waiting(run)
        composer.words = not_yet_logged(run.text, _last_texts(reader))
    composer.refusal = None if composer.is_running else _refusal(reader, composer)
    return composer


def _refusal(reader: SessionQuery, composer: Composer) -> str | None:
    if reader.row.kind != "main":
        return "This is the session of a sub-agent; what is said goes to the session that started it."
    if not composer.capabilities.resume:
        return f"{composer.title} cannot go on with a session from here."
    if reader.row.gone_at is not None:
        return "The agent's own file of this session is gone; `unspool restore` writes it back."
    if composer.fork is not None and not composer.fork.is_possible:
        return composer.fork.words
    return None


def _fork_point(
    reader: SessionQuery, branch: int, at: int | None, capabilities: Capabilities, title: str
) -> ForkPoint:  # fmt: skip
    plan = plan_fork(title, capabilities.fork, fork_branch(reader, branch), at)
    return ForkPoint(at=plan.at, words=plan.explanation, is_possible=plan.is_possible)


def _last_texts(reader: SessionQuery) -> list[str]:
    """What the model said last, as far as the log has it."""
    trail = reader.trail()
    texts = []
    for position in range(max(0, len(trail) - _TAIL), len(trail)):
        message = reader.message(trail.index_at(position))
        if message.role == "assistant":
            texts += [block.text for block in message.blocks if isinstance(block, m.Text)]
    return texts


def not_yet_logged(words: str, logged: list[str]) -> str:
    """Of what the model says in a turn: that which comes after what the log has already."""
    done = 0
    for text in logged:
        found = words.find(text.strip(), done) if text.strip() else -1
        if found >= 0:
            done = found + len(text.strip())
    return words[done:].lstrip()
