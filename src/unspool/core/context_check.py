"""Checks the contexts that a record claims against the tokens that the requests were billed for.

Every response records how many input tokens its request had, so that the log itself bounds the size of each context.
Messages only add to it: between two responses of one chain the number grows, unless something left the context. If it
shrinks much and the record knows of no reason, or if the record says that most of the context was removed and the
next request is as large as before, then one of the two is wrong. That is a problem to look at, never a correction.

The thresholds allow for what shrinks a request without a trace: reasoning of earlier turns that is not sent again, and
a shorter list of tools. Models count tokens differently, so requests to two models are not compared. The number of
bytes per token is measured in the session itself; if the tokens do not depend on the text, they prove nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from operator import sub
from typing import NamedTuple

from . import model as m
from .context import ContextMap
from .tree import INHERITED, NONE, Tree

_MOST_TOKENS = 1 << 40
"""Larger requests do not exist: the record is damaged."""
_MIN_TOKENS = 10_000
_MIN_SHARE = 0.3
"""A change counts if it is larger than both: a number of tokens, and a share of the previous request."""
_AS_LARGE = 0.9
"""A request that is larger than this share of the previous one has lost nothing."""
_MIN_STEPS = 3
_STEP_TOKENS = 100
"""The bytes per token are measured on at least this many steps, each of at least this many tokens."""
_BYTES_PER_TOKEN = (1.0, 60.0)
"""The plausible range: from languages with few bytes per token to short messages in long records."""


class Request(NamedTuple):
    """The request that led to a response."""

    tokens: int
    model: int


class Billed:
    """The input tokens of the requests of a session, in the order in which they were recorded."""

    __slots__ = ("_models", "firsts", "models", "tokens")

    def __init__(self) -> None:
        self.firsts: array[int] = array("i")
        """The first message of each response. A response whose usage was corrected appears again."""
        self.tokens: array[int] = array("q")
        self.models: array[int] = array("i")
        self._models: dict[str | None, int] = {}

    def add(self, first: int, usage: m.Usage, model: str | None) -> None:
        """Record the tokens of the request that led to a response."""
        # As `request_tokens` does, without another call for every response.
        tokens = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
        if not 0 <= tokens <= _MOST_TOKENS:
            # The record is damaged.
            tokens = 0
        firsts = self.firsts
        if firsts and firsts[-1] == first:
            self.tokens[-1] = tokens
            return
        firsts.append(first)
        self.tokens.append(tokens)
        self.models.append(self._models.setdefault(model, len(self._models)))

    def may_contradict(self, has_changes: bool) -> bool:
        """Whether a request may be too small, or too large after a change: a quick test, false for most sessions."""
        tokens = self.tokens
        if len(tokens) <= _MIN_STEPS or max(tokens) - min(tokens) <= _MIN_TOKENS:
            return False
        return has_changes or max(map(sub, accumulate(tokens, max), tokens)) > _MIN_TOKENS

    def by_response(self) -> dict[int, int]:
        """The tokens by the first message of the responses."""
        return {first: tokens for first, tokens in zip(self.firsts, self.tokens, strict=True) if tokens > 0}

    def requests(self) -> dict[int, Request]:
        """The requests by the first message of their responses."""
        rows = zip(self.firsts, self.tokens, self.models, strict=True)
        return {first: Request(tokens, model) for first, tokens, model in rows if tokens > 0}


class Contradiction(NamedTuple):
    """A response whose request contradicts the context that the record claims for it."""

    message_index: int
    tokens: int
    tokens_before: int
    is_claimed: bool
    """Whether the record claims that the context shrank."""

    @property
    def detail(self) -> str:
        """Describe the contradiction in a sentence."""
        if self.is_claimed:
            return (
                f"the record says that most of the context was removed before message {self.message_index}, but its "
                f"request had {self.tokens:,} input tokens, after {self.tokens_before:,} in the previous request"
            )
        return (
            f"the request of message {self.message_index} had {self.tokens:,} input tokens, after "
            f"{self.tokens_before:,} in the previous request, and the log does not say what left the context"
        )


def find_contradictions(
    tree: Tree, contexts: ContextMap, billed: Billed, lengths_of: Callable[[], array[int]]
) -> list[Contradiction]:
    """Find the responses whose requests contradict the claimed contexts; `lengths_of` returns the bytes of messages."""
    if not billed.may_contradict(contexts.has_changes):
        return []
    requests = billed.requests()
    if len(requests) <= _MIN_STEPS:
        return []
    check = _Check(tree, contexts, requests)
    suspects = [contradiction for contradiction in map(check.contradiction, requests) if contradiction is not None]
    if not suspects or not check.is_billed_by_text(lengths_of()):
        return []
    return [
        contradiction for contradiction in suspects if not contradiction.is_claimed or check.is_removed(contradiction)
    ]


class _Check:
    def __init__(self, tree: Tree, contexts: ContextMap, requests: dict[int, Request]) -> None:
        self._tree = tree
        self._contexts = contexts
        self._requests = requests
        self._changes = contexts.changes()
        self._above = array("i", [NONE]) * len(tree)
        """The nearest request at or above each message."""
        for index, parent in enumerate(tree.parents):
            if index in requests:
                self._above[index] = index
            elif 0 <= parent < index:
                self._above[index] = self._above[parent]

    def request_before(self, index: int) -> int:
        """Return the response before another one in its chain."""
        parent = self._tree.parents[index]
        return self._above[parent] if parent >= 0 else NONE

    def contradiction(self, index: int) -> Contradiction | None:
        """Compare a request with the one before it; `is_removed` has to confirm what the record claims."""
        before = self.request_before(index)
        if before < 0 or self._tree.flags[index] & INHERITED:
            return None
        (tokens, model), (tokens_before, model_before) = self._requests[index], self._requests[before]
        if model != model_before:
            return None
        claims_change = self._claims_change(before, index)
        if tokens_before - tokens > _limit(tokens_before) and not claims_change:
            return Contradiction(index, tokens, tokens_before, is_claimed=False)
        if tokens > _AS_LARGE * tokens_before and claims_change:
            return Contradiction(index, tokens, tokens_before, is_claimed=True)
        return None

    def is_billed_by_text(self, lengths: array[int]) -> bool:
        """Whether requests grow with the text that is added between them."""
        sums = array("q", accumulate(lengths, initial=0))
        steps = []
        for index, (tokens, model) in self._requests.items():
            before = self.request_before(index)
            if before >= 0 and self._requests[before].model == model:
                added = tokens - self._requests[before].tokens
                if added >= _STEP_TOKENS:
                    steps.append((sums[index] - sums[before]) / added)
        # Imported late: importing it takes longer than many commands.
        from statistics import median

        low, high = _BYTES_PER_TOKEN
        return len(steps) >= _MIN_STEPS and low <= median(steps) <= high

    def _claims_change(self, before: int, index: int) -> bool:
        position = bisect_right(self._changes, before)
        return position < len(self._changes) and self._changes[position] <= index

    def is_removed(self, contradiction: Contradiction) -> bool:
        """Whether the claimed context lost much between two requests, estimated by what earlier requests had added."""
        index = contradiction.message_index
        before = self.request_before(index)
        has = set(self._contexts.before(index).indices)
        removed = {each for each in self._contexts.before(before).indices if each in self._requests and each not in has}
        limit, lost, later = _limit(contradiction.tokens_before), 0, before
        while removed and (earlier := self.request_before(later)) >= 0:
            if earlier in removed:
                removed.remove(earlier)
                lost += max(0, self._requests[later].tokens - self._requests[earlier].tokens)
            later = earlier
        return lost > limit


def _limit(tokens_before: int) -> float:
    return max(_MIN_TOKENS, _MIN_SHARE * tokens_before)
