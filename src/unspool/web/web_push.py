"""Web Push: encrypted messages to a browser through the push service of its vendor (RFC 8030, 8188, 8291 and 8292).

The push service sees neither the content nor the address of this server; it sees when a message is sent, and how long
it is.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import os
import struct
import time
from urllib.parse import SplitResult, urlsplit

import msgspec

try:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ModuleNotFoundError as error:
    from ..core.errors import MissingExtraError
    from ..io.pip import install_command

    raise MissingExtraError(f"Web Push needs cryptography; install it with: {install_command('push')}") from error

from ..core.errors import UsageError

_CURVE = ec.SECP256R1()
_RECORD_SIZE = 4096
_TTL_SECONDS = 1800
"""How long the push service stores a message for a phone that is off: as long as approval requests stay open."""
_TOKEN_SECONDS = 12 * 3600
_TIMEOUT = 20.0
MAX_PAYLOAD = 3000
"""Maximum size in bytes; push services accept at least 4096 bytes, including the encryption."""


class PushSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """The push subscription of a browser, as sent by the browser."""

    endpoint: str
    p256dh: str
    auth: str
    who: str = "someone"


def decode(text: str) -> bytes:
    """Decode URL-safe Base64, with or without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(data: bytes) -> str:
    """Encode as URL-safe Base64, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def new_private_key() -> str:
    """Create a key with which this server identifies itself to push services."""
    return encode(ec.generate_private_key(_CURVE).private_numbers().private_value.to_bytes(32, "big"))


def public_key(private: str) -> str:
    """Return the public part of a key, which browsers need to subscribe."""
    return encode(_point(_private(private).public_key()))


def check(subscription: PushSubscription) -> None:
    """Raise UsageError unless a subscription is valid and its push service is on the internet."""
    address = _address(subscription.endpoint)
    host = address.hostname or ""
    if address.scheme != "https" or "." not in host or host.endswith((".localhost", ".local", ".internal")):
        raise UsageError("The address of the push service must be an https address on the internet.")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        raise UsageError("The address of the push service must have a host name.")
    try:
        _receiver(subscription)
        is_valid = len(decode(subscription.auth)) == 16
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError("The keys of the push subscription are invalid.")


def _address(endpoint: str) -> SplitResult:
    """Split an address. Raises UsageError if it cannot be requested."""
    is_plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
    try:
        address = urlsplit(endpoint)
        # An invalid port is only found when it is read.
        if is_plain and address.port != 0:
            return address
    except ValueError:
        pass
    raise UsageError("The address of the push service is invalid.")


def encrypt(subscription: PushSubscription, text: bytes, *, salt: bytes = b"", sender: str = "") -> bytes:
    """Encrypt a message. `salt` and `sender` are random unless a test needs to know them."""
    salt = salt or os.urandom(16)
    own = _private(sender or new_private_key())
    receiver = _receiver(subscription)
    points = _point(receiver) + _point(own.public_key())
    shared = own.exchange(ec.ECDH(), receiver)
    key = _derive(shared, decode(subscription.auth), b"WebPush: info\0" + points, 32)
    content_key = _derive(key, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(key, salt, b"Content-Encoding: nonce\0", 12)
    sender_point = _point(own.public_key())
    head = salt + struct.pack("!IB", _RECORD_SIZE, len(sender_point)) + sender_point
    # 2 marks the last record; there is only one.
    return head + AESGCM(content_key).encrypt(nonce, text + b"\x02", None)


def authorization(endpoint: str, private: str, contact: str, now: float | None = None) -> str:
    """Return the header that identifies this server to a push service."""
    address = urlsplit(endpoint)
    expires = int(time.time() if now is None else now) + _TOKEN_SECONDS
    claims = {"aud": f"{address.scheme}://{address.netloc}", "exp": expires, "sub": contact}
    signed = ".".join(encode(msgspec.json.encode(part)) for part in ({"typ": "JWT", "alg": "ES256"}, claims))
    r, s = decode_dss_signature(_private(private).sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    signature = encode(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    return f"vapid t={signed}.{signature}, k={public_key(private)}"


def send(subscription: PushSubscription, text: bytes, private: str, contact: str) -> int:
    """Send a message and return the status of the response. 404 and 410: the browser has unsubscribed."""
    check(subscription)
    address = urlsplit(subscription.endpoint)
    headers = {
        "authorization": authorization(subscription.endpoint, private, contact),
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        "ttl": str(_TTL_SECONDS),
        "urgency": "high",
    }
    connection = http.client.HTTPSConnection(address.netloc, timeout=_TIMEOUT)
    try:
        path = f"{address.path}?{address.query}" if address.query else address.path
        connection.request("POST", path, encrypt(subscription, text[:MAX_PAYLOAD]), headers)
        return connection.getresponse().status
    finally:
        connection.close()


def _private(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decode(text), "big"), _CURVE)


def _receiver(subscription: PushSubscription) -> ec.EllipticCurvePublicKey:
    return ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, decode(subscription.p256dh))


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)
