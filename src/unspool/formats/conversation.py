"""Converts a context to the turns of a request to a model: roles alternate, and each call is followed by its result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from ..core import model as m
from ..core.errors import NotFoundError, UsageError
from ..core.plural import counted
from ..core.session import Context, Session
from .turns import text_of

UNKNOWN_MODEL = "unknown"
"""The model of a request if it is not in the log."""
_START = "[The beginning of the conversation is not in the log.]"


class EmptyContextError(NotFoundError):
    """The context is empty, but a request needs at least one message."""


class LeftOut(NamedTuple):
    """Content of a context that a request cannot contain."""

    noun: str
    why: str
    number: int

    def __str__(self) -> str:
        return f"{counted(self.number, self.noun)} left out {self.why}"


class ContextTurn(msgspec.Struct, kw_only=True):
    """Consecutive messages of one role."""

    role: Literal["user", "assistant"]
    replies: set[int] = set()
    """The responses that it contains, by their `Message.reply`."""
    texts: list[str] = []
    images: list[m.Image] = []
    calls: list[m.ToolCall] = []
    results: list[m.ToolResult] = []
    """The results of the previous turn's calls, in the order of the calls."""


class Conversation(msgspec.Struct, kw_only=True):
    """The context of the model, in a form that providers accept."""

    session: str
    model: str | None
    system: list[str]
    """Instructions to the model."""
    turns: list[ContextTurn]
    """Turns with alternating roles, starting with the user."""
    left_out: list[LeftOut]
    """Content that had to be left out."""
    recorded: bool
    """False if the agent replaced a part of the context with something that is not in the log."""

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were called."""
        return list(dict.fromkeys(call.name for turn in self.turns for call in turn.calls))


def conversation_at(session: Session, index: int | None = None, prompt: str | None = None) -> Conversation:
    """Return the context before a message, or the current one, followed by `prompt` if it is given."""
    if index is not None and not 0 <= index <= len(session):
        raise UsageError(f"session {session.id} has {len(session)} messages; --at takes 0 to {len(session)}")
    context = session.context_now() if index is None else session.context_at(index)
    made = _Builder(session, context)
    if prompt is not None:
        made.add_text("user", prompt)
    found = made.finish()
    if not found.turns:
        when = "now" if index is None else f"before message {index}"
        raise EmptyContextError(f"session {session.id} has nothing in its context {when}")
    return found


class _Builder:
    """Builds a conversation from the messages of a context."""

    def __init__(self, session: Session, context: Context) -> None:
        self._turns: list[ContextTurn] = []
        self._results: dict[str, m.ToolResult] = {}
        self._system: list[str] = []
        self._thoughts = 0
        self._unknown = 0
        self._session = session
        self._context = context
        messages = [session.messages[index] for index in context.message_indices]
        for message in messages:
            for block in message.blocks:
                if isinstance(block, m.ToolResult) and block.sent:
                    self._results.setdefault(block.call_id, block)
        for message in messages:
            self._add(message)

    def _add(self, message: m.Message) -> None:
        if message.role == "system":
            # Only text blocks are for the model. The others are notes of the agent for the user.
            self._system += [block.text for block in message.blocks if isinstance(block, m.Text) and block.text.strip()]
        elif message.role == "user":
            self._add_user(message.blocks)
        elif message.author == "model":
            self._add_response(message)

    def _add_user(self, blocks: Iterable[m.Block]) -> None:
        for block in blocks:
            if isinstance(block, m.Image):
                self._turn("user").images.append(block)
            elif isinstance(block, m.Unknown):
                self._unknown += 1
            elif text := text_of(block):
                self.add_text("user", text)

    def _add_response(self, message: m.Message) -> None:
        turn = self._turn_of(message.reply)
        for block in message.blocks:
            if isinstance(block, m.ToolCall):
                turn.calls.append(block)
            elif isinstance(block, m.Thinking):
                self._thoughts += 1
            elif isinstance(block, m.Unknown):
                self._unknown += 1
            elif (text := text_of(block)) and text.strip():
                turn.texts.append(text)

    def add_text(self, role: Literal["user", "assistant"], text: str) -> None:
        """Append a text."""
        if text.strip():
            self._turn(role).texts.append(text)

    def _turn(self, role: Literal["user", "assistant"]) -> ContextTurn:
        if not self._turns or self._turns[-1].role != role:
            self._turns.append(ContextTurn(role=role))
        return self._turns[-1]

    def _turn_of(self, reply: int | None) -> ContextTurn:
        """Return the turn of a response, whose parts may be separated by results."""
        for turn in reversed(self._turns[-2:]):
            if turn.role == "assistant" and reply is not None and reply in turn.replies:
                return turn
        if self._turns and self._turns[-1].role == "assistant" and self._turns[-1].calls:
            # This is another response after calls, so their results belong between the two.
            self._turns.append(ContextTurn(role="user"))
        turn = self._turn("assistant")
        if reply is not None:
            turn.replies = {*turn.replies, reply}
        return turn

    def finish(self) -> Conversation:
        """Add the result of every call, leave out calls without one, and make the roles alternate."""
        made_up = set(self._context.made_up_results)
        dropped: list[str] = []
        answered: set[str] = set()
        turns: list[ContextTurn] = []
        for turn in self._turns:
            if turn.role == "user" and turns and turns[-1].role == "assistant":
                turn.results = self._answers(turns[-1].calls)
            kept = []
            for call in turn.calls:
                if call.id in made_up and call.id not in self._results:
                    self._results[call.id] = m.ToolResult(call.id, m.MADE_UP_RESULT, "unknown", synthetic=True)
                if call.id in self._results and call.id not in answered:
                    kept.append(call)
                    answered.add(call.id)
                else:
                    dropped.append(call.id)
            turn.calls = kept
            if turn.texts or turn.images or turn.calls or turn.results:
                _append(turns, turn)
        if turns and turns[-1].calls:
            turns.append(ContextTurn(role="user", results=self._answers(turns[-1].calls)))
        if turns and turns[0].role == "assistant":
            turns.insert(0, ContextTurn(role="user", texts=[_START]))
        return Conversation(
            session=self._session.id,
            model=self._session.info.models[-1] if self._session.info.models else None,
            system=self._system,
            turns=turns,
            left_out=self._left_out(dropped, answered),
            recorded=self._context.recorded,
        )

    def _answers(self, calls: list[m.ToolCall]) -> list[m.ToolResult]:
        return [self._results[call.id] for call in calls if call.id in self._results]

    def _left_out(self, dropped: list[str], answered: set[str]) -> list[LeftOut]:
        lost = len(self._results.keys() - answered)
        found = (
            LeftOut("call", "without a result", len(dropped)),
            LeftOut("result", "without a call in the context", lost),
            LeftOut("thinking block", "because providers accept only what they have signed", self._thoughts),
            LeftOut("block", "of an unknown kind", self._unknown),
            LeftOut("summary", "because the log does not have it", int(not self._context.recorded)),
        )
        return [each for each in found if each.number]


def _append(turns: list[ContextTurn], turn: ContextTurn) -> None:
    """Append a turn, or merge it into the last one if both have the same role."""
    if turns and turns[-1].role == turn.role:
        last = turns[-1]
        last.texts += turn.texts
        last.images += turn.images
        last.calls += turn.calls
        last.results += turn.results
    else:
        turns.append(turn)


class Names:
    """Maps names or ids to unique ones that a provider accepts."""

    def __init__(self, most: int, prefix: str) -> None:
        self._most = most
        self._prefix = prefix
        self._names: dict[str, str] = {}
        self._used: set[str] = set()

    def __call__(self, original: str) -> str:
        """Return the accepted name of an original."""
        name = self._names.get(original)
        if name is None:
            plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "_-") else "_" for sign in original)
            name = plain = plain[: self._most] or self._prefix
            number = 1
            while name in self._used:
                number += 1
                name = f"{plain[: self._most - len(str(number)) - 1]}_{number}"
            self._names[original] = name
            self._used.add(name)
        return name
