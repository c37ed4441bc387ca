"""What people add to sessions: pins, notes and tags. They are kept in the store, never in the agents' files.

A session has them where it comes from a store: when it is exported.
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
    """What it is."""
    text: str = ""
    """The note or the tag; pins may have none."""
    message_index: int | None = None
    """The message it is at; None if it is about the whole session."""
    at: datetime | None = None
    """When it was added."""
