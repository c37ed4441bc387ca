"""Invalid requests to the API are explained."""

from __future__ import annotations

from typing import Any

import pytest

from .helpers import Client, validator

INVALID = [
    ("/api/sessions?limit=0", "limit is a whole number from 1 to 500"),
    ("/api/sessions?limit=501", "from 1 to 500"),
    ("/api/sessions?limit=ten", "limit cannot be 'ten'"),
    ("/api/sessions?limit=", "limit cannot be ''"),
    ("/api/sessions?offset=-1", "offset is a whole number from 0"),
    (f"/api/sessions?offset={'9' * 40}", "offset is a whole number"),
    ("/api/sessions?sort=size", "one of messages, recent, started, title"),
    ("/api/sessions?agent=cursor", "one of claude, codex, gemini"),
    ("/api/sessions?colour=red", "Unknown parameter 'colour'"),
    ("/api/sessions?colour=red", "Allowed: q, agent, project"),
    ("/api/sessions?q=a&q=b", "q is given twice"),
    ("/api/sessions?q=%00", "NUL character"),
    ("/api/sessions?q=%FF", "not valid UTF-8"),
    ("/api/sessions/%FF", "not valid UTF-8"),
    ("/api/projects?limit=3", "Allowed: redact, redact_personal"),
    ("/api/sessions/1/messages?first=5&last=4", "last must be at least first"),
    ("/api/sessions/1/messages?last=1001", "at most 1,000"),
    ("/api/sessions/1/context/first", "index is a whole number"),
    ("/api/sessions/1/history?limit=201", "from 1 to 200"),
    ("/api/sessions?has=fun", "Unknown event type 'fun'; choose from compaction, clear, interruption"),
    ("/api/sessions/1/events?kind=fun", "Unknown event type 'fun'; choose from compaction, clear, interruption"),
    ("/api/events/fun", "Unknown event type 'fun'; choose from rejections, interruptions"),
    ("/api/events/rollbacks", "Unknown event type 'rollbacks'; choose from rejections, interruptions"),
    ("/api/events/rejections?after=whenever", "is not a time"),
    ("/api/stats?before=99999999999d", "is not a time"),
    ("/api/search", "query is empty"),
    ("/api/search?q=%28", "at character"),
    ("/api/search?q=is:purple", "Unknown event type 'purple' at character 4; choose from compaction"),
    ("/api/search?regex=%28", "not a valid regular expression"),
    (f"/api/search?regex={'%28' * 400}", "not a valid regular expression"),
    ("/api/search?regex=a%7B99999999999%7D", "not a valid regular expression"),
    (f"/api/search?q={'x' * 3000}", "no longer than 2,000 characters"),
]


MISSING = [
    ("/api/sessions/nothing-like-this", "no session"),
    ("/api/sessions/99999999999999999999", "no session"),
    ("/api/sessions/1/messages/7", "no session"),
    ("/api/sessions/1/context/100000", "there is no message 100000"),
    ("/api/sessions/1/raw/100000", "there is no message 100000"),
    ("/api/sessions/1/history?branch=99", "there is no branch 99"),
    ("/api/projects/nowhere/sessions", "no project 'nowhere'"),
    ("/api/projects/demo/agent-sessions/nobody", "no sub-agent"),
    ("/api/projects/demo", "nothing at"),
    ("/api/nothing", "nothing at"),
]


@pytest.mark.parametrize(("address", "words"), INVALID)
def test_invalid_requests_are_explained(client: Client, address: str, words: str) -> None:
    """What is wrong, and what is allowed."""
    answer = client.get(address)
    assert answer.status_code == 400, answer.text
    _expect(answer.json(), {"bad_request"}, words)


@pytest.mark.parametrize(("address", "words"), MISSING)
def test_missing_things_are_not_found(client: Client, address: str, words: str) -> None:
    """Sessions, messages, branches, projects, addresses."""
    answer = client.get(address)
    assert answer.status_code == 404, answer.text
    _expect(answer.json(), {"not_found"}, words)


def _expect(answer: dict[str, Any], codes: set[str], words: str) -> None:
    validator("ErrorBody").validate(answer)
    error = answer["error"]
    assert error["code"] in codes
    assert words in f"{error['message']} {error.get('try', '')}"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_rejected(client: Client, method: str) -> None:
    """The answer is JSON too."""
    answer = client.request(method, "/api/sessions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    _expect(answer.json(), {"method_not_allowed"}, "GET")
