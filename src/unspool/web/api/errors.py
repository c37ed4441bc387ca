"""What goes wrong, in JSON: a short code for programs, a sentence for people, and what to try."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from ...core.errors import AmbiguousError, NotFoundError, UsageError

CODES = {
    400: "bad_request", 401: "refused", 403: "refused", 404: "not_found", 405: "method_not_allowed", 409: "conflict",
    503: "unavailable",
}  # fmt: skip
"""What a program can tell apart, by the status."""


class Fault(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What is wrong."""

    code: str
    message: str
    advice: str | None = msgspec.field(default=None, name="try")


class FaultAnswer(msgspec.Struct, kw_only=True):
    """The answer to a request that cannot be fulfilled."""

    error: Fault


class RefusedError(UsageError):
    """A request that makes no sense, with what to ask instead."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


def error_response(status: int, sentence: str, advice: str | None = None) -> Response[bytes]:
    """The answer to a request that cannot be fulfilled."""
    code = CODES.get(status) or ("bad_request" if status < 500 else "fault")
    answer = FaultAnswer(error=Fault(code=code, message=sentence, advice=advice))
    headers = {"allow": "GET"} if status == 405 else None
    return Response(msgspec.json.encode(answer), status_code=status, headers=headers, media_type="application/json")


def explain(error: HTTPException) -> str:
    """What an error of the framework means, in a sentence."""
    if error.status_code == 404:
        return "There is nothing at this address; /api/openapi.json tells what there is."
    if error.status_code == 405:
        return "This address can only be read: ask with GET."
    return error.detail if error.detail.endswith(".") else f"{error.detail}."


def on_error(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The answer of the API to an error that somebody can mend."""
    match error:
        case NotFoundError():
            return error_response(404, str(error))
        case UsageError() | AmbiguousError():
            return error_response(400, str(error), getattr(error, "advice", None))
        case HTTPException():
            return error_response(error.status_code, explain(error))
        case _:
            return error_response(503, str(error))
