"""Facts that a recording states and unspool reads otherwise are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspool.testing import CodexLog, wrong_facts


@pytest.mark.parametrize(
    ("truth", "wrong"),
    [
        ({}, 0),
        ({"usage": {"ID": {"input_tokens": 40}}, "first_prompts": ["hello"], "resumes": 0}, 0),
        ({"usage": {"ID": {"input_tokens": 41}}}, 1),
        ({"usage": {"another": {"input_tokens": 40}}}, 1),
        ({"origins": {"ID": "another"}}, 1),
        ({"attachment_texts": ["hello", 'a "quoted" text']}, 1),
        ({"first_prompts": ["hello there"]}, 1),
        ({"resumes": -1}, 1),
    ],
)
def test_wrong_facts_are_reported(tmp_path: Path, truth: dict[str, Any], wrong: int) -> None:
    """Each by itself; what is not stated is not compared."""
    log = CodexLog()
    log.turn("hello", "hi")
    used = {"input_tokens": 40, "cached_input_tokens": 30, "output_tokens": 5}
    log.event("token_count", info={"total_token_usage": used, "last_token_usage": used})
    stated = {
        key: {log.thread if id == "ID" else id: fact for id, fact in value.items()}
        if isinstance(value, dict)
        else value
        for key, value in truth.items()
    }
    assert len(wrong_facts(stated, [log.load(tmp_path)])) == wrong
