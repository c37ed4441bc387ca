"""The shapes of records name kinds and fields, and never content."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.agents import AGENTS
from unspool.agents.shapes import Json, Shape, known_shapes, new_in, paths_in

from ..regen import KNOWN_SHAPES, known_shapes_text


@pytest.mark.parametrize(
    ("agent", "record", "kind"),
    [
        ("claude", {"type": "user"}, "user"),
        ("claude", {"type": "system", "subtype": "api_error"}, "system/api_error"),
        ("claude", {"type": "attachment", "attachment": {"type": "date"}}, "attachment/date"),
        ("codex", {"type": "event_msg", "payload": {"type": "token_count"}}, "event_msg/token_count"),
        (
            "codex",
            {"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "Plan"}}},
            "event_msg/item_completed/Plan",
        ),
        ("codex", {"id": "x", "timestamp": "t", "instructions": None}, "?"),
        ("gemini", {"sessionId": "s", "projectHash": "h"}, "header"),
        ("gemini", {"id": "1", "type": "gemini"}, "gemini"),
        ("gemini", {"$set": {"messages": [], "lastUpdated": "t"}}, "$set/lastUpdated/messages"),
        ("gemini", {"$rewindTo": "1"}, "$rewindTo"),
        ("claude", {"type": 7}, "?"),
        ("claude", {"type": "a secret sentence"}, "*"),
    ],
)
def test_kinds(agent: str, record: Json, kind: str) -> None:
    """The fields in which the agents say what a record is."""
    assert Shape().add(AGENTS[agent], record) == kind


def test_paths_name_fields_and_not_data() -> None:
    """Keys that are paths, models or ids count as one; inputs of tools are not examined."""
    record: Any = {
        "message": {"content": [{"type": "text", "text": "x"}, {"input": {"command": "ls"}}]},
        "sizes": {"/home/dev/a.txt": {"lines": 3}, "gpt-5.5": {"lines": 4}},
        "$set": [[1, {"deep": None}]],
    }
    assert sorted(set(paths_in(record))) == [
        "$set",
        "$set[][].deep",
        "message",
        "message.content",
        "message.content[].input",
        "message.content[].text",
        "message.content[].type",
        "sizes",
        "sizes.*",
        "sizes.*.lines",
    ]


def test_deep_nesting_is_limited() -> None:
    value: Any = {}
    for _ in range(5_000):
        value = {"a": value}
    assert len(list(paths_in(value))) == 8


@pytest.mark.slow
def test_known_shapes_are_those_of_the_recordings() -> None:
    """`make regen` writes them again."""
    assert KNOWN_SHAPES.read_bytes() == known_shapes_text()
    assert {"assistant", "user"} <= known_shapes()["claude"].keys()


def test_what_is_new_is_counted() -> None:
    """Kinds that no recording has, and fields that no record of their kind has."""
    shape = Shape()
    claude = AGENTS["claude"]
    for record in ({"type": "user", "uuid": "1"}, {"type": "user", "brandNew": {"a": 1}}, {"type": "never-seen"}):
        shape.add(claude, record)
    found = new_in(shape, known_shapes()["claude"])
    assert found.kinds == {"never-seen": 1}
    assert found.fields == {"user": {"brandNew": 1, "brandNew.a": 1}}
