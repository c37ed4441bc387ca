"""Compares what unspool reads with what actually happened, and with the requests that were actually sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ..agents import AGENTS, Agent, SessionRef
from ..core import typed_json
from ..core.context_export import ContextLists, ReplyContext, each_reply
from ..core.session import Session
from ..core.stream import StreamLine, collect
from ..io.sources import JsonDocument
from ..library import Library
from .facts import wrong_facts
from .recordings import Recording

_CUT = 200
"""Recorded answers and texts are truncated to this length."""
_HEAD = 100
"""The number of characters of a summary that are compared."""
_encode = msgspec.json.Encoder().encode
_session = typed_json.decoder(Session)
_line = typed_json.decoder(StreamLine)


@contextmanager
def registered(*agents: Agent) -> Iterator[None]:
    """Register agents, and unregister them at the end."""
    added: list[str] = []
    try:
        for agent in agents:
            AGENTS.register(agent)
            added.append(agent.info.name)
        yield
    finally:
        for name in added:
            AGENTS.unregister(name)


def check_recording(recording: Recording) -> list[str]:
    """Return everything that unspool reads incorrectly from a recording; empty if all is correct."""
    sessions = recording.sessions()
    return [
        *wrong_counts(recording.truth, sessions),
        *wrong_facts(recording.truth, sessions),
        *wrong_contexts(recording.contexts, sessions),
        *check_home(recording.home),
    ]


def check_home(home: Path) -> list[str]:
    """Return the guarantees of readers that are violated for the sessions in a home directory; empty if none are.

    The guarantees: a session can be found by its logs, lists show the title of the session, no line is lost between a
    log and the record, streaming results in the same record as loading, and a record can be converted to JSON and back.
    """
    library = Library(home)
    return [f"{ref.id}: {what}" for ref in library.refs() for what in _violations(library, ref)]


def _violations(library: Library, ref: SessionRef) -> Iterator[str]:
    agent = AGENTS[ref.agent]
    source, again = agent.open(ref.root), agent.open(ref.root)
    found = source.ref(ref.path)
    if found is None or found.id != ref.id:
        yield f"ref({ref.path}) finds {found.id if found is not None else 'nothing'}"
    if not source.contains(ref):
        yield "contains() denies a session that refs() lists"
    if source.fingerprint(ref) != again.fingerprint(ref):
        yield "fingerprint() changes although nothing has changed"
    for path in (ref.path, *ref.more):
        if agent.log(path).stamp() is None:
            yield f"log({path}) is gone"
    sessions = list(library.load_all(ref))
    if source.peek(ref).title != sessions[0].title:
        yield f"peek() has the title {source.peek(ref).title!r}, the session has {sessions[0].title!r}"
    whole = [_encode(session) for session in sessions]
    if [_encode(_session.decode(text)) for text in whole] != whole:
        yield "the record changes when it is decoded from JSON and encoded again"
    lines = [_line.decode(_encode(line)) for line in library.stream(ref)]
    if [_encode(session) for session in collect(lines)] != whole:
        yield "stream() and load() give different records"
    for session in sessions:
        yield from _lost_lines(agent, session)


def _lost_lines(agent: Agent, session: Session) -> Iterator[str]:
    """Report logs with lines that are neither in the record nor counted as damaged."""
    sources = [problem.source for problem in session.problems if problem.reason == "salvaged"]
    for number, file in enumerate(session.info.files):
        if file.role == "log" and not isinstance(agent.log(Path(file.path)), JsonDocument):
            salvaged = sum(source is not None and source.file == number for source in sources)
            records, intact = sum(file.records.values()), file.lines - file.damaged
            # One or more records of each salvaged line come in addition to those of intact lines.
            if records < intact + salvaged or (records > intact and not salvaged):
                yield f"{file.path} has {intact} intact lines, {salvaged} salvaged lines and {records} records"


def _count_events(sessions: Iterable[Session]) -> tuple[Counter[str], Counter[str]]:
    """Count each kind of event in all sessions of a recording, and the reasons of rejections."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for session in sessions:
        by_person = [rejection for rejection in session.rejections if rejection.by == "user"]
        counts["rejections"] += len(by_person)
        counts["interruptions"] += len(session.interruptions)
        counts["compactions"] += len(session.compaction.boundaries)
        counts["clears"] += len(session.context_clears)
        counts["rollbacks"] += len(session.rollbacks)
        counts["orphans"] += len(session.orphans)
        counts["subagents"] += len(session.subagents)
        counts["forks"] += session.info.origin.kind in ("fork", "branch")
        reasons.update(rejection.reason for rejection in by_person if rejection.reason is not None)
    return counts, reasons


