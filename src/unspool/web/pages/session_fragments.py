"""The parts of a session's page that are loaded on demand: pages of the transcript, branches, sub-agents, contexts."""

from __future__ import annotations

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery
from markupsafe import Markup

from ...agents import agent_named
from ...core import model as m
from ...core.errors import NotFoundError
from ...render.sanitize import pretty
from ...render.transcript import Entry, folded
from ...store import Store
from .. import svg
from ..context_contents import context_difference, gone_files, measure, ranges_of
from ..context_index import context_view
from ..session_list import find, url_name
from ..session_query import PAGE_SIZE, SessionQuery
from ..templating import SLASH, address, render, render_entries
from ..timeline import OutlineTurn, outline
from ..transcript_pages import TranscriptPages
from ..usage_view import turn_at
from .layout import Pool, html_response

MOST_COMPARED = 60
"""Maximum number of messages shown with a summary, or of each branch in a comparison."""


class TimelineView(msgspec.Struct, kw_only=True):
    """The timeline of a branch."""

    outline: list[OutlineTurn]
    count: int
    turns: int
    """The number of turns; can be larger than the number of lines."""
    base: str
    branch: int


# --- routes ----------------------------------------------------------------------------------------------------------


@get("/sessions/{key:str}/pages/{number:int}", include_in_schema=False)
async def page(pool: Pool, key: FromPath[str], number: FromPath[int], branch: FromQuery[int] = 0) -> Response[str]:
    """One page of the transcript."""
    return html_response(await pool.run(_page, key, number, branch))


@get("/sessions/{key:str}/branches/{number:int}", include_in_schema=False)
async def branch(pool: Pool, key: FromPath[str], number: FromPath[int]) -> Response[str]:
    """An abandoned branch, shown where it forked."""
    return html_response(await pool.run(_branch, key, number))


@get("/sessions/{key:str}/embedded", include_in_schema=False)
async def embedded(pool: Pool, key: FromPath[str]) -> Response[str]:
    """The transcript of a sub-agent, shown inside that of its parent."""
    return html_response(await pool.run(_embedded, key))


@get("/sessions/{key:str}/outputs/{index:int}/{position:int}", include_in_schema=False)
async def output(pool: Pool, key: FromPath[str], index: FromPath[int], position: FromPath[int]) -> Response[str]:
    """The full text of a block that the page shows truncated."""
    return html_response(await pool.run(_output, key, index, position))


@get("/sessions/{key:str}/replaced/{index:int}", include_in_schema=False)
async def replaced(pool: Pool, key: FromPath[str], index: FromPath[int]) -> Response[str]:
    """The messages that a compaction replaced."""
    return html_response(await pool.run(_replaced, key, index))


@get("/sessions/{key:str}/context/{index:int}", include_in_schema=False)
async def context(
    pool: Pool, key: FromPath[str], index: FromPath[int], since: FromQuery[int | None] = None
) -> Response[str]:
    """What was in context before a message, and what has changed in it since another one."""
    return html_response(await pool.run(_context, key, index, since))


@get("/sessions/{key:str}/rail", include_in_schema=False)
async def rail(pool: Pool, key: FromPath[str], branch: FromQuery[int] = 0) -> Response[str]:
    """The timeline."""
    return html_response(await pool.run(_rail, key, branch))


@get("/sessions/{key:str}/tree", include_in_schema=False)
async def tree(pool: Pool, key: FromPath[str]) -> Response[str]:
    """The branches as a tree."""
    return html_response(await pool.run(_tree, key))


@get("/sessions/{key:str}/own", include_in_schema=False)
async def own(pool: Pool, key: FromPath[str]) -> Response[str]:
    """The reader's own pins, notes and tags."""
    return html_response(await pool.run(_own, key))


routes: list[HTTPRouteHandler] = [page, branch, embedded, output, replaced, context, rail, tree, own]


# --- shared with the page --------------------------------------------------------------------------------------------


def query_of(store: Store, key: str) -> SessionQuery:
    """Return the session that an address names."""
    try:
        return SessionQuery(store, find(store, key))
    except NotFoundError:
        if SLASH not in key:
            raise
        return SessionQuery(store, find(store, key.replace(SLASH, "/")))


def transcript_section(query: SessionQuery, number: int, branch: int) -> str:
    """Render one page of the transcript."""
    page = TranscriptPages(query).page(number, branch)
    return render("page.html", page=page, entries=rendered(query, page.entries))


def timeline_view(query: SessionQuery, branch: int) -> TimelineView:
    """Return the timeline of a branch."""
    turns = outline(query, branch)
    return TimelineView(
        outline=turns,
        count=len(query.path(branch)),
        turns=sum(turn.more + 1 for turn in turns if turn.is_prompt),
        base=address(url_name(query.row)),
        branch=branch,
    )


def annotations_section(query: SessionQuery) -> Markup:
    """Render the pins, notes and tags of the reader."""
    key = url_name(query.row)
    annotations = query.store.annotations.of(query.row.agent, query.row.name)
    return Markup(render("annotations.html", annotations=annotations, base=address(key), key=key))


