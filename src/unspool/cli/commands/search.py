"""`unspool search`: search all sessions for what was said, done or printed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from rich.text import Text

from ...core.errors import UsageError
from ...core.events import EVENT_NAMES
from ...render.sanitize import harmless, local, one_line
from ...search.query import Filters, parse
from ...search.snippet import Snippet
from ...store import Store
from ...store.regex_search import line_around, search_regex
from ...store.search import Found, Hit
from .._shared.options import is_terminal
from .._shared.output import console, print_json, remark, short_id
from .._shared.store import add_store, opened

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("query", nargs="*", metavar="QUERY", help="words and filters; see below")
    parser.add_argument("--regex", metavar="PATTERN", help="search with a regular expression (filters still apply)")
    parser.add_argument(
        "-n", "--limit", type=int, default=20, metavar="N", help="show at most N sessions (default: 20)"
    )
    parser.add_argument(
        "--offset", type=int, default=0, metavar="N", help="leave out the N best sessions, to see the next ones"
    )
    parser.add_argument("--hits", type=int, default=3, metavar="N", help="show at most N matches of each (default: 3)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per session, or per match with --regex"
    )
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Search."""
    with opened(args) as store:
        if args.regex:
            return _regex(args, store)
        query = parse(" ".join(args.query))
        found, more = store.search.run(query, args.limit, args.hits, offset=args.offset)
        for entry in found:
            if args.json:
                print_json(entry)
            else:
                _print(entry)
    if more:
        remark(f"More sessions match; see the next ones with --offset {args.offset + len(found)}")
    elif not found and not args.json:
        print("No matches")
    return 0 if found else 1


def _regex(args: argparse.Namespace, store: Store) -> int:
    filters = parse(" ".join(args.query)).filters if args.query else Filters()
    try:
        re.compile(args.regex)
    except re.error as error:
        raise UsageError(f"{args.regex!r} is not a valid regular expression: {error}") from error
    names: dict[int, str] = {}
    count = 0
    for session, text, start, end in search_regex(store, args.regex, filters):
        count += 1
        if session not in names:
            row = store.sessions.get(session)
            names[session] = row.name if row is not None else ""
        name = names[session]
        before, after = line_around(text.text, start, end)
        if args.json:
            print_json(
                {"session": name, "message_index": text.message, "field": text.field, "match": text.text[start:end],
                 "before": before, "after": after}
            )  # fmt: skip
            continue
        place = f"{short_id(name)}  #{text.message:<5} {text.field:<8} "
        found = one_line(text.text[start:end], 120)
        shown = Text.assemble((place, "dim"), harmless(before), (found, "bold yellow"), harmless(after))
        console().print(shown, soft_wrap=True)
    return 0 if count else 1


def _print(found: Found) -> None:
    row = found.session
    facts = (local(row.ended_at), row.project or "", "only in store" if row.gone_at else "")
    head = Text.assemble(
        (one_line(row.title or row.name, 100), "bold"), "  ",
        (f"{row.agent} {short_id(row.name)}  {harmless('  '.join(fact for fact in facts if fact))}", "dim"),
    )  # fmt: skip
    out = console()
    out.print(head, soft_wrap=not is_terminal())
    for line in _lines(found.hits):
        out.print(line, soft_wrap=not is_terminal())
    if found.more:
        out.print(Text(f"  … {found.more} more", "dim"))
    out.print()


def _lines(hits: list[Hit]) -> Iterator[Text]:
    for hit in hits:
        place = (f"  #{hit.message_index:<5} {hit.field:<8} ", "dim")
        yield Text.assemble(place, _marked(hit.snippet))


def _marked(snippet: Snippet) -> Text:
    text = Text(snippet.text)
    for start, end in snippet.marks:
        text.stylize("bold yellow", start, end)
    return text
