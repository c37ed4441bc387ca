"""`unspool attach`: watch a running agent in the terminal, send it messages and answer its requests."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

from ...core.errors import UnspoolError
from ...core.plural import counted
from ...render.exact import exact_text
from ...render.sanitize import harmless, one_line
from ...runs.state import RESTING
from .._shared.client import Server, path_of, who
from .._shared.decide import PAST_TENSE, send_answer, to_agent
from .._shared.output import print_json, print_note
from .._shared.request_text import request_lines
from .._shared.shown_requests import ShownRequests
from .answer import options_in

EXAMPLES = """examples:
  unspool attach
  unspool attach 3f2a          by a prefix of its id or session
  unspool attach --json | jq .kind"""

_HELP = """Type a message for the agent, or a command:
  a           allow the request           s           allow it for the session
  d [REASON]  deny it                     c CHOICE    answer a question: 2 or 1,3 or your own words
  i           interrupt the turn          m TEXT      send a message that starts like a command
  q           quit; the agent continues   ?           this help
With several requests, name one: a #2, d #2 too early"""
_VERDICTS = {"a": "allow", "s": "allow_session", "d": "deny", "r": "deny"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("agent", nargs="?", help="prefix of its id or session (default: the only one)")
    parser.add_argument("--json", action="store_true", help="print events as JSON, one per line")


def run(args: argparse.Namespace) -> int:
    """Watch an agent until it ends."""
    server = Server()
    since = server.request("GET", "/api/runs")["seq"]
    found = server.find(args.agent)
    return Attached(server, found, as_json=args.json).follow(since)


class Attached:
    """Shows one agent on a terminal or another output."""

    def __init__(self, server: Server, run: dict[str, Any], *, as_json: bool) -> None:
        self._server = server
        self._run = run
        self._as_json = as_json
        self._has_quit = False
        self._can_type = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
        self._held = ""
        """Text of the model that has not been printed yet."""
        self._speaker: str | None = None
        """The sub-agent that wrote last; None for the agent itself."""
        self._requests = ShownRequests()
        self._events: dict[str, Callable[[dict[str, Any]], None]] = {
            "words": self._show_words,
            "sent": lambda event: self._print(_from_person(event["message"])),
            "asked": lambda event: self._show_request(event["question"]),
            "answered": self._show_answer,
            "withdrawn": self._show_withdrawn,
            "turn_ended": lambda event: self._print(f"\n— {event['outcome']}{_because(event['error'])}"),
            "state": self._show_state,
            "queue": self._show_queue,
            "remarked": lambda event: self._print(f"· {harmless(event['text'])}"),
        }

    # --- events of the agent ---

    def follow(self, since: int, *, until_idle: bool = False) -> int:
        """Show the agent's events until it ends; with `until_idle` and without a terminal, until it is idle."""
        try:
            return self._follow(since, until_idle)
        except KeyboardInterrupt:
            if self._has_quit:
                return 0
            raise

    def _follow(self, since: int, until_idle: bool) -> int:
        if not self._as_json:
            print_note(f"{self._run['agent']} in {exact_text(self._run['folder'])}: {self._run['state']}")
            for open_request in self._run["questions"]:
                self._show_request(open_request)
        if self._can_type:
            print_note(_HELP)
            threading.Thread(target=self._read_input, daemon=True).start()
        has_finished_turn = False
        for event in self._server.events(since):
            if event["kind"] == "resync":
                self._catch_up()
            if event["run"] != self._run["id"]:
                continue
            self._show(event)
            has_finished_turn = has_finished_turn or event["kind"] == "turn_ended"
            if event["kind"] == "state" and event["state"] == "ended":
                return 0 if event["reason"] in ("done", "idle") or event["reason"].startswith("stopped") else 1
            # An agent is also idle before its first turn; that is not the end.
            if event["kind"] == "state" and event["state"] in RESTING and has_finished_turn:
                if until_idle and not self._can_type:
                    return 0
                has_finished_turn = False
        return 1

    def _catch_up(self) -> None:
        """Show the current open requests again, because events were missed."""
        self._run = self._server.request("GET", path_of(self._run["id"]))
        if not self._as_json:
            self._requests.keep_only([open_request["asked"]["id"] for open_request in self._run["questions"]])
            for open_request in self._run["questions"]:
                self._show_request(open_request)

    def _show(self, event: dict[str, Any]) -> None:
        if self._as_json:
            print_json(event)
        elif event["kind"] in self._events:
            self._events[event["kind"]](event)

    def _print(self, text: str) -> None:
        print(text, flush=True)

    def _show_words(self, event: dict[str, Any]) -> None:
        if event["thinking"]:
            return
        # Nothing is printed below a request until it is answered: text could look like another request.
        speaker = event.get("subagent")
        if speaker != self._speaker:
            self._held += f"\n[{one_line(speaker, 40)}] " if speaker else "\n"
        self._speaker = speaker
        self._held += harmless(event["text"])
        self._print_held()

    def _print_held(self) -> None:
        if not (self._can_type and self._requests.is_any_open):
            print(self._held, end="", flush=True)
            self._held = ""

    def _show_request(self, open_request: dict[str, Any]) -> None:
        number = self._requests.show(open_request)
        if number is not None:
            self._print("\n".join((f"\n? #{number}", *request_lines(self._run, open_request))))

    def _show_withdrawn(self, event: dict[str, Any]) -> None:
        self._requests.close(event["request"])
        self._print_held()

    def _show_answer(self, event: dict[str, Any]) -> None:
        self._requests.close(event["request"])
        self._print(f"! {PAST_TENSE[event['verdict']]} by {harmless(event['who'])}")
        if event["reason"]:
            self._print(to_agent(event["reason"]))
        self._print_held()

    def _show_state(self, event: dict[str, Any]) -> None:
        if event["state"] == "ended":
            self._print(f"— ended: {harmless(event['reason'])}")

    def _show_queue(self, event: dict[str, Any]) -> None:
        if event["held"] == "asking":
            waiting = counted(len(event["messages"]), "message")
            self._print(f"· {waiting} waiting since the interrupt: type `w send`, `w hold` or `w discard`")

    # --- input of the person ---

    def _read_input(self) -> None:
        for line in sys.stdin:
            text = line.strip()
            try:
                if text == "q":
                    self._has_quit = True
                    # The other thread is waiting for the next event, which may never come.
                    os.kill(os.getpid(), signal.SIGINT)
                    return
                if text:
                    self.act(text)
            except UnspoolError as error:
                print_note(f"unspool: {error}")
            finally:
                self._requests.line_was_typed()

    def act(self, text: str) -> None:
        """Execute a line of input."""
        word, _, rest = text.partition(" ")
        if text == "?":
            print_note(_HELP)
        elif text == "i":
            self._server.request("POST", path_of(self._run["id"], "interrupt"), {"who": who()})
        elif word in ("d", "r") or (word in ("a", "s") and (not rest or rest.startswith("#"))):
            self._answer(word, rest)
        elif word == "c":
            self._choose(rest)
        elif word == "w" and rest in ("send", "hold", "discard"):
            self._server.request("POST", path_of(self._run["id"], "queue"), {"action": rest, "who": who()})
        else:
            self._send(rest if word == "m" and rest else text)

    def _answer(self, word: str, rest: str) -> None:
        open_request, reason = self._requests.pick(rest)
        if open_request["asked"]["choices"] and word in ("a", "s"):
            raise UnspoolError("This is a question; answer it with `c CHOICE`, or dismiss it with `d`")
        send_answer(self._server, self._run["id"], open_request, _VERDICTS[word], reason=reason or None)

    def _choose(self, rest: str) -> None:
        open_request, text = self._requests.pick(rest)
        questions = open_request["asked"]["choices"]
        texts = [text] if len(questions) == 1 else text.split(";")
        if not text or len(texts) != len(questions):
            raise UnspoolError(
                f"Type `c` and {len(questions)} answers, separated by semicolons" if questions else _NONE
            )
        pairs = zip(questions, texts, strict=True)
        answers = {each["question"]: options_in(each, chosen.strip(), own_words=True) for each, chosen in pairs}
        send_answer(self._server, self._run["id"], open_request, "allow", answers=answers)
        self._print("\n".join(to_agent(f"{question} {', '.join(chosen)}") for question, chosen in answers.items()))

    def _send(self, text: str) -> None:
        self._server.request(
            "POST", path_of(self._run["id"], "messages"), {"id": uuid.uuid4().hex, "text": text, "who": who()}
        )


_NONE = "This is not a question; answer it with `a` or `d`"


def _because(error: str | None) -> str:
    return f": {harmless(error)}" if error else ""


def _from_person(message: dict[str, Any]) -> str:
    """Format a message to the agent, sent or queued."""
    waits = " (after this turn)" if message.get("state") == "queued" else ""
    sender = "" if message["who"] == who() else f" (from {harmless(message['who'])})"
    return f"{to_agent(message['text'])}{sender}{waits}"
