"""Reconstructs what a call would have done. The readers know the tools; this module shows changes and questions."""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ..io.decode import decode_any
from . import model as m
from . import typed_json
from .notebook_cells import CellMode

_SLOW_AT = 4_000
"""Number of lines above which a minimal diff takes too long; a plain replacement is shown instead."""
_LONGEST_PATH = 1_000
_CONTEXT = 3
_HUNK = re.compile(r"\A@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def input_of(raw: msgspec.Raw) -> dict[str, Any]:
    """Return the input of a call as a dict; empty if it is not an object."""
    given = decode_any(raw)
    return given if isinstance(given, dict) else {}


def text_in(given: dict[str, Any], *keys: str) -> str | None:
    """Return the first of some fields that contains text."""
    return next((value for key in keys if isinstance(value := given.get(key), str)), None)


class Subject(msgspec.Struct):
    """The fields of a call that name what it is about; the others are not even decoded."""

    command: Any = None
    file_path: Any = None
    notebook_path: Any = None
    path: Any = None


_subject = typed_json.decoder(Subject)


def subject_in(raw: msgspec.Raw) -> Subject | None:
    """Return the subject of a call; None if its input is not a valid object."""
    try:
        return _subject.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def first_text(*values: object) -> str | None:
    """The first of some values that is text."""
    for value in values:
        if isinstance(value, str):
            return value
    return None


class PathsIn:
    """Finds the files that a call is about in its input, without decoding all of it."""

    def __init__(self, *keys: str, patches: bool = False) -> None:
        """`keys` are the fields with paths; all of them end with the same word."""
        (sign,) = {f'{key.rpartition("_")[2]}"' for key in keys}
        self._signs: tuple[bytes, ...] = (sign.encode(),)
        if patches:
            self._signs += (b" File: ",)
        patch = rb"|\*\*\* (?:Add|Update|Delete) File: ([^\\\n\"]+)" if patches else b""
        # A pattern that begins with a word is found much faster than one that begins with a quotation mark.
        names = "|".join(f'(?<="{key}")' for key in keys)
        pattern = rf'{sign}(?:{names})\s*:\s*("(?:[^"\\]|\\.)*")'
        self._pattern = re.compile(pattern.encode() + patch)

    def __call__(self, raw: msgspec.Raw) -> list[str]:
        """The paths, each once."""
        data = bytes(raw)
        # Most calls have none, and searching for bytes is much faster than searching for a pattern.
        for sign in self._signs:
            if sign in data:
                return self._search(data)
        return []

    def _search(self, data: bytes) -> list[str]:
        found: dict[str, None] = {}
        for match in self._pattern.finditer(data):
            path = decode_any(match[1]) if match[1] else match[match.lastindex or 0].decode("utf-8", "replace")
            if isinstance(path, str) and path.strip():
                found[path.strip()[:_LONGEST_PATH]] = None
        return list(found)


def questions_in(given: dict[str, Any]) -> list[m.Question]:
    """Questions with the options a person was to choose from."""
    return [_question(item) for item in _items(given.get("questions")) if isinstance(item, dict)]


def _question(item: dict[str, Any]) -> m.Question:
    options = [
        text_in(option, "label") or "" if isinstance(option, dict) else str(option)
        for option in _items(item.get("options"))
    ]
    return m.Question(text_in(item, "question") or "", options)


def tasks_in(given: dict[str, Any], *keys: str) -> list[m.Task]:
    """The items of a list of tasks, each with its text in one of some fields."""
    items = [item for item in _items(given.get("todos", given.get("plan"))) if isinstance(item, dict)]
    return [m.Task(text_in(item, *keys) or "", text_in(item, "status") or "") for item in items]


def json_answers(questions: list[m.Question], keys: Iterable[str], text: str) -> dict[str, str]:
    """The answers in a result that is JSON and has them under the keys of the questions."""
    given = decode_any(text)
    answers = given.get("answers") if isinstance(given, dict) else None
    if not isinstance(answers, dict):
        return {}
    found = ((question.question, _answer(answers.get(key))) for question, key in zip(questions, keys, strict=False))
    return {question: answer for question, answer in found if answer}


def _answer(given: object) -> str:
    if isinstance(given, dict):
        given = given.get("answers")
    return ", ".join(map(str, given)) if isinstance(given, list) else given if isinstance(given, str) else ""


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def replacement_diff(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Unified diff of one or more replacements in a file if only the replaced parts are known.

    The line numbers are therefore those within each part.
    """
    lines = [f"--- {path}\n", f"+++ {path}\n"]
    for old, new in pairs:
        lines += _hunks(lines_of(old), lines_of(new))
    return joined(lines)


class Replacement(msgspec.Struct, frozen=True):
    """A text that replaces another."""

    old: str
    new: str
    everywhere: bool = False
    """Whether it replaces every occurrence; otherwise there has to be exactly one."""


class CellEdit(msgspec.Struct, frozen=True):
    """A change of a notebook."""

    cell: str | None
    """The id of the cell; None for the beginning of the notebook."""
    mode: CellMode
    source: str


class ProposedEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would do to one file: write it, replace parts of it, or change a cell of a notebook."""

    path: str
    content: str | None = None
    assumed: str | None = None
    """The content that the agent has read, if `content` was made from it."""
    replacements: tuple[Replacement, ...] = ()
    cell: CellEdit | None = None


def file_diff(path: str, before: str | None, after: str) -> str:
    """Unified diff between a file on disk and what it would become, with the line numbers of the file."""
    old, new = lines_of(before or ""), lines_of(after)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    first = max(0, start - _CONTEXT)
    old, new = (part[first : max(first, len(part) - max(0, end - _CONTEXT))] for part in (old, new))
    hunks = [_HUNK.sub(lambda found: _moved(found, first), line) for line in _hunks(old, new)]
    name = "/dev/null" if before is None else f"{path} (on disk)"
    return joined([f"--- {name}\n", f"+++ {path} (after the change)\n", *hunks])


def _common(old: list[str], new: list[str]) -> int:
    """The number of lines at the beginning that are the same."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))


def _moved(found: re.Match[str], lines: int) -> str:
    """Return the header of a hunk, moved down by some lines."""
    return f"@@ -{int(found[1]) + lines}{found[2] or ''} +{int(found[3]) + lines}{found[4] or ''} @@"


def creation_diff(path: str, content: str) -> str:
    """Unified diff of a file that would have been written; what the file contained before is not in the log."""
    new = lines_of(content)
    return joined(["--- /dev/null\n", f"+++ {path}\n", f"@@ -0,0 +1,{len(new)} @@\n", *("+" + line for line in new)])


def _hunks(old: list[str], new: list[str]) -> list[str]:
    if len(old) + len(new) > _SLOW_AT:
        head = f"@@ -1,{len(old)} +1,{len(new)} @@\n"
        return [head, *("-" + line for line in old), *("+" + line for line in new)]
    return list(difflib.unified_diff(old, new))[2:]


def lines_of(text: str) -> list[str]:
    """Split a text into lines with their ends. Only LF ends a line."""
    return list(io.StringIO(text, newline="\n"))


def joined(lines: Iterable[str]) -> str:
    """Join the lines of a diff, and mark a missing newline at the end of a file, as diff does."""
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
