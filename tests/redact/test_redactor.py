"""Placeholders, reports, and copies of records."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import msgspec
import pytest

import unspool
from unspool.model import Text
from unspool.redact import PersonalData, Redactor, new_key
from unspool.redact.detect import find_secrets, may_contain_secrets

from ..recordings import recordings
from .in_logs import in_logs
from .planted import planted

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
OTHER = "ghp_" + "k1L2m3N4o5" * 4


def test_the_same_secret_has_the_same_placeholder() -> None:
    key = new_key()
    first, second = Redactor(key), Redactor(key)
    text = first.text(f"use {TOKEN}, not {OTHER}, {TOKEN}!")
    one, other, again = (part.rstrip(",!") for part in text.split()[1::1] if part.startswith("‹"))
    assert one == again != other
    assert second.text(TOKEN) == one
    assert Redactor().text(TOKEN) != one
    assert first.report.placeholders == {one: 2, other: 1}


def test_what_has_no_secret_is_the_same_object() -> None:
    data = b'{"text": "nothing to see here"}'
    assert Redactor().data(data) is data


def test_lone_surrogates_and_other_text_survive() -> None:
    assert Redactor().text(f"\ud83d é {TOKEN} 日本").startswith("\ud83d é ‹github-token:")


def test_a_session_is_copied_and_not_changed() -> None:
    session = unspool.load(next(iter(unspool.sessions(unspool.samples()))).path)
    before = msgspec.json.encode(session)
    block = next(block for message in session.messages for block in message.blocks if isinstance(block, Text))
    block.text += f" {TOKEN}"
    redacted = Redactor().session(session)
    assert TOKEN.encode() not in msgspec.json.encode(redacted)
    block.text = block.text.removesuffix(f" {TOKEN}")
    assert msgspec.json.encode(session) == before
    assert len(redacted.messages) == len(session.messages)


def test_personal_data_is_replaced_on_request() -> None:
    text = "In /home/ada/work, C:\\Users\\grace\\x: ada wrote to ada.l@lovelace.dev on box-7; adamant stays."
    redactor = Redactor(personal=PersonalData(hosts=["box-7"]))
    redacted = redactor.text(text)
    for name in ("/ada/", "grace", "lovelace", "box-7"):
        assert name not in redacted
    assert "adamant stays" in redacted
    assert redactor.report.counts == {"user": 3, "email": 1, "host": 1}
    assert Redactor().text(text) == text


def _lines() -> list[bytes]:
    """Lines with secrets in their first and last bytes too, and lines of recordings between them."""
    texts = [one.text for one in (*planted(2, seed=5), *in_logs(1, seed=5))]
    lines = [
        form.encode()
        for text in texts
        for form in (text, f"{text}\n", json.dumps({"text": text}) + "\n", json.dumps([json.dumps({"text": text})]))
    ]
    for recording in recordings()[::8]:
        for path in sorted(recording.home.rglob("*.json*")):
            lines += path.read_bytes().splitlines(keepends=True)[:50]
    random.Random(5).shuffle(lines)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_texts_are_redacted_together_as_one_by_one(size: int) -> None:
    lines = _lines()
    key = new_key()
    together, alone = Redactor(key), Redactor(key)
    batches = [lines[start : start + size] for start in range(0, len(lines), size)]
    assert b"".join(b"".join(together.stream(batch)) for batch in batches) == b"".join(map(alone.data, lines))
    assert together.report == alone.report
    assert alone.report.total > len(lines) // 20


def test_what_may_have_a_secret_is_known_before_it_is_examined() -> None:
    lines = _lines()
    assert all(may for may, line in zip(may_contain_secrets(lines), lines, strict=True) if find_secrets(line))
    assert may_contain_secrets([]) == []
    assert may_contain_secrets([b"", b"pass", b"word: ghp_", b""]) == [False, False, True, False]


def test_a_stream_that_fails_keeps_what_came_before() -> None:
    def texts() -> Iterator[bytes]:
        yield b"one\n"
        yield f"two {TOKEN}\n".encode()
        raise ValueError("damaged")

    stream = Redactor().stream(texts())
    written = next(stream)
    with pytest.raises(ValueError, match="damaged"):
        next(stream)
    assert written.startswith(b"one\ntwo \xe2\x80\xb9github-token:")


def test_texts_are_searched_together_with_personal_data_too() -> None:
    texts = [b"In /home/ada/x\n", b"ada wrote\n"]
    assert b"ada" not in b"".join(Redactor(personal=PersonalData()).stream(texts))
