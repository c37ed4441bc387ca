"""The settings of a server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ..store.locate import data_folder
from .access import Access

PORT = 8377
OPEN = "/open"
"""The path of the login page."""


class Settings(msgspec.Struct, kw_only=True, frozen=True):
    """The configuration of a server."""

    token: str | None = None
    """A token that is valid as long as the server runs; by default, the token in the data directory is used."""
    store: str | None = None
    """The store: a file or a database URL; by default, the store of the user."""
    homes: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    """Additional host names of the server."""
    certificate: tuple[str, str] | None = None
    """Files with a certificate and its key; without them, the server does not use TLS."""
    public_url: str | None = None
    """The address at which other devices reach the server, for example through a reverse proxy."""
    follows: bool = True
    """Whether the server keeps the store up to date itself."""
    polls: bool = False
    data: str | None = None
    """The data directory, with the run log; without one, the server does not run agents."""
    sandbox: bool = False
    """Whether agents run in a sandbox, without access to the data directory."""

    @property
    def cookie(self) -> str:
        """The name of the cookie. It contains the port, because browsers send cookies to all ports of a host."""
        return f"unspool-{self.port}"

    def access(self, *, rotates: bool = False) -> Access:
        """Load the token and the browsers that are logged in."""
        if self.token is not None:
            return Access.in_memory(self.token)
        return Access.load_or_create(Path(self.data) if self.data is not None else data_folder(), rotates=rotates)

    def link(self, token: str) -> str:
        """Return the link that opens the app in a browser."""
        return f"{self.address}{OPEN}?token={token}"

    @property
    def address(self) -> str:
        """The address of the server on this computer."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        host = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def scheme(self) -> str:
        """The URL scheme of direct connections to the server."""
        return "https" if self.certificate is not None else "http"

    @property
    def public_hosts(self) -> frozenset[str]:
        """The host of the public address, as browsers send it."""
        return frozenset({urlsplit(self.public_url).netloc.lower()} if self.public_url is not None else ())
