"""Exports sessions as ATIF trajectories (Agent Trajectory Interchange Format).

The steps are those of the active branch. Other branches, with their steps, and all events are in `extra.unspool`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..agents import agent_named
from ..core import model as m
from ..core.session import Session, ToolUse
from .extension import NAMESPACE, Extension, without_none
from .file_names import safe_name
from .images import data_url, media_type_of
from .turns import Turn, prompt_tokens, turns_of
from .values import arguments_of, encode, to_plain

ATIF_VERSION = "ATIF-v1.8"
SUFFIX = ".json"
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_UNKNOWN = "unknown"


def trajectory(session: Session) -> Iterator[bytes]:
    """Yield a session as one JSON document on one line."""
    writer = _Steps(session)
    info, title = session.info, agent_named(session.agent).info.title
    agent = {
        "name": session.agent,
        "version": info.versions[-1] if info.versions else _UNKNOWN,
        "model_name": info.models[-1] if info.models else None,
        "extra": {NAMESPACE: {"title": title}},
    }
    head = {
        "schema_version": ATIF_VERSION, "session_id": info.parent or info.id, "trajectory_id": info.id,
        "agent": without_none(agent),
    }  # fmt: skip
    yield encode(head)[:-1] + b',"steps":['
    count = 0
    for count, turn in enumerate(writer.turns.get(0, ()), 1):
        yield (b"," if count > 1 else b"") + encode(writer.step(turn, count))
    rest = {"final_metrics": _final_metrics(info.usage, count), "extra": {NAMESPACE: writer.rest()}}
    yield b"]," + encode(rest)[1:] + b"\n"


class _Steps:
    """Makes the steps of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._extension = Extension(session)
        self.turns: dict[int, list[Turn]] = {}
        for turn in turns_of(session):
            self.turns.setdefault(turn.branch, []).append(turn)
        self._started: dict[str, list[m.Subagent]] = {}
        for agent in session.subagents:
            if agent.tool_use_id is not None and agent.session is not None:
                self._started.setdefault(agent.tool_use_id, []).append(agent)

    def rest(self) -> dict[str, Any]:
        """Return the data outside of the steps: facts about the session, other branches, and other events."""
        shown = {index for turns in self.turns.values() for turn in turns for index in turn.indices}
        branches = [
            {
                **to_plain(branch),
                "steps": [self.step(turn, at) for at, turn in enumerate(self.turns.get(branch.id, ()), 1)],
            }
            for branch in self._session.branches
        ]
        return {**self._extension.facts(), "branches": branches, "events": self._extension.elsewhere(shown)}

    def step(self, turn: Turn, number: int) -> dict[str, Any]:
        """Return a step. Fields that are only valid for steps of the agent are left out of others."""
        first = turn.first
        step: dict[str, Any] = {
            "step_id": number,
            "timestamp": to_plain(turn.timestamp) if turn.timestamp is not None else None,
            "source": _source(turn),
            "message": _message(turn),
            "is_copied_context": True if first.inherited else None,
            "extra": {NAMESPACE: self._extra(turn)},
        }
        results = self._results(turn)
        if step["source"] == "agent":
            step |= {
                "model_name": turn.model,
                "llm_call_count": 1 if turn.is_response else 0,
                "tool_calls": [_call(use) for use in turn.uses] or None,
            }
            if turn.is_response:
                step |= {"reasoning_content": turn.thinking or None, "metrics": _metrics(turn.usage)}
        elif turn.uses:
            # Only the agent calls tools, so this log is damaged. The calls are kept in the extension.
            step["extra"][NAMESPACE]["tool_calls"] = [_call(use) for use in turn.uses]
            results = [{**result, "source_call_id": None} for result in results]
        if results:
            step["observation"] = {"results": [without_none(result) for result in results]}
        return without_none(step)

    def _extra(self, turn: Turn) -> dict[str, Any]:
        first = turn.first
        extra = {
            "message_indices": turn.indices,
            "author": first.author,
            "context": first.context if first.context != "live" else None,
            "events": self._extension.at(turn.indices) or None,
        }
        return without_none(extra)

    def _results(self, turn: Turn) -> list[dict[str, Any]]:
        found = [_result(use.result, use) for use in turn.uses if use.result is not None]
        own = [block for block in turn.blocks if isinstance(block, m.ToolResult)]
        # A second result of a call, or one whose call is not in the log.
        found += [_result(block, None) for block in own]
        for use in turn.uses:
            references = [_reference(agent) for agent in self._started.get(use.id, ())]
            if references:
                of_call = next((result for result in found if result["source_call_id"] == use.id), None)
                if of_call is None:
                    found.append({"source_call_id": use.id, "subagent_trajectory_ref": references})
                else:
                    of_call["subagent_trajectory_ref"] = references
        return found


def _source(turn: Turn) -> str:
    first = turn.first
    if first.role == "assistant":
        return "agent"
    return "user" if first.role == "user" and first.author in ("human", "subagent", "model", "operator") else "system"


def _message(turn: Turn) -> str | list[dict[str, Any]]:
    images = turn.images
    if not images:
        return turn.text
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    return [*text, *map(_image, images)]


def _image(image: m.Image) -> dict[str, Any]:
    kind, url = media_type_of(image), data_url(image) or image.url
    if kind not in _IMAGES or not url:
        return {"type": "text", "text": f"[image {image.url or kind or ''}]".replace(" ]", "]")}
    return {"type": "image", "source": {"media_type": kind, "path": url}}


def _call(use: ToolUse) -> dict[str, Any]:
    extra: dict[str, Any] = {"outcome": use.outcome}
    if use.rejection is not None:
        extra["rejected_by"] = use.rejection.by
    return {
        "tool_call_id": use.id,
        "function_name": use.name,
        "arguments": arguments_of(use.call.raw_input),
        "extra": {NAMESPACE: extra},
    }


def _result(result: m.ToolResult, use: ToolUse | None) -> dict[str, Any]:
    images = [_image(part) for part in result.parts if isinstance(part, m.Image)]
    text = [{"type": "text", "text": result.content}] if result.content or not images else []
    extra = {
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "sent": False if not result.sent else None,
        "message_index": use.result_index if use is not None else None,
        "tool_use_id": result.call_id if use is None else None,
    }
    return {
        "source_call_id": use.id if use is not None else None,
        "content": [*text, *images] if images else result.content,
        "extra": {NAMESPACE: without_none(to_plain(extra))},
    }


def _reference(agent: m.Subagent) -> dict[str, Any]:
    """Return a reference to the file of a sub-agent, which is in the same folder if a directory is exported."""
    return {
        "trajectory_path": safe_name(agent.session or "") + SUFFIX,
        "session_id": agent.session,
        "extra": {NAMESPACE: to_plain(agent)},
    }


def _metrics(usage: m.Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    extra = without_none({"cache_write_tokens": usage.cache_write, "reasoning_tokens": usage.reasoning})
    metrics = {
        "prompt_tokens": prompt_tokens(usage), "completion_tokens": usage.output, "cached_tokens": usage.cache_read,
        "extra": extra or None,
    }  # fmt: skip
    return without_none(metrics)


def _final_metrics(usage: m.Usage, steps: int) -> dict[str, Any]:
    metrics = {
        "total_prompt_tokens": prompt_tokens(usage), "total_completion_tokens": usage.output,
        "total_cached_tokens": usage.cache_read, "total_steps": steps,
    }  # fmt: skip
    return without_none(metrics)
