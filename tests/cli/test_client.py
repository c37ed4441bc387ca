"""The client for the server on this computer, and programs that do not respond as the server does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from unspool.cli._shared.client import Server, ServerRegistration
from unspool.core.errors import UnspoolError
from unspool.web.access import Access

Respond = Callable[[bytes], Server]


@pytest.fixture
def respond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Respond]:
    """Start a program that sends these bytes to everyone and closes the connection."""
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    Access.load_or_create(tmp_path)
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(data: bytes) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(data)

    def start(data: bytes) -> Server:
        threads.append(threading.Thread(target=serve, args=(data,)))
        threads[-1].start()
        running = ServerRegistration(address=f"http://127.0.0.1:{listener.getsockname()[1]}", pid=1)
        (tmp_path / "server.json").write_bytes(msgspec.json.encode(running))
        return Server()

    yield start
    for thread in threads:
        thread.join()
    listener.close()


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "did not respond as expected .*SSH-2.0"),
        (b"", "does not respond"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{", "did not respond as expected"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", "did not respond as expected"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xff", "did not respond as expected"),
        (b"HTTP/1.1 502 Bad\r\ncontent-length: 6\r\n\r\n<html>", "the server responded with status 502"),
        (b"HTTP/1.1 404 No\r\ncontent-length: 13\r\n\r\n{\"error\":\"x\"}", "the server responded with status 404"),
        (b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", "the server responded with status 404"),
        (b"HTTP/1.1 409 No\r\ncontent-length: 31\r\n\r\n{\"error\":{\"message\":\"not now\"}}", "not now"),
    ],
)  # fmt: skip
def test_an_unexpected_response_is_explained(respond: Respond, response: bytes, message: str) -> None:
    """It is not an error in this program."""
    server = respond(response)
    with pytest.raises(UnspoolError, match=message):
        server.request("GET", "/api/runs")


def test_events_that_end_in_the_middle(respond: Respond) -> None:
    """The events before that are complete, and the end is explained."""
    chunk = b'data: {"n":1}\n'
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    events = respond(head + b"%x\r\n%s\r\n" % (len(chunk), chunk) + b'9\r\ndata: {"n').events(0)
    assert next(events) == {"n": 1}
    with pytest.raises(UnspoolError, match="did not respond as expected"):
        next(events)
