"""The certificate of `unspool serve --tls`: its validation and its fingerprint."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

from ..core.errors import UnspoolError

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def check_certificate(certificate: str, key: str) -> None:
    """Raise UnspoolError if a certificate and its key cannot be used."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        raise UnspoolError(f"cannot use the certificate {certificate} with the key {key}: {error}") from error


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 fingerprint of the first certificate in a file, as browsers show it."""
    text = Path(certificate).read_text(encoding="ascii", errors="replace")
    first = text[text.index(_BEGIN) : text.index(_END) + len(_END)]
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest().upper()
    return ":".join(digest[start : start + 2] for start in range(0, len(digest), 2))
