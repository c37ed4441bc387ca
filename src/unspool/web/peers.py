"""Finds the process on this computer that sent a request, if the system can tell: Linux knows who owns a connection.

Programs of the same user can read the token, including the agents that unspool runs. An agent that sends requests, on
its own or because of something it has read, is recognised here, so that it cannot approve its own actions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple, TypeAlias

from ..runs.processes import PROC, acts_for_agent, holders_of_socket
from .socket_owner import Address, SocketLookupError, owner_of_socket

_TABLES = ("tcp", "tcp6")
_LISTENING = "0A"


class Peer(NamedTuple):
    """The other end of a connection on this computer, while it is open."""

    uid: int
    inode: int


class _PeerIsGone:
    """The other end has already been closed: it can neither be identified nor receive the response."""


PEER_IS_GONE = _PeerIsGone()
FoundPeer: TypeAlias = Peer | _PeerIsGone | None
"""None if the peer is on another computer, or the system cannot identify it."""


class _Connection(NamedTuple):
    """A row of a table of connections."""

    local: Address
    remote: Address
    state: str
    uid: int
    inode: int


def find_peer(client: Address | None, server: Address | None) -> FoundPeer:
    """Find the other end of a connection."""
    if client is None or server is None or not _is_loopback(client[0]):
        return None
    try:
        owner = owner_of_socket(client, server)
    except SocketLookupError:
        return find_in_tables(client, server)
    return PEER_IS_GONE if owner is None else Peer(*owner)


def find_in_tables(client: Address, server: Address) -> FoundPeer:
    """Find the other end of a connection in the kernel's tables, if the kernel cannot look up single sockets."""
    rows = list(_connections(client[1], server[1]))
    if not any(row.state == _LISTENING for row in rows):
        # If even our own socket is missing, the tables say nothing about this connection.
        return None
    ends = (row for row in rows if row.local == client and row.remote == server and row.inode)
    return next((Peer(row.uid, row.inode) for row in ends), PEER_IS_GONE)


def is_agent(peer: Peer) -> bool:
    """Whether an agent that unspool runs, or a program that such an agent has started, has the connection open."""
    return any(acts_for_agent(pid, os.getpid()) for pid in holders_of_socket(peer.inode))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _connections(client_port: int, server_port: int) -> Iterator[_Connection]:
    """Yield the rows of a connection's two ends, and of sockets that listen on the port of the server."""
    ends = (f":{client_port:04X} ", f":{server_port:04X} ")
    for table in _TABLES:
        with suppress(OSError), (PROC / "net" / table).open() as file:
            next(file, None)
            for line in file:
                if ends[1] in line and (ends[0] in line or f" {_LISTENING} " in line):
                    fields = line.split()
                    yield _Connection(
                        _address(fields[1]), _address(fields[2]), fields[3], int(fields[7]), int(fields[9])
                    )


def _address(text: str) -> Address:
    """Parse an address as the kernel prints it: words of four bytes in the byte order of the machine."""
    host, _, port = text.partition(":")
    words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
    found = ip_address(b"".join(words))
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(found), int(port, 16)
