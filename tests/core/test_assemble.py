"""What is known about messages after the last line."""

from __future__ import annotations

import pytest

from unspool.core import model as m
from unspool.core.assemble import SessionAssembler

from .test_sinks import build, fill


@pytest.mark.parametrize("after", range(3))
def test_messages_before_a_clear_are_cleared(after: int) -> None:
    """Also if it is only the first one."""
    builder = build()
    fill(builder, 4)
    builder.events.context_clears.append(m.ContextClear(after_message_index=after, evidence="session", confidence=1.0))
    session = SessionAssembler(builder).session()
    assert [message.context for message in session.messages] == ["cleared"] * (after + 1) + ["live"] * (3 - after)
