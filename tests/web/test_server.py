"""The addresses that a server listens on."""

from __future__ import annotations

import socket

import pytest

from unspool.core.errors import UnspoolError
from unspool.web.server import _listen


def addresses(host: str, port: int = 0) -> set[str]:
    """Where a server for this host listens."""
    listening, actual = _listen(host, port, False)
    found = [each.getsockname() for each in listening]
    for each in listening:
        each.close()
    assert {address[1] for address in found} == {actual}
    return {address[0] for address in found}


@pytest.fixture(scope="module", autouse=True)
def has_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this computer has no IPv6 loopback address: {error}")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", {"127.0.0.1", "::1"}),
        ("::1", {"127.0.0.1", "::1"}),
        ("0.0.0.0", {"0.0.0.0", "::1"}),
        ("::", {"::", "127.0.0.1"}),
        ("127.0.0.2", {"127.0.0.2"}),
    ],
)
def test_both_loopback_addresses_are_ours(host: str, expected: set[str]) -> None:
    """A name that ends in .localhost means both, and a server of another user on one of them would get our secrets."""
    assert addresses(host) == expected


def test_a_port_of_which_another_program_has_one_address_is_not_used() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as other,
        pytest.raises(UnspoolError, match="already in use"),
    ):
        addresses("127.0.0.1", other.getsockname()[1])
