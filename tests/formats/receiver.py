"""A collector that receives traces on this machine, and answers as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a collector answers."""

    code: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


class Received(NamedTuple):
    """A request to a collector."""

    path: str
    headers: dict[str, str]
    body: bytes


@contextmanager
def collector(*answers: Answer) -> Iterator[tuple[str, list[Received]]]:
    """A collector that gives these answers, and then accepts everything."""
    received: list[Received] = []
    coming = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(Received(self.path, dict(self.headers), body))
            answer = coming.pop(0) if coming else Answer()
            self.send_response(answer.code)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()
