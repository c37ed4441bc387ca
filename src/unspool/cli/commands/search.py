"""`unspool search`: search all sessions for what was said, done or printed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import groupby
from typing import TypeVar

import msgspec
from msgspec.structs import replace
from rich.text import Text

from ...core.errors import UsageError
from ...core.events import EVENT_NAMES
from ...core.timestamps import parse_time
from ...render.plain_text import plain_line
from ...render.sanitize import harmless, local
from ...search.query import Filters, Query, Values, parse
from ...search.snippet import Snippet
from ...store import Store
from ...store.regex_search import regex_hit, search_regex
from ...store.resume import resume_command
from ...store.rows import SessionRow
from ...store.search import Found, Hit
from .._shared.options import add_filters, add_json, add_limit, add_source, is_terminal
from .._shared.output import console, print_json, print_note, short_id
from .._shared.store import open_synced_store

T = TypeVar("T")

EXAMPLES = """the query:
  disk full            both words          "disk full"       exact phrase
  read*                prefix match
  red OR green         either word         -word             without the word
  agent: project: tool: role: model: file: session: branch: before: after:
  in:user answer thinking input output note
  is:EVENT, has:EVENT, with synonyms such as is:failed, where EVENT is one of
    EVENTS

examples:
  unspool search 'frozen dataclass'
  unspool search 'tool:bash is:error after:7d pytest'
  unspool search --regex 'def parse_\\w+\\('
  unspool show 37c23     shows a session that was found""".replace("EVENTS", " ".join(EVENT_NAMES))


class SearchMatch(msgspec.Struct, kw_only=True):
    """A session that a search found."""

    session: SessionRow
    score: float
    hits: list[Hit]
    """The best matches."""
    more: int
    """The number of other matches."""
    resume: str | None
    """The command that continues the session; null if its files are not on this machine, or its agent has none."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("query", nargs="*", metavar="QUERY", help="words and filters; see below")
    parser.add_argument("--regex", metavar="PATTERN", help="search with a regular expression (filters still apply)")
    add_limit(parser, "show only the N best sessions", 20)
    parser.add_argument(
        "--offset", type=int, default=0, metavar="N", help="skip the N best sessions, to see the next ones"
    )
    parser.add_argument(
        "--hits", type=int, default=3, metavar="N", help="show at most N matches per session (default: 3)"
    )
    add_json(parser, "one JSON object per session")
    add_filters(parser, of_events=False)
    add_source(parser, syncs=True)


def run(args: argparse.Namespace) -> int:
    """Search."""
    with open_synced_store(args) as store:
        if args.regex:
            return _regex(args, store)
        found, more = store.search.run(_query(args), args.limit, args.hits, offset=args.offset)
        for entry in found:
            _show(args, store, entry)
    if more:
        print_note(f"More sessions match; use --offset {args.offset + len(found)} to see the next ones")
    elif not found and not args.json:
        print("No matches")
    return 0 if found else 1


def _query(args: argparse.Namespace) -> Query:
    """Return the query: words, filters among them, and filters given as options."""
    since, until = parse_time(args.since), parse_time(args.until)
    is_filtered = args.agent or args.project or since or until
    has_words = args.query or not (args.regex or is_filtered)
    query = parse(" ".join(args.query)) if has_words else Query(None, Filters())
    filters = query.filters
    more = {
        "agent": _and(filters.agent, args.agent),
        "project": _and(filters.project, [args.project] if args.project else []),
        "after": _and(filters.after, [since] if since is not None else []),
        "before": _and(filters.before, [until] if until is not None else []),
    }
    return replace(query, filters=replace(filters, **more))


def _and(values: Values[T], wanted: list[T]) -> Values[T]:
    return replace(values, wanted=(*values.wanted, *wanted)) if wanted else values


def _regex(args: argparse.Namespace, store: Store) -> int:
    try:
        re.compile(args.regex)
    except re.error as error:
        raise UsageError(f"{args.regex!r} is not a valid regular expression: {error}") from error
    count = 0
    matches = search_regex(store, args.regex, _query(args).filters)
    for session, group in groupby(matches, key=lambda match: match.session):
        row = store.sessions.get(session)
        if row is None or (count := count + 1) <= args.offset:
            continue
        if count > args.offset + args.limit:
            print_note(f"More sessions match; use --offset {args.offset + args.limit} to see the next ones")
            break
        hits = [regex_hit(match) for match in group]
        more = max(0, len(hits) - args.hits)
        _show(args, store, Found(session=row, score=1.0, hits=hits[: args.hits], more=more))
    return 0 if count > args.offset else 1


def _show(args: argparse.Namespace, store: Store, found: Found) -> None:
    row = found.session
    resume = resume_command(store, row)
    if args.json:
        print_json(SearchMatch(session=row, score=found.score, hits=found.hits, more=found.more, resume=resume))
    else:
        _print(found, resume)


def _print(found: Found, resume: str | None) -> None:
    row = found.session
    facts = (local(row.ended_at), row.project or "", "only in store" if row.gone_at else "")
    head = Text.assemble(
        (plain_line(row.title or row.name, 100), "bold"),
        "  ",
        (f"{row.agent} {short_id(row.name)}  {harmless('  '.join(fact for fact in facts if fact))}", "dim"),
    )
    out = console()
    out.print(head, soft_wrap=not is_terminal())
    for line in _lines(found.hits):
        out.print(line, soft_wrap=not is_terminal())
    if found.more:
        out.print(Text(f"  … {found.more} more", "dim"))
    if resume is not None:
        out.print(Text(f"  {harmless(resume)}", "dim"), soft_wrap=True)
    out.print()


def _lines(hits: list[Hit]) -> Iterator[Text]:
    for hit in hits:
        prefix = (f"  #{hit.message_index:<5} {hit.field:<8} ", "dim")
        yield Text.assemble(prefix, _marked(hit.snippet))


def _marked(snippet: Snippet) -> Text:
    text = Text(snippet.text)
    for start, end in snippet.marks:
        text.stylize("bold yellow", start, end)
    return text
