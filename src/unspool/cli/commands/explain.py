"""`unspool explain`: how the record of a message was derived."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import msgspec

from ...agents import agent_named
from ...core.errors import UsageError
from ...core.explain import Explainer, Explanation, Fact, Line
from ...render.sanitize import harmless
from .._shared.options import add_json, add_source
from .._shared.output import print_json
from .._shared.records import SessionName, session_name
from .._shared.selection import choose_one

EXAMPLES = """examples:
  unspool explain latest#12
  unspool explain 3fc8837a#40 --json"""


class MessageExplanation(msgspec.Struct, kw_only=True):
    """The recorded facts about one message, and how they were derived."""

    session: SessionName
    versions: list[str]
    message_index: int
    line: Line
    facts: list[Fact]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "message",
        metavar="SESSION#N",
        help="a session (id, start of one, path, or `latest`) and the number of a message",
    )
    add_source(parser)
    add_json(parser, "a JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    name, hash, number = args.message.rpartition("#")
    if not hash or not name or not number.isdecimal():
        raise UsageError(f"{args.message!r} is not a message; write SESSION#N, such as latest#12")
    args.sessions = [name]
    for catalog, ref in choose_one(args):
        session = catalog.load(ref)
        if int(number) >= len(session):
            raise UsageError(f"session {session.id} has {len(session)} messages; {number} is not one of them")
        explainer = Explainer(session, session.messages.__getitem__, agent_named(session.agent).rules)
        found = explainer.explain(int(number))
        if args.json:
            print_json(
                MessageExplanation(
                    session=session_name(found.agent, found.session),
                    versions=found.versions,
                    line=found.line,
                    message_index=found.message_index,
                    facts=found.facts,
                )
            )
        else:
            print("\n".join(map(harmless, _lines(found))))
    return 0


def _lines(found: Explanation) -> Iterator[str]:
    versions = ", ".join(found.versions) or "unknown version"
    yield f"message {found.message_index} of {found.session} ({found.agent} {versions})"
    yield f"  {_location(found.line)}"
    for fact in found.facts:
        yield ""
        yield from _fact(fact)


def _fact(fact: Fact) -> Iterator[str]:
    doubt = f" (confidence {fact.confidence:g})" if fact.confidence < 1 else ""
    yield f"{fact.about}: {fact.says}{doubt}"
    for word, text in (("rule", fact.rule), ("evidence", fact.evidence), ("otherwise", fact.otherwise)):
        if text:
            yield f"  {word:<10} {text}"
    for line in fact.lines:
        yield f"  {'from':<10} #{line.message_index}, {_location(line)}"


def _location(line: Line) -> str:
    return f"{line.path}:{line.line} (byte {line.offset})"
