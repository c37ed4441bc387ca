"""Running agents: the board of all runs, the composer in which messages are written, and approval requests.

Each response shows the current state of the supervisor. A page that receives an event requests its parts again and
updates what differs, so all tabs show the same.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery
from litestar.response import Redirect

from ...core import model as m
from ...core.errors import NotFoundError
from ...runs.approvals import OpenRequest
from ...runs.fork import plan_fork
from ...runs.live_text import LiveText
from ...runs.messages import RunMessage
from ...runs.protocol import Capabilities
from ...runs.run_view import RunView
from ...runs.sandbox import MISSING, is_installed
from ...runs.supervisor import Supervisor
from ...store import Store
from ...store.filters import SessionFilter
from ...store.rows import SessionRow
from ..api.run_schemas import AgentKind
from ..api.runs import fork_branch, runnable_agents, title_of
from ..approval_view import approval_view
from ..notifications import run_name
from ..past_runs import PastRun, past_runs
from ..session_list import list_projects, title_of_session
from ..session_query import SessionQuery
from ..store_pool import StorePool
from ..templating import link, render
from .layout import Pool, State, html, html_response, layout_of, progress_of
from .session_fragments import query_of

Runs: TypeAlias = NamedDependency[Supervisor]
_MOST_PAST = 20
_MOST_PROJECTS = 50
_LAST_WORDS = 400
_TAIL = 40
"""Messages at the end of a session that may contain the streamed text."""


class RunCard(msgspec.Struct, kw_only=True):
    """A run on the board."""

    run: RunView
    row: SessionRow | None
    address: str | None
    waiting: list[RunMessage]
    words: str


class Board(msgspec.Struct, kw_only=True):
    """All runs, active and ended."""

    running: list[RunCard]
    ended: list[RunCard]
    past: list[tuple[PastRun, SessionRow | None]]
    needs: int
    """Number of approvals pending."""
    seq: int


class SandboxOption(msgspec.Struct, kw_only=True):
    """Whether an agent can be started in a sandbox."""

    is_forced: bool
    """Whether all agents of this server run in one."""
    missing: str | None
    """What has to be installed first."""


class ForkPoint(msgspec.Struct, kw_only=True):
    """The point where a new session would fork from this one, or the reason why it cannot."""

    at: int
    note: str
    is_possible: bool
    back: str = ""
    """The address of the active branch; empty if this page shows it."""


class Composer(msgspec.Struct, kw_only=True):
    """The form for messages to one agent."""

    agent: str
    title: str
    capabilities: Capabilities
    run: RunView | None
    past: PastRun | None = None
    session: str | None = None
    home: str | None = None
    """The page of the session, which shows the conversation."""
    fork: ForkPoint | None = None
    blocked: str | None = None
    """The reason why nothing can be sent, if so."""
    moved: str | None = None
    """The address of the run that worked on this session and is working on another one now."""
    waiting: list[RunMessage] = []
    texts: list[LiveText] = []
    """The text that the agent is writing, without the part that is already in the log."""
    models: list[str] = []
    seq: int = 0

    @property
    def texts_json(self) -> str:
        """The texts as JSON, which keeps them exactly: HTML would change some characters."""
        return msgspec.json.encode(self.texts).decode()

    @property
    def is_running(self) -> bool:
        """Whether messages go to an agent that is already running."""
        return self.run is not None and self.run.state != "ended" and self.fork is None


# --- routes ----------------------------------------------------------------------------------------------------------


@get("/agents", include_in_schema=False)
async def agents(pool: Pool, app_state: State) -> Response[str]:
    """All runs, and the form that starts one."""
    progress = progress_of(app_state)
    if app_state.settings.data is None:
        return html_response(await pool.run(_agents_page, None, [], progress))
    supervisor: Supervisor = app_state.supervisor
    kinds = await asyncio.to_thread(runnable_agents, supervisor)
    board = await _board(pool, supervisor)
    sandbox = SandboxOption(is_forced=supervisor.sandbox, missing=None if is_installed() else MISSING)
    return html_response(await pool.run(_agents_page, board, kinds, progress, sandbox))


@get("/agents/board", include_in_schema=False)
async def board(pool: Pool, supervisor: Runs) -> Response[str]:
    """The board without the page around it."""
    return html("board.html", board=await _board(pool, supervisor))


@get("/agents/needs", include_in_schema=False)
async def needs(supervisor: Runs) -> dict[str, int]:
    """Number of approvals pending, and the event number to listen from."""
    return {"needs": sum(len(run.questions) for run in supervisor.runs()), "seq": supervisor.log.last_seq()}


@get("/runs/{id:str}", include_in_schema=False)
async def run(pool: Pool, supervisor: Runs, id: FromPath[str]) -> Response[Any]:
    """The session of a run; until it is in the store, a page that waits for it."""
    composer = await _composer_of_run(pool, supervisor, id)
    if composer.home is not None:
        return Redirect(composer.home, status_code=303)
    return html_response(await pool.run(_run_page, composer))


@get("/runs/{id:str}/name", include_in_schema=False)
async def name(pool: Pool, supervisor: Runs, id: FromPath[str]) -> dict[str, str]:
    """The name of a run in notifications."""
    found = supervisor.run(id)
    title = await pool.run(title_of_session, found.agent, found.session)
    return {"name": run_name(title, found.agent, found.spec.folder)}


@get("/runs/{id:str}/composer", include_in_schema=False)
async def run_composer(pool: Pool, supervisor: Runs, id: FromPath[str]) -> Response[str]:
    """The composer of a run whose session is not in the store yet."""
    return html("composer.html", composer=await _composer_of_run(pool, supervisor, id))


@get("/runs/{id:str}/questions/{request_id:str}", include_in_schema=False)
async def question(supervisor: Runs, id: FromPath[str], request_id: FromPath[str]) -> Response[str]:
    """An approval request."""
    view, found = _find_question(supervisor, id, request_id)
    return html("question.html", run=view, question=found)


@get("/runs/{id:str}/questions/{request_id:str}/parts/{name:str}", include_in_schema=False)
async def question_part(
    supervisor: Runs, id: FromPath[str], request_id: FromPath[str], name: FromPath[str]
) -> Response[str]:
    """The middle of a long text or change of an approval request, or its input."""
    _, found = _find_question(supervisor, id, request_id)
    part = approval_view(found.request).part(name)
    if part is None:
        raise NotFoundError(f"The request has no part {name!r}.")
    return html("question_part.html", part=part, name=name)


@get("/sessions/{key:str}/composer", include_in_schema=False)
async def composer(
    pool: Pool,
    supervisor: Runs,
    key: FromPath[str],
    branch: FromQuery[int] = 0,
    at: FromQuery[int | None] = None,
) -> Response[str]:
    """The composer of a session."""
    views, past = supervisor.runs(), past_runs(supervisor.log)
    found = await pool.run(_composer_of_session, key, branch, at, views, past, supervisor)
    return html("composer.html", composer=found)


routes: list[HTTPRouteHandler] = [agents, board, needs, run, name, run_composer, question, question_part, composer]


# --- the board -------------------------------------------------------------------------------------------------------


def _agents_page(
    store: Store,
    board: Board | None,
    kinds: list[AgentKind],
    progress: tuple[int, int] | None,
    sandbox: SandboxOption | None = None,
) -> str:
    projects = [project.path for project in list_projects(store)[:_MOST_PROJECTS]]
    layout = layout_of(store, "agents", progress)
    return render("agents.html", layout=layout, board=board, kinds=kinds, projects=projects, sandbox=sandbox)


async def _board(pool: StorePool, supervisor: Supervisor) -> Board:
    # Read the number first: everything that happens later arrives as an event.
    seq = supervisor.log.last_seq()
    views = supervisor.runs()
    known = {view.id for view in views}
    past = [one for one in past_runs(supervisor.log) if one.id not in known][:_MOST_PAST]
    return await pool.run(_board_of, views, past, seq)


def _board_of(store: Store, views: list[RunView], past: list[PastRun], seq: int) -> Board:
    cards = [_card(store, view) for view in views]
    return Board(
        running=[card for card in cards if card.run.state != "ended"],
        ended=[card for card in cards if card.run.state == "ended"],
        past=[(one, _session_row(store, one.agent, one.session)) for one in past],
        needs=sum(len(view.questions) for view in views),
        seq=seq,
    )


def _card(store: Store, view: RunView) -> RunCard:
    row = _session_row(store, view.agent, view.session)
    return RunCard(
        run=view,
        row=row,
        address=_url_of_end(row) if row is not None else None,
        waiting=_waiting(view),
        words=view.text.lstrip()[-_LAST_WORDS:],
    )


def _waiting(view: RunView) -> list[RunMessage]:
    return [message for message in view.messages if message.state in ("queued", "sent")]


def _session_row(store: Store, agent: str, session: str | None) -> SessionRow | None:
    if session is None:
        return None
    found = store.sessions.select(SessionFilter(agent=agent, name=session, is_empty=False), limit=1)
    return found[0] if found else None


def _url_of_end(row: SessionRow) -> str:
    return f"{link(row)}?at={row.messages - 1}"


def _find_question(supervisor: Supervisor, id: str, request: str) -> tuple[RunView, OpenRequest]:
    view = supervisor.run(id).view()
    for question in view.questions:
        if question.request.id == request:
            return view, question
    raise NotFoundError("This request is no longer open.")


# --- the composer ----------------------------------------------------------------------------------------------------


async def _composer_of_run(pool: StorePool, supervisor: Supervisor, id: str) -> Composer:
    seq = supervisor.log.last_seq()
    view = supervisor.run(id).view()
    row = await pool.run(_session_row, view.agent, view.session)
    return Composer(
        agent=view.agent,
        title=title_of(view.agent),
        capabilities=view.capabilities,
        run=view,
        home=_url_of_end(row) if row is not None else None,
        waiting=_waiting(view),
        texts=view.texts,
        seq=seq,
    )


def _run_page(store: Store, composer: Composer) -> str:
    return render("run.html", layout=layout_of(store, "run"), composer=composer)


def _composer_of_session(
    store: Store,
    key: str,
    branch: int,
    at: int | None,
    views: list[RunView],
    past: list[PastRun],
    supervisor: Supervisor,
) -> Composer:
    query = query_of(store, key)
    row = query.row
    kind = supervisor.drivers.get(row.agent)
    # Active runs come first, then ended ones, the latest first.
    run = next((view for view in views if view.agent == row.agent and view.session == row.name), None)
    ended = next((one for one in past if one.agent == row.agent and one.session == row.name), None)
    capabilities = run.capabilities if run else kind.capabilities if kind else Capabilities(resume=False)
    composer = Composer(
        agent=row.agent,
        title=title_of(row.agent),
        capabilities=capabilities,
        run=run,
        past=ended if run is None else None,
        session=row.name,
        home=link(row),
        models=list(dict.fromkeys([*query.head.info.models, *supervisor.model_names(row.agent)])),
        seq=supervisor.log.last_seq(),
    )
    if at is not None or branch:
        composer.fork = _fork_point(query, branch, at, capabilities, composer.title)
        composer.fork.back = link(row) if branch else ""
    if run is not None:
        composer.waiting = _waiting(run)
        composer.texts = _not_logged(run.texts, query)
    elif ended is not None and ended.cut_off is not None:
        composer.texts = _not_logged([ended.cut_off], query)
    if (run is None or run.state == "ended") and (former := supervisor.find_former(row.agent, row.name)) is not None:
        composer.moved = f"/runs/{former.id}"
    composer.blocked = None if composer.is_running else _why_blocked(row, composer)
    return composer


def _why_blocked(row: SessionRow, composer: Composer) -> str | None:
    if row.kind != "main":
        return "This is the session of a sub-agent. Send messages to the session that started it."
    if not composer.capabilities.resume:
        return f"{composer.title} sessions cannot be resumed from here."
    if row.gone_at is not None:
        return "The agent's own file of this session is gone. Run `unspool restore` to write it back."
    if composer.fork is not None and not composer.fork.is_possible:
        return composer.fork.note
    return None


def _fork_point(query: SessionQuery, branch: int, at: int | None, capabilities: Capabilities, title: str) -> ForkPoint:
    plan = plan_fork(title, capabilities.fork, fork_branch(query, branch), at)
    return ForkPoint(at=plan.at, note=plan.explanation, is_possible=plan.is_possible)


def _not_logged(texts: list[LiveText], query: SessionQuery) -> list[LiveText]:
    """Return streamed texts; those of the main agent without the part that is already in the log."""
    logged = _last_texts(query) if texts else []
    return [text if text.subagent is not None else text.from_end(not_yet_logged(text.text, logged)) for text in texts]


def _last_texts(query: SessionQuery) -> list[str]:
    """Return the model's last texts in the log."""
    path = query.path()
    texts = []
    for position in range(max(0, len(path) - _TAIL), len(path)):
        message = query.message(path.index_at(position))
        if message.role == "assistant":
            texts += [block.text for block in message.blocks if isinstance(block, m.Text)]
    return texts


def not_yet_logged(words: str, logged: list[str]) -> str:
    """Return the part of the streamed text that is not in the log yet."""
    done = 0
    for text in logged:
        found = words.find(text.strip(), done) if text.strip() else -1
        if found >= 0:
            done = found + len(text.strip())
    return words[done:].lstrip()
