"""Placeholders, reports, and copies of records."""

from __future__ import annotations

import msgspec

import unspool
from unspool.model import Text
from unspool.redact import PersonalData, Redactor, new_key

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
