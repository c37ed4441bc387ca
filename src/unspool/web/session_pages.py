"""One session as HTML: its page, and the pieces of it that are fetched when somebody asks for them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from markupsafe import Markup

from ..agents import AGENTS
from ..core import model as m
from ..core.errors import NotFoundError, UsageError
from ..core.session import Session
from ..core.views import OrphanMode, View
from ..render.html import picture_bytes, render_html
from ..render.markdown import render_markdown
from ..render.sanitize import pretty
from ..render.transcript import Entry, folded, pictures_of
from ..store import Store
from ..store.rows import SessionRow
from . import svg
from .branch_path import BranchPath, Run
from .overviews import Frame, frame_of, listing
from .session_list import find, is_live, url_name
from .session_query import PAGE, SessionQuery
from .templating import SLASH, address, render, render_entries
from .views import Filter, Mark

_AT_ONCE = 2
"""Pages that are rendered with the session's own page."""
_BESIDE = 60
"""Messages that are shown beside a summary, or of each branch in a comparison."""


class SessionView(msgspec.Struct, kw_only=True):
    """What the page of a session shows around the transcript."""

    row: SessionRow
    head: Session
    key: str
    base: str
    branch: int
    reason: str | None
    count: int
    pages: int
    page_size: int
    number: int
    last_shown: int
    live: bool
    tip: int | None
    """The last message of the line."""
    resume: str | None
    seconds: float | None
    tokens_in: int
    tokens_out: int
    orphans: OrphanMode
    """How calls that never finished are shown."""
    unfinished: int


class Download(NamedTuple):
    """A file to be saved."""

    data: bytes
    media_type: str
    name: str


def reader_of(store: Store, key: str) -> SessionQuery:
    """The session that an address names."""
    try:
        return SessionQuery(store, find(store, key))
    except NotFoundError:
        if SLASH not in key:
            raise
        return SessionQuery(store, find(store, key.replace(SLASH, "/")))


def session_page(
    store: Store, key: str, asked: dict[str, int | None], base: Frame, orphans: OrphanMode = "mark"
) -> str:
    """The whole page, opened at a message, at a page, or at the beginning."""
    reader = reader_of(store, key)
    branch, at = asked.get("branch") or 0, asked.get("at")
    if at is not None and 0 <= at < reader.row.messages and at not in reader.trail(branch):
        # A link to a message leads to the line it is on: a later branch may have taken the number of an earlier one.
        branch = reader.branch_of(at)
    pages = reader.pages(branch)
    number = reader.page_of(at, branch) if at is not None else asked.get("page") or 0
    first = max(0, min(number, pages - 1) - (1 if at is not None else 0))
    shown = range(first, min(first + _AT_ONCE + (1 if at is not None else 0), pages))
    view = _view(reader, branch, first, shown[-1], orphans)
    frame = frame_of(store, "session", base)
    return render(
        "session.html", frame=frame, view=view, list=listing(store, Filter(), base, reader.row),
        sections=[Markup(page_section(reader, number, branch)) for number in shown], rail=_rail(reader, branch),
    )  # fmt: skip


def _view(reader: SessionQuery, branch: int, number: int, last: int, orphans: OrphanMode = "mark") -> SessionView:
    head, row, trail = reader.head, reader.row, reader.trail(branch)
    started, ended, usage = head.info.started_at, head.info.ended_at, head.info.usage
    return SessionView(
        row=row, head=head, key=url_name(row), base=address(url_name(row)), branch=branch,
        reason=next((other.reason for other in head.branches if other.id == branch), None),
        count=len(trail), pages=reader.pages(branch), page_size=PAGE, number=number, last_shown=last,
        live=is_live(row), tip=trail.index_at(len(trail) - 1) if len(trail) else None, resume=reader.resume_command(),
        seconds=(ended - started).total_seconds() if started is not None and ended is not None else None,
        tokens_in=sum(part or 0 for part in (usage.input, usage.cache_read, usage.cache_write)),
        tokens_out=usage.output or 0, orphans=orphans, unfinished=sum(one.reason != "running" for one in head.orphans),
    )  # fmt: skip


