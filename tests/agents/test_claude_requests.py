"""Claude Code 2.1.310 and later log the exact requests: what the record says the model had is what it was sent."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.api import samples
from unspool.core import model as m
from unspool.core.context_export import list_context
from unspool.core.session import Session
from unspool.library import Library

from ..recordings import recordings

HOMES = [
    *(found.home for found in recordings() if found.agent == "claude" and found.version in ("2.1.310", "2.1.325")),
    samples(),
]


class Requests:
    """The requests in a log, put together again from their pieces.

    A message that stands in the transcript word for word is not written once more: of those only the hash is known.
    """

    def __init__(self, path: Path) -> None:
        lines = list(_records(path))
        self._messages = {line["hash"]: line["message"] for line in lines if line["type"] == "api-request-blob"}
        self._requests = {line["id"]: line for line in lines if line["type"] == "api-request"}
        self.of_reply = {
            line["uuid"]: line["requestRef"]
            for line in lines
            if line["type"] == "assistant" and line.get("requestRef") in self._requests
        }

    def sent(self, id: str) -> list[dict[str, Any]]:
        """The messages of a request, as far as they are known."""
        return [self._messages[hash] for hash in self._hashes(id) if hash in self._messages]

    def _hashes(self, id: str) -> list[str]:
        request = self._requests.get(id)
        if request is None:
            return []
        kept = self._hashes(request["base"])[: request["keep"]] if request.get("base") else []
        return [*kept, *request["tail"]]


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def blocks(messages: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    """All blocks of a kind."""
    for message in messages:
        if isinstance(message["content"], list):
            yield from (block for block in message["content"] if block["type"] == kind)


def words(messages: list[dict[str, Any]]) -> set[str]:
    """What the model was told in words."""
    texts = {message["content"] for message in messages if isinstance(message["content"], str)}
    texts |= {block["text"] for block in blocks(messages, "text")}
    return {text.strip() for text in texts}


def words_in(session: Session, indices: list[int]) -> set[str]:
    """The same of messages of the record."""
    found = (block for index in indices for block in session.messages[index].blocks)
    return {block.text.strip() for block in found if isinstance(block, m.Text)}


def test_the_context_holds_what_was_sent() -> None:
    """Every call, result and word that a request is known to hold is in the context of its reply."""
    compared = 0
    for home in HOMES:
        library = Library(home)
        for ref in library.refs():
            if ref.agent == "claude":
                compared += _compare(Requests(ref.path), library.load(ref))
    assert compared > 300


def _compare(requests: Requests, session: Session) -> int:
    compared = 0
    everything = words_in(session, list(range(len(session.messages))))
    for message in session.messages:
        request = requests.of_reply.get(message.id or "") if message.reply == message.index else None
        if request is None or message.inherited:
            continue
        sent = requests.sent(request)
        context = session.context_at(message.index)
        told = list_context(session, context)
        where = f"{session.id} #{message.index}"
        assert {block["id"] for block in blocks(sent, "tool_use")} <= set(told.calls), where
        assert {block["tool_use_id"] for block in blocks(sent, "tool_result")} <= set(told.results), where
        said = words(sent) & everything
        assert said <= words_in(session, context.message_indices), where
        compared += 1
    return compared
