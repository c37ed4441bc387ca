"""Compares the raw facts with the record, check by check."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from .raw import PLAN_TOOL, Fact, PlanStart
from .recorded import RecordedSession, Request

_PLAN_SECONDS = (-1.0, 3.0)
"""The time from the end of planning to the start of an approved plan, whose first line may have an earlier time."""
_LARGE = 20_000
"""The minimum change of the context, in tokens, that is checked."""


class Difference(NamedTuple):
    """A difference between the raw files and the record."""

    session: str
    line: int
    what: str


class Tally:
    """The result of one check for one agent."""

    def __init__(self) -> None:
        self.raw = 0
        self.recorded = 0
        self.explained = 0
        self.differences: list[Difference] = []

    def differ(self, session: str, line: int, what: str) -> None:
        """Add a difference."""
        self.differences.append(Difference(session, line, what))


class Group(NamedTuple):
    """A session, the sub-agents in the same log, and the raw facts of its logs."""

    sessions: list[RecordedSession]
    facts: dict[Path, list[Fact]]

    @property
    def main(self) -> RecordedSession:
        """The session that the logs belong to."""
        return self.sessions[0]

    def of(self, *kinds: str) -> Iterator[tuple[str, Fact]]:
        """Yield facts of these kinds, each with the key of its message."""
        for path, facts in self.facts.items():
            for fact in facts:
                if fact.kind in kinds:
                    yield f"{path}:{fact.key}", fact

    def union(self, field: Callable[[RecordedSession], Iterable[str]]) -> set[str]:
        """Return the union of a field over all sessions of the group."""
        return {item for session in self.sessions for item in field(session)}


class Comparison:
    """All checks, over all sessions."""

    def __init__(
        self, plans: list[PlanStart], titles: dict[tuple[str, str], str | None], copied: frozenset[str] = frozenset()
    ) -> None:
        """`copied` are the token counts of Codex that occur in several files."""
        self.tallies: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)
        self._plans = plans
        self._titles = titles
        self._copied = copied
        self._requests: set[tuple[str, str]] = set()
        self._counted: Counter[tuple[str, str]] = Counter()

    def add(self, group: Group) -> None:
        """Run all checks on a session."""
        for name, check in _CHECKS.items():
            check(self, self.tallies[group.main.agent, name], group)

    # --- the checks ---

    def orphans(self, tally: Tally, group: Group) -> None:
        """Compare calls without a result. A result may come before its call."""
        calls = {fact.id: fact.line for _, fact in group.of("call")}
        stand_ins = {fact.id for _, fact in group.of("result") if fact.text == "stand-in"}
        answered = {fact.id for _, fact in group.of("result")} - stand_ins
        raw = calls.keys() - answered
        recorded = group.union(lambda session: session.orphans)
        copied = {id for session in group.sessions for id, is_copied in session.calls.items() if is_copied}
        tally.raw += len(raw)
        tally.recorded += len(recorded)
        for id in sorted(raw ^ recorded):
            if id in raw and id in copied:
                tally.explained += 1
            else:
                what = "unfinished call is not reported" if id in raw else "finished call is reported as unfinished"
                tally.differ(group.main.id, calls.get(id, 0), what)

    def plans(self, tally: Tally, group: Group) -> None:
        """Compare approved and rejected plans."""
        calls = {fact.id: fact for _, fact in group.of("call") if fact.name == PLAN_TOOL}
        copied = {id for session in group.sessions for id, is_copied in session.calls.items() if is_copied}
        rejected = group.union(lambda session: session.rejections)
        for path, facts in group.facts.items():
            for fact in facts:
                if fact.kind != "result" or fact.id not in calls or fact.text not in ("approved", "refused"):
                    continue
                is_approved = fact.text == "approved" or self._is_carried_out(path, fact)
                tally.raw += is_approved
                tally.recorded += is_approved and fact.id not in rejected
                if fact.id in copied:
                    tally.explained += is_approved == (fact.id in rejected)
                elif is_approved and fact.id in rejected:
                    tally.differ(group.main.id, fact.line, "approved plan is reported as rejected")
                elif not is_approved and fact.id not in rejected:
                    tally.differ(group.main.id, fact.line, "rejected plan is not reported")

    def _is_carried_out(self, path: Path, refusal: Fact) -> bool:
        return any(
            start.path.parent == path.parent
            and _PLAN_SECONDS[0] <= start.time - refusal.time <= _PLAN_SECONDS[1]
            and (start.path != path or start.line > refusal.line)
            for start in self._plans
        )

    def prompts(self, tally: Tally, group: Group) -> None:
        """Find messages with only JSON or tags, which no person types, that are reported as prompts."""
        typed = group.union(lambda session: session.prompts)
        for key, fact in group.of("prompt"):
            tally.raw += 1
            if key not in typed:
                continue
            tally.recorded += 1
            if fact.name == "typed":
                tally.explained += 1
            else:
                tally.differ(group.main.id, fact.line, f"{fact.text} is reported as typed by a person")

    def attachments(self, tally: Tally, group: Group) -> None:
        """Compare attachments with text."""
        texts = group.union(lambda session: session.with_text)
        for key, fact in group.of("attachment"):
            tally.raw += 1
            if key in texts:
                tally.recorded += 1
            else:
                tally.differ(group.main.id, fact.line, "attachment has lost its text")

    def titles(self, tally: Tally, group: Group) -> None:
        """Check that sessions with prompts have titles, and that titles make sense and are the same everywhere."""
        for session in group.sessions:
            listed = self._titles.get((session.id, str(session.paths[0])), session.title) if session.paths else None
            tally.raw += bool(session.prompts)
            tally.recorded += bool(session.title)
            if session.prompts and not (session.title or "").strip():
                tally.differ(session.id, 0, "title is empty")
            elif session.has_noise:
                tally.differ(session.id, 0, "title is noise")
            elif session.paths and (listed or "") != (session.title or ""):
                tally.differ(session.id, 0, "title differs between ls and export")

    def usage(self, tally: Tally, group: Group) -> None:
        """Check that the tokens of each request are counted exactly once, including in forks."""
        if group.main.agent == "codex":
            _codex_usage(tally, group, self._copied)
            return
        counted = group.union(lambda session: session.with_usage)
        last = {(self._scope(group), fact.id): fact for _, fact in group.of("usage")}
        tally.raw += len(last.keys() - self._requests)
        self._requests |= last.keys()
        here = {(self._scope(group), fact.id): fact.line for key, fact in group.of("usage") if key in counted}
        for request, line in here.items():
            self._counted[request] += 1
            tally.recorded += 1
            if self._counted[request] > 1:
                tally.differ(group.main.id, line, "request is counted again")

    def _scope(self, group: Group) -> str:
        """Return the scope in which request ids are unique. Gemini has only message ids, unique in a session."""
        return group.main.id if group.main.agent == "gemini" else group.main.agent

    def finish_usage(self) -> None:
        """Report requests that were not counted, after all sessions were added."""
        for scope, request in sorted(self._requests - self._counted.keys()):
            agent = scope if ("claude", "usage") in self.tallies and scope == "claude" else "gemini"
            self.tallies[agent, "usage"].differ(request, 0, "request is counted nowhere")

    def context(self, tally: Tally, group: Group) -> None:
        """Compare the size of the context in the record with the input tokens of the next request.

        Contradictions that the record itself reports, or that are at a gap of the log, count as explained.
        """
        for session in group.sessions:
            requests = session.context.requests
            tally.raw += len(requests)
            tally.recorded += len(requests)
            for before, request in pairwise(requests):
                what = _contradiction(before, request)
                if what and (request.is_after_gap or request.reply in session.doubts):
                    tally.explained += 1
                elif what:
                    tally.differ(session.id, request.line, what)


def _contradiction(before: Request, request: Request) -> str:
    if _shrank(before.known, request.known) and request.claimed > 0.8 * before.claimed > 0:
        return "context shrank, the record still claims it"
    if _shrank(before.claimed, request.claimed) and request.known > 0.8 * before.known > 0:
        return "the record claims a smaller context than was sent"
    return ""


def _shrank(before: int, now: int) -> bool:
    return now < 0.5 * before and before - now > _LARGE


def _codex_usage(tally: Tally, group: Group, copied: frozenset[str]) -> None:
    """Compare output tokens. A thread repeats its counts; a fork copies those of its origin without counting them."""
    requests = {fact.id: fact.tokens for _, fact in group.of("usage")}
    own = sum(requests.values())
    copies = sum(tokens for id, tokens in requests.items() if id in copied)
    recorded = sum(session.output for session in group.sessions)
    tally.raw += own
    tally.recorded += recorded
    if recorded == own - copies:
        tally.explained += copies
    elif recorded != own:
        what = f"{own} output tokens in the file, {copies} of them copied, {recorded} in the record"
        tally.differ(group.main.id, 0, what)


_CHECKS: dict[str, Callable[[Comparison, Tally, Group], None]] = {
    "orphans": Comparison.orphans,
    "plans": Comparison.plans,
    "prompts": Comparison.prompts,
    "attachments": Comparison.attachments,
    "titles": Comparison.titles,
    "usage": Comparison.usage,
    "context": Comparison.context,
}
