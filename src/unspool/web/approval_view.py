"""The card of an approval request: warnings first, exact texts, and the size of everything left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..render.diff import ExactRows, count_changes, exact_diff_rows
from ..render.exact import exact_text, findings_in
from ..render.excerpt import Excerpt, excerpt, sizes, split_end
from ..render.sanitize import pretty
from ..runs.protocol import PermissionRequest

_END_LINES, _END_CHARACTERS = 4, 240
_ROWS, _LAST_ROWS = 60, 12
_LAST_IN_SIGHT = 3
"""Rows at the end of a diff that stay visible while the rest scrolls."""


_LONG_MIDDLE = 20_000
"""A middle with more characters, or a tenth as many rows, is loaded on demand."""


class TextView(NamedTuple):
    """A text on a card."""

    text: str
    parts: Excerpt
    end: str
    """The end of the tail, or of a text that is shown in full. It stays visible while the rest scrolls."""
    end_line: int
    is_prose: bool

    @property
    def is_long(self) -> bool:
        """Whether the middle is loaded on demand."""
        return len(self.parts.middle) > _LONG_MIDDLE

    @property
    def size(self) -> str:
        """A description of the size of the whole text."""
        return sizes(self.text)

    @property
    def has_lines(self) -> bool:
        """Whether there are several lines, which are then numbered."""
        return "\n" in self.text.removesuffix("\n")


class DiffView(NamedTuple):
    """A change on a card."""

    title: str
    head: ExactRows
    middle: ExactRows
    tail: ExactRows
    end: ExactRows

    @property
    def is_long(self) -> bool:
        """Whether the middle is loaded on demand."""
        return len(self.middle) > _LONG_MIDDLE // 10

    @property
    def size(self) -> int:
        """The number of rows."""
        return sum(map(len, self[1:]))


class ApprovalView(NamedTuple):
    """The contents of the card of a request."""

    warnings: list[str]
    command: TextView | None
    plan: TextView | None
    diffs: list[DiffView]
    details: list[tuple[str, TextView]]
    raw: TextView
    """The input as JSON."""

    def part(self, name: str) -> TextView | DiffView | None:
        """Return the part with a name; requests for the middle of a part use these names."""
        found: dict[str, TextView | DiffView | None] = {"command": self.command, "plan": self.plan, "input": self.raw}
        found |= {f"change-{number}": view for number, view in enumerate(self.diffs, 1)}
        found |= {f"detail-{number}": view for number, (_, view) in enumerate(self.details, 1)}
        return found.get(name)


def text_view(text: str, is_prose: bool = False) -> TextView:
    """Split a text so that its beginning and end are visible."""
    parts = excerpt(text)
    if parts.middle:
        tail, end = split_end(parts.tail, _END_LINES, _END_CHARACTERS)
        parts = parts._replace(tail=tail)
    else:
        head, end = split_end(text, _END_LINES, _END_CHARACTERS)
        parts, end = (Excerpt(head, "", ""), end) if head else (Excerpt(text, "", ""), "")
    end_line = text.count("\n", 0, len(text) - len(end)) + 1
    return TextView(text, parts, end, end_line, is_prose)


def diff_view(title: str, diff: str) -> DiffView:
    """Split a diff so that its first and last rows are visible."""
    rows = exact_diff_rows(diff)
    nothing = rows[:0]
    end = rows[-_LAST_IN_SIGHT:] if len(rows) > _LAST_ROWS else nothing
    rows = rows[: len(rows) - len(end)]
    if len(rows) <= _ROWS:
        return DiffView(title, rows, nothing, nothing, end)
    first = _ROWS - _LAST_ROWS
    return DiffView(title, rows[:first], rows[first:-_LAST_ROWS], rows[-_LAST_ROWS:], end)


def approval_view(request: PermissionRequest) -> ApprovalView:
    """Return everything that the card of a request shows."""
    action = request.action
    return ApprovalView(
        warnings=_warnings(request),
        command=text_view(action.command) if action.command is not None else None,
        plan=text_view(action.plan, is_prose=True) if action.plan is not None else None,
        diffs=[diff_view(title, diff) for title, diff in _diffs(request)],
        details=[(each.name, text_view(each.value)) for each in request.details],
        raw=text_view(pretty(action.raw_input)),
    )


def _diffs(request: PermissionRequest) -> Iterator[tuple[str, str]]:
    """Yield the diffs of the files on disk, and the change as the model wrote it if they do not show all of it."""
    files = request.files
    for file in files:
        if file.diff is not None and any(count_changes(file.diff)):
            yield "", file.diff
    if request.action.diff and (not files or any(file.diff is None or not file.applies for file in files)):
        yield "" if all(file.applies for file in files) else "The change as the model wrote it", request.action.diff


def _without_contained(texts: list[str]) -> list[str]:
    """Drop texts that others contain: agents repeat a command in several fields, and findings count it once."""
    found: list[str] = []
    for text in sorted(texts, key=len, reverse=True):
        if not any(text in other for other in found):
            found.append(text)
    return found


def _warnings(request: PermissionRequest) -> list[str]:
    code = [request.action.command or "", *(each.value for each in request.details)]
    code += [each.name for each in request.details]
    code += [diff for _, diff in _diffs(request)]
    prose = [request.action.plan or "", request.reason or "", request.session_rule or "", request.tool]
    for choice in request.choices:
        prose += [choice.question, choice.header]
        prose += [text for option in choice.options for text in (option.label, option.description)]
    findings = (*findings_in(*_without_contained(code)), *findings_in(*_without_contained(prose), prose=True))
    found = [finding.text for finding in findings]
    files = [f"{exact_text(file.path)}: {exact_text(each)}" for file in request.files for each in file.warnings]
    return [*files, *(f"Contains {each}." for each in found)]