def page_section(reader: SessionQuery, number: int, branch: int) -> str:
    """One page of the transcript."""
    page = reader.page(number, branch)
    return render("page.html", page=page, entries=_drawn(reader, page.entries))


def _drawn(reader: SessionQuery, entries: list[Entry], prefix: str = "") -> Markup:
    return render_entries(_folded(entries), url_name(reader.row), prefix)


def _folded(entries: list[Entry]) -> list[Entry]:
    return list(folded(entries))


class RailView(msgspec.Struct, kw_only=True):
    """The time line."""

    marks: list[Mark]
    count: int
    turns: int
    """More than there are marks for, where some are left out."""
    base: str
    branch: int


def _rail(reader: SessionQuery, branch: int) -> RailView:
    return RailView(
        marks=reader.marks(branch), count=len(reader.trail(branch)), turns=reader.turns(branch),
        base=address(url_name(reader.row)), branch=branch,
    )  # fmt: skip


# --- pieces ----------------------------------------------------------------------------------------------------------


def page_piece(store: Store, key: str, number: int, branch: int) -> str:
    """One page."""
    return page_section(reader_of(store, key), number, branch)


def rail_piece(store: Store, key: str, branch: int) -> str:
    """The time line alone."""
    return render("rail.html", rail=_rail(reader_of(store, key), branch))


def branch_piece(store: Store, key: str, number: int) -> str:
    """A line that was left, in the place where it was left."""
    reader = reader_of(store, key)
    found = [branch for branch in reader.head.branches if branch.id == number]
    if not found:
        raise NotFoundError(f"session {reader.row.name} has no branch {number} that was left")
    page = reader.only(number)
    return render(
        "branch.html", branch=found[0], entries=_drawn(reader, page.entries), base=address(url_name(reader.row)),
        more=found[0].length > PAGE,
    )  # fmt: skip


def embedded_piece(store: Store, key: str) -> str:
    """A sub-agent's transcript inside that of another."""
    reader = reader_of(store, key)
    page = reader.page(0)
    return render(
        "embedded.html", row=reader.row, entries=_drawn(reader, page.entries, f"s{reader.row.id}."),
        base=address(url_name(reader.row)), more=reader.pages() > 1,
    )  # fmt: skip


def context_piece(store: Store, key: str, index: int) -> str:
    """What was in context before a message."""
    reader = reader_of(store, key)
    context = reader.context(index)
    base = address(url_name(reader.row))
    return render("inspector.html", context=context, base=base, gauge=svg.gauge(context.stretches))


def tree_piece(store: Store, key: str) -> str:
    """The branches, drawn and listed."""
    reader = reader_of(store, key)
    base = address(url_name(reader.row))
    branches = reader.head.branches
    return render("tree.html", drawing=svg.tree(branches, reader.row.messages, base), branches=branches, base=base)


def replaced_piece(store: Store, key: str, index: int) -> str:
    """The summary of a compaction beside what it replaced."""
    reader = reader_of(store, key)
    compaction = reader.head.compaction
    found = [
        boundary for boundary in (*compaction.boundaries, *compaction.inherited) if boundary.message_index == index
    ]
    if not found:
        raise NotFoundError(f"there is no compaction at message {index} of session {reader.row.name}")
    boundary = found[0]
    replaced = boundary.replaced_message_indices
    entries = [entry for run in _runs(replaced[-_BESIDE:]) for entry in reader.entries(run[0], run[1] + 1)]
    return render(
        "replaced.html", boundary=boundary, base=address(url_name(reader.row)), count=len(replaced),
        shown=min(_BESIDE, len(replaced)), first=replaced[0] if replaced else None,
        entries=_drawn(reader, [entry for entry in entries if entry.kind != "fork"], f"r{index}."),
    )  # fmt: skip


def _runs(indices: list[int]) -> list[Run]:
    found: list[Run] = []
    for index in indices:
        if found and found[-1][1] == index - 1:
            found[-1] = found[-1][0], index
        else:
            found.append((index, index))
    return found


def output_piece(store: Store, key: str, index: int, place: int) -> str:
    """All of a text of which the page shows the beginning."""
    reader = reader_of(store, key)
    message = reader.message(index)
    if not 0 <= place < len(message.blocks):
        raise NotFoundError(f"message {index} of session {reader.row.name} has no block {place}")
    block = message.blocks[place]
    if isinstance(block, m.ToolCall):
        return _whole_call(reader, block)
    kind, text = _whole(message, block)
    return render("output.html", kind=kind, text=text, path=None)


