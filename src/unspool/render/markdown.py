"""Renders a session as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..core.annotations import Annotation
from ..core.session import Session
from ..core.views import Branches
from .outcome_text import MARKS, SAVED, outcome_of, outcome_text
from .safe_markup import safe_lines
from .sanitize import fence, harmless, local, one_line, pretty
from .transcript import CallView, Describe, Entry, Transcript

_HEADING = re.compile(r"^#{1,6}\s+")
"""The prefix of a title that is already a heading."""


def render_markdown(
    session: Session, describe: Describe, branches: Branches = "all", notice: str = ""
) -> Iterator[str]:
    """Yield the lines of the document without newlines. `notice` is shown at the top."""
    yield from _head(session)
    if notice:
        yield f"> {_inline(notice, len(notice))}"
        yield ""
    yield from _annotations(session.annotations)
    for entry in Transcript(session, describe, branches).entries():
        yield from _entry(entry)


def _head(session: Session) -> Iterator[str]:
    info = session.info
    yield f"# {_inline(_HEADING.sub('', info.title or info.id))}"
    yield ""
    facts = {
        "Agent": _inline(f"{info.agent} {', '.join(info.versions)}"),
        "Session": _code(info.id),
        "Project": _code(info.project.path or info.project.name) if info.project else "",
        "Model": _inline(", ".join(info.models)),
        "Time": f"{local(info.started_at)} – {local(info.ended_at)}" if info.started_at else "",
        "Began": info.origin.kind if info.origin.kind != "new" else "",
        "Status": info.status,
    }
    for name, value in facts.items():
        if value:
            yield f"- **{name}:** {value}"
    yield ""


def _annotations(annotations: Sequence[Annotation]) -> Iterator[str]:
    if not annotations:
        return
    yield "## Pins, notes and tags"
    yield ""
    for one in annotations:
        position = f" at #{one.message_index}" if one.message_index is not None else ""
        yield f"- **{one.kind}{position}** {_inline(one.text, len(one.text))}".rstrip()
    yield ""


def _entry(entry: Entry) -> Iterator[str]:
    mark = f" · branch {entry.branch}" if entry.branch else ""
    when = f" · {local(entry.timestamp)}" if entry.timestamp else ""
    if entry.kind == "prompt":
        kind = f" ({_inline(entry.label)})" if entry.label else ""
        yield f"## You{kind}{when}{mark}"
        yield ""
        yield from (f"> {line}".rstrip() for line in safe_lines(harmless(entry.text)))
    elif entry.kind == "answer":
        yield f"### {_inline(entry.model or 'Model')}{mark}"
        yield ""
        yield from safe_lines(harmless(entry.text))
    elif entry.kind == "thinking":
        yield from (f"> *{_inline(line, len(line))}*" if line.strip() else ">" for line in entry.text.splitlines())
    elif entry.kind == "call" and entry.call is not None:
        yield from _call(entry.call)
    elif entry.kind == "note":
        yield f"*[{_inline(entry.label)}]* {_inline(entry.text, 200)}".rstrip()
    elif entry.kind == "image":
        yield f"*[image: {_inline(entry.label)}]*"
    elif entry.kind == "compaction":
        yield from _band(entry.label)
        if entry.text:
            yield ""
            yield from fenced(entry.text)
    elif entry.kind in ("error", "problem"):
        yield f"**{_inline(entry.label)}:** {_inline(entry.text, 400)}"
    else:
        yield from _band(entry.label)
    yield ""


def _band(label: str) -> Iterator[str]:
    yield f"**— {_inline(label, 400)} —**"


def _call(call: CallView) -> Iterator[str]:
    mark = MARKS[outcome_of(call)]
    target = f" {_code(call.target, 120)}" if call.target else ""
    yield f"**{_inline(call.name)}**{target} — {mark} {_inline(outcome_text(call), 4000)}"
    yield ""
    if call.action.diff:
        yield from fenced(call.action.diff, "diff")
    elif call.action.plan:
        yield from fenced(call.action.plan, "markdown")
    elif not call.action.command or "\n" in call.action.command:
        yield from fenced(pretty(call.action.raw_input), "json")
    if call.result is not None and call.result.content:
        yield ""
        yield from fenced(call.result.whole)
        if call.result.saved is not None:
            yield ""
            yield f"*{SAVED}*"


def _inline(text: str, width: int = 200) -> str:
    """Return a text on one line, without HTML."""
    return one_line(text, width).replace("<", "\\<")


def _code(text: str, width: int = 400) -> str:
    return f"`{one_line(text, width).replace('`', 'ʼ')}`"


def fenced(text: str, language: str = "") -> Iterator[str]:
    """Yield a text unchanged, between fences that are longer than those in it."""
    text = harmless(text).rstrip("\n")
    mark = fence(text)
    yield mark + language
    yield text
    yield mark
