"""`unspool secrets`: which secrets are in sessions, where and since when, without printing them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime

import msgspec

from ...core import model as m
from ...core.stream import MessageLine, SessionLine
from ...redact import Redactor
from ...render.sanitize import local
from ...store.redaction_key import make_redactor
from .._shared.failures import Failures
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source
from .._shared.output import print_json, print_note, short_id
from .._shared.progress import with_progress
from .._shared.records import SessionName, session_name
from .._shared.selection import Chosen, Filter, choose
from .._shared.table import AGENT, SESSION, Column, print_table

EXAMPLES = """examples:
  unspool secrets --since 30d
  unspool secrets latest
  unspool secrets --project tidepool --json"""

_encode = msgspec.json.Encoder().encode
_COLUMNS = (
    Column("first seen"), Column("secret", "yellow"), AGENT, SESSION, Column("message", right=True),
    Column("times", right=True),
)  # fmt: skip


class FoundSecret(msgspec.Struct, kw_only=True):
    """A secret in a session."""

    session: SessionName
    """The session."""
    kind: str
    """The kind of secret."""
    placeholder: str
    """The placeholder that replaces it, which is the same in every session."""
    message_index: int | None
    """The first message that contains it; None if it is only in the metadata of the session."""
    timestamp: datetime | None
    """When that message was written."""
    count: int
    """The number of messages that contain it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "sessions to search instead of all")
    add_source(parser)
    add_filters(parser)
    add_limit(parser, "search only the newest N sessions")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List secrets."""
    keep = Filter(args)
    redactor = make_redactor(personal=False)
    failures = Failures(args.debug)
    found: list[FoundSecret] = []
    for item in with_progress(failures.listing(keep.apply(choose(args))), "sessions"):
        with failures.skipping(item.ref):
            for secret in _secrets(item, keep, redactor):
                found.append(secret)
                if args.json:
                    print_json(secret)
    if not args.json:
        print_table(_COLUMNS, (_row(secret) for secret in found))
        if not found:
            print_note(f"No secrets were found{' in what could be read' if failures.count else ''}.")
    return failures.exit_code


def _secrets(item: Chosen, keep: Filter, redactor: Redactor) -> Iterator[FoundSecret]:
    """Yield the secrets of a session and the sub-agents in the same file."""
    catalog, ref = item
    found: dict[str, FoundSecret] = {}
    is_wanted = True
    for line in catalog.stream(ref):
        if isinstance(line, SessionLine):
            yield from found.values()
            found = {}
            name = session_name(line.session.agent, line.session.id)
            is_wanted = keep.takes_kind(line.session.kind)
        if is_wanted:
            message = line.message if isinstance(line, MessageLine) else None
            for placeholder, kind in redactor.findings(_encode(line)).items():
                _note(found, name, kind, placeholder, message)
    yield from found.values()


def _note(
    found: dict[str, FoundSecret], session: SessionName, kind: str, placeholder: str, message: m.Message | None
) -> None:
    if placeholder not in found:
        found[placeholder] = FoundSecret(
            session=session, kind=kind, placeholder=placeholder, message_index=None, timestamp=None, count=0
        )
    if message is not None:
        secret = found[placeholder]
        secret.count += 1
        if secret.message_index is None:
            # The title of a session is read before its messages.
            secret.message_index, secret.timestamp = message.index, message.timestamp


def _row(secret: FoundSecret) -> tuple[str, ...]:
    number = "" if secret.message_index is None else f"#{secret.message_index}"
    agent, name = secret.session.agent, short_id(secret.session.name)
    return local(secret.timestamp), secret.placeholder, agent, name, number, str(secret.count)
