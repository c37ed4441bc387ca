"""The process that sends a request: an agent cannot decide about itself, however it tries."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from unspool.runs.processes import MARK
from unspool.web.peers import PEER_IS_GONE, Peer, find_in_tables, find_peer
from unspool.web.socket_owner import SocketLookupError

from ..waiting import PATIENCE
from .browser import Server, serving

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="this system does not list connections in /proc"),
]
POST = """
import sys, urllib.error, urllib.request
base, token = sys.argv[1:]
headers = {"authorization": f"Bearer {token}"}
for method in ("POST", "GET"):
    request = urllib.request.Request(f"{base}/api/runs", b"{}" if method == "POST" else None, headers, method=method)
    try:
        print(urllib.request.urlopen(request).status)
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("peers")
    (folder / "home").mkdir()
    with serving(folder, folder / "home", "--no-follow") as server:
        yield server


def lines_of(*command: str, **environment: str) -> list[str]:
    """What a program prints."""
    variables = {name: value for name, value in os.environ.items() if name != MARK} | environment
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE, check=False)
    return (done.stdout + done.stderr).splitlines()


def test_an_agent_cannot_act_with_the_token(server: Server) -> None:
    """Neither by itself, nor through a program from whose environment it has removed the mark. Reading is allowed."""
    command = (sys.executable, "-c", POST, server.base, server.token)
    acted, read = lines_of(*command)
    assert (acted[:3], read) == ("400", "200")
    for attempt in (command, ("sh", "-c", 'env -u "$0" "$@"; true', MARK, *command)):
        acted, read = lines_of(*attempt, **{MARK: "an-agent"})
        assert acted.startswith("403 ")
        assert "decisions about them are made by people" in acted
        assert read == "200"


def test_an_agent_cannot_use_the_commands(server: Server) -> None:
    """The same, with a clear message. Commands that only read work."""
    data = str(server.store.parent / "data")
    for command, mark, said in (
        (("run", "--agent", "none", "hello"), "", "Unknown agent"),
        (("run", "--agent", "none", "hello"), "an-agent", "decisions about agents are made by people"),
        (("ps",), "an-agent", "No agents are running"),
    ):
        variables = {"UNSPOOL_DATA": data} | ({MARK: mark} if mark else {})
        printed = " ".join(lines_of(sys.executable, "-m", "unspool", *command, **variables))
        assert said in printed


GET = """
import encodings.idna, http.client, os, sys  # all at once: another user may not be able to read the library
port, cookie, user = sys.argv[1:]
os.setuid(int(user))
connection = http.client.HTTPConnection("127.0.0.1", int(port))
connection.request("GET", "/api/runs", headers={"cookie": cookie})
print(connection.getresponse().status)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator can start a program as another user")
def test_another_user_cannot_read_with_a_cookie(server: Server) -> None:
    """At a name that all servers of this computer share, any of them may have received it."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
        connection.request("POST", "/open", json.dumps({"token": server.token}), {"origin": server.base})
        cookie = (connection.getresponse().headers["set-cookie"] or "").partition(";")[0]
    for user, status in ((os.geteuid(), "200"), (65534, "403")):
        assert lines_of(sys.executable, "-c", GET, str(server.port), cookie, str(user)) == [status]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who has a connection open")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_peer_is_found_while_it_is_connected(host: str) -> None:
    """With its user; one that has closed its end is gone, and one elsewhere is unknown. The tables say the same."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        here = listening.getsockname()[:2]
        with socket.create_connection(here) as client:
            address = client.getsockname()[:2]
            peer = find_peer(address, here)
            assert peer == find_in_tables(address, here) == Peer(os.geteuid(), os.fstat(client.fileno()).st_ino)
        assert find_peer(address, here) is find_in_tables(address, here) is PEER_IS_GONE
        assert find_peer(("192.0.2.1", 4000), here) is None
        assert find_peer(None, here) is None
    assert find_in_tables(address, here) is None


def test_a_program_may_use_a_socket_for_both_families() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.0.0.1", listening.getsockname()[1]))
        with listening.accept()[0] as accepted:
            assert find_peer(accepted.getpeername(), accepted.getsockname()) == Peer(
                os.geteuid(), os.fstat(client.fileno()).st_ino
            )


def test_a_kernel_that_does_not_answer_is_asked_for_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox may forbid netlink."""

    def forbidden(*_: object) -> None:
        raise SocketLookupError("EPERM")

    monkeypatch.setattr("unspool.web.peers.owner_of_socket", forbidden)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = listening.getsockname()
        with socket.create_connection(here) as client:
            assert isinstance(find_peer(client.getsockname(), here), Peer)
