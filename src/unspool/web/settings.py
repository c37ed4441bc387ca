"""The settings of a server."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from ..core.errors import UnspoolError

PORT = 8377


class Settings(msgspec.Struct, kw_only=True, frozen=True):
    """How a server runs."""

    token: str
    store: str | None = None
    """The store: a file or a database URL; by default that of the user."""
    homes: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    """Additional host names of the server."""
    follows: bool = True
    """Whether the server keeps the store up to date itself."""
    polls: bool = False
    data: str | None = None
    """The folder of the run log; without one the server runs no agents."""

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers send cookies of one host to all its ports."""
        return f"unspool-{self.port}"

    def link(self, path: str = "/") -> str:
        """The link that opens the app in a browser."""
        suffix = "" if path == "/" else f"&next={path}"
        return f"{self.address}/open?token={self.token}{suffix}"

    @property
    def address(self) -> str:
        """The address of the server on this computer."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"


def kept_token(folder: Path) -> str:
    """The token of this user. It is kept, so that open pages keep working when the server restarts."""
    path = folder / "web-token"
    try:
        if token := path.read_text(encoding="ascii").strip():
            return token
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise UnspoolError(f"{path} cannot be read: {error}; remove it to get a new token") from error
    token = secrets.token_urlsafe(32)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(token + "\n")
    except OSError as error:
        raise UnspoolError(
            f"{path} cannot be written: {error.strerror}; choose another folder with UNSPOOL_DATA"
        ) from error
    return token
