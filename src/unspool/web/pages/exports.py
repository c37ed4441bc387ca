"""The export of a session as a file, and a report of the secrets and personal data in it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery

from ...agents import agent_named
from ...core.errors import UsageError
from ...core.session import Session
from ...core.views import OrphanMode, View
from ...formats import Format, Options, find_format
from ...redact import Finding, Redactor, describe_contained, describe_redacted, find_in_session
from ...render.html import render_html
from ...render.markdown import render_markdown
from ...store import Store
from ...store.redaction_key import make_redactor
from ..session_list import url_name
from ..templating import EXPORTS, address, render
from .layout import Pool, html_response
from .session_fragments import query_of

_OWN_MEDIA_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ndjson": "application/x-ndjson",
}
"""The media types of unspool's own formats."""


class Download(NamedTuple):
    """A file to save."""

    data: bytes
    media_type: str
    name: str


class Redaction(NamedTuple):
    """What to redact: secrets, or also personal data."""

    redact: bool
    personal: bool

    @property
    def is_redacted(self) -> bool:
        """Whether anything is redacted."""
        return self.redact or self.personal


@get("/sessions/{key:str}/export/{format:str}", include_in_schema=False)
async def export(
    pool: Pool,
    key: FromPath[str],
    format: FromPath[str],
    orphans: FromQuery[OrphanMode] = "mark",
    redact: FromQuery[bool] = False,
    redact_personal: FromQuery[bool] = False,
) -> Response[bytes]:
    """Send a session as a file."""
    file = await pool.run(_export, key, format, orphans, Redaction(redact, redact_personal))
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in file.name)
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(file.data, media_type=file.media_type, headers=headers)


@get("/sessions/{key:str}/share", include_in_schema=False)
async def share_report(
    pool: Pool, key: FromPath[str], redact: FromQuery[bool] = True, redact_personal: FromQuery[bool] = False
) -> Response[str]:
    """Return the values that are, or would be, replaced in the file, for the share dialog."""
    return html_response(await pool.run(_share_report, key, Redaction(redact, redact_personal)))


routes: list[HTTPRouteHandler] = [export, share_report]


def _export(store: Store, key: str, format: str, orphans: OrphanMode, redaction: Redaction) -> Download:
    if format not in EXPORTS:
        raise UsageError(f"Unknown export format {format!r}; choose from {', '.join(EXPORTS)}")
    row = query_of(store, key).row
    session = View(store.messages.load_session(row.id), (), "all", orphans).whole()
    session.annotations = store.annotations.of(row.agent, row.name)
    redactor = make_redactor(personal=redaction.personal) if redaction.is_redacted else None
    name = f"{row.agent}-{row.name.replace('/', '-')}"
    if format not in _OWN_MEDIA_TYPES:
        return _in_other_format(session if redactor is None else redactor.session(session), find_format(format), name)
    file = _ndjson(session, redactor) if format == "ndjson" else _document(format, session, redactor)
    return Download(file, _OWN_MEDIA_TYPES[format], f"{name}.{format}")


def _in_other_format(session: Session, format: Format, name: str) -> Download:
    writer = format.open(Options())
    data = writer.begin(session) + b"".join(writer.session(session)) + writer.end()
    return Download(data, format.media_type, name + format.suffix)


def _ndjson(session: Session, redactor: Redactor | None) -> bytes:
    data = msgspec.json.encode(session) + b"\n"
    return data if redactor is None else redactor.data(data)


def _document(format: str, session: Session, redactor: Redactor | None) -> bytes:
    """Render a document with a notice about the secrets that it contains, or that were redacted."""
    found = find_in_session(session, redactor or make_redactor())
    notice = describe_contained(found) if redactor is None else describe_redacted(found)
    if redactor is not None:
        session = redactor.session(session)
    describe = agent_named(session.agent).describe
    if format == "md":
        text = "\n".join(render_markdown(session, describe, notice=notice))
    else:
        text = "".join(render_html(session, describe, notice=notice))
    return text.encode("utf-8", "replace")


class SharedKind(msgspec.Struct, kw_only=True):
    """The findings of one kind."""

    name: str
    findings: list[Finding]

    @property
    def occurrences(self) -> int:
        """The number of their occurrences."""
        return sum(max(1, one.count) for one in self.findings)


def _share_report(store: Store, key: str, redaction: Redaction) -> str:
    row = query_of(store, key).row
    found = find_in_session(store.messages.load_session(row.id), make_redactor(personal=redaction.personal))
    kinds = [
        SharedKind(name=kind, findings=[one for one in found if one.kind == kind])
        for kind in dict.fromkeys(one.kind for one in found)
    ]
    return render("share_report.html", kinds=kinds, is_redacted=redaction.is_redacted, base=address(url_name(row)))
