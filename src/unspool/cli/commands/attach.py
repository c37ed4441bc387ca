"""`unspool attach`: watch a running agent in the terminal, send it messages and answer its requests."""

from __future__ import annotations

import argparse
import sys
import threading
import uuid
from typing import Any

from ...core.errors import UnspoolError
from ...render.sanitize import harmless
from .._shared.client import Server, path_of, who
from .._shared.output import print_json, remark
from .ps import format_request

EXAMPLES = """examples:
  unspool attach
  unspool attach 3f2a          by a prefix of its id or session
  unspool attach --json | jq .kind"""

_HELP = "Type a message, or: a allow, s allow for the session, d deny, r REASON deny with a reason, i interrupt, q quit"
_VERDICT_NAMES = {
    "allow": "allowed",
    "allow_session": "allowed for the session",
    "deny": "denied",
    "deny_stop": "denied and the turn stopped",
}
_VERDICTS = {"a": "allow", "s": "allow_session", "d": "deny", "r": "deny"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("agent", nargs="?", help="prefix of its id or session (default: the only one)")
    parser.add_argument("--json", action="store_true", help="print events as JSON, one per line")


def run(args: argparse.Namespace) -> int:
    """Watch an agent until it ends."""
    server = Server()
    since = server.ask("GET", "/api/runs")["seq"]
    found = server.find(args.agent)
    if not args.json:
        remark(f"{found['agent']} in {harmless(found['folder'])}: {found['state']}")
        for opened in found["questions"]:
            print(f"? {format_request(opened['asked'])}", flush=True)
    return follow(server, found["id"], since, as_json=args.json)


def follow(server: Server, id: str, since: int, *, as_json: bool, until_idle: bool = False) -> int:
    """Print the events of an agent until it ends, or until it is idle if `until_idle` is set and nobody can type."""
    can_type = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    if can_type:
        remark(_HELP)
        threading.Thread(target=_read_input, args=(server, id), daemon=True).start()
    has_finished_turn = False
    for event in server.events(since):
        if event["run"] != id:
            continue
        if as_json:
            print_json(event)
        else:
            _show(event)
        has_finished_turn = has_finished_turn or event["kind"] == "turn_ended"
        if event["kind"] == "state" and event["state"] == "ended":
            return 0 if event["reason"] in ("done", "idle") or event["reason"].startswith("stopped") else 1
        # An agent is also idle before its first turn; that is not the end.
        if event["kind"] == "state" and event["state"] in ("idle", "interrupted") and has_finished_turn:
            if until_idle and not can_type:
                return 0
            has_finished_turn = False
    return 1


def _show(event: dict[str, Any]) -> None:
    kind = event["kind"]
    if kind == "words" and not event["thinking"]:
        print(harmless(event["text"]), end="", flush=True)
    elif kind == "asked":
        print(f"\n? {format_request(event['question']['asked'])}", flush=True)
    elif kind == "answered":
        reason = f": {harmless(event['reason'])}" if event["reason"] else ""
        print(f"! {_VERDICT_NAMES[event['verdict']]} by {harmless(event['who'])}{reason}", flush=True)
    elif kind == "turn_ended":
        error = f": {harmless(event['error'])}" if event["error"] else ""
        print(f"\n— {event['outcome']}{error}", flush=True)
    elif kind == "state" and event["state"] == "ended":
        print(f"— ended: {harmless(event['reason'])}", flush=True)
    elif kind == "remarked":
        print(f"· {harmless(event['text'])}", flush=True)


def _read_input(server: Server, id: str) -> None:
    for line in sys.stdin:
        text = line.strip()
        try:
            if text == "q":
                sys.stdin.close()
                return
            if text:
                act(server, id, text)
        except UnspoolError as error:
            remark(f"unspool: {error}")


def act(server: Server, id: str, text: str) -> None:
    """Carry out a line that was typed."""
    word, _, rest = text.partition(" ")
    if word == "i" and not rest:
        server.ask("POST", path_of(id, "interrupt"), {"who": who()})
    elif word in _VERDICTS and (not rest or word == "r"):
        answer(server, server.ask("GET", path_of(id)), None, _VERDICTS[word], rest or None)
    else:
        server.ask("POST", path_of(id, "messages"), {"id": uuid.uuid4().hex, "text": text, "who": who()})


def answer(
    server: Server, run: dict[str, Any], request: str | None, verdict: str, reason: str | None
) -> dict[str, Any]:
    """Answer a request of an agent, by default the first one; returns the request."""
    matching = [one for one in run["questions"] if request is None or one["asked"]["id"].startswith(request)]
    if not matching:
        raise UnspoolError(f"Agent {run['id']} has no open request{f' {request!r}' if request else ''}")
    opened: dict[str, Any] = matching[0]
    body = {"digest": opened["digest"], "verdict": verdict, "reason": reason, "who": who()}
    server.ask("POST", path_of(run["id"], "answers", opened["asked"]["id"]), body)
    return opened
