"""What is found, and what is not taken for a secret."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from unspool.redact import Redactor, find_secrets

from ..recordings import recordings
from .in_logs import in_logs
from .planted import MAKERS, Planted, planted

EACH = 6
LEAST_RECALL = 0.99
MOST_FALSE_ALARMS = 0.001
MADE_UP = [
    'api_key = "YOUR_API_KEY_HERE"', "password=$DB_PASSWORD", "token: ${{ secrets.GITHUB_TOKEN }}",
    "password = getpass()",
    "export OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", '"total_tokens": 12345678901234', "token = self.token",
    "postgres://user:<password>@localhost/db", 'password: "********"', "secret: my-secret-name", "tokens: input=100",
    "AKIAIOSFODNN7EXAMPLE", "commit 3f786850e387550fdab836ed7e6dc881de23001b", "id: toolu_01A09q90qw90lq917835lq9",
    "0b3d5f3e-8d1c-4a77-b7c9-2f9d1e7f1a2b", "task-runner-with-a-very-long-name-indeed", "token_count: 4096",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "api_key: str | None = None",
    "https://example.com:8080/path@2x.png", "const accessToken = await getAccessToken(user)", "password: string;",
    'cache_key: "9f86d081884c7d659a2feaa0c55ad015"', '"primaryKey": "01HZX3V8K9Q2W4E6R8T0Y2U4I6"',
    "gpg --edit-key BF272C9251706E4A", "user.signingkey=8D357AFBEA94CD48BC1982CCBDDE13F749C6CF8A",
    "docker run -p 8080:80 app1", "echo $TOKEN | docker login", 'TrailerKey = "Entire-Metadata-Task"',
    "mkdir -p build2024/a1", "main.py:5432:12:error: bad1", "s.startswith(token1)",
]  # fmt: skip


def nested(text: str, depth: int) -> str:
    """A text as a string in JSON, perhaps in JSON in JSON."""
    for _ in range(depth):
        text = json.dumps({"content": f"see: {text}"})
    return text


def body(one: Planted) -> str:
    """A part of a secret that has no line breaks."""
    return one.secret.split("\n")[2] if "\n" in one.secret else one.secret


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_planted_secrets_are_replaced(depth: int) -> None:
    """Of every kind, wherever they are in a text; JSON stays valid."""
    missed: Counter[str] = Counter()
    for one in planted(EACH, seed=depth):
        redacted = Redactor().text(nested(one.text, depth))
        missed[one.kind] += body(one) in redacted
        if depth:
            json.loads(redacted)
    assert sum(missed.values()) <= (1 - LEAST_RECALL) * EACH * len(MAKERS), missed
    assert max(missed.values()) <= 1, missed


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_secrets_in_files_commands_and_requests_are_replaced(depth: int) -> None:
    missed: Counter[str] = Counter()
    count = 0
    for one in in_logs(2, seed=depth):
        count += 1
        redacted = Redactor().text(nested(one.text, depth))
        missed[one.text.replace(one.secret, "…")] += json.dumps(one.secret)[1:-1] in redacted
        if depth:
            json.loads(redacted)
    assert sum(missed.values()) <= (1 - LEAST_RECALL) * count, +missed


@pytest.mark.parametrize("before", ["→", "“", "│", "…", "é", "\N{ZERO WIDTH SPACE}"])
def test_a_token_may_follow_any_character(before: str) -> None:
    assert [secret.kind for secret in find_secrets(f"12{before}ghp_{'a1B2c3D4e5' * 4}".encode())] == ["github-token"]


@pytest.mark.parametrize("text", MADE_UP)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert find_secrets(text.encode()) == []


@pytest.mark.slow
def test_recordings_have_none() -> None:
    """Their ids, hashes, signatures and encrypted reasoning are not secrets."""
    found: Counter[str] = Counter()
    lines = 0
    for recording in recordings():
        for path in recording.home.rglob("*.json*"):
            for line in path.read_bytes().split(b"\n"):
                lines += 1
                found.update(secret.kind for secret in find_secrets(line))
    assert lines > 10_000
    assert sum(found.values()) <= MOST_FALSE_ALARMS * lines, found


def test_two_secrets_with_one_character_between_them() -> None:
    first, second = "ghp_" + "a1B2c3D4e5" * 4, "ghp_" + "f6G7h8I9j0" * 4
    redactor = Redactor()
    redacted = redactor.text(f"{first} {second}")
    assert "ghp_" not in redacted
    assert redactor.report.counts == {"github-token": 2}


def test_a_specific_kind_is_preferred_to_its_place() -> None:
    redactor = Redactor()
    redactor.text('api_key = "ghp_' + "a1B2c3D4e5" * 4 + '"')
    assert redactor.report.counts == {"github-token": 1}


def test_what_begins_like_a_secret_again_and_again_is_none() -> None:
    assert find_secrets(b"sk-" * 1000) == []
    assert find_secrets(b'"token": "' * 1000) == []
    assert find_secrets(b"://a:" * 1000) == []


@pytest.mark.parametrize("prefix", ["npm_", "A3-"])
def test_a_prefix_again_and_again_is_read_in_linear_time(prefix: str) -> None:
    """Not the whole rest from each repetition, which takes minutes."""
    text = prefix * 30_000
    assert find_secrets(text.encode()) == []
    assert [secret.kind for secret in find_secrets(b"npm_4kf9QmXz2Lr7TbWn\xe2\x80\xa6")] == ["npm-token"]
