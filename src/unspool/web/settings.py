"""The settings of a server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ..store.locate import data_folder
from .access import Access

PORT = 8377
OPEN = "/open"
"""The address that takes the token and logs a browser in."""


class Settings(msgspec.Struct, kw_only=True, frozen=True):
    """How a server runs."""

    token: str | None = None
    """A token for as long as the server runs; without one, the token in the data directory."""
    store: str | None = None
    """The store: a file or a database URL; by default that of the user."""
    homes: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    """Additional host names of the server."""
    certificate: tuple[str, str] | None = None
    """Files with a certificate and its key; without them the server does not encrypt."""
    public_url: str | None = None
    """The address under which other devices reach the server, for example through a reverse proxy."""
    follows: bool = True
    """Whether the server keeps the store up to date itself."""
    polls: bool = False
    data: str | None = None
    """The data directory, with the run log; without one the server runs no agents."""
    sandbox: bool = False
    """Whether agents run where they cannot reach the data directory."""

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers send cookies of one host to all its ports."""
        return f"unspool-{self.port}"

    def access(self, *, rotates: bool = False) -> Access:
        """Who may use the server."""
        if self.token is not None:
            return Access.in_memory(self.token)
        return Access.kept(Path(self.data) if self.data is not None else data_folder(), rotates=rotates)

    def link(self, token: str) -> str:
        """The link that opens the app in a browser."""
        return f"{self.address}{OPEN}?token={token}"

    @property
    def address(self) -> str:
        """The address of the server on this computer."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        host = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def scheme(self) -> str:
        """How the server is reached directly."""
        return "https" if self.certificate is not None else "http"

    @property
    def public_hosts(self) -> frozenset[str]:
        """The host of the public address, as browsers send it."""
        return frozenset({urlsplit(self.public_url).netloc.lower()} if self.public_url is not None else ())
