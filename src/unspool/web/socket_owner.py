"""Looks up the owner of a TCP socket on this computer by its two addresses.

Linux supports such queries over netlink, in microseconds. `/proc/net/tcp` has the same data, but reading it scans a
table that grows with the memory of the machine, which takes longer than most responses.
"""

from __future__ import annotations

import errno
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR = 2
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_NO_COOKIE = b"\0" * 4 + b"\xff" * 8
"""Matches any interface and any socket."""
_ALL_STATES = 0xFFFFFFFF
_LISTENING = 10
_OWNER = struct.Struct("=4x48x12xII")
"""The user and the inode in a response, after the state, the addresses and the queues."""
_MOST_BYTES = 8192

_MAPPED = b"\0" * 10 + b"\xff" * 2
"""The prefix of an IPv4 address that is mapped to IPv6."""

Address = tuple[str, int]
_End = tuple[IPv4Address | IPv6Address, int]


class Owner(NamedTuple):
    """The owner of a socket."""

    uid: int
    inode: int


class SocketLookupError(Exception):
    """The kernel does not support such queries."""


def owner_of_socket(local: Address, remote: Address) -> Owner | None:
    """Return the owner of the socket with these addresses; None if the socket does not exist or has been closed."""
    ends = (_host(local[0]), local[1]), (_host(remote[0]), remote[1])
    # A program can use IPv4 through a socket of either family.
    families = [socket.AF_INET, socket.AF_INET6] if isinstance(ends[0][0], IPv4Address) else [socket.AF_INET6]
    return next((owner for family in families if (owner := _look_up(family, *ends))), None)


def _look_up(family: socket.AddressFamily, local: _End, remote: _End) -> Owner | None:
    body = b"".join(
        (
            _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES),
            _PORTS.pack(local[1], remote[1]),
            _packed(local[0], family),
            _packed(remote[0], family),
            _NO_COOKIE,
        )
    )
    header = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.send(header + body)
            response = kernel.recv(_MOST_BYTES)
    except (AttributeError, OSError) as error:
        raise SocketLookupError(str(error)) from error
    return _parse(response)


def _parse(response: bytes) -> Owner | None:
    _, kind, _, _, _ = _HEADER.unpack_from(response)
    body = response[_HEADER.size :]
    if kind == _NLMSG_ERROR:
        (code,) = struct.unpack_from("=i", body)
        if code == -errno.ENOENT:
            return None
        raise SocketLookupError(errno.errorcode.get(-code, str(code)))
    if kind != _SOCK_DIAG_BY_FAMILY or len(body) < _OWNER.size:
        raise SocketLookupError(f"unexpected response of type {kind}")
    uid, inode = _OWNER.unpack_from(body)
    # A listening socket is a different one, and a socket that is being closed has no owner.
    return Owner(uid, inode) if inode and body[1] != _LISTENING else None


def _host(host: str) -> IPv4Address | IPv6Address:
    found = ip_address(host)
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def _packed(host: IPv4Address | IPv6Address, family: socket.AddressFamily) -> bytes:
    packed = host.packed if len(host.packed) == 16 or family == socket.AF_INET else _MAPPED + host.packed
    return packed.ljust(16, b"\0")
