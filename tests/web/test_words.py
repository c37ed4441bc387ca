"""The words that pages and scripts show: one word for each event and state, as the vocabulary lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from unspool.core import model as m
from unspool.core.events import EVENT_KINDS
from unspool.web.templating import HERE

RETIRED = (
    r"ledgers?", r"refus\w+", r"never finished", r"go(?:es)? on", r"went on", r"going on", r"anew", r"time line",
    r"makes no sense", r"run out", r"no longer there", r"waited for", r"looked for", r"begin so",
    r"one after the other", r"active line", r"made up", r"told", r"somebody", r"whoever",
    r"torch", r"calmly", r"whisper",
)  # fmt: skip
"""Words that readers stumbled over; the vocabulary has another one for each of them."""
FILES = sorted(
    [*(HERE / "templates").glob("*.html"), *(HERE / "static").glob("*.js"), *(HERE / "static").glob("*.css")]
)
ROOT = HERE.parents[2]
SOURCE = HERE.parent
VOCABULARY = ROOT / "docs" / "vocabulary.md"
TEXTS = sorted(
    [
        *HERE.rglob("*.py"),
        *(SOURCE / "render").glob("*.py"),
        *(SOURCE / "core" / name for name in ("events.py", "problems.py")),
    ]
)
"""Modules with texts that pages show."""
NO_PAGES = ("openapi.py", "failure_groups.py", "openapi_ui.py")
"""Modules whose texts are for programs, or patterns that are compared with output of tools."""

STATE_LIKE = re.compile(
    r"\w+(?:ed|ing|tion|sion)|\w*(?:gone|lost|dead|idle|live|orphan|wound|broken|stale|alive|pending)\w*"
)
"""What words for events and states look like."""
ORDINARY = frozenset(
    """
    accepted action added anything asking attached authorization based beginning being blocked called charged
    checked closed coding compressed connection conversation copying counted created deleted description
    direction disabled during edited escaped everything exception excluding expression following grouped holding
    interrupting listed loaded loading logged logging looked looking making malformed marked measured missed missing
    modified need needed nested nothing notification opening option permission planning printed protected question
    quoted reached reading reconnecting recorded red removed replaced restored section sending separated session
    showing something sorted started steering stored streaming string subscription thinking timed tried
    unchanged unexpected used version waited
    """.split()  # noqa: SIM905 - a list of so many words is shorter as one text
)
"""Words of the same form that are neither: what a reader or the page does, and things."""


# --- what is shown ---------------------------------------------------------------------------------------------------

_EXPRESSION = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_SHOWN_ATTRIBUTE = re.compile(r'\b(?:title|aria-label|aria-description|placeholder|alt|label)="([^"]*)"')
_SCRIPT_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|`((?:[^`\\]|\\.)*)`')


def in_template(text: str) -> Iterator[str]:
    """Text between tags, attributes that are shown, and texts in expressions."""
    text = re.sub(r"\{#.*?#\}", " ", text, flags=re.DOTALL)
    for expression in _EXPRESSION.findall(text):
        yield from (found for found in re.findall(r'"([^"]*)"', expression) if " " in found)
    text = _EXPRESSION.sub(" ", text)
    yield from _SHOWN_ATTRIBUTE.findall(text)
    yield re.sub(r"<[^>]*>", " ", text)


def in_script(text: str) -> Iterator[str]:
    """Strings of several words; single words are names."""
    text = re.sub(r"/\*.*?\*/|(?<=\s)//[^\n]*", " ", text, flags=re.DOTALL)
    # A list of names.
    text = re.sub(r'"[a-z_. ]*"\s*\)?\s*\.split\(', " ", text)
    strings = ("".join(groups) for groups in _SCRIPT_STRING.findall(text))
    return (re.sub(r"\$\{[^}]*\}", " ", found) for found in strings if " " in found)


def in_module(text: str) -> Iterator[str]:
    """Strings of several words that are not docstrings."""
    tree = ast.parse(text)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            # Markup that is made in code has names of classes.
            shown = re.sub(r"<[^>]*>", " ", node.value)
            if " " in shown.strip():
                yield shown


READERS = {".html": in_template, ".js": in_script, ".py": in_module}


def shown_words(path: Path) -> set[str]:
    """The words that a file shows."""
    texts = READERS[path.suffix](path.read_text(encoding="utf-8"))
    # A list of names, such as those of events of a stream, is for the program.
    plain = (text for text in texts if not re.fullmatch(r"[\w.\s]+", text) or "." not in text.strip(". \n"))
    return {word.lower() for text in plain for word in re.findall(r"(?<![\w.#/-])[A-Za-z][a-z]+(?![\w.(=/-])", text)}


def terms() -> set[str]:
    """The words of the first column of the tables in the vocabulary."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", VOCABULARY.read_text(encoding="utf-8"), re.MULTILINE)
    return {word.lower() for row in rows for word in re.findall(r"[\w-]+", row)}


SHOWN = [path for path in (*FILES, *TEXTS) if path.suffix in READERS and path.name not in NO_PAGES]


# --- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_retired_words_are_gone(path: Path) -> None:
    """In what is shown, in names and in comments."""
    text = path.read_text(encoding="utf-8")
    found = [match[0] for word in RETIRED for match in re.finditer(rf"(?<![\w-]){word}(?![\w-])", text, re.IGNORECASE)]
    assert found == []


def test_every_word_for_an_event_or_a_state_is_in_the_vocabulary() -> None:
    """In everything that pages show. A new word is either added there, or it is not for an event or a state."""
    known = terms() | ORDINARY
    found = {
        path.name: unknown
        for path in SHOWN
        if (unknown := {word for word in shown_words(path) if STATE_LIKE.fullmatch(word)} - known)
    }
    assert found == {}


def test_the_words_of_the_record_are_in_the_vocabulary() -> None:
    """Pages show its states and events by these names."""
    values = [
        value
        for type in (m.Status, m.AgentStatus, m.OrphanReason, m.ContextState, m.Outcome)
        for value in get_args(type)
    ]
    names = [kind.look.badge or kind.noun.split(" ", 1)[1] for kind in EVENT_KINDS if kind.look.badge]
    shown_otherwise = {"tool_use_error", "unknown"}
    assert {word for word in (*values, *names) if word not in shown_otherwise} - terms() == set()


def test_the_reader_of_texts_finds_them() -> None:
    """A test that reads nothing would find nothing."""
    assert {path.suffix for path in FILES} == {".html", ".js", ".css"}
    assert len(FILES) > 40
    assert "orphaned" in "".join(in_template('<p title="all orphaned calls">{{ x }}</p>'))
    assert next(iter(in_template('{% if x %}{{ "two aborted calls" }}{% endif %}'))) == "two aborted calls"
    assert list(in_script("say(`Aborted by ${name}`); // aborted here")) == ["Aborted by  "]
    assert list(in_module('"""Aborted here."""\ndef f():\n    return f"aborted by {who}"')) == ["aborted by "]
    assert {"rejected", "allowed", "running"} <= {word for path in SHOWN for word in shown_words(path)}
    assert STATE_LIKE.fullmatch("aborted")
    assert not {"aborted", "refused", "declined", "orphaned", "errored"} & (terms() | ORDINARY)
