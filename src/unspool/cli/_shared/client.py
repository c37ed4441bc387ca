"""The client for the server on this computer."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from ...core import typed_json
from ...core.errors import NotFoundError, UnspoolError
from ...core.resolve import matching
from ...io.decode import decode_object
from ...io.listing import read_file
from ...runs.processes import acts_for_agent
from ...store.locate import data_folder
from ...store.private_files import replace_private
from ...web.access import Access

_NAME = "server.json"
_SECONDS = 70.0
"""The timeout of a request. It is long, because starting an agent may take a while."""


class ServerRegistration(msgspec.Struct, kw_only=True):
    """The registration of a running server."""

    address: str
    pid: int
    certificate: str | None = None
    """The file with its certificate, if it uses TLS."""


def register_server(address: str, certificate: str | None = None) -> Path:
    """Register the server, so that commands find it."""
    path = data_folder() / _NAME
    registration = ServerRegistration(address=address, pid=os.getpid(), certificate=certificate)
    replace_private(path, msgspec.json.encode(registration))
    return path


def unregister_server() -> None:
    """Remove the registration when the server stops."""
    path = data_folder() / _NAME
    with suppress(OSError, msgspec.DecodeError):
        if typed_json.decode(read_file(path), type=ServerRegistration).pid == os.getpid():
            path.unlink()


def server_address() -> str | None:
    """Return the address of the running server, if any."""
    registration = _registered()
    return registration.address if registration is not None else None


def _registered() -> ServerRegistration | None:
    with suppress(OSError, msgspec.DecodeError):
        return typed_json.decode(read_file(data_folder() / _NAME), type=ServerRegistration)
    return None


class Server:
    """The server on this computer."""

    def __init__(self) -> None:
        registration = _registered()
        if registration is None:
            raise NotFoundError("no server is running; start one with `unspool serve` and keep it running")
        self._registration = registration
        self._url = urlsplit(self._registration.address)
        self._token = Access.load_or_create(data_folder()).token

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and decode the response. Raises UnspoolError if it fails, or if an agent tries to act."""
        if method != "GET" and acts_for_agent(os.getpid(), self._registration.pid):
            raise UnspoolError(
                "this command was started by an agent that unspool runs; decisions about agents are made by people, "
                "in a terminal of their own"
            )
        with self._response(method, path, body, _SECONDS) as response:
            data = response.read()
            if response.status < 400:
                return json.loads(data) if data else None
        raise UnspoolError(_error_in(data) or f"the server responded with status {response.status}")

    def events(self, since: int) -> Iterator[dict[str, Any]]:
        """Yield the events of running agents, until the server stops."""
        with self._response("GET", f"/api/runs/events?since={since}", None, None) as response:
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    def find(self, name: str | None) -> dict[str, Any]:
        """Return an agent by a prefix of its id or session; without a name, the only one, or the only one waiting."""
        runs: list[dict[str, Any]] = self.request("GET", "/api/runs")["runs"]
        alive = [run for run in runs if run["state"] != "ended"]
        if name is None:
            waiting = [run for run in alive if run["questions"]]
            fits = waiting if len(waiting) == 1 else alive
        else:
            by_id = matching(name, runs, lambda run: str(run["id"]))
            fits = by_id + matching(name, [run for run in runs if run not in by_id], lambda run: run["session"] or "")
            fits = [run for run in fits if run["state"] != "ended"] or fits
        if len(fits) != 1:
            what = "no matching agent" if not fits else f"{len(fits)} agents match"
            raise NotFoundError(f"{what}; `unspool ps` lists them")
        return fits[0]

    def _connection(self, seconds: float | None) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "127.0.0.1", self._url.port
        if self._registration.certificate is None:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        try:
            context = _only(self._registration.certificate)
        except OSError as error:
            raise UnspoolError(f"cannot read the certificate {self._registration.certificate}: {error}") from error
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)

    @contextmanager
    def _response(
        self, method: str, path: str, body: object, seconds: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request. Raises UnspoolError if the response cannot be read, or is not one of the server."""
        connection = self._connection(seconds)
        # One request per connection.
        headers = {"authorization": f"Bearer {self._token}", "host": self._url.netloc, "connection": "close"}
        data = None if body is None else msgspec.json.encode(body)
        address = self._registration.address
        try:
            connection.request(method, path, data, headers)
            with connection.getresponse() as response:
                yield response
        except OSError as error:
            raise UnspoolError(
                f"the server at {address} does not respond ({error}); start one with `unspool serve`"
            ) from error
        except (http.client.HTTPException, ValueError) as error:
            raise UnspoolError(
                f"the server at {address} did not respond as expected ({error}); it may be another program"
            ) from error
        finally:
            connection.close()


def _error_in(data: bytes) -> str | None:
    """Return the message in an error response of the server."""
    match decode_object(data):
        case {"error": {"message": str(message)}}:
            return message
    return None


def _only(certificate: str) -> ssl.SSLContext:
    """Return a context that trusts only the certificate of the server, for any host name."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context


def path_of(*parts: str) -> str:
    """Return the API path of a run, or of something that belongs to it."""
    return "/api/runs/" + "/".join(quote(part, safe="") for part in parts)


def who() -> str:
    """Return the name under which decisions made here are recorded."""
    return f"{os.environ.get('USER') or 'someone'} at a terminal"
