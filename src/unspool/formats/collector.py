"""Sends traces to an OpenTelemetry collector: OTLP over HTTP, in JSON."""

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
from ..core.errors import UnspoolError, UsageError

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
_PATH = "/v1/traces"
_AGAIN = (429, 502, 503, 504)
"""Answers that mean that it may work later."""
_ONLY_THIS = (400, 413)
"""Answers that concern one request, not the next."""
_ATTEMPTS = 4
_LONGEST_WAIT = 30.0
_TIMEOUT = 30.0
_LONGEST_ANSWER = 1 << 16
_SHOWN = 200


class NoCollectorError(UnspoolError):
    """There is no collector, or it accepts nothing from here: there is no point in sending more."""


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0
    error_message: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess | None = None


class _NoRedirects(HTTPRedirectHandler):
    """A trace goes to the address that the user has named, and to no other."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Refuse."""


class Collector:
    """A collector at an address."""

    def __init__(
        self, address: str, environment: Mapping[str, str] = os.environ, wait: Callable[[float], Any] = time.sleep
    ) -> None:
        self._url = _url(address)
        self._headers = _headers(environment.get(HEADERS_VARIABLE, ""))
        self._wait = wait
        self._open = build_opener(_NoRedirects).open
        self.sent = 0
        """Requests that the collector has accepted."""

    @property
    def name(self) -> str:
        """The address without what is secret in it."""
        parts = urlsplit(self._url)
        return urlunsplit((parts.scheme, _host(parts), parts.path, "", ""))

    def send(self, line: bytes) -> None:
        """Send one request; what may work later is tried again."""
        for attempt in range(_ATTEMPTS):
            try:
                with self._open(Request(self._url, line, self._headers, method="POST"), timeout=_TIMEOUT) as answer:
                    self._accept(answer.read(_LONGEST_ANSWER))
                return
            except HTTPError as error:
                with error:
                    if error.code not in _AGAIN or attempt == _ATTEMPTS - 1:
                        kind = UnspoolError if error.code in _ONLY_THIS else NoCollectorError
                        raise self._failure(_reason(error), kind) from error
                self._wait(_pause(error, attempt))
            except URLError as error:
                why = str(getattr(error.reason, "strerror", None) or error.reason)
                raise self._failure(why, NoCollectorError) from error
            except (OSError, HTTPException) as error:
                raise self._failure(str(error) or type(error).__name__, NoCollectorError) from error

    def _accept(self, data: bytes) -> None:
        try:
            partial = msgspec.json.decode(data, type=_Answer).partial_success if data.strip() else None
        except msgspec.DecodeError:
            # Some collectors answer with a text.
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
        has_place = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_place = False
    if not has_place:
        raise UsageError(f"--to takes the address of a collector, such as http://localhost:4318, not {address!r}")
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith(_PATH) else path + _PATH, parts.query, ""))


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _headers(setting: str) -> dict[str, str]:
    """The headers of every request. Those in the variable are usually secret, so they are never shown."""
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
    """As long as the collector asks for, or twice as long as before."""
    asked = error.headers.get("Retry-After", "")
    return min(float(asked) if asked.isdecimal() else float(2**attempt), _LONGEST_WAIT)
