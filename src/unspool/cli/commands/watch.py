"""`unspool watch`: keep the store up to date, and print what happens."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from ...ingest.watch import Watcher
from ...render.sanitize import local, one_line
from ...store import Store, open_store
from ...store.rows import Change
from .._shared.options import add_json, add_source
from .._shared.output import print_json, print_note, short_id
from .._shared.store import warn_of_password

EXAMPLES = """examples:
  unspool watch
  unspool watch --json | jq .kind
  unspool watch --poll        on a network drive"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_source(parser)
    parser.add_argument("--poll", action="store_true", help="check the files at intervals, for network drives")
    add_json(parser, "one JSON object per change")


def run(args: argparse.Namespace) -> int:
    """Watch until Ctrl-C."""
    warn_of_password(args.store)
    store = open_store(args.store)
    try:
        print_note("Watching. Press Ctrl-C to stop")
        watcher = Watcher(store, *args.home, polling=args.poll)
        slow = None
        for entries in watcher.follow():
            if watcher.slow_reason != slow:
                slow = watcher.slow_reason
                print_note(f"Changes are noticed a few seconds late: {slow}")
            for entry in entries:
                if args.json:
                    print_json(entry)
                else:
                    for line in _lines(store, entry):
                        print(line, flush=True)
    finally:
        store.close()
    return 0


def _lines(store: Store, entry: Change) -> Iterator[str]:
    data = msgspec.json.decode(entry.data)
    row = store.sessions.get(entry.session) if entry.session is not None else None
    name = f"{row.agent} {short_id(row.name)}" if row is not None else f"{data.get('agent', '')} {data.get('name', '')}"
    head = f"{local(entry.at)}  {name}"
    if entry.kind == "messages.appended" and row is not None:
        for message in store.messages.read(row.id, data["first"], data["first"] + data["count"]):
            texts = [text for block in message.blocks if isinstance(text := getattr(block, "text", None), str)]
            yield f"{head}  #{message.index} {message.author}: {one_line(' '.join(texts), 100)}"
        return
    yield f"{head}  {entry.kind.replace('.', ' ')}{_more(data)}"


def _more(data: dict[str, Any]) -> str:
    """Return the details of a change as a short text."""
    if "events" in data:
        return ": " + ", ".join(f"{event['kind']} at #{event['message_index']}" for event in data["events"][:5])
    if "count" in data:
        return f", {data['count']} messages"
    if "first" in data:
        return f", from #{data['first']}"
    return f": {data['status']}" if "status" in data else ""
