"""Other devices: the link and its QR code, certificates, and the host names of a public address."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest
from litestar.testing import TestClient

from unspool.cli._shared.client import Server as ClientServer
from unspool.core.errors import UnspoolError, UsageError
from unspool.web.app import create_app
from unspool.web.certificates import check_certificate, fingerprint
from unspool.web.phone_link import phone_link, qr_image, qr_text
from unspool.web.settings import Settings

from ..waiting import PATIENCE


@pytest.mark.parametrize(
    ("settings", "link"),
    [
        (Settings(public_url="https://unspool.example.org"), "https://unspool.example.org/open?token=t"),
        (Settings(host="0.0.0.0", names=("my-laptop.local",)), "http://my-laptop.local:8377/open?token=t"),
        (Settings(host="10.1.2.3", certificate=("c", "k")), "https://10.1.2.3:8377/open?token=t"),
    ],
)
def test_the_link_for_a_phone(settings: Settings, link: str) -> None:
    assert phone_link(settings, "t") == link


@pytest.mark.parametrize("settings", [Settings(), Settings(host="0.0.0.0"), Settings(names=("my-laptop.local",))])
def test_there_is_no_link_to_a_server_that_only_listens_here(settings: Settings) -> None:
    with pytest.raises(UsageError, match="Only this computer can reach the server"):
        phone_link(settings, "t")


def test_qr_codes() -> None:
    pytest.importorskip("segno", reason="the package for QR codes is not installed: pip install 'unspool[phone]'")
    link = "https://unspool.example.org/open?token=0123456789"
    assert qr_image(link).startswith("data:image/svg+xml")
    assert len(qr_text(link).splitlines()) > 10


def test_a_certificate_is_made_once_and_again_for_other_names(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="the packages for certificates are not installed")
    from unspool.web.self_signed import own_certificate

    certificate, key = own_certificate(tmp_path, ("127.0.0.1", "my-laptop.local"))
    check_certificate(certificate, key)
    first = fingerprint(certificate)
    assert len(first) == 95
    assert Path(key).stat().st_mode & 0o077 == 0
    own_certificate(tmp_path, ("127.0.0.1", "my-laptop.local"))
    assert fingerprint(certificate) == first
    own_certificate(tmp_path, ("127.0.0.1", "other.local"))
    assert fingerprint(certificate) != first


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UnspoolError, match="cannot use the certificate"):
        check_certificate(str(tmp_path / "none"), str(tmp_path / "none"))


def test_requests_for_the_public_address_are_accepted_and_no_others(store_path: Path) -> None:
    app = create_app(
        Settings(token="t", store=str(store_path), follows=False, public_url="https://unspool.example.org")
    )
    headers = {"authorization": "Bearer t"}
    with TestClient(app, base_url="http://unspool.example.org") as client:
        for host, status in (("unspool.example.org", 200), ("evil.example.org", 421), ("unspool.example.org:81", 421)):
            assert client.get("/api/health", headers=headers | {"host": host}).status_code == status
        login = client.post("/open", json={"token": "t"}, headers={"origin": "https://unspool.example.org"})
        assert login.status_code == 200
        assert "; Secure" in login.headers["set-cookie"]
        other = client.post("/open", json={"token": "t"}, headers={"origin": "https://evil.example.org"})
        assert other.status_code == 403


@pytest.mark.server
def test_commands_reach_a_server_that_encrypts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They trust its certificate and no other one."""
    pytest.importorskip("cryptography", reason="the packages for certificates are not installed")
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path / "data"))
    (tmp_path / "home").mkdir()
    options = ("--home", str(tmp_path / "home"), "--port", "0", "--no-browser", "--no-follow", "--tls-self-signed")
    command = (sys.executable, "-m", "unspool", "serve", *options)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline() if select.select([process.stdout], [], [], PATIENCE)[0] else ""
        assert said.startswith("https://127.0.0.1:")
        assert ClientServer().request("GET", "/api/runs")["runs"] == []
        from unspool.web.self_signed import own_certificate

        own_certificate(tmp_path / "data", ("another.local",))
        with pytest.raises(UnspoolError, match="certificate verify failed"):
            ClientServer().request("GET", "/api/runs")
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
