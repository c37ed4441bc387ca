"""Claude Code's tools: what a call does, or would have done if it had not been rejected."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...core import model as m
from ...core.notebook_cells import LANGUAGE, CellMode, NotebookCell, cell_kind, cells_in, is_notebook
from ...core.proposed_actions import (
    CellEdit,
    PathsIn,
    ProposedEdit,
    Replacement,
    creation_diff,
    first_text,
    input_of,
    questions_in,
    replacement_diff,
    subject_in,
    tasks_in,
    text_in,
)
from ...io.decode import decode_any

SUBAGENT_TOOLS = frozenset(("Task", "Agent"))
PLAN_TOOL = "ExitPlanMode"
ASKING_TOOLS = frozenset((PLAN_TOOL, "AskUserQuestion"))
"""Tools that only ask, so they can be rejected but not interrupted."""
_EDITS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit", "Update"))
_CELL_MODES: dict[str, CellMode] = {"insert": "insert", "delete": "delete"}
MARKDOWN_TOOLS = SUBAGENT_TOOLS | {"WebFetch", "WebSearch"}
"""Tools whose results are Markdown."""
_LINKS = re.compile(r"^Links: (\[\{.*\}\])$", re.MULTILINE)
_SHELLS = frozenset(("Bash", "PowerShell"))
_CELL = re.compile(
    r"""<cell\ id="(?P<id>[^"\n]*)">(?:<cell_type>(?P<kind>\w+)</cell_type>)?
    (?:<language>(?P<language>[^<\n]*)</language>)?(?P<source>.*?)</cell\ id="(?P=id)">""",
    re.DOTALL | re.VERBOSE,
)
_MARKS = re.compile(r"[\[\]<>\\\s]+")
"""Characters that would end a Markdown link."""
_ANSWERED = "(?:Your questions have been answered|User has answered your questions|The user answered)"
_AFTER_ANSWERS = r"\. (?:You can now continue|Read the answers)[^\n]*"


def action_of(name: str, raw: msgspec.Raw) -> tuple[m.RejectionType, m.Action]:
    """The kind of a call if it is rejected, and its action, reconstructed from the input."""
    action = m.Action(raw)
    given = input_of(raw)
    if name in _EDITS:
        action.path = text_in(given, "file_path", "notebook_path")
        action.diff = _rebuilt(name, action.path or "?", given)
        return "edit", action
    if name in _SHELLS:
        action.command = text_in(given, "command")
        return "command", action
    if name == PLAN_TOOL:
        action.plan = text_in(given, "plan")
        return "plan", action
    if name == "AskUserQuestion":
        action.questions = questions_in(given)
        return "option", action
    if name == "TodoWrite":
        action.tasks = tasks_in(given, "content")
    action.path = text_in(given, "file_path", "path")
    return ("permission" if given else "other"), action


def subject_of(name: str, raw: msgspec.Raw) -> tuple[str | None, str | None]:
    """The command and the path of an action, without building the rest of it."""
    given = subject_in(raw)
    if given is None:
        action = action_of(name, raw)[1]
        return action.command, action.path
    if name in _EDITS:
        return None, first_text(given.file_path, given.notebook_path)
    if name in _SHELLS:
        return first_text(given.command), None
    return None, None if name in ASKING_TOOLS else first_text(given.file_path, given.path)


def _rebuilt(name: str, path: str, given: dict[str, Any]) -> str:
    if name == "Write":
        return creation_diff(path, text_in(given, "content") or "")
    if name == "NotebookEdit":
        return replacement_diff(path, [("", text_in(given, "new_source") or "")])
    pairs = [(text_in(edit, "old_string") or "", text_in(edit, "new_string") or "") for edit in _edits_in(name, given)]
    return replacement_diff(path, pairs)


def _edits_in(name: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    several = given.get("edits") if name == "MultiEdit" or "old_string" not in given else None
    return [edit for edit in several if isinstance(edit, dict)] if isinstance(several, list) else [given]


def answers_in(questions: list[m.Question], text: str) -> dict[str, str]:
    """The answers in the result of a question; empty if the text has anything else, such as notes about an answer."""
    pairs = ", ".join(f'"{re.escape(question.question)}"="(.*?)"' for question in questions)
    found = re.fullmatch(f"{_ANSWERED}: {pairs}{_AFTER_ANSWERS}", text, re.DOTALL) if questions else None
    return dict(zip((question.question for question in questions), found.groups(), strict=True)) if found else {}


def with_links(text: str) -> str:
    """The result of a web search, which has its links as JSON, with a list of links instead."""
    return _LINKS.sub(_link_list, text, count=20)


def _link_list(found: re.Match[str]) -> str:
    links = decode_any(found[1])
    given = [link for link in links if isinstance(link, dict)] if isinstance(links, list) else []
    pairs = [(text_in(link, "title") or "", text_in(link, "url") or "") for link in given]
    lines = [f"- [{_MARKS.sub(' ', title) or url}](<{_MARKS.sub('', url)}>)" for title, url in pairs if url]
    return "\n".join(lines) or found[0]


def edits_of(name: str, raw: msgspec.Raw) -> list[ProposedEdit]:
    """The changes that a call would make to a file."""
    given = input_of(raw)
    path = text_in(given, "file_path", "notebook_path")
    if name not in _EDITS or path is None:
        return []
    if name == "Write":
        return [ProposedEdit(path=path, content=text_in(given, "content") or "")]
    if name == "NotebookEdit":
        cell = CellEdit(
            text_in(given, "cell_id"),
            _CELL_MODES.get(str(given.get("edit_mode")), "replace"),
            text_in(given, "new_source") or "",
        )
        return [ProposedEdit(path=path, cell=cell)]
    replacements = tuple(
        Replacement(
            text_in(edit, "old_string") or "", text_in(edit, "new_string") or "", edit.get("replace_all") is True
        )
        for edit in _edits_in(name, given)
    )
    return [ProposedEdit(path=path, replacements=replacements)]


def cells_written(name: str, raw: msgspec.Raw) -> list[NotebookCell]:
    """The cells that a call writes: one of a notebook, or all of a new one."""
    if name not in ("NotebookEdit", "Write"):
        return []
    given = input_of(raw)
    if name == "Write":
        return cells_in(text_in(given, "content") or "") if is_notebook(text_in(given, "file_path")) else []
    return [
        NotebookCell(
            kind=cell_kind(given.get("cell_type")),
            source=text_in(given, "new_source") or "",
            id=text_in(given, "cell_id"),
            mode=_CELL_MODES.get(str(given.get("edit_mode")), "replace"),
        )
    ]


def cells_shown(text: str) -> list[NotebookCell]:
    """The cells of a notebook as `Read` shows it: each in a tag, followed by its output."""
    found = list(_CELL.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    if not found or text[: found[0].start()].strip():
        return []
    return [
        NotebookCell(
            kind=cell_kind(match["kind"]),
            source=match["source"],
            id=match["id"],
            language=match["language"] or LANGUAGE,
            outputs=text[match.end() : end].strip("\n"),
        )
        for match, end in zip(found, ends, strict=True)
    ]


paths_in = PathsIn("file_path", "notebook_path", "path")
