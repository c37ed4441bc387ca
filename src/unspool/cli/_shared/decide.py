"""Answers a request from the command line, but only if it was shown and has not changed since."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import Any, NamedTuple

from ...core.errors import UnspoolError, UsageError
from ...core.plural import counted
from ...render.exact import exact_text
from .client import Server, path_of, who
from .output import print_json
from .records import SentAnswer
from .request_text import DIGEST_SHOWN, request_lines, request_name

Json = dict[str, Any]

PAST_TENSE = {
    "allow": "allowed",
    "allow_session": "allowed for the session",
    "deny": "denied",
    "deny_stop": "denied and the turn stopped",
}


class RequestName(NamedTuple):
    """The name of a request: its id and the beginning of its digest. Either may be missing."""

    id: str
    digest: str

    @classmethod
    def parse(cls, text: str | None) -> RequestName:
        """Split a name as `unspool ps` prints it. Ids may contain colons, digests do not."""
        id, colon, digest = (text or "").rpartition(":")
        return cls(id, digest) if colon else cls(digest, "")

    def matches(self, open_request: Json) -> bool:
        """Whether the id of a request starts with this one."""
        return str(open_request["asked"]["id"]).startswith(self.id)


class ChosenRequest(NamedTuple):
    """A request to answer."""

    run: Json
    open_request: Json
    has_digest: bool
    """Whether the command included the digest that was shown with the request earlier."""


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select an agent and one of its requests."""
    parser.add_argument("agent", nargs="?", help="prefix of its id or session (default: the only one with a request)")
    parser.add_argument(
        "request",
        nargs="?",
        metavar="REQUEST:DIGEST",
        help="the request as `unspool ps` prints it; without its digest, you are shown the request and asked",
    )
    parser.add_argument("--request", dest="request_option", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the answered request as JSON")


def choose_request(server: Server, args: argparse.Namespace, command: str) -> ChosenRequest:
    """Return the request that the arguments name. Without a digest, it must be shown first, which needs a terminal."""
    agent, text = args.agent, args.request or args.request_option
    if text is None and ":" in (agent or ""):
        agent, text = None, agent
    name = RequestName.parse(text)
    if not name.digest and not _can_ask():
        raise UsageError(
            "No terminal to show the request on. Name it as `unspool ps` prints it: "
            f"unspool {command} RUN REQUEST:DIGEST"
        )
    run = _run_with(server, name) if agent is None and name.digest else server.find(agent)
    return ChosenRequest(run, _request_of(run, name), bool(name.digest))


def _run_with(server: Server, name: RequestName) -> Json:
    """Return the only agent with a request of this name."""
    runs: list[Json] = server.request("GET", "/api/runs")["runs"]
    found = [
        run
        for run in runs
        for open_request in run["questions"]
        if _is_shown(open_request, name) and name.matches(open_request)
    ]
    if len(found) != 1:
        what = "No open request is" if not found else f"{len(found)} open requests are"
        raise UnspoolError(f"{what} {name.id}:{name.digest}; `unspool ps` lists them")
    return found[0]


def _request_of(run: Json, name: RequestName) -> Json:
    found: list[Json] = [open_request for open_request in run["questions"] if name.matches(open_request)]
    exact = [open_request for open_request in found if open_request["asked"]["id"] == name.id]
    found = exact or found
    if not found:
        named = f" {name.id!r}" if name.id else ""
        raise UnspoolError(f"Agent {run['id']} has no open request{named}; it may have been answered already")
    if len(found) > 1:
        listed = ", ".join(map(request_name, found))
        raise UsageError(f"Agent {run['id']} has {counted(len(found), 'open request')}; name one of {listed}")
    if name.digest and not _is_shown(found[0], name):
        raise UnspoolError(
            f"Request {name.id} has changed since {name.digest} was printed. Review it again: unspool ps"
        )
    return found[0]


def _is_shown(open_request: Json, name: RequestName) -> bool:
    """Whether a request still has the digest that was printed. A shorter prefix could match another request."""
    return len(name.digest) >= DIGEST_SHOWN and str(open_request["digest"]).startswith(name.digest)


# --- showing, asking, answering --------------------------------------------------------------------------------------


def confirm(chosen: ChosenRequest, question: str, *, as_json: bool) -> bool:
    """Show the complete request. Unless it was named by its digest, ask whether to continue."""
    # If a question follows, the request must be shown on the terminal, even if the output is redirected.
    out = sys.stderr if as_json or not (chosen.has_digest or sys.stdout.isatty()) else sys.stdout
    print("\n".join(request_lines(chosen.run, chosen.open_request)), file=out)
    return chosen.has_digest or ask(f"{question} [y/N] ").lower() in ("y", "yes")


def ask(prompt: str) -> str:
    """Ask for a line. Input that was typed before the question was shown is discarded."""
    _drop_typed_ahead()
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _drop_typed_ahead() -> None:
    with suppress(ImportError, OSError):
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def send_answer(server: Server, run: str, open_request: Json, verdict: str, **more: object) -> None:
    """Answer a request as it was shown: the server refuses the answer if the request has changed."""
    request = open_request["asked"]
    if verdict not in request["verdicts"]:
        known = ", ".join(each.replace("_", " ") for each in request["verdicts"])
        raise UsageError(f"Request {request['id']} does not offer {verdict.replace('_', ' ')!r}; choose from {known}")
    body = {"digest": open_request["digest"], "verdict": verdict, "who": who(), **more}
    server.request("POST", path_of(run, "answers", request["id"]), body)


def answer_request(args: argparse.Namespace, command: str, verdict: str, reason: str | None) -> int:
    """Show a request, ask, and answer it."""
    server = Server()
    chosen = choose_request(server, args, command)
    request = chosen.open_request["asked"]
    if request["choices"] and verdict.startswith("allow"):
        raise UsageError(
            f"{request_name(chosen.open_request)} is a question. Answer it: "
            f"unspool answer {chosen.run['id']} {request['id']} --choose N"
        )
    questions = {"allow": "Allow this?", "allow_session": "Allow this, and the same for the rest of the session?"}
    if not confirm(chosen, questions.get(verdict, "Deny this?"), as_json=args.json):
        print("Nothing was sent to the agent", file=sys.stderr)
        return 1
    send_answer(server, chosen.run["id"], chosen.open_request, verdict, reason=reason)
    report(chosen, verdict, reason, as_json=args.json)
    return 0


def report(chosen: ChosenRequest, verdict: str, reason: str | None, *, as_json: bool) -> None:
    """Print the answer that was sent."""
    if as_json:
        print_json(SentAnswer(verdict=verdict, reason=reason, question=chosen.open_request))
        return
    print(f"{PAST_TENSE[verdict]}: {request_name(chosen.open_request)}")
    if reason:
        print(to_agent(reason))


def to_agent(text: str) -> str:
    """Format a text that was sent to an agent."""
    return "→ to the agent: " + exact_text(text, prose=True).replace("\n", "\n  ")
