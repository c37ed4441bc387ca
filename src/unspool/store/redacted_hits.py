"""Search hits without secrets."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import model as m
from ..redact import Redactor
from ..search.query import Node
from ..search.snippet import snippet
from .indexed_text import no_tool_name, texts_of
from .search import Found, Hit
from .store import Store


def redact_hits(store: Store, found: Iterable[Found], node: Node | None, redactor: Redactor) -> None:
    """Replace the snippets of hits with ones from redacted texts: in a snippet, a secret may be cut in two."""
    for session in found:
        messages = store.messages.read_each(session.session.id, (hit.message_index for hit in session.hits))
        for hit in session.hits:
            message = messages.get(hit.message_index)
            if message is not None:
                _redact(hit, message, node, redactor)


def _redact(hit: Hit, message: m.Message, node: Node | None, redactor: Redactor) -> None:
    redacted = redactor.message(message)
    if redacted is message:
        return
    texts = [text.text for text in texts_of(redacted, no_tool_name) if text.field == hit.field]
    shown = [snippet(text, node) for text in texts]
    hit.snippet = next((one for one in shown if one.marks), shown[0] if shown else snippet("", None))
