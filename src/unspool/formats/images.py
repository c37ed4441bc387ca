"""URLs and MIME types of images."""

from __future__ import annotations

import mimetypes
from urllib.parse import urlsplit

from ..core import model as m


def media_type_of(image: m.Image) -> str | None:
    """Return the MIME type, guessed from the file name if it is not recorded."""
    if image.media_type:
        return image.media_type.lower()
    if not image.url:
        return None
    try:
        return mimetypes.guess_type(urlsplit(image.url).path)[0]
    except ValueError:
        return None


def data_url(image: m.Image) -> str | None:
    """Return the image as a `data:` URL; None if the log does not have its bytes."""
    return f"data:{media_type_of(image) or 'image/png'};base64,{image.data}" if image.data else None


def web_url(image: m.Image) -> str | None:
    """Return the URL of an image that a provider can fetch; None if there is none."""
    return image.url if image.url and image.url.startswith(("https://", "http://")) else None
