"""Compares what unspool tells with what really happened, and with what the models were really sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from unspool.core.context_export import ContextLists, ReplyContext, each_reply
from unspool.core.session import Session

_CUT = 200
"""Recorded answers and texts are cut to this length."""
_HEAD = 100
"""Of a summary the beginning is compared."""


def count_events(sessions: Iterable[Session]) -> tuple[Counter[str], Counter[str]]:
    """How often each kind of event is told, over all sessions of a recording; and the reasons of refusals."""
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
    """In which numbers the record differs from what the files can tell of the truth."""
    counts, reasons = count_events(sessions)
    ranges: dict[str, tuple[int, int]] = truth.get("ambiguous") or {}
    wanted = {key: ranges.get(key, (value, value)) for key, value in truth["recoverable"].items()}
    # One line of the log can stand for either of two events: then their sum is known.
    wanted |= {key: (low, high) for key, (low, high) in ranges.items() if "+" in key}
    wrong = []
    for key, (low, high) in wanted.items():
        got = sum(counts[part] for part in key.split("+"))
        if not low <= got <= high:
            wrong.append(f"{key}: {got} instead of {low if low == high else f'{low} to {high}'}")
    if "rejection_reasons" in truth and Counter(truth["rejection_reasons"]) != reasons:
        wrong.append(f"reasons: {sorted(reasons.elements())} instead of {sorted(truth['rejection_reasons'])}")
    return wrong


def wrong_contexts(lines: list[dict[str, Any]], sessions: list[Session]) -> list[str]:
    """In which replies the context differs from what the model was sent."""
    replies = [reply for session in sessions for reply in each_reply(session)]
    wrong = []
    for line, reply in zip(lines, _matched(lines, replies), strict=True):
        where = f"{line.get('agent') or line['session']} request {line['n']}"
        if reply is None:
            wrong.append(f"{where}: its reply {line['reply']} is not told")
        else:
            wrong += [f"{where}: {difference}" for difference in _differences(line, reply.context)]
    return wrong


def _matched(lines: list[dict[str, Any]], replies: list[ReplyContext]) -> list[ReplyContext | None]:
    """The reply to each request: the one with a call in common, else the one that begins alike."""
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
    # An answer that was interrupted is stored as far as it had come.
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
