"""`unspool context`: what the model had before it, at one message or at each of its replies."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from ..contextview import each_reply, list_context
from ..errors import UsageError
from ..record import Session
from ..render.plain import one_line
from .options import add_places, add_sessions, choose
from .output import print_json
from .progress import watched

EXAMPLES = """examples:
  unspool context latest --at 40
  unspool context latest --each --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "the sessions; with --each, all by default")
    add_places(parser)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--at", type=int, metavar="N", help="the context before message N")
    group.add_argument("--each", action="store_true", help="the context before every reply of the model")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(args: argparse.Namespace) -> int:
    """Tell the contexts."""
    if args.at is not None and len(args.sessions) != 1:
        raise UsageError("--at N needs exactly one session; `unspool ls` lists them")
    for library, ref in watched(choose(args), "sessions"):
        for session in library.load_all(ref):
            if args.at is not None:
                _print_at(session, args.at, args.json)
                break
            for reply in each_reply(session):
                if args.json:
                    print_json(reply)
                else:
                    lists = reply.context
                    counts = f"{len(lists.prompts)} prompts, {len(lists.answers)} answers, {len(lists.calls)} calls"
                    said = one_line(" ".join(reply.reply.texts) or ", ".join(reply.reply.calls), 50)
                    print(
                        f"{session.id[:13]}  #{reply.message_index}  {counts}, {len(lists.summaries)} summaries  {said}"
                    )
    return 0


def _print_at(session: Session, index: int, as_json: bool) -> None:
    if not 0 <= index < len(session.messages):
        last = len(session.messages) - 1
        raise UsageError(f"session {session.id} has messages 0 to {last}; there is no message {index}")
    context = session.context_at(index)
    if as_json:
        print_json(
            {
                "session": session.id,
                "message_index": index,
                "message_indices": context.message_indices,
                "recorded": context.recorded,
                "context": list_context(session, context),
            }
        )
        return
    console = Console(highlight=False)
    console.print(
        Text(f"{len(context.message_indices)} of {len(session.messages)} messages in context before #{index}")
    )
    if not context.recorded:
        console.print(Text("The agent had replaced its context by a summary of which the log holds nothing.", "yellow"))
    omitted = set(context.omitted_calls)
    for place in context.message_indices:
        message = session.messages[place]
        words = " | ".join(_shown(block, omitted) for block in message.blocks)
        line = Text.assemble((f"#{place:<6}", "dim"), (f"{message.author:<9}", "cyan"), one_line(words, 150))
        console.print(line)


def _shown(block: object, omitted: set[str]) -> str:
    for name in ("text", "summary", "content"):
        if value := getattr(block, name, None):
            return str(value)
    call = getattr(block, "id", None)
    left_out = " (left out)" if call in omitted else ""
    return f"[{getattr(block, 'name', None) or getattr(block, 'kind', None) or type(block).__name__}]{left_out}"
