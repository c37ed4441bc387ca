"""`unspool context`: the model's context, at one message or at each of its replies."""

from __future__ import annotations

import argparse

import msgspec
from rich.text import Text

from ...core import model as m
from ...core.context_export import ContextLists, ReplyContext, ReplyLists, each_reply, list_context
from ...core.errors import UsageError
from ...core.session import Context, Session
from ...render.sanitize import harmless, one_line
from .._shared.failures import Failures
from .._shared.options import add_filters, add_json, add_limit, add_sessions, add_source, is_terminal
from .._shared.output import console, print_json, short_id
from .._shared.progress import with_progress
from .._shared.selection import Filter, choose, choose_one

EXAMPLES = """examples:
  unspool context latest --at 40
  unspool context latest --each --json"""


class MessageContext(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The model's context before a message."""

    agent: str
    session: str
    """Only its name, as in the output of other session readers."""
    message_index: int
    recorded: bool
    """False if the agent had replaced the context with a summary that is not in the log."""
    context: ContextLists
    message_indices: list[int] = []
    """With `--at`: the messages in the context."""
    reply: ReplyLists | None = None
    """With `--each`: the model's reply."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_sessions(parser, "the session (with --each, the default is all sessions)")
    add_source(parser)
    add_filters(parser)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--at",
        type=int,
        metavar="N",
        help="show the context before message N; use the number of messages for the next one",
    )
    group.add_argument("--each", action="store_true", help="show the context before every reply of the model")
    add_limit(parser, "with --each: only the newest N sessions")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the contexts."""
    if args.each:
        return _print_each(args)
    if len(args.sessions) != 1:
        raise UsageError("--at needs exactly one session; `unspool ls` lists them")
    for catalog, ref in choose_one(args):
        _print_at(catalog.load(ref), args.at, args.json)
    return 0


def _print_each(args: argparse.Namespace) -> int:
    failures, keep = Failures(args.debug), Filter(args)
    for catalog, ref in with_progress(failures.listing(keep.apply(choose(args))), "sessions"):
        with failures.skipping(ref):
            for session in filter(keep.takes_session, catalog.load_all(ref)):
                for reply in each_reply(session):
                    if args.json:
                        print_json(_item(session, reply))
                    else:
                        print(_summary(reply))
    return failures.exit_code


def _item(session: Session, reply: ReplyContext) -> MessageContext:
    return MessageContext(
        agent=session.agent,
        session=session.id,
        message_index=reply.message_index,
        recorded=reply.recorded,
        context=reply.context,
        reply=reply.reply,
    )


def _summary(reply: ReplyContext) -> str:
    lists = reply.context
    counts = (
        (lists.prompts, "prompts"),
        (lists.answers, "answers"),
        (lists.calls, "calls"),
        (lists.summaries, "summaries"),
    )
    had = ", ".join(f"{len(items)} {name}" for items, name in counts if items)
    said = one_line(" ".join(reply.reply.texts) or ", ".join(reply.reply.calls), 60)
    return f"{harmless(short_id(reply.session))}  #{reply.message_index:<5} {had or 'nothing'}  →  {said}"


def _print_at(session: Session, index: int, as_json: bool) -> None:
    if not 0 <= index <= len(session):
        raise UsageError(f"session {session.id} has {len(session)} messages; --at takes 0 to {len(session)}")
    context = session.context_at(index)
    if as_json:
        print_json(
            MessageContext(
                agent=session.agent,
                session=session.id,
                message_index=index,
                message_indices=context.message_indices,
                recorded=context.recorded,
                context=list_context(session, context),
            )
        )
    else:
        _print_messages(session, index, context)


def _print_messages(session: Session, index: int, context: Context) -> None:
    out = console()
    count = len(context.message_indices)
    where = f"before #{index}" if index < len(session) else "for the next message"
    out.print(Text(f"{count} of {len(session)} messages in context {where}"))
    if not context.recorded:
        out.print(Text("The agent had replaced its context with a summary that is not in the log.", "yellow"))
    omitted = set(context.omitted_calls)
    for number in context.message_indices:
        message = session.messages[number]
        words = " | ".join(_shown(block, omitted) for block in message.blocks)
        line = Text.assemble((f"#{number:<6}", "dim"), (f"{message.author:<9}", "cyan"), one_line(words, 150))
        out.print(line, soft_wrap=not is_terminal())


def _shown(block: m.Block, omitted: set[str]) -> str:
    match block:
        case m.Text(text=text) | m.Thinking(text=text):
            return text
        case m.CompactionMark(summary=summary):
            return f"[summary] {summary}" if summary else "[compaction]"
        case m.ToolCall(name=name, id=id):
            return f"[{name}]{' (omitted)' if id in omitted else ''}"
        case m.ToolResult(content=content):
            return f"[result] {content}"
        case m.Attachment(kind=kind, text=text):
            return f"[{kind}] {text or ''}"
        case _:
            return f"[{type(block).__name__.lower()}]"
