"""A self-signed certificate for this computer."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..core.errors import MissingExtraError
from ..io.pip import install_command
from ..store.private_files import replace_private

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"A new certificate needs cryptography; install it with: {install_command('push')}"
    ) from error

_DAYS = 397
"""Browsers reject certificates that are valid for longer."""
_RENEW_DAYS = 30


def own_certificate(folder: Path, names: tuple[str, ...]) -> tuple[str, str]:
    """Return the paths of a certificate for some host names and of its key.

    A new one is created when the last one is about to expire, or the names have changed.
    """
    certificate, key = folder / "tls-certificate.pem", folder / "tls-key.pem"
    if not _is_current(certificate, names):
        made, private = _make(names)
        replace_private(key, private)
        replace_private(certificate, made)
    return str(certificate), str(key)


def _is_current(path: Path, names: tuple[str, ...]) -> bool:
    with suppress(OSError, ValueError, x509.ExtensionNotFound):
        found = x509.load_pem_x509_certificate(path.read_bytes())
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = {str(each.value) for each in alternatives}
        return known == set(names) and found.not_valid_after_utc > datetime.now(UTC) + timedelta(days=_RENEW_DAYS)
    return False


def _make(names: tuple[str, ...]) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "unspool on this computer")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), private


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
