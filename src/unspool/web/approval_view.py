"""An approval request as its card shows it: every text exactly, what is left out counted, and warnings first."""

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
"""What stays in sight while the rest is scrolled: the end of a text, the last rows of a diff."""


_LONG_MIDDLE = 20_000
"""Characters, or a tenth as many rows, that are loaded on demand."""


class TextView(NamedTuple):
    """A text on a card."""

    text: str
    parts: Excerpt
    end: str
    """The end of the tail, or of a text that is shown whole; it stays in sight."""
    end_line: int
    is_prose: bool

    @property
    def is_long(self) -> bool:
        """Whether the middle is loaded on demand."""
        return len(self.parts.middle) > _LONG_MIDDLE

    @property
    def size(self) -> str:
        """How long all of it is, in words."""
        return sizes(self.text)

    @property
    def has_lines(self) -> bool:
        """Whether lines are numbered."""
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
    """What a card shows of a request."""

    warnings: list[str]
    command: TextView | None
    plan: TextView | None
    diffs: list[DiffView]
    details: list[tuple[str, TextView]]
    raw: TextView
    """The input as JSON."""

    def part(self, name: str) -> TextView | DiffView | None:
        """A part by the name that its middle is loaded by."""
        found: dict[str, TextView | DiffView | None] = {"command": self.command, "plan": self.plan, "input": self.raw}
        found |= {f"change-{number}": view for number, view in enumerate(self.diffs, 1)}
        found |= {f"detail-{number}": view for number, (_, view) in enumerate(self.details, 1)}
        return found.get(name)


def text_view(text: str, is_prose: bool = False) -> TextView:
    """A text with its beginning and end in sight."""
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
    """A diff with its first and last rows in sight."""
    rows = exact_diff_rows(diff)
    nothing = rows[:0]
    end = rows[-_LAST_IN_SIGHT:] if len(rows) > _LAST_ROWS else nothing
    rows = rows[: len(rows) - len(end)]
    if len(rows) <= _ROWS:
        return DiffView(title, rows, nothing, nothing, end)
    first = _ROWS - _LAST_ROWS
    return DiffView(title, rows[:first], rows[first:-_LAST_ROWS], rows[-_LAST_ROWS:], end)


def approval_view(request: PermissionRequest) -> ApprovalView:
    """All of a request."""
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
    """Changes of the files on disk; where these do not show all of it, the change as the model wrote it, too."""
    files = request.files
    for file in files:
        if file.diff is not None and any(count_changes(file.diff)):
            yield "", file.diff
    if request.action.diff and (not files or any(file.diff is None or not file.applies for file in files)):
        yield "" if all(file.applies for file in files) else "The change as the model wrote it", request.action.diff


def _whole(texts: list[str]) -> list[str]:
    """Texts without those that others contain: agents repeat a command in several fields, and it is counted once."""
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
    found = [finding.text for finding in (*findings_in(*_whole(code)), *findings_in(*_whole(prose), prose=True))]
    files = [f"{exact_text(file.path)}: {exact_text(each)}" for file in request.files for each in file.warnings]
    return [*files, *(f"Contains {each}." for each in found)]
