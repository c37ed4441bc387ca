"""Renders a session as one self-contained HTML file, without scripts or network access. The transcript is not trusted.

The template escapes text. Prose is rendered as Markdown without raw HTML, and the result is sanitized by nh3. A content
security policy in the page forbids scripts and connections of any kind.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import nh3
from jinja2 import Template
from markdown_it import MarkdownIt
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from ..core import model as m
from ..core.session import Session
from ..core.views import Branches
from .compiled_templates import template_environment
from .diff import Kind, classified_lines, highlighter
from .outcome_text import MARKS, SAVED, outcome_of, outcome_text
from .plain_text import plain_line
from .sanitize import harmless, local, one_line, pretty
from .transcript import Describe, Transcript, folded

_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_TAGS = nh3.ALLOWED_TAGS - {"img", "map", "area"}
_SCHEMES = ("http", "https", "mailto")
_HIGHLIGHT_LIMIT = 200_000
_LITERAL_SIGNS = re.compile(r"[/.]\*|(?<!\*)\*[/.]|\w\*\w|__\w+__|~~?/")
"""Markdown emphasis characters that are part of a file pattern, a path or a variable name."""


def render_html(session: Session, describe: Describe, branches: Branches = "all", notice: str = "") -> Iterator[str]:
    """Yield the page in pieces. `notice` is shown at the top."""
    entries = folded(Transcript(session, describe, branches).entries())
    return _template("session.html").generate(session=session, entries=entries, notice=notice)


class IndexRow(NamedTuple):
    """A session in an index page."""

    name: str
    """The file name of its page."""
    info: m.SessionInfo
    messages: int
    notice: str


def render_index(rows: Iterable[IndexRow]) -> str:
    """Render a page that links to session pages in the same folder, by project, the most recent first."""
    projects: dict[str, list[IndexRow]] = {}
    rows = sorted(rows, key=lambda row: str(row.info.started_at or ""), reverse=True)
    for row in rows:
        project = row.info.project
        projects.setdefault((project.path or project.name) if project is not None else "", []).append(row)
    return _template("index.html").render(projects=projects.items(), count=len(rows))


@cache
def _template(name: str) -> Template:
    environment = template_environment(Path(__file__).parent)
    environment.filters.update(
        harmless=harmless,
        one_line=one_line,
        plain_line=plain_line,
        local=local,
        prose=prose,
        code=code,
        diff=diff_lines,
        pretty=pretty,
        picture=_picture,
        outcome=outcome_of,
        outcome_text=outcome_text,
    )
    environment.globals.update(marks=MARKS, saved=SAVED, pygments_css=_pygments_css())
    return environment.get_template(name)


def prose(text: str) -> Markup:
    """Render Markdown as sanitized HTML."""
    return _rendered(_markdown(), text)


def prompt_prose(text: str) -> Markup:
    """Render a prompt: Markdown in which every line break counts, and signs in paths and names are not emphasis."""
    parser = _markdown(breaks=True, emphasis=_LITERAL_SIGNS.search(text) is None)
    return _rendered(parser, text)


def _rendered(parser: MarkdownIt, text: str) -> Markup:
    # Sanitize twice: Markdown can contain control characters as numeric entities.
    return Markup(harmless(_clean(parser.render(harmless(text)))))


def code(text: str, language: str) -> Markup:
    """Highlight source code. It stays plain if the language is unknown or the text is very long."""
    text = harmless(text)
    if len(text) > _HIGHLIGHT_LIMIT:
        return Markup.escape(text)
    lexer = _lexer(language)
    return Markup.escape(text) if lexer is None else Markup(highlight(text, lexer, highlighter()))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


def diff_lines(text: str) -> list[tuple[Kind, str]]:
    """Return the lines of a diff, each with its kind."""
    return classified_lines(harmless(text))


@cache
def _markdown(*, breaks: bool = False, emphasis: bool = True) -> MarkdownIt:
    # An external image becomes a link to it.
    parser = MarkdownIt("commonmark", {"html": False, "breaks": breaks, "highlight": _highlight_fence})
    parser.enable(["table", "strikethrough"]).disable("image")
    return parser if emphasis else parser.disable(["emphasis", "strikethrough"])


def _highlight_fence(text: str, language: str, _: str) -> str:
    return str(code(text, language)) if language else ""


def _clean(html: str) -> str:
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "span": {"class"}, "code": {"class"}, "ol": {"start"}},
        url_schemes=set(_SCHEMES),
        attribute_filter=_only_absolute_links,
        link_rel="noopener noreferrer nofollow",
    )


def _only_absolute_links(_: str, name: str, value: str) -> str | None:
    """Keep absolute links only: relative ones would point to files on the reader's disk."""
    return value if name != "href" or value.lower().startswith(tuple(f"{scheme}:" for scheme in _SCHEMES)) else None


def _picture(image: m.Image | None) -> str | None:
    """Return a data URL for an image; None if it cannot be shown."""
    return f"data:{image.media_type};base64,{image.data}" if image is not None and picture_bytes(image) else None


def is_picture(image: m.Image | None) -> bool:
    """Whether an image has a supported type and its bytes are in the log."""
    return image is not None and bool(image.data) and image.media_type in _IMAGES


def picture_bytes(image: m.Image) -> bytes | None:
    """Return the bytes of an image; None if it cannot be shown."""
    if not is_picture(image):
        return None
    try:
        return base64.b64decode(image.data or "", validate=True)
    except (binascii.Error, ValueError):
        return None


@cache
def _pygments_css() -> Markup:
    light, dark = (_style("default"), _style("github-dark"))
    return Markup(f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}")


def _style(name: str) -> str:
    formatter: HtmlFormatter[str] = HtmlFormatter(style=name)
    return str(formatter.get_style_defs("pre"))  # type: ignore[no-untyped-call]
