"""Sends traces to an OpenTelemetry collector, as OTLP/JSON over HTTP."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from email.message import Message
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from .._version import __version__
from ..core import typed_json
from ..core.errors import UnspoolError, UsageError

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
_PATH = "/v1/traces"
_RETRYABLE = (429, 502, 503, 504)
"""Status codes after which the request is retried."""
_REQUEST_ERRORS = (400, 413)
"""Status codes that concern only this request, so that the next one may succeed."""
_ATTEMPTS = 4
_LONGEST_WAIT = 30.0
_TIMEOUT = 30.0
_LONGEST_RESPONSE = 1 << 16
_SHOWN = 200


class NoCollectorError(UnspoolError):
    """The collector cannot be reached or accepts no requests, so sending more is pointless."""


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0
    error_message: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess | None = None


class _NoRedirects(HTTPRedirectHandler):
    """Disables redirects: a trace is sent only to the URL that the user specified."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Do not follow the redirect."""


class Collector:
    """A collector at a URL."""

    def __init__(
        self, address: str, environment: Mapping[str, str] = os.environ, wait: Callable[[float], Any] = time.sleep
    ) -> None:
        self._url = _url(address)
        self._headers = _headers(environment.get(HEADERS_VARIABLE, ""))
        self._wait = wait
        self._open = build_opener(_NoRedirects).open
        self.sent = 0
        """The number of requests that the collector has accepted."""

    @property
    def name(self) -> str:
        """The URL without credentials and query."""
        parts = urlsplit(self._url)
        return urlunsplit((parts.scheme, _host(parts), parts.path, "", ""))

    def send(self, line: bytes) -> None:
        """Send one request, and retry it after temporary errors."""
        for attempt in range(_ATTEMPTS):
            try:
                with self._open(Request(self._url, line, self._headers, method="POST"), timeout=_TIMEOUT) as answer:
                    self._accept(answer.read(_LONGEST_RESPONSE))
                return
            except HTTPError as error:
                with error:
                    if error.code not in _RETRYABLE or attempt == _ATTEMPTS - 1:
                        kind = UnspoolError if error.code in _REQUEST_ERRORS else NoCollectorError
                        raise self._failure(_reason(error), kind) from error
                self._wait(_pause(error, attempt))
            except URLError as error:
                why = str(getattr(error.reason, "strerror", None) or error.reason)
                raise self._failure(why, NoCollectorError) from error
            except (OSError, HTTPException) as error:
                raise self._failure(str(error) or type(error).__name__, NoCollectorError) from error

    def _accept(self, data: bytes) -> None:
        try:
            partial = typed_json.decode(data, type=_Answer).partial_success if data.strip() else None
        except msgspec.DecodeError:
            # Some collectors respond with plain text.
            partial = None
        if partial is not None and str(partial.rejected_spans) not in ("0", ""):
            why = f": {partial.error_message[:_SHOWN]}" if partial.error_message else ""
            raise self._failure(f"it rejected {partial.rejected_spans} spans{why}")
        self.sent += 1

    def _failure(self, why: str, kind: type[UnspoolError] = UnspoolError) -> UnspoolError:
        return kind(f"the collector at {self.name} did not accept the trace: {why}")


def _url(address: str) -> str:
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError(f"--to needs the URL of a collector, such as http://localhost:4318, not {address!r}")
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith(_PATH) else path + _PATH, parts.query, ""))


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _headers(setting: str) -> dict[str, str]:
    """Return the headers of every request. Values in the variable are usually secret, so errors never show them."""
    headers = {"Content-Type": "application/json", "User-Agent": f"unspool/{__version__}"}
    for item in setting.split(","):
        name, separator, value = item.partition("=")
        if separator and name.strip():
            text = unquote(value.strip())
            if not text.isprintable() or not text.isascii():
                raise UsageError(f"the value of {name.strip()!r} in {HEADERS_VARIABLE} is not valid in a header")
            headers[unquote(name.strip())] = text
    return headers


def _reason(error: HTTPError) -> str:
    text = error.read(_SHOWN).decode("utf-8", "replace").strip()
    where = f" to {error.headers.get('Location')}" if 300 <= error.code < 400 else ""
    return f"HTTP {error.code} {error.reason}{where}" + (f": {text}" if text else "")


def _pause(error: HTTPError, attempt: int) -> float:
    """Return the seconds to wait: as requested by the collector, or twice as long as before."""
    asked = error.headers.get("Retry-After", "")
    return min(float(asked) if asked.isdecimal() else float(2**attempt), _LONGEST_WAIT)
