"""The problems in the files of a session, as its page shows them: damage, and what is only unusual."""

from __future__ import annotations

import msgspec

from ..core import model as m
from ..core.problems import CONTEXT_DOUBT, count_problems, kind_of_problem
from .session_list import url_name
from .session_query import SessionQuery
from .templating import address
from .transcript_pages import TranscriptPages


class ProblemSummary(msgspec.Struct, kw_only=True):
    """Some problems of a session."""

    kinds: list[str]
    """The number of problems of each kind, as text."""
    href: str
    """The link to the first one in the transcript."""


class ProblemsView(msgspec.Struct, kw_only=True):
    """All problems of a session."""

    damage: ProblemSummary | None
    """Problems by which something was lost or changed."""
    notes: ProblemSummary | None
    """Unusual records in intact files."""
    doubts: list[int]
    """Messages whose context is contradicted by the size of their request."""


def problems_view(query: SessionQuery, branch: int) -> ProblemsView:
    """Summarize the problems of a session for the page of a branch."""
    numbered = [
        (number, problem)
        for number, problem in enumerate(query.head.problems)
        if problem.reason != CONTEXT_DOUBT and not (problem.reason == "torn" and query.is_live)
    ]
    return ProblemsView(
        damage=_summary(query, branch, [one for one in numbered if kind_of_problem(one[1]).is_damage]),
        notes=_summary(query, branch, [one for one in numbered if not kind_of_problem(one[1]).is_damage]),
        doubts=[
            problem.message_index
            for problem in query.head.problems
            if problem.reason == CONTEXT_DOUBT and problem.message_index is not None
        ],
    )


def _summary(query: SessionQuery, branch: int, problems: list[tuple[int, m.Problem]]) -> ProblemSummary | None:
    if not problems:
        return None
    number, first = problems[0]
    base = address(url_name(query.row))
    if first.message_index is not None:
        href = f"{base}?at={first.message_index}#m{first.message_index}"
    else:
        index = TranscriptPages(query).message_before(first, branch)
        href = f"{base}?branch={branch}{'' if index is None else f'&at={index}'}#problem{number}"
    return ProblemSummary(kinds=count_problems(problem for _, problem in problems), href=href)
