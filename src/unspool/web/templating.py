"""What the pages are made of: the templates, the filters they use, and single entries of a transcript as HTML.

Nothing of a session is trusted: templates escape, prose is cleaned, and control characters are taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2s
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..core.events import BADGE_KINDS, LISTED_KINDS, MARKED_KINDS, EventKind
from ..core.model import MADE_UP_RESULT
from ..render.ansi import coloured
from ..render.diff import count_changes, diff_rows
from ..render.html import code, is_picture, prose
from ..render.outcome_text import MARKS, SAVED, outcome_of, outcome_text
from ..render.sanitize import harmless, local, one_line, pretty
from ..render.transcript import CallView, Entry
from ..render.truncate import cut, cut_prose
from ..store.rows import SessionRow
from .session_list import url_name
from .views import LiveEntry

HERE = Path(__file__).parent
LONGEST_PROSE = 200_000
"""Setting a longer text as Markdown takes too long; it is shown as it is."""
MOST_CELLS = 20_000
"""A row of a table that is shorter than the first one is filled up: a few lines can become a page of megabytes."""
SLASH = "~"
AGENTS = {"claude": ("C", "Claude Code"), "codex": ("X", "Codex CLI"), "gemini": ("G", "Gemini CLI")}
_HEADING = re.compile(r"<(/?)h([1-6])>")
_TOOLS = (
    ("web", "globe"), ("fetch", "globe"), ("url", "globe"), ("grep", "search"), ("glob", "search"),
    ("search", "search"), ("find", "search"), ("todo", "plan"), ("plan", "plan"), ("task", "plan"),
    ("read", "file"), ("view", "file"), ("list", "file"), ("ls", "file"), ("image", "image"), ("mcp", "plug"),
    ("skill", "book"), ("memory", "book"),
)  # fmt: skip


@cache
def environment() -> Environment:
    """The templates, with everything they may use."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        auto_reload=False,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        harmless=harmless, one_line=one_line, local=local, prose=set_prose, code=code, pretty=pretty, cut=cut,
        cut_prose=cut_prose, coloured=coloured, diff_rows=diff_rows, changes=count_changes, outcome=outcome_of,
        outcome_text=outcome_text, number=number, duration=duration, when=when, base_name=base_name,
        short_id=short_id, tool_icon=tool_icon, badges=badges, address=address, is_picture=is_picture,
        opens=opens_itself, compact=compact, link=link,
    )  # fmt: skip
    made.globals.update(
        marks=MARKS,
        agents=AGENTS,
        made_up=MADE_UP_RESULT,
        saved=SAVED,
        icon=icon,
        asset=asset,
        badge_kinds=BADGE_KINDS,
        event_lists=LISTED_KINDS,
        event_marks=MARKED_KINDS,
    )
    return made


def render(template: str, **values: object) -> str:
    """A page, or a part of one."""
    return environment().get_template(template).render(**values)


def render_entry(entry: Entry, key: str, prefix: str = "") -> str:
    """One entry as one `<article>`; `key` names the session in addresses.

    With a `prefix` it is a copy shown beside the transcript, and nothing in it can be linked to.
    """
    macros: Any = environment().get_template("entry.html").module
    inner = str(macros.inner(entry, address(key), not prefix)).strip()
    digest = blake2s(inner.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return str(macros.article(entry, Markup(inner), digest, prefix)).strip()


def render_entries(entries: Iterable[Entry], key: str, prefix: str = "") -> Markup:
    """Entries, one after the other."""
    return Markup("\n".join(render_entry(entry, key, prefix) for entry in entries))


def live_entries(entries: Iterable[Entry], key: str) -> list[LiveEntry]:
    """Entries for those who watch a session."""
    return [LiveEntry(entry.key, entry.index or 0, render_entry(entry, key)) for entry in entries]


# --- words and numbers -----------------------------------------------------------------------------------------------


def set_prose(text: str) -> Markup:
    """Markdown as HTML whose headings rank below those of the page."""
    if len(text) > LONGEST_PROSE or _cells(text) > MOST_CELLS:
        return Markup('<pre class="plain">{}</pre>').format(harmless(text))
    html = _HEADING.sub(lambda found: f"<{found[1]}h{min(6, int(found[2]) + 2)}>", str(prose(text)))
    # What scrolls sideways can be reached with the keyboard.
    html = html.replace("<pre>", '<pre tabindex="0">')
    return Markup(
        html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    )


def _cells(text: str) -> int:
    """How many cells the tables of a text can have at most."""
    columns = [line.count("|") for line in text.split("\n") if "|" in line]
    return len(columns) * max(columns, default=0)


def number(value: int) -> str:
    """With separators, for reading."""
    return f"{value:,}"


def compact(value: int) -> str:
    """A large number in few characters."""
    for limit, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if value >= limit:
            scaled = value / (1_000 if sign == "k" else limit)
            return f"{scaled:.1f}{sign}" if scaled < 10 else f"{scaled:.0f}{sign}"
    return f"{value:,}"


def duration(seconds: float | None) -> str:
    """How long something took."""
    if seconds is None or seconds < 0:
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def when(time: datetime | None) -> Markup:
    """A time that the reader's script may tell relative to now."""
    if time is None:
        return Markup("")
    exact = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup('<time datetime="{}">{}</time>').format(exact, local(time))


def base_name(path: str | None) -> str:
    """The last part of a path."""
    return harmless((path or "").rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1])


def short_id(name: str) -> str:
    """Enough of an id to recognise it."""
    return harmless(name.rsplit("/", 1)[-1][:8])


def badges(counts: dict[str, int]) -> list[tuple[EventKind, int, str]]:
    """What happened in a session: kind of event, how often, and both in words."""
    return [
        (kind, counts[kind.name], f"{counts[kind.name]} {kind.look.badge}")
        for kind in BADGE_KINDS
        if counts.get(kind.name)
    ]


# --- addresses and pictures ------------------------------------------------------------------------------------------


def address(key: str) -> str:
    """Where a session is. The name of a sub-agent may hold a slash, which no address can."""
    return f"/sessions/{quote(key.replace('/', SLASH), safe='')}"


def link(row: SessionRow) -> str:
    """Where the session of a row is."""
    return address(url_name(row))


def icon(name: str) -> Markup:
    """A small picture from the sprite."""
    return Markup('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>').format(
        asset("sprite.svg"), name
    )


@cache
def asset(name: str) -> str:
    """The address of a static file, which changes when the files do."""
    return f"/static/{name}?v={_version()}"


@cache
def _version() -> str:
    digest = blake2s(digest_size=5)
    for path in sorted((HERE / "static").rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def tool_icon(call: CallView) -> str:
    """The picture for what a call does."""
    action = call.action
    if call.subagent is not None:
        return "agent"
    if action.diff:
        return "edit"
    if action.command:
        return "terminal"
    if action.questions:
        return "question"
    if action.plan:
        return "plan"
    name = call.name.lower()
    return next((picture for word, picture in _TOOLS if word in name), "tool")


def opens_itself(call: CallView) -> bool:
    """Whether what was refused is short enough to be shown at once."""
    action = call.action
    return call.rejection is not None and len(action.diff or action.command or action.plan or "") < 1_500