def rendered(query: SessionQuery, entries: list[Entry], prefix: str = "") -> Markup:
    """Render entries as HTML; with a prefix, as copies in addition to those in the transcript."""
    return render_entries(folded(entries), url_name(query.row), prefix)


# --- views -----------------------------------------------------------------------------------------------------------


def _page(store: Store, key: str, number: int, branch: int) -> str:
    return transcript_section(query_of(store, key), number, branch)


def _own(store: Store, key: str) -> str:
    return annotations_section(query_of(store, key))


def _rail(store: Store, key: str, branch: int) -> str:
    return render("rail.html", rail=timeline_view(query_of(store, key), branch))


def _branch(store: Store, key: str, number: int) -> str:
    query = query_of(store, key)
    found = [branch for branch in query.head.branches if branch.id == number]
    if not found:
        raise NotFoundError(f"session {query.row.name} has no abandoned branch {number}")
    page = TranscriptPages(query).page_of_branch(number)
    return render(
        "branch.html",
        branch=found[0],
        entries=rendered(query, page.entries),
        base=address(url_name(query.row)),
        more=found[0].length > PAGE_SIZE,
    )


def _embedded(store: Store, key: str) -> str:
    query = query_of(store, key)
    page = TranscriptPages(query).page(0)
    return render(
        "embedded.html",
        row=query.row,
        entries=rendered(query, page.entries, f"s{query.row.id}."),
        base=address(url_name(query.row)),
        more=query.pages() > 1,
    )


def _context(store: Store, key: str, index: int, since: int | None) -> str:
    query = query_of(store, key)
    context = context_view(query, index)
    inside = (other for span in context.stretches if span.state == "in" for other in range(span.first, span.last + 1))
    contents = measure(query, inside)
    base = address(url_name(query.row))
    return render(
        "inspector.html",
        context=context,
        base=base,
        gauge=svg.gauge(context.stretches),
        explanation=query.explanation(index),
        contents=contents,
        gone=gone_files(query, context, contents.files),
        difference=context_difference(query, query.message(since).index, index) if since is not None else None,
        project=query.head.info.project.path if query.head.info.project is not None else None,
        turn=turn_at(query, index),
    )


def _tree(store: Store, key: str) -> str:
    query = query_of(store, key)
    base = address(url_name(query.row))
    branches = query.head.branches
    return render("tree.html", drawing=svg.tree(branches, query.row.messages, base), branches=branches, base=base)


def _replaced(store: Store, key: str, index: int) -> str:
    query = query_of(store, key)
    compaction = query.head.compaction
    found = [
        boundary for boundary in (*compaction.boundaries, *compaction.inherited) if boundary.message_index == index
    ]
    if not found:
        raise NotFoundError(f"there is no compaction at message {index} of session {query.row.name}")
    boundary = found[0]
    replaced = boundary.replaced_message_indices
    transcript = TranscriptPages(query)
    entries = [
        entry
        for first, last in ranges_of(replaced[-MOST_COMPARED:])
        for entry in transcript.entries(first, last + 1)
        if entry.kind != "fork"
    ]
    return render(
        "compaction.html",
        boundary=boundary,
        base=address(url_name(query.row)),
        count=len(replaced),
        shown=min(MOST_COMPARED, len(replaced)),
        first=replaced[0] if replaced else None,
        lost=measure(query, replaced),
        kept_contents=measure(query, boundary.preserved_message_indices),
        project=query.head.info.project.path if query.head.info.project is not None else None,
        entries=rendered(query, entries, f"r{index}."),
    )


def _output(store: Store, key: str, index: int, number: int) -> str:
    query = query_of(store, key)
    message = query.message(index)
    if not 0 <= number < len(message.blocks):
        raise NotFoundError(f"message {index} of session {query.row.name} has no block {number}")
    block = message.blocks[number]
    if isinstance(block, m.ToolCall):
        return _full_call(query, block)
    kind, text = _full_text(message, block)
    return render("output.html", kind=kind, text=text, path=None)


def _full_text(message: m.Message, block: m.Block) -> tuple[str, str]:
    match block:
        case m.Text():
            kind = "prompt" if message.author == "human" else "prose" if message.role == "assistant" else "words"
            return kind, block.text
        case m.Thinking():
            return "words", block.text
        case m.ToolResult():
            return "result", block.whole
        case m.Attachment():
            return "prompt" if message.author == "human" else "words", block.text or ""
        case m.CompactionMark():
            return "prose", block.summary or ""
        case m.Unknown():
            return "json", pretty(block.raw)
        case _:
            return "words", ""


def _full_call(query: SessionQuery, call: m.ToolCall) -> str:
    rejected = [one.action for one in query.head.rejections if one.tool_use_id == call.id and one.action is not None]
    recorded = rejected or [one.ran for one in query.head.input_changes if one.tool_use_id == call.id]
    action = recorded[0] if recorded else agent_named(query.row.agent).describe(call.name, call.raw_input)
    kind, text = ("diff", action.diff) if action.diff else ("json", pretty(action.raw_input))
    return render("output.html", kind=kind, text=text, path=action.path)
