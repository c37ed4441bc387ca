"""Formats an agent's request for the terminal, before a person decides: complete, with every character visible."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ...render.exact import exact_line, exact_text, findings_in, without_tabs
from ...render.excerpt import excerpt
from ...render.sanitize import local
from .options import is_terminal

DIGEST_SHOWN = 12
"""The number of characters of the digest that are shown, and that an answer must repeat."""
_SUMMARY = 160
_HEADINGS = {
    "command": "wants to run a command", "edit": "wants to change files", "tool": "wants to use a tool",
    "plan": "has a plan to approve", "question": "asks a question", "permission": "asks for a permission",
}  # fmt: skip
_MARGIN = "  │ "
_CONTINUED = "  ┆ "
"""Each line of a request has a margin, so that none can imitate output of unspool. This one marks the rest of a line
that does not fit."""
_NARROWEST = 20

Json = dict[str, Any]


class Part(NamedTuple):
    """A text of a request, with its name."""

    name: str
    text: str
    is_prose: bool = False
    is_warning: bool = False


def request_name(open_request: Json) -> str:
    """Return the name that identifies a request in answers: its id and the beginning of its digest."""
    return f"{exact_text(open_request['asked']['id'])}:{open_request['digest'][:DIGEST_SHOWN]}"


def request_summary(request: Json) -> str:
    """Summarise a request in one line, with its beginning and its end."""
    action, choices = request["action"], request["choices"]
    text = action.get("command") or (choices[0]["question"] if choices else "") or action.get("path")
    head, middle, tail = excerpt(text or request["title"], lines=_SUMMARY, characters=_SUMMARY)
    between = f" … {len(middle):,} characters more … " if middle else ""
    return f"{exact_line(request['tool'])}: {exact_line(head)}{between}{exact_line(tail)}"


def request_lines(run: Json, open_request: Json) -> Iterator[str]:
    """Yield a complete request, in lines that fit the terminal."""
    request = open_request["asked"]
    heading = _HEADINGS.get(request["kind"], "asks")
    yield f"{exact_text(run['agent'])} {heading} (run {run['id']}, request {request_name(open_request)})"
    parts = [Part("folder", run["folder"]), *_parts(request)]
    for part in parts:
        yield from _lines_of(part)
    if open_request["deadline"]:
        yield f"Denied at {local(datetime.fromisoformat(open_request['deadline']))} if nobody answers"
    yield from _warnings(parts)


def warning_lines(request: Json) -> list[str]:
    """Return warnings about characters in a request."""
    return _warnings(list(_parts(request)))


def _warnings(parts: list[Part]) -> list[str]:
    prose = [part.text for part in parts if part.is_prose]
    other = [part.text for part in parts if not part.is_prose]
    found = findings_in(*other) + findings_in(*prose, prose=True)
    return [f"⚠ {finding.text}" for finding in found]


# --- the parts of a request ------------------------------------------------------------------------------------------


def _parts(request: Json) -> Iterator[Part]:
    yield Part("tool", request["tool"])
    for name in ("subagent", "reason"):
        if request[name]:
            yield Part(name, request[name], is_prose=True)
    yield from _subject(request)
    for detail in request["details"]:
        yield Part(detail["name"], detail["value"])
    if request["session_rule"]:
        yield Part("allowed for the session", request["session_rule"], is_prose=True)


def _subject(request: Json) -> Iterator[Part]:
    """Yield the requested action: the change to each file, the command, the plan or the questions."""
    action, files, choices = request["action"], request["files"], request["choices"]
    for file in files:
        yield Part("file", file["path"])
        if file["diff"]:
            yield Part("change", file["diff"].removesuffix("\n"))
        for text in file["warnings"]:
            yield Part("warning", text, is_prose=True, is_warning=True)
    for name, key in (("change", "diff"), ("command", "command"), ("plan", "plan")):
        # The change as the model described it, unless the change to each file on disk is known.
        is_known = key == "diff" and files and all(file["diff"] and file["applies"] for file in files)
        if action.get(key) and not is_known:
            # The last line of a diff ends with a newline that is not part of the change.
            text = action[key].removesuffix("\n") if key == "diff" else action[key]
            yield Part(name, text, is_prose=key == "plan")
    for number, choice in enumerate(choices, 1):
        yield from _question(number, choice)
    if not (action.get("diff") or action.get("command") or action.get("plan") or choices):
        yield Part("asks for", request["title"])
        if not request["details"]:
            yield Part("input", msgspec.json.encode(action["input"]).decode())


def _question(number: int, choice: Json) -> Iterator[Part]:
    several = ", several answers are possible" if choice["multiple"] else ""
    header = f"{choice['header']}: " if choice["header"] else ""
    yield Part(f"question {number}{several}", header + choice["question"], is_prose=True)
    for index, option in enumerate(choice["options"], 1):
        description = f": {option['description']}" if option["description"] else ""
        yield Part(f"  {index}", option["label"] + description, is_prose=True)


# --- lines -----------------------------------------------------------------------------------------------------------


def _lines_of(part: Part) -> Iterator[str]:
    """Yield the lines of a part: a short text next to its name, a longer one below it."""
    name = exact_text(part.name)
    shown = without_tabs(exact_text(part.text, prose=part.is_prose))
    if part.is_warning:
        yield from _wrapped(f"⚠ {shown}")
    elif "\n" not in shown and part.name not in ("command", "change", "plan"):
        yield from _wrapped(f"{name}: {shown}")
    else:
        yield from _wrapped(f"{name}:")
        for line in shown.split("\n"):
            yield from _wrapped(f"    {line}")


def _wrapped(line: str) -> Iterator[str]:
    """Yield a line with a margin, wrapped to the terminal, which would otherwise continue it without a margin."""
    pieces = [line]
    if is_terminal():
        from rich.cells import chop_cells

        pieces = chop_cells(line, max(_NARROWEST, shutil.get_terminal_size().columns - len(_MARGIN))) or [""]
    yield _MARGIN + pieces[0]
    yield from (_CONTINUED + piece for piece in pieces[1:])
