"""Renders a session for a terminal, in colour if supported, with marks for events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from ..core.decisions import RecordedDecision
from ..core.events import BY_NAME
from ..core.session import Session
from ..core.views import Branches
from .outcome_text import MARKS, SAVED, outcome_of, outcome_text
from .plain_text import plain_line
from .receipts import receipt_lines
from .sanitize import harmless, local, one_line
from .transcript import CallView, Describe, Entry, Transcript, folded

_COLOURS = {
    "ok": "green", "error": "red", "tool_use_error": "red", "rejected": "yellow", "interrupted": "red",
    "unknown": "magenta",
}  # fmt: skip
_STYLES = {"": "blue", "accent": "blue", "warn": "yellow", "bad": "red"}
"""The colour of each tone."""
_OUTPUT_LINES = 12


class _TerminalStyle(NamedTuple):
    full: bool
    plain: bool

    def prose(self, text: str) -> RenderableType:
        """Return rendered Markdown, or the plain text."""
        return Text(harmless(text)) if self.plain else _markdown(text)

    def diff(self, text: str) -> RenderableType:
        """Return a diff in colour, or the plain text."""
        text = harmless(text) if self.full else _cut(text)
        return Text(text) if self.plain else Syntax(text, "diff", background_color="default", word_wrap=True)

    def band(self, label: str, style: str, line: str = "─") -> RenderableType:
        """Return a rule over the whole width with a label."""
        text = Text(harmless(label))
        return Text.assemble("— ", text, " —") if self.plain else Rule(text, style=style, characters=line)


def render_terminal(
    session: Session,
    describe: Describe,
    branches: Branches = "all",
    *,
    full: bool = False,
    plain: bool = False,
    decisions: Iterable[RecordedDecision] = (),
) -> Iterator[RenderableType]:
    """Yield what to print, piece by piece. `full` shows complete outputs; `plain` draws no lines and boxes."""
    yield _head(session)
    look = _TerminalStyle(full, plain)
    entries = Transcript(session, describe, branches, decisions=decisions).entries()
    for entry in entries if full else folded(entries):
        piece = _entry(entry, look)
        if piece is None:
            continue
        dim = entry.branch != 0 or entry.context != "live"
        yield Padding(piece, (0, 0, 1, 2 if entry.branch else 0), style="dim" if dim else "")


def _head(session: Session) -> RenderableType:
    info = session.info
    lines = [Text(plain_line(info.title or info.id), style="bold")]
    facts = [info.agent, *info.versions[-1:], info.project.name if info.project else "", *info.models]
    lines.append(Text(harmless(" · ".join(fact for fact in facts if fact)), style="dim"))
    lines.append(
        Text(f"{harmless(info.id)} · {local(info.started_at)} – {local(info.ended_at)} · {info.status}", style="dim")
    )
    lines.append(Text(harmless(f"tip: {info.tip_rule}"), style="dim"))
    return Padding(Group(*lines), (0, 0, 1, 0))


def _entry(entry: Entry, look: _TerminalStyle) -> RenderableType | None:
    full = look.full
    if entry.kind == "prompt":
        label = f" {harmless(entry.label)}" if entry.label else ""
        head = Text.assemble(("▌ ", "bold cyan"), (f"you{label}", "bold cyan"), _stamp(entry))
        return Group(head, Padding(Text(harmless(entry.text)), (0, 0, 0, 2)))
    if entry.kind == "answer":
        head = Text.assemble((harmless(entry.model or "model"), "bold"), _stamp(entry))
        return Group(head, look.prose(entry.text))
    if entry.kind == "thinking":
        text = harmless(entry.text) if full else one_line(entry.text)
        return Text(f"✻ {text}", style="dim italic")
    if entry.kind == "call" and entry.call is not None:
        return _call(entry.call, look)
    if entry.kind == "note":
        text = harmless(entry.text) if full else one_line(entry.text)
        return Text(f"· {harmless(entry.label)}" + (f": {text}" if text else ""), style="dim")
    if entry.kind == "notes":
        return Text(f"· {one_line(entry.label, 200)}", style="dim")
    if entry.kind == "image":
        return Text(f"[image {harmless(entry.label)}]", style="dim")
    if entry.kind == "compaction":
        parts: list[RenderableType] = [look.band(entry.label, "blue")]
        if entry.text:
            parts.append(Text(harmless(entry.text) if full else one_line(entry.text, 300), style="blue"))
        return Group(*parts)
    if entry.kind in ("error", "problem"):
        style = "red" if entry.kind == "error" else "yellow"
        return Text(f"! {harmless(entry.label)}: {one_line(entry.text, 300)}", style=style)
    if entry.kind == "fork":
        return look.band(f"↶ {entry.label}", "magenta", "╌")
    event = BY_NAME[entry.kind].look
    return look.band(f"{event.terminal_sign or event.sign} {entry.label}", _STYLES[event.tone], "╌")


def _stamp(entry: Entry) -> tuple[str, str]:
    return (f"  #{entry.index} {local(entry.timestamp)}", "dim")


def _call(call: CallView, look: _TerminalStyle) -> RenderableType:
    full = look.full
    outcome = outcome_of(call)
    colour = _COLOURS[outcome]
    target = one_line(call.target or "", 90)
    head = Text.assemble(
        ("▸ ", "dim"),
        (harmless(call.name), "bold"),
        ("  " + target if target else ""),
        "  ",
        (f"{MARKS[outcome]} {harmless(outcome_text(call))}", colour),
    )
    parts: list[RenderableType] = [head]
    if call.subagent is not None:
        agent = call.subagent
        label = f"  sub-agent {agent.agent_id or '?'} · {agent.status} · {agent.session or 'no file'}"
        parts.append(Text(harmless(label), "dim"))
    if call.receipt is not None:
        parts += [Text(f"  {line.step:<8} {line.text}", "dim") for line in receipt_lines(call.receipt)]
    if call.action.diff and (full or outcome in ("rejected", "ok")):
        parts.append(Padding(look.diff(call.action.diff), (0, 0, 0, 2)))
    if call.result is not None and call.result.content and (full or outcome != "rejected"):
        text = harmless(call.result.whole) if full else _cut(call.result.whole)
        parts.append(Padding(Text(text, style="dim"), (0, 0, 0, 2)))
        if call.result.saved is not None:
            parts.append(Padding(Text(SAVED, style="yellow"), (0, 0, 0, 2)))
    return Group(*parts)


def _markdown(text: str) -> Markdown:
    made = Markdown(harmless(text))
    # Markdown can contain control characters as numeric entities.
    for token in made.parsed:
        for part in (token, *(token.children or ())):
            part.content = harmless(part.content)
    return made


def _cut(text: str) -> str:
    lines = harmless(text).rstrip("\n").split("\n")
    if len(lines) <= _OUTPUT_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:_OUTPUT_LINES], f"… {len(lines) - _OUTPUT_LINES} more lines"])
