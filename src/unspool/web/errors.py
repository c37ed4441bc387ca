"""Errors as HTTP responses: one mapping from exceptions to a status, a code and a message, for pages and the API."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException

from ..core.errors import AmbiguousError, NotFoundError, UnspoolError, UsageError
from ..runs.errors import ConflictError
from .pages.layout import Layout
from .templating import render

_log = logging.getLogger("unspool.web")

CODES = {
    400: "bad_request", 401: "refused", 403: "refused", 404: "not_found", 405: "method_not_allowed", 409: "conflict",
    421: "refused", 503: "unavailable",
}  # fmt: skip
"""Error codes for programs, by status. Exceptions with a `code` attribute are more precise."""
_TITLES = {400: "Invalid request", 401: "Access denied", 403: "Access denied", 404: "Not found", 405: "Not allowed"}
_STATUSES: tuple[tuple[type[UnspoolError], int], ...] = (
    (NotFoundError, 404), (ConflictError, 409), (UsageError, 400), (AmbiguousError, 400), (UnspoolError, 503),
)  # fmt: skip


class ErrorDetail(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An error, for people and programs."""

    code: str
    message: str
    advice: str | None = msgspec.field(default=None, name="try")


class ErrorBody(msgspec.Struct, kw_only=True):
    """The body of an error response."""

    error: ErrorDetail


class InvalidRequestError(UsageError):
    """An invalid request, with advice on how to correct it."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class ErrorReply(NamedTuple):
    """An exception as the client sees it."""

    status: int
    message: str
    advice: str | None = None
    headers: dict[str, str] | None = None
    code: str | None = None


def describe(error: Exception) -> ErrorReply:
    """Return the status and the message for an exception."""
    if isinstance(error, UnspoolError):
        status = next(status for kind, status in _STATUSES if isinstance(error, kind))
        return ErrorReply(status, str(error), getattr(error, "advice", None), code=getattr(error, "code", None))
    if isinstance(error, HTTPException):
        return _describe_http(error)
    return ErrorReply(500, "Internal error. See the terminal that unspool runs in for details.")


def _describe_http(error: HTTPException) -> ErrorReply:
    if error.status_code == 404:
        return ErrorReply(
            404, "There is nothing at this address.", "See /api/openapi.json for the endpoints of the API."
        )
    if error.status_code == 405:
        # The framework handles OPTIONS on all routes.
        given = (error.headers or {}).get("allow", "GET").split(", ")
        allowed = ", ".join(sorted(method for method in given if method != "OPTIONS"))
        return ErrorReply(405, f"Method not allowed. Use {allowed}.", headers={"allow": allowed})
    return ErrorReply(error.status_code, error.detail if error.detail.endswith(".") else f"{error.detail}.")


def on_error(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Respond to an exception: with JSON below /api, with a page elsewhere."""
    reply = describe(error)
    if reply.status >= 500:
        # The message of an expected error, such as a missing package, says it all.
        expected = isinstance(error, UnspoolError)
        reason = f": {reply.message}" if expected else ""
        _log.error("%s %s failed%s", request.method, request.url.path, reason, exc_info=None if expected else error)
    if request.url.path.startswith("/api"):
        body = error_json(reply.status, reply.message, reply.advice, reply.code)
        return Response(body, status_code=reply.status, headers=reply.headers, media_type=MediaType.JSON)
    return Response(_error_page(reply), status_code=reply.status, headers=reply.headers, media_type=MediaType.HTML)


def error_json(status: int, message: str, advice: str | None = None, code: str | None = None) -> bytes:
    """Return the body of an error response of the API."""
    code = code or CODES.get(status) or ("bad_request" if status < 500 else "fault")
    return msgspec.json.encode(ErrorBody(error=ErrorDetail(code=code, message=message, advice=advice)))


def _error_page(reply: ErrorReply) -> str:
    title = _TITLES.get(reply.status, "This cannot be shown" if reply.status < 500 else "Something went wrong")
    return render("error.html", layout=Layout(kind="error"), error={"title": title, "message": reply.message})
