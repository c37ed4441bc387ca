"""Token usage of a Codex thread. A count belongs to the response before it, and may be repeated."""

from __future__ import annotations

from ...core import model as m
from ...core.builder import SessionBuilder
from ...core.tree import INHERITED
from .schema import CodexPayload, TokenUsage


class TokenMeter:
    """Counts the tokens of each request once."""

    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self.in_context: int | None = None
        """Size of the context after the last request."""
        self._total: tuple[int, int] | None = None
        self._has_records = False
        self._request = 0
        self._requests_since_prompt = 0
        self._compacted: m.Boundary | None = None

    def read(self, payload: CodexPayload) -> TokenUsage | None:
        """Read a count, and return its usage if it is a new request, which changes the total."""
        if payload.rate_limits is not None and payload.rate_limits.plan_type:
            self._builder.details.plan = payload.rate_limits.plan_type
        info = payload.info
        if info is None or info.total_token_usage is None or info.last_token_usage is None:
            return None
        last, total = info.last_token_usage, info.total_token_usage
        if self._compacted is not None and not last.input_tokens and not last.output_tokens:
            self._compacted.post_tokens = last.total_tokens
            self._compacted = None
        key = (total.input_tokens, total.output_tokens)
        if key == self._total or not (last.input_tokens or last.output_tokens):
            return None
        self._total = key
        return None if self._has_records else last

    def read_record(self, payload: CodexPayload) -> TokenUsage | None:
        """Read a usage record (0.148 and later); the counts of a thread that has them are ignored."""
        self._has_records = True
        return payload.usage

    def count(self, usage: TokenUsage, last_model: int, inherited: bool) -> bool:
        """Add the usage of a request, and return whether the context shrank before it.

        An `inherited` request was made by another thread. Some copies have its usage, but not its reply.
        """
        # Both are included in the input.
        cached = (usage.cached_input_tokens or 0) + (usage.cache_write_input_tokens or 0)
        tokens = m.Usage(
            max(0, usage.input_tokens - cached),
            usage.output_tokens,
            usage.cached_input_tokens,
            usage.cache_write_input_tokens,
            usage.reasoning_output_tokens,
        )
        before, self._request = self._request, usage.input_tokens
        shrunk = self._requests_since_prompt == 0 and 0 < usage.input_tokens < before
        self._requests_since_prompt += 1
        self.in_context = usage.total_tokens or self.in_context
        builder = self._builder
        if last_model >= 0 and last_model not in builder.corrections.usages:
            builder.set_usage(last_model, tokens)
        elif not inherited and (last_model < 0 or not builder.columns.flags[last_model] & INHERITED):
            builder.add_usage(tokens)
        return shrunk

    def note_prompt(self) -> None:
        """Note the start of a turn."""
        self._requests_since_prompt = 0

    def forget_size(self) -> None:
        """Forget the size of the last request, because the next one may be smaller."""
        self._request = 0

    def note_compaction(self, boundary: m.Boundary) -> None:
        """Note a compaction; the next empty count has the size of the context after it."""
        self.forget_size()
        self._compacted = boundary
