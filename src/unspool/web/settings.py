"""How a server is to run."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from ..core.errors import UnspoolError

PORT = 8377


class Settings(msgspec.Struct, kw_only=True, frozen=True):
    """What somebody chose, or did not."""

    token: str
    store: str | None = None
    """Where the sessions are kept: a file, or an address; by default the user's own."""
    homes: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    """Further names under which the server may be reached."""
    follows: bool = True
    """Whether it keeps the store up to date itself."""
    polls: bool = False
    data: str | None = None
    """The folder of the supervisor's book; where there is none, no agents are run."""

    @property
    def cookie(self) -> str:
        """Servers on one machine share their cookies: each has a name of its own."""
        return f"unspool-{self.port}"

    def link(self, path: str = "/") -> str:
        """The address that opens the app in a browser."""
        suffix = "" if path == "/" else f"&next={path}"
        return f"{self.address}/open?token={self.token}{suffix}"

    @property
    def address(self) -> str:
        """Where it is reached from this computer."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"


def kept_token(folder: Path) -> str:
    """The token of this user: it stays, so that a page that is open goes on after the server was started anew."""
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
        raise UnspoolError(f"{path} cannot be written: {error.strerror}; choose a place with UNSPOOL_DATA") from error
    return token
