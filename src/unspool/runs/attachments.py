"""Files that a person attaches to a message: images go to the model as images, text files as part of the text."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from ..core.errors import UsageError
from ..render.sanitize import fence, one_line

MAX_ATTACHMENTS = 10
MAX_IMAGE_BYTES = 5 << 20
"""The largest image that models accept."""
MAX_TEXT_BYTES = 256 << 10
MAX_TOTAL_BYTES = 6 << 20
_LONGEST_NAME = 120
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""The first bytes of images: the extension of a file is not reliable."""


class Attachment(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An attached file, as the sender provided it."""

    name: str
    data: bytes
    """Base64 in JSON."""


class AttachedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that belongs to a message, without its content."""

    name: str
    media_type: str
    size: int


class ImageInput(NamedTuple):
    """An image for the model."""

    media_type: str
    base64: str

    @property
    def data_url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.base64}"


class PreparedMessage(NamedTuple):
    """A message with its attachments, in the form that drivers accept."""

    text: str
    images: tuple[ImageInput, ...] = ()
    shown: tuple[AttachedImage, ...] = ()


def prepare_message(text: str, attachments: Sequence[Attachment], agent: str, *, takes_images: bool) -> PreparedMessage:
    """Check the attachments and add them to a message. Raises UsageError if one of them cannot be sent."""
    if len(attachments) > MAX_ATTACHMENTS:
        raise UsageError(f"At most {MAX_ATTACHMENTS} files can be attached to a message, not {len(attachments)}.")
    if sum(len(each.data) for each in attachments) > MAX_TOTAL_BYTES:
        raise UsageError(f"The attached files are too large: at most {MAX_TOTAL_BYTES >> 20} MB together.")
    images: list[ImageInput] = []
    shown: list[AttachedImage] = []
    for each in attachments:
        name = one_line(PurePath(each.name.replace("\\", "/")).name or "file", _LONGEST_NAME)
        media_type = image_type(each.data)
        if media_type is None:
            text += _as_text(name, each.data)
            continue
        if not takes_images:
            raise UsageError(f"{agent} cannot receive images here, so {name} was not sent.")
        if len(each.data) > MAX_IMAGE_BYTES:
            raise UsageError(f"{name} is too large: an image can have at most {MAX_IMAGE_BYTES >> 20} MB.")
        images.append(ImageInput(media_type, base64.b64encode(each.data).decode()))
        shown.append(AttachedImage(name=name, media_type=media_type, size=len(each.data)))
    return PreparedMessage(text, tuple(images), tuple(shown))


def image_type(data: bytes) -> str | None:
    """Return the media type of an image, judged by its content; None if models cannot read it as an image."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), None)


def _as_text(name: str, data: bytes) -> str:
    if len(data) > MAX_TEXT_BYTES:
        limit = MAX_TEXT_BYTES >> 10
        raise UsageError(f"{name} is too large: a text file can have at most {limit} kB. Name its path instead.")
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError:
        kinds = "PNG, JPEG, GIF and WebP images and text files"
        raise UsageError(f"{name} cannot be attached: only {kinds} can. Name its path instead.") from None
    mark = fence(content)
    return f"\n\nAttached file {name}:\n{mark}\n{content}\n{mark}"