def _whole(message: m.Message, block: m.Block) -> tuple[str, str]:
    match block:
        case m.Text():
            kind = "said" if message.author == "human" else "prose" if message.role == "assistant" else "words"
            return kind, block.text
        case m.Thinking():
            return "words", block.text
        case m.ToolResult():
            return "result", block.whole
        case m.Attachment():
            return "said" if message.author == "human" else "words", block.text or ""
        case m.CompactionMark():
            return "prose", block.summary or ""
        case m.Unknown():
            return "json", pretty(block.raw)
        case _:
            return "words", ""


def _whole_call(reader: SessionQuery, call: m.ToolCall) -> str:
    refused = [one.action for one in reader.head.rejections if one.tool_use_id == call.id and one.action is not None]
    action = refused[0] if refused else AGENTS[reader.row.agent].describe(call.name, call.raw_input)
    kind, text = ("diff", action.diff) if action.diff else ("json", pretty(action.raw_input))
    return render("output.html", kind=kind, text=text, path=action.path)


# --- two branches ----------------------------------------------------------------------------------------------------


def compare_page(store: Store, key: str, a: int, b: int, base: Frame) -> str:
    """Two lines side by side, from where they part."""
    reader = reader_of(store, key)
    one, other = reader.trail(a), reader.trail(b)
    shared = _shared(one, other)
    fork = one.index_at(shared - 1) if shared else None
    view = {
        "row": reader.row, "base": address(url_name(reader.row)), "a": a, "b": b, "fork": fork,
        "sides": [_side(reader, a, one, shared), _side(reader, b, other, shared)],
    }  # fmt: skip
    return render("compare.html", frame=frame_of(store, "session", base), view=view)


def _shared(one: BranchPath, other: BranchPath) -> int:
    """How many messages two lines have in common from the beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.index_at(middle - 1) == other.index_at(middle - 1):
            low = middle
        else:
            high = middle - 1
    return low


def _side(reader: SessionQuery, branch: int, trail: BranchPath, shared: int) -> dict[str, object]:
    runs = trail.part(shared, shared + _BESIDE)
    entries = [entry for first, last in runs for entry in reader.entries(first, last + 1)]
    count = len(trail) - shared
    return {
        "branch": branch, "name": f"Branch {branch}" if branch else "The active line", "count": count,
        "shown": min(count, _BESIDE), "first": runs[0][0] if runs else None,
        "entries": _drawn(reader, entries, f"b{branch}."),
    }  # fmt: skip


# --- files -----------------------------------------------------------------------------------------------------------


def picture(store: Store, key: str, index: int, place: int) -> tuple[bytes, str]:
    """The bytes of a picture in a message, and what they are."""
    reader = reader_of(store, key)
    pictures = pictures_of(reader.message(index))
    data = picture_bytes(pictures[place]) if 0 <= place < len(pictures) else None
    if data is None:
        raise NotFoundError(f"message {index} of session {reader.row.name} has no picture {place} that can be shown")
    return data, pictures[place].media_type or ""


def export(store: Store, key: str, format: str, orphans: OrphanMode = "mark") -> Download:
    """The whole session as a file."""
    if format not in ("ndjson", "md", "html"):
        raise UsageError(f"a session is exported as md, html or ndjson, not as {format!r}")
    row = reader_of(store, key).row
    session = View(store.messages.load_session(row.id), (), "all", orphans).whole()
    describe = AGENTS[row.agent].describe
    name = f"{row.agent}-{row.name.replace('/', '-')}"
    if format == "ndjson":
        return Download(msgspec.json.encode(session) + b"\n", "application/x-ndjson", f"{name}.ndjson")
    if format == "md":
        text = "\n".join(render_markdown(session, describe))
        return Download(text.encode("utf-8", "replace"), "text/markdown; charset=utf-8", f"{name}.md")
    text = "".join(render_html(session, describe))
    return Download(text.encode("utf-8", "replace"), "text/html; charset=utf-8", f"{name}.html")
