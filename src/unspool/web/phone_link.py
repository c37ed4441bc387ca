"""The link that opens the app on a phone, and its QR code."""

from __future__ import annotations

import io
from typing import Any

from ..core.errors import MissingExtraError, UsageError
from ..io.pip import install_command
from .settings import Settings

_LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::", "")


def phone_link(settings: Settings, token: str) -> str:
    """Return the link for another device. Raises UsageError if only this computer can reach the server."""
    if settings.public_url is not None:
        base = settings.public_url.rstrip("/")
    else:
        names = [name for name in (*settings.names, settings.host) if name not in _LOOPBACK]
        if settings.host in ("127.0.0.1", "localhost", "::1") or not names:
            raise UsageError(
                "Only this computer can reach the server. "
                "Start it with --public-url, or with --host 0.0.0.0 and --name."
            )
        base = f"{settings.scheme}://{names[0]}:{settings.port}"
    return f"{base}/open?token={token}"


def qr_text(link: str) -> str:
    """Return a QR code for a terminal."""
    out = io.StringIO()
    _qr_code(link).terminal(out, compact=True)
    return out.getvalue()


def qr_image(link: str) -> str:
    """Return a QR code as an image in a `data:` address."""
    image: str = _qr_code(link).svg_data_uri(scale=5, border=3, light="#fff")
    return image


def _qr_code(link: str) -> Any:
    try:
        import segno
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"QR codes need segno; install it with: {install_command('phone')}") from error
    return segno.make(link, error="m", micro=False)
