"""The permission requests of one agent, and the answers to them.

The first answer counts. An answer must include the digest of the request as it was shown, so that a person can only
allow what they have seen.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ..core.decisions import DecisionMaker
from ..core.errors import UsageError
from ..core.proposed_actions import ProposedEdit
from .errors import ConflictError
from .file_preview import preview_edit
from .protocol import Answer, FilePreview, PermissionRequest, Verdict

_PAST_TENSE: dict[Verdict, str] = {
    "allow": "allowed",
    "allow_session": "allowed for the session",
    "deny": "denied",
    "deny_stop": "denied and the turn stopped",
}


class OpenRequest(msgspec.Struct, kw_only=True):
    """A request that is waiting for an answer, as it is shown."""

    request: PermissionRequest = msgspec.field(name="asked")
    digest: str
    """Identifies the content of the request; an answer has to repeat it."""
    at: datetime
    deadline: datetime | None = None
    """When the request is denied if nobody has answered."""


class GivenAnswer(NamedTuple):
    """The answer to a request, and who gave it."""

    verdict: Verdict
    who: str
    by: DecisionMaker

    def describe(self, who: str) -> str:
        """Describe the answer to `who`, who tried to answer as well."""
        text = _PAST_TENSE[self.verdict]
        if self.by == "timeout":
            return f"{text}, because nobody answered in time"
        return f"{text} from this device" if self.who == who else f"{text} by {self.who}"


class Approvals:
    """The open requests of one run, and the answers given so far."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._open: dict[str, OpenRequest] = {}
        self._edits: dict[str, list[ProposedEdit]] = {}
        self._answered: dict[str, GivenAnswer] = {}

    def open(self) -> list[OpenRequest]:
        """Return the requests that are waiting for an answer, oldest first."""
        return list(self._open.values())

    def get(self, id: str) -> OpenRequest | None:
        """Return an open request by its id."""
        return self._open.get(id)

    def add(self, request: PermissionRequest) -> OpenRequest:
        """Open a request, and preview its changes against the files as they are now."""
        self._edits[request.id], request.edits = request.edits, []
        request.files = self._previews(request.id)
        open_request = OpenRequest(request=request, digest=digest_of(request), at=datetime.now(UTC))
        self._open[request.id] = open_request
        return open_request

    def refresh(self, id: str) -> OpenRequest | None:
        """Compare an open request with the files again; return it with a new digest if they have changed."""
        open_request = self._open.get(id)
        if open_request is None or (files := self._previews(id)) == open_request.request.files:
            return None
        open_request.request.files = files
        open_request.digest = digest_of(open_request.request)
        return open_request

    def _previews(self, id: str) -> list[FilePreview]:
        return [preview_edit(edit, self._folder) for edit in self._edits.get(id, ())]

    def cancel(self, id: str) -> bool:
        """Close a request that the agent has withdrawn; return False if it was not open."""
        self._edits.pop(id, None)
        return self._open.pop(id, None) is not None

    def check(self, id: str, digest: str, answer: Answer, who: str) -> OpenRequest:
        """Return an open request that this answer would close. If the answer is invalid or too late, raise."""
        open_request = self._open.get(id)
        if open_request is None:
            given = self._answered.get(id)
            raise ConflictError(
                f"Already answered: {given.describe(who)}" if given else "The agent no longer needs this answer"
            )
        if digest != open_request.digest:
            raise ConflictError("The request has changed since you saw it. Review it again.")
        _check(open_request.request, answer)
        return open_request

    def answer(self, id: str, digest: str, answer: Answer, who: str, by: DecisionMaker) -> PermissionRequest:
        """Close a request with an answer. If the answer is invalid, raise and leave the request open."""
        open_request = self.check(id, digest, answer, who)
        del self._open[id]
        self._edits.pop(id, None)
        self._answered[id] = GivenAnswer(answer.verdict, who, by)
        return open_request.request


def _check(request: PermissionRequest, answer: Answer) -> None:
    if answer.verdict not in request.verdicts:
        raise UsageError(f"Invalid answer {answer.verdict!r}; choose from {', '.join(request.verdicts)}")
    if answer.input is not None and not request.takes_input:
        raise UsageError("The input of this request cannot be changed")


def digest_of(request: PermissionRequest) -> str:
    """Return a short hash of everything that is shown of a request."""
    return hashlib.blake2b(msgspec.json.encode(request), digest_size=12).hexdigest()