def wrong_counts(truth: dict[str, Any], sessions: list[Session]) -> list[str]:
    """Return the counts that differ from those that can be recovered from the files."""
    counts, reasons = _count_events(sessions)
    ranges: dict[str, tuple[int, int]] = truth.get("ambiguous") or {}
    wanted = {key: ranges.get(key, (value, value)) for key, value in truth["recoverable"].items()}
    # A line of the log may mean either of two events, in which case only their sum is known.
    wanted |= {key: (low, high) for key, (low, high) in ranges.items() if "+" in key}
    wrong = []
    for key, (low, high) in wanted.items():
        got = sum(counts[part] for part in key.split("+"))
        if not low <= got <= high:
            wrong.append(f"{key}: {got} instead of {low if low == high else f'{low} to {high}'}")
    resumes = sum(len(session.resumes) for session in sessions)
    if resumes > truth.get("resumes", resumes):
        wrong.append(f"resumes: {resumes} instead of at most {truth['resumes']}")
    if "rejection_reasons" in truth and Counter(truth["rejection_reasons"]) != reasons:
        wrong.append(f"reasons: {sorted(reasons.elements())} instead of {sorted(truth['rejection_reasons'])}")
    return wrong


def wrong_contexts(lines: list[dict[str, Any]], sessions: list[Session]) -> list[str]:
    """Return the replies whose context differs from the request that was sent."""
    replies = [reply for session in sessions for reply in each_reply(session)]
    wrong = []
    for line, reply in zip(lines, _matched(lines, replies), strict=True):
        where = f"{line.get('agent') or line['session']} request {line['n']}"
        if reply is None:
            wrong.append(f"{where}: its reply {line['reply']} is missing")
        else:
            wrong += [f"{where}: {difference}" for difference in _differences(line, reply.context)]
    return wrong


def _matched(lines: list[dict[str, Any]], replies: list[ReplyContext]) -> list[ReplyContext | None]:
    """Return the reply to each request: one with the same call, or else one that starts with the same text."""
    found: list[ReplyContext | None] = [None] * len(lines)
    taken: set[int] = set()
    for fits in (_same_call, _same_context, _same_text):
        for number, line in enumerate(lines):
            for reply in _of_session(line, replies):
                if found[number] is None and id(reply) not in taken and fits(line, reply):
                    found[number] = reply
                    taken.add(id(reply))
    return found


def _of_session(line: dict[str, Any], replies: list[ReplyContext]) -> list[ReplyContext]:
    agent = line.get("agent")
    near = [reply for reply in replies if agent in reply.session] if agent else []
    return near or [reply for reply in replies if reply.session == line["session"]]


def _same_call(line: dict[str, Any], reply: ReplyContext) -> bool:
    return not set(line["reply"]["calls"]).isdisjoint(reply.reply.calls)


def _same_text(line: dict[str, Any], reply: ReplyContext) -> bool:
    said = _cut(reply.reply.texts[0]) if reply.reply.texts else ""
    recorded = line["reply"]["texts"]
    # Only the beginning of an interrupted answer is stored.
    return said != "" and bool(recorded) and _cut(recorded[0]).startswith(said)


def _same_context(line: dict[str, Any], reply: ReplyContext) -> bool:
    return _same_text(line, reply) and not any(_differences(line, reply.context))


def _differences(line: dict[str, Any], context: ContextLists) -> Iterator[str]:
    either = {_cut(text) for text in line.get("either", ())}

    def compared(texts: list[str], cut: bool = False) -> list[str]:
        return [_cut(text) if cut else text.strip() for text in texts if _cut(text) not in either]

    for key in ("calls", "prompts", "answers", "results"):
        if key in line:
            want, got = (compared(texts, key == "answers") for texts in (line[key], getattr(context, key)))
            if (set(want) != set(got)) if key == "results" else (want != got):
                yield f"{key}: {got} instead of {want}"
    if "summaries" in line and not _same_summaries(line["summaries"], context.summaries):
        yield f"summaries: {context.summaries} instead of {line['summaries']}"


def _same_summaries(want: list[str], got: list[str]) -> bool:
    pairs = zip(want, got, strict=False)
    return len(want) == len(got) and all(w[:_HEAD] in g or g.strip()[:_HEAD] in w for w, g in pairs)


def _cut(text: str) -> str:
    return text.strip()[:_CUT].strip()
