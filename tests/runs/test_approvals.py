"""Approvals: the first answer counts, and only one to exactly what was shown."""

from __future__ import annotations

import msgspec
import pytest

from unspool.core import model as m
from unspool.core.decisions import DecisionMaker
from unspool.core.errors import UsageError
from unspool.runs.approvals import Approvals, OpenRequest, digest_of
from unspool.runs.errors import ConflictError
from unspool.runs.protocol import Answer, PermissionRequest, Verdict

ALLOW = Answer(verdict="allow")


def request(title: str = "touch made", id: str = "r1") -> PermissionRequest:
    """A request for a command."""
    action = m.Action(raw_input=msgspec.Raw(b"{}"), command=title)
    return PermissionRequest(
        id=id, kind="command", tool="Bash", title=title, action=action, verdicts=("allow", "deny", "deny_stop")
    )


def opened(approvals: Approvals) -> OpenRequest:
    """Open one request."""
    return approvals.add(request())


def test_an_answer_closes_the_request() -> None:
    """The request is returned to be answered, and is not open any more."""
    approvals = Approvals()
    one = opened(approvals)
    assert [each.request.id for each in approvals.open()] == ["r1"]
    assert approvals.answer("r1", one.digest, ALLOW, "tab 1", "user") == one.request
    assert approvals.open() == []


@pytest.mark.parametrize(
    ("verdict", "first", "by", "second", "sentence"),
    [
        ("deny", "tab 1", "user", "tab 2", "Already answered: denied by tab 1"),
        ("allow", "tab 1", "user", "tab 1", "Already answered: allowed from this device"),
        ("deny_stop", "ana at a terminal", "user", "tab 1", "denied and the turn stopped by ana at a terminal"),
        ("deny", "clock", "timeout", "tab 1", "denied, because nobody answered in time"),
    ],
)
def test_the_second_answer_gets_the_first(
    verdict: Verdict, first: str, by: DecisionMaker, second: str, sentence: str
) -> None:
    """It names the verdict and where it came from."""
    approvals = Approvals()
    one = opened(approvals)
    approvals.answer("r1", one.digest, Answer(verdict=verdict), first, by)
    with pytest.raises(ConflictError) as caught:
        approvals.answer("r1", one.digest, ALLOW, second, "user")
    assert str(caught.value).endswith(sentence)


def test_an_answer_needs_the_digest_of_what_was_shown() -> None:
    """A request that looks different has another digest, and stays open."""
    approvals = Approvals()
    opened(approvals)
    other = digest_of(request("rm -rf /"))
    with pytest.raises(ConflictError, match=r"The request has changed since you saw it\. Review it again\."):
        approvals.answer("r1", other, ALLOW, "tab 1", "user")
    assert approvals.get("r1") is not None


def test_a_cancelled_request_cannot_be_answered() -> None:
    """The agent no longer needs an answer, which is not the same as an answer."""
    approvals = Approvals()
    one = opened(approvals)
    assert approvals.cancel("r1")
    assert not approvals.cancel("r1")
    with pytest.raises(ConflictError, match="no longer needs"):
        approvals.answer("r1", one.digest, ALLOW, "tab 1", "user")


def test_an_invalid_answer_leaves_the_request_open() -> None:
    """The verdict must be on offer, and the input can be changed only where the agent lets it."""
    approvals = Approvals()
    one = opened(approvals)
    with pytest.raises(UsageError, match="choose from allow, deny, deny_stop"):
        approvals.answer("r1", one.digest, Answer(verdict="allow_session"), "tab 1", "user")
    with pytest.raises(UsageError, match="input of this request cannot be changed"):
        approvals.answer("r1", one.digest, Answer(verdict="allow", input={}), "tab 1", "user")
    assert [each.digest for each in approvals.open()] == [one.digest]


def test_the_json_of_an_open_request_keeps_its_published_names() -> None:
    """Pages and programs read the request under `asked`."""
    approvals = Approvals()
    data = msgspec.json.decode(msgspec.json.encode(opened(approvals)))
    assert data.keys() == {"asked", "digest", "at", "deadline"}
    assert data["asked"]["type"] == "asked"
