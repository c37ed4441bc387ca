"""Annotations that people add to sessions: pins, notes and tags.

They are saved in the store, never in the agents' files. Only sessions that are exported from a store have them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

AnnotationKind = Literal["pin", "note", "tag"]


class Annotation(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pin, a note or a tag."""

    id: int
    """Its number in the store."""
    kind: AnnotationKind
    """Whether it is a pin, a note or a tag."""
    text: str = ""
    """The note or the tag; pins may have none."""
    message_index: int | None = None
    """The message that it is attached to; None if it is about the whole session."""
    at: datetime | None = None
    """When it was added."""
