"""Preference data: rejected actions with the reason, and the actions that were accepted after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from ..agents import agent_named
from ..core import model as m
from ..core import typed_json
from ..core.session import Session, ToolUse
from .conversation import EmptyContextError, conversation_at
from .openai_request import OpenAIMessages
from .turns import Turn, turns_of

Match = Literal["same_target", "same_kind", "next_action"]
_CONFIDENCE: dict[Match, float] = {"same_target": 1.0, "same_kind": 0.8, "next_action": 0.5}
_AFTER_PROMPT = 0.75
"""The factor for a prompt between the two actions, which may be about something else."""
_MATCHES: tuple[Match, ...] = ("same_target", "same_kind", "next_action")


class PairFunction(msgspec.Struct):
    """The function of a call."""

    name: str
    arguments: str
    """JSON in a string, as in the Chat Completions API."""


class PairCall(msgspec.Struct):
    """A tool call."""

    id: str
    type: Literal["function"]
    function: PairFunction


class PairMessage(msgspec.Struct, omit_defaults=True):
    """A message, as in the Chat Completions API."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    """Text, or a list of text and image parts."""
    tool_calls: list[PairCall] = []
    tool_call_id: str | None = None


class PreferencePair(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A rejected action and the accepted one that followed, with the context of the model."""

    prompt: list[PairMessage]
    """The context in which the model proposed the rejected action."""
    chosen: list[PairMessage]
    """The accepted action, with the model's text in the same response."""
    rejected: list[PairMessage]
    """The rejected action, with the model's text in the same response."""
    reason: str | None = None
    """The reason that was given for the rejection."""
    next_prompt: str | None = None
    """The user's prompt between the two actions, which often explains the rejection."""
    rejected_by: m.RejectedBy
    rejection_type: m.RejectionType
    match: Match
    """How similar the actions are: about the same file, of the same kind, or only consecutive."""
    confidence: float
    """The confidence that one was preferred to the other, from 0 to 1."""
    recorded: bool = True
    """False if a part of the context is not in the log."""
    agent: str
    session: str
    project: str | None = None
    model: str | None = None
    timestamp: datetime | None = None
    """When the action was rejected."""
    rejected_index: int
    """The message with the rejected call."""
    rejection_index: int
    """The message that records the rejection."""
    chosen_index: int
    """The message with the accepted call."""


class _Candidate(NamedTuple):
    use: ToolUse
    match: Match


def pairs_of(session: Session, takes: Callable[[m.Rejection], bool] = lambda _: True) -> Iterator[PreferencePair]:
    """Yield the pairs of a session. A rejection without a later action has no pair."""
    rejected = [use for use in session.tool_calls() if use.rejection is not None and takes(use.rejection)]
    if rejected:
        finder = _Finder(session)
        for use in rejected:
            pair = finder.pair(use)
            if pair is not None:
                yield pair


class _Finder:
    """Finds the accepted action after a rejection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._describe = agent_named(session.agent).describe
        self._turns = {use.message_index: turn for turn in turns_of(session) for use in turn.uses}
        self._uses: dict[int, list[ToolUse]] = {}
        for use in session.tool_calls():
            self._uses.setdefault(use.message_index, []).append(use)

    def pair(self, use: ToolUse) -> PreferencePair | None:
        """Return the pair for a rejected call, if there is one."""
        rejection = use.rejection
        assert rejection is not None
        following, prompt = self._following(use, rejection)
        found = self._best(use, following)
        if found is None:
            return None
        try:
            context = conversation_at(self._session, use.message_index)
        except EmptyContextError:
            return None
        write = OpenAIMessages()
        info = self._session.info
        messages = [*write.system(context.system), *write.of(context.turns)]
        return PreferencePair(
            prompt=_typed(messages),
            chosen=_typed([self._response(write, found.use)]),
            rejected=_typed([self._response(write, use)]),
            reason=rejection.reason,
            next_prompt=prompt,
            rejected_by=rejection.by,
            rejection_type=rejection.rejection_type,
            match=found.match,
            confidence=round(rejection.confidence * _CONFIDENCE[found.match] * (_AFTER_PROMPT if prompt else 1), 4),
            recorded=context.recorded,
            agent=info.agent,
            session=info.id,
            project=info.project.name if info.project is not None else None,
            model=self._turns[use.message_index].model,
            timestamp=rejection.timestamp,
            rejected_index=use.message_index,
            rejection_index=rejection.message_index,
            chosen_index=found.use.message_index,
        )

    def _response(self, write: OpenAIMessages, use: ToolUse) -> dict[str, Any]:
        turn: Turn = self._turns[use.message_index]
        return write.response(turn.text, [use.call])

    def _following(self, use: ToolUse, rejection: m.Rejection) -> tuple[list[ToolUse], str | None]:
        """Return the calls that respond to a rejection, and the user's prompt among them, if any.

        The calls end at the next prompt. If the rejection has no reason, the first prompt is taken as the reason, and
        the calls end at the second one.
        """
        start = max(rejection.message_index, use.message_index)
        branch = self._session.messages[start].branch
        prompts: list[str] = []
        found: list[ToolUse] = []
        for message in self._session.messages[start + 1 :]:
            if message.branch != branch:
                continue
            if message.author == "human" and message.role == "user" and message.text:
                if prompts or rejection.reason:
                    break
                prompts.append(message.text)
            found += self._uses.get(message.index, ())
        return found, prompts[0] if prompts else None

    def _best(self, use: ToolUse, following: list[ToolUse]) -> _Candidate | None:
        """Return the first of the most similar accepted actions, if any."""
        best: _Candidate | None = None
        for other in following:
            if other.outcome not in ("ok", "error"):
                continue
            if other.name == use.name and other.input == use.input:
                # The same action was accepted later, so no other one was preferred to it.
                return None
            match = self._match(use, other)
            if best is None or _MATCHES.index(match) < _MATCHES.index(best.match):
                best = _Candidate(other, match)
        return best

    def _match(self, one: ToolUse, other: ToolUse) -> Match:
        a, b = (self._describe(use.name, use.call.raw_input) for use in (one, other))
        is_same_kind = one.name == other.name or _kind(a) == _kind(b) != ""
        if is_same_kind and a.path is not None and a.path == b.path:
            return "same_target"
        return "same_kind" if is_same_kind else "next_action"


def _kind(action: m.Action) -> str:
    if action.diff is not None:
        return "edit"
    if action.command is not None:
        return "command"
    return "plan" if action.plan is not None else ""


def _typed(messages: list[dict[str, Any]]) -> list[PairMessage]:
    return typed_json.convert(messages, list[PairMessage])
