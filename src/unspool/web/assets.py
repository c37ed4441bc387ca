"""Scripts, style sheets and icons of the pages.

Their addresses contain a version computed from all of them, so a browser fetches each file once and caches it.
Otherwise a page would check forty files at every load. The version is part of the path because scripts import each
other by relative paths.
"""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import blake2s
from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

STATIC = Path(__file__).parent / "static"
PATH = "/static"
IMMUTABLE = "private, max-age=31536000, immutable"
"""The `Cache-Control` header of files that have a version in their address."""
_REVALIDATED = "no-cache, private"
# Not from `mimetypes`: the system's table can be wrong, and browsers do not run scripts of another type.
_MEDIA_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class Asset(msgspec.Struct, frozen=True):
    """A static file, ready to be sent."""

    data: bytes
    compressed: bytes
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """All files by name."""
    found = {}
    for path in sorted(STATIC.iterdir()):
        data = path.read_bytes()
        # Without a timestamp, so that a file is compressed to the same bytes on every start.
        found[path.name] = Asset(data, gzip.compress(data, mtime=0), _MEDIA_TYPES[path.suffix])
    return found


@cache
def assets_version() -> str:
    """Return a digest of all files."""
    digest = blake2s(digest_size=5)
    for name, asset in assets().items():
        digest.update(name.encode())
        digest.update(asset.data)
    return digest.hexdigest()


def asset_url(name: str) -> str:
    """The address of a file."""
    return f"{PATH}/{assets_version()}/{name}"


@get(f"{PATH}/{{version:str}}/{{name:str}}", include_in_schema=False)
async def asset_file(request: Request[Any, Any, Any], version: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Send a file. A browser may cache it if its address has the current version."""
    asset = assets().get(name)
    if asset is None:
        raise NotFoundException(f"There is no file {name}.")
    headers = {"cache-control": IMMUTABLE if version == assets_version() else _REVALIDATED, "vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(asset.data, media_type=asset.media_type, headers=headers)
    return Response(asset.compressed, media_type=asset.media_type, headers=headers | {"content-encoding": "gzip"})
