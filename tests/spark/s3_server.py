"""A folder as an object store: as much of the S3 protocol as reading takes, on loopback."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "logs"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_EC2_METADATA_DISABLED": "true"}
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class ObjectStore(ThreadingHTTPServer):
    """Serves the files of a folder as the objects of one bucket."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.statuses: dict[str, int] = {}
        """Objects that answer with an error."""
        self.sent: dict[str, int] = {}
        """Bytes that were sent of each object."""

    @property
    def options(self) -> dict[str, str]:
        """The options of a reader."""
        return {"endpoint_override": f"127.0.0.1:{self.server_address[1]}", "scheme": "http", "region": "us-east-1"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectStore

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = self.server.folder / key
        if key in self.server.statuses:
            self._send(self.server.statuses[key], b"", with_body)
        elif bucket != BUCKET or (key and not path.is_file()):
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", with_body)
        elif not key:
            self._send(200, self._listing(query.get("prefix", ""), query.get("delimiter")) if query else b"", with_body)
        else:
            self._send_file(key, path, with_body)

    def _send_file(self, key: str, path: Path, with_body: bool) -> None:
        data = path.read_bytes()
        wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
        headers = {"Last-Modified": formatdate(path.stat().st_mtime, usegmt=True), "ETag": '"1"'}
        if wanted is None:
            self._send(200, data, with_body, headers)
            return
        start, end = int(wanted[1]), int(wanted[2] or len(data) - 1)
        piece = data[start : end + 1]
        self.server.sent[key] = self.server.sent.get(key, 0) + len(piece)
        headers["Content-Range"] = f"bytes {start}-{start + len(piece) - 1}/{len(data)}"
        self._send(206, piece, with_body, headers)

    def _listing(self, prefix: str, delimiter: str | None) -> bytes:
        files = sorted(path for path in self.server.folder.rglob("*") if path.is_file())
        names = {path.relative_to(self.server.folder).as_posix(): path for path in files}
        found, folders = [], set()
        for name, path in names.items():
            rest = name.removeprefix(prefix)
            if not name.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            facts = path.stat()
            time = datetime.fromtimestamp(facts.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            found.append(
                f"<Contents><Key>{escape(name)}</Key><LastModified>{time}</LastModified>"
                f"<Size>{facts.st_size}</Size></Contents>"
            )
        inner = [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders)]
        count = len(found) + len(inner)
        return (
            f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{count}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{''.join(found)}{''.join(inner)}</ListBucketResult>"
        ).encode()

    def _send(self, status: int, body: bytes, with_body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("x-amz-bucket-region", "us-east-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@contextmanager
def serve(folder: Path) -> Iterator[ObjectStore]:
    """Serve a folder."""
    with ObjectStore(folder) as store:
        thread = threading.Thread(target=store.serve_forever, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join()
