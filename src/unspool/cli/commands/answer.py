"""`unspool answer`: answer a question of an agent."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ...core.errors import UsageError
from .._shared.client import Server
from .._shared.decide import ChosenRequest, add_request_arguments, ask, choose_request, confirm, send_answer, to_agent
from .._shared.output import print_json
from .._shared.records import SentAnswer
from .._shared.request_text import request_name

EXAMPLES = """examples:
  unspool answer                               show the question, and ask
  unspool answer 3f2a ask-1:9f86d081884c --choose 2
  unspool answer 3f2a ask-1:9f86d081884c --choose 1,3 --choose "Use SQLite"

Without a terminal, the request must be named with its digest."""

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_request_arguments(parser)
    choose = "number or label of an option, several separated by commas; once for each question, in order"
    parser.add_argument("--choose", action="append", metavar="OPTION", help=choose)
    parser.add_argument("--text", action="append", help="an answer in your own words, instead of an option")


def run(args: argparse.Namespace) -> int:
    """Answer the question."""
    if args.choose and args.text:
        raise UsageError("Pass either --choose or --text, once for each question")
    server = Server()
    chosen = choose_request(server, args, "answer")
    questions = chosen.open_request["asked"]["choices"]
    if not questions:
        raise UsageError(
            f"{request_name(chosen.open_request)} is not a question. Decide it with `unspool approve` or `unspool deny`"
        )
    answers = _answers(chosen, args)
    if not answers:
        print("Nothing was sent to the agent", file=sys.stderr)
        return 1
    send_answer(server, chosen.run["id"], chosen.open_request, "allow", answers=answers)
    if args.json:
        print_json(SentAnswer(verdict="allow", answers=answers, question=chosen.open_request))
    else:
        print("\n".join(to_agent(f"{question} {', '.join(labels)}") for question, labels in answers.items()))
    return 0


def _answers(chosen: ChosenRequest, args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the answers by question; empty if the person cancels."""
    questions: list[Json] = chosen.open_request["asked"]["choices"]
    given = args.choose or args.text
    if given is None:
        if chosen.has_digest:
            raise UsageError("Pass an answer: --choose N or --text TEXT")
        return _ask_each(chosen, questions, as_json=args.json)
    if len(given) != len(questions):
        raise UsageError(f"There are {len(questions)} questions and {len(given)} answers; pass one for each, in order")
    pairs = zip(questions, given, strict=True)
    found = {each["question"]: [text] if args.text else options_in(each, text) for each, text in pairs}
    return found if confirm(chosen, f"Answer {'; '.join(given)}?", as_json=args.json) else {}


def _ask_each(chosen: ChosenRequest, questions: list[Json], *, as_json: bool) -> dict[str, list[str]]:
    confirm(chosen._replace(has_digest=True), "", as_json=as_json)
    found: dict[str, list[str]] = {}
    for number, question in enumerate(questions, 1):
        text = ask(f"Answer to question {number} (a number, or your own words; empty to cancel): ")
        if not text:
            return {}
        found[question["question"]] = options_in(question, text, own_words=True)
    return found


def options_in(question: Json, text: str, *, own_words: bool = False) -> list[str]:
    """Return the labels of the options that a text selects by number or label."""
    labels = [option["label"] for option in question["options"]]
    if text in labels:
        return [text]
    numbers = [int(each) for each in text.split(",") if each.strip().isdecimal()]
    if len(numbers) == len(text.split(",")) and all(0 < each <= len(labels) for each in numbers):
        if len(numbers) > 1 and not question["multiple"]:
            raise UsageError(f"Only one answer is possible, not {text!r}")
        return [labels[each - 1] for each in numbers]
    if own_words and not numbers:
        return [text]
    raise UsageError(f"There is no option {text!r}; pass a number from 1 to {len(labels)} or a label")
