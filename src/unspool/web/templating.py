"""Templates: their environment and filters, and transcript entries as HTML.

Nothing in a session is trusted: templates escape, Markdown is sanitized, and control characters are removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from hashlib import blake2s
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from ..core.events import BADGE_KINDS, LISTED_KINDS, MARKED_KINDS, EventKind
from ..core.model import MADE_UP_RESULT
from ..core.plural import counted
from ..core.timestamps import from_seconds
from ..formats import FORMATS
from ..render.ansi import coloured
from ..render.compiled_templates import template_environment
from ..render.diff import count_changes, diff_rows
from ..render.exact_markup import exact_inline, exact_json, exact_rows, exact_title, json_text
from ..render.html import code, is_picture, prompt_prose, prose
from ..render.outcome_text import MARKS, SAVED, asked_text, outcome_of, outcome_text
from ..render.plain_text import plain_line
from ..render.receipts import receipt_lines
from ..render.sanitize import harmless, local, one_line, pretty
from ..render.transcript import CallView, Entry, split_path
from ..render.truncate import cut, cut_prose
from ..search.snippet import Snippet
from ..store.rows import SessionRow
from ..usage.cost import dollars
from .agent_styles import AgentBadges, session_folder, stylesheet_url
from .approval_view import approval_view, text_view
from .assets import asset_url
from .session_details import duration_of
from .session_list import short_id, shown_title, url_name
from .views import LiveEntry

HERE = Path(__file__).parent
LONGEST_PROSE = 200_000
"""Rendering longer Markdown takes too long; it is shown as plain text."""
MOST_CELLS = 20_000
"""Short rows of a table are padded with cells, so a few lines could become megabytes of HTML."""
SLASH = "~"
_HEADING = re.compile(r"<(/?)h([1-6])>")
TOOL_ICONS = (
    ("web", "globe"), ("fetch", "globe"), ("url", "globe"), ("grep", "search"), ("glob", "search"),
    ("search", "search"), ("find", "search"), ("todo", "plan"), ("plan", "plan"), ("task", "plan"),
    ("read", "file"), ("view", "file"), ("list", "file"), ("ls", "file"), ("image", "image"), ("mcp", "plug"),
    ("skill", "book"), ("memory", "book"),
)  # fmt: skip
"""Icons by words in the names of tools."""

EXPORTS = {"md": "Markdown", "html": "HTML", "ndjson": "NDJSON", **{format.name: format.title for format in FORMATS}}
"""The formats in which a session can be downloaded, and their display names."""


@cache
def environment() -> Environment:
    """Return the template environment, with all filters and globals."""
    made = template_environment(HERE)
    made.filters.update(_filters())
    made.globals.update(
        marks=MARKS,
        agents=AgentBadges(),
        agent_styles=stylesheet_url,
        made_up=MADE_UP_RESULT,
        saved=SAVED,
        icon=icon,
        asset=asset_url,
        badge_kinds=BADGE_KINDS,
        event_lists=LISTED_KINDS,
        event_marks=MARKED_KINDS,
        exports=EXPORTS,
    )
    return made


def _filters() -> dict[str, Callable[..., object]]:
    """Return the filters of the templates, by name."""
    return {
        "harmless": harmless,
        "one_line": one_line,
        "plain_line": plain_line,
        "local": local,
        "prose": render_prose,
        "code": code,
        "pretty": pretty,
        "cut": cut,
        "cut_prose": cut_prose,
        "coloured": coloured,
        "diff_rows": diff_rows,
        "changes": count_changes,
        "outcome": outcome_of,
        "outcome_text": outcome_text,
        "asked_text": asked_text,
        "number": number,
        "counted": counted,
        "duration": duration,
        "when": when,
        "base_name": base_name,
        "short_id": short_id,
        "shown_title": shown_title,
        "tool_icon": tool_icon,
        "badges": badges,
        "address": address,
        "exact": exact_inline,
        "exact_rows": exact_rows,
        "exact_title": exact_title,
        "exact_json": exact_json,
        "json_text": json_text,
        "approval_view": approval_view,
        "text_view": text_view,
        "is_picture": is_picture,
        "is_expanded": is_expanded,
        "compact": compact,
        "link": link,
        "session_folder": session_folder,
        "session_duration": session_duration,
        "dollars": dollars,
        "highlight": highlight,
        "receipt_lines": receipt_lines,
        "prompt_prose": render_prompt,
        "split_path": split_path,
    }


def render(template: str, **values: object) -> str:
    """Render a page, or a fragment of one."""
    return environment().get_template(template).render(**values)


def render_entry(entry: Entry, key: str, prefix: str = "") -> str:
    """Render one entry as one `<article>`; `key` names the session in addresses.

    With a `prefix`, it is a copy in addition to the one in the transcript, and has no anchors.
    """
    macros: Any = environment().get_template("entry.html").module
    inner = str(macros.inner(entry, address(key), not prefix)).strip()
    digest = blake2s(inner.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return str(macros.article(entry, Markup(inner), digest, prefix)).strip()


def render_entries(entries: Iterable[Entry], key: str, prefix: str = "") -> Markup:
    """Render several entries."""
    return Markup("\n".join(render_entry(entry, key, prefix) for entry in entries))


def live_entries(entries: Iterable[Entry], key: str) -> list[LiveEntry]:
    """Render entries for open pages that show the session."""
    return [LiveEntry(entry.key, entry.index or 0, render_entry(entry, key)) for entry in entries]


# --- text and numbers ------------------------------------------------------------------------------------------------


def render_prose(text: str) -> Markup:
    """Render Markdown as HTML, with headings below those of the page."""
    return _with_lower_headings(text, prose)


def render_prompt(text: str) -> Markup:
    """Render a prompt that a person typed as HTML, with headings below those of the page."""
    return _with_lower_headings(text, prompt_prose)


def _with_lower_headings(text: str, to_html: Callable[[str], Markup]) -> Markup:
    if len(text) > LONGEST_PROSE or _cells(text) > MOST_CELLS:
        return Markup('<pre class="plain">{}</pre>').format(harmless(text))
    html = _HEADING.sub(lambda found: f"<{found[1]}h{min(6, int(found[2]) + 2)}>", str(to_html(text)))
    # Elements that scroll horizontally must be reachable with the keyboard.
    html = html.replace("<pre>", '<pre tabindex="0">')
    return Markup(
        html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    )


def _cells(text: str) -> int:
    """Return an upper bound of the number of table cells in a text."""
    columns = [line.count("|") for line in text.split("\n") if "|" in line]
    return len(columns) * max(columns, default=0)


def number(value: int) -> str:
    """Format a number with thousands separators."""
    return f"{value:,}"


def compact(value: int) -> str:
    """Format a number, shortened if it is large."""
    for limit, sign in ((1_000_000_000, "B"), (1_000_000, "M"), (10_000, "k")):
        if value >= limit:
            scaled = value / (1_000 if sign == "k" else limit)
            return f"{scaled:.1f}{sign}" if scaled < 10 else f"{scaled:.0f}{sign}"
    return f"{value:,}"


def duration(seconds: float | None) -> str:
    """Format a duration, such as `2 min 5 s`."""
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


def session_duration(row: SessionRow) -> str:
    """Format the time from the first to the last message of a session."""
    return rough_duration(duration_of(row))


def rough_duration(seconds: float | None) -> str:
    """Format a duration with at most two units, for columns of a list."""
    if seconds is None or seconds < 0:
        return ""
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min" if minutes else f"{seconds:.0f} s"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // (24 * 60)} days"


def when(time: datetime | None) -> Markup:
    """Format a time. A script replaces it with one relative to now."""
    if time is None:
        return Markup("")
    exact = from_seconds(time.timestamp()).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup('<time datetime="{}">{}</time>').format(exact, local(time))


def highlight(snippet: Snippet) -> Markup:
    """Render a snippet with its matches highlighted."""
    parts, begin = [], 0
    for start, end in snippet.marks:
        parts += [Markup.escape(harmless(snippet.text[begin:start]))]
        parts += [Markup("<mark>{}</mark>").format(harmless(snippet.text[start:end]))]
        begin = end
    parts.append(Markup.escape(harmless(snippet.text[begin:])))
    return Markup("").join(parts)


def base_name(path: str | None) -> str:
    """Return the last part of a path."""
    return harmless((path or "").rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1])


def badges(counts: dict[str, int]) -> list[tuple[EventKind, int, str]]:
    """Return the events of a session: kind, count, and both as text."""
    return [
        (kind, counts[kind.name], f"{counts[kind.name]} {kind.look.badge}")
        for kind in BADGE_KINDS
        if counts.get(kind.name)
    ]


# --- addresses and icons ---------------------------------------------------------------------------------------------


def address(key: str) -> str:
    """Return the address of a session. Names of sub-agents may contain a slash, which a path segment cannot."""
    return f"/sessions/{quote(key.replace('/', SLASH), safe='')}"


def link(row: SessionRow) -> str:
    """Return the address of the session of a row."""
    return address(url_name(row))


def icon(name: str) -> Markup:
    """Return an icon from the sprite."""
    return Markup('<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>').format(
        asset_url("sprite.svg"), name
    )


def tool_icon(call: CallView) -> str:
    """Return the name of the icon for a call."""
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
    return next((picture for word, picture in TOOL_ICONS if word in name), "tool")


def is_expanded(call: CallView) -> bool:
    """Whether a rejected call is short enough to be shown expanded."""
    action = call.action
    return call.rejection is not None and len(action.diff or action.command or action.plan or "") < 1_500
