"""Compares what the pages of a session say with its record, and names what they contradict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from unspool.core import model as m
from unspool.core.events import BADGE_KINDS, MARKED_KINDS
from unspool.core.problems import kind_of_problem
from unspool.core.session import Session, ToolUse
from unspool.render.sanitize import one_line
from unspool.store import Store
from unspool.web.context_index import context_view
from unspool.web.pages.session import Choices, Position, session_page
from unspool.web.pages.session_fragments import transcript_section
from unspool.web.session_query import SessionQuery
from unspool.web.timeline import timeline_marks

ARTICLE = re.compile(r"<article class=\"entry (.*?)</article>", re.DOTALL)
ATTRIBUTE = re.compile(r'data-(key|index|result|kind)="([^"]*)"')
ANCHOR = re.compile(r'id="m(\d+)"')
MARKUP = re.compile(r"<[^>]*>")
STATES = {"compacted": {"summarised", "dropped"}, "cleared": {"cleared"}, "rewound": {"rewound"}}
"""How the context view calls a message, by what the record says of it at the end of the session."""


class Shown(NamedTuple):
    """An entry on a page."""

    html: str
    kind: str
    place: int | None
    """The index of its message."""
    result: int | None
    """The index of the message with the result of its call."""

    @property
    def words(self) -> str:
        """Its text."""
        return " ".join(unescape(MARKUP.sub(" ", self.html)).split())


def shown_entries(html: str) -> list[Shown]:
    """The entries on a page."""
    found = []
    for article in ARTICLE.findall(html):
        # Attributes of the article come before everything inside it.
        given = dict(reversed(ATTRIBUTE.findall(article)))
        index, result = (int(given[name]) if name in given else None for name in ("index", "result"))
        found.append(Shown(article, given["kind"], index, result))
    return found


def contradictions(store: Store, query: SessionQuery, session: Session) -> Iterator[str]:
    """Everything that the pages of a session say and its record does not, or the other way round."""
    for branch in (0, *(branch.id for branch in session.branches)):
        pages = [transcript_section(query, number, branch) for number in range(query.pages(branch))]
        entries = [entry for page in pages for entry in shown_entries(page)]
        uses = [use for use in session.tool_calls() if use.message_index in query.path(branch)]
        yield from _wrong_calls(session, entries, uses)
        yield from _missing_messages(session, query, branch, pages, entries)
        yield from _repeats(session, entries)
        yield from _wrong_marks(session, query, branch, pages, entries)
        yield from _wrong_head(store, query, session, branch, pages)
    yield from _wrong_contexts(query, session)


# --- calls -----------------------------------------------------------------------------------------------------------


def _wrong_calls(session: Session, entries: list[Shown], uses: list[ToolUse]) -> Iterator[str]:
    unfinished = {orphan.tool_use_id for orphan in session.orphans}
    calls = [entry for entry in entries if entry.kind == "call"]
    if len(calls) != len(uses):
        yield f"{len(calls)} calls are shown, and the record has {len(uses)}"
        return
    for entry, use in zip(calls, uses, strict=True):
        says_unfinished = 'class="unfinished"' in entry.html
        if says_unfinished != (use.id in unfinished):
            yield f"#{entry.place} {use.name}: unfinished is {says_unfinished}"
        if use.result is not None and use.result.outcome != "unknown" and entry.result != use.result_index:
            yield f"#{entry.place} {use.name}: shows the result #{entry.result}, not #{use.result_index}"
        is_clarifying = use.rejection is not None and use.rejection.asked_to_clarify
        if ("Rejected by" in entry.html) != (use.rejection is not None and not is_clarifying):
            yield f"#{entry.place} {use.name}: its rejection differs"
        if ("You asked to clarify" in entry.html) != is_clarifying:
            yield f"#{entry.place} {use.name}: asked to clarify differs"
        is_shown = use.rejection is not None or f'<details class="call {use.outcome}"' in entry.html
        if not is_shown and (use.result is not None or use.outcome != "interrupted"):
            yield f"#{entry.place} {use.name}: the outcome is {use.outcome}"


# --- messages --------------------------------------------------------------------------------------------------------


def _missing_messages(
    session: Session, query: SessionQuery, branch: int, pages: Iterable[str], entries: list[Shown]
) -> Iterator[str]:
    shown = {entry.place for entry in entries} | {entry.result for entry in entries}
    shown |= {int(index) for page in pages for index in ANCHOR.findall(page)}
    results = {use.id: use.result.content for use in session.tool_calls() if use.result is not None}
    for message in session.messages:
        content = [block for block in message.blocks if _is_content(block, results)]
        if message.index in query.path(branch) and message.index not in shown and content:
            yield f"#{message.index} is not shown"


def _is_content(block: m.Block, results: dict[str, str]) -> bool:
    """Whether a block has to be shown. A result may be recorded twice."""
    if isinstance(block, m.Text | m.Thinking):
        return bool(block.text.strip())
    if isinstance(block, m.ToolResult):
        return results.get(block.call_id) != block.content
    return isinstance(block, m.ToolCall | m.Image | m.Attachment | m.Unknown)


def _repeats(session: Session, entries: list[Shown]) -> Iterator[str]:
    """A failure or a reason that is printed more often than it happened."""
    texts = [failure.text for failure in session.errors if failure.tool_use_id is None]
    texts += [rejection.reason or "" for rejection in session.rejections]
    visible = [entry.words for entry in entries]
    for text in {" ".join(one_line(text, 200).split())[:120] for text in texts}:
        if len(text) < 12:
            continue
        happened = sum(text in " ".join(other.split()) for other in texts)
        if (printed := sum(words.count(text) for words in visible)) > happened:
            yield f"{text[:60]!r} is printed {printed} times, and happened {happened} times"


# --- the timeline and the head ---------------------------------------------------------------------------------------


def _wrong_marks(
    session: Session, query: SessionQuery, branch: int, pages: list[str], entries: list[Shown]
) -> Iterator[str]:
    path = query.path(branch)
    marks = timeline_marks(query, branch)
    shown = {entry.place for entry in entries} | {entry.result for entry in entries}
    shown |= {int(index) for page in pages for index in ANCHOR.findall(page)}
    for name, kind in MARKED_KINDS.items():
        places = map(kind.timeline_index, kind.of(session))
        expected = sorted(index for index in places if index is not None and index in path)
        if expected != sorted(mark.index for mark in marks if mark.kind == name):
            yield f"the timeline of branch {branch} has other marks for {kind.plural}"
    for mark in marks:
        if mark.index not in path:
            yield f"the mark {mark.label!r} is not on branch {branch}"


def _wrong_head(store: Store, query: SessionQuery, session: Session, branch: int, pages: list[str]) -> Iterator[str]:
    html = session_page(store, str(query.row.id), Position(branch=branch, at=None, page=None), Choices(), None)
    head = html.partition('<header class="session-head">')[2].partition("</header>")[0]
    words = " ".join(unescape(MARKUP.sub(" ", head)).split())
    has_damage = any(kind_of_problem(problem).is_damage for problem in session.problems)
    if ("could not be read" in words) != has_damage:
        yield f"the banner about damage is {'missing' if has_damage else 'wrong'}"
    for kind in BADGE_KINDS:
        count = len(kind.of(session))
        if (f"{count} {kind.look.badge}" in words) != bool(count):
            yield f"the head does not say {count} {kind.look.badge}"
    if session.branches and f"{len(session.branches) + 1} branches" not in words:
        yield "the head has another number of branches"
    for href in re.findall(r'href="([^"]*#problem\d+)"', head):
        address = urlsplit(unescape(href))
        at = parse_qs(address.query).get("at")
        number = query.page_of(int(at[0]), branch) if at else 0
        if f'id="{address.fragment}"' not in pages[number]:
            yield f"{href} leads to page {number}, which does not have it"


# --- contexts --------------------------------------------------------------------------------------------------------


def _wrong_contexts(query: SessionQuery, session: Session) -> Iterator[str]:
    lost = {index for resume in session.resumes for index in resume.lost_message_indices}
    for message in session.messages:
        states = _states(query, message.index)
        inside = {index for index, state in states.items() if state == "in"}
        if inside != set(session.context_at(message.index).message_indices):
            yield f"the context at #{message.index} differs"
        for index, state in states.items():
            if state == "unsent" and index not in lost:
                yield f"#{index} is lost in the context at #{message.index}, and nothing in the record says so"
            other = session.messages[index]
            is_same_reply = message.reply is not None and (other.reply, other.branch) == (message.reply, message.branch)
            if is_same_reply and index < message.index and state != "reply":
                yield f"#{index} is part of the reply of #{message.index}, and is called {state}"
    yield from _wrong_at_the_tip(query, session)


def _wrong_at_the_tip(query: SessionQuery, session: Session) -> Iterator[str]:
    tip = session.info.tip
    if tip is None or any((clear.after_message_index or 0) >= tip for clear in session.context_clears):
        return
    states = _states(query, tip)
    for message in session.messages[:tip]:
        expected = STATES.get(message.context)
        if expected is not None and states[message.index] not in expected | {"rewound", "reply"}:
            yield f"#{message.index} is {message.context}, and the context at the tip calls it {states[message.index]}"


def _states(query: SessionQuery, index: int) -> dict[int, str]:
    spans = context_view(query, index).stretches
    return {place: span.state for span in spans for place in range(span.first, span.last + 1)}
