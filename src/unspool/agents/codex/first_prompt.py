"""Finds the first prompt of a Codex thread without reading the whole file, for lists of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...io.decode import Damage
from ...io.documents import split_document
from ...io.files import iter_records, read_whole, while_unchanged
from .authors import author_of
from .content import joined_text
from .discovery import CodexHead, read_head
from .inheritance import parent_copy
from .schema import BARE_RECORDS, ITEMS, RECORDS, CodexPayload

_REVIEW = {"entered_review_mode": True, "exited_review_mode": False}
"""Events around a review. A message between them is the prompt of the reviewer, which is another thread."""
_STEP = 1 << 16
"""Bytes to read at a time; instructions, tools and attached files may precede the prompt."""


@while_unchanged
def first_prompt(path: Path) -> str | None:
    """Return the first prompt of a person, or the task of a sub-agent; None if there is none."""
    is_review = False
    for body in _bodies(path, read_head(path)):
        if body.type in _REVIEW:
            is_review = _REVIEW[body.type]
        elif not is_review and (text := _prompt_in(body)):
            return text
    return None


def _bodies(path: Path, head: CodexHead) -> Iterator[CodexPayload]:
    """Iterate over the items and events of a file in any format."""
    if path.suffix == ".json":
        for element in split_document(read_whole(path) or b"", "items").elements:
            yield from (
                found[0] for found in ITEMS.line(element.data, element.location) if not isinstance(found, Damage)
            )
    elif head.bare:
        for bare in iter_records(path, BARE_RECORDS, _STEP):
            yield bare.payload or bare
    else:
        # A fork has the title of its origin, but a sub-agent has a task of its own.
        copied = parent_copy(head)
        for record in iter_records(path, RECORDS, _STEP):
            if copied is None or not copied.has(record):
                yield record.payload


def _prompt_in(body: CodexPayload) -> str | None:
    """Return the text of a prompt; None for anything else."""
    if body.type == "user_message":
        return body.message
    if body.type != "message" or body.role != "user":
        return None
    text = joined_text(body.content)
    return text if author_of(body, text, is_main=True) == "human" else None
