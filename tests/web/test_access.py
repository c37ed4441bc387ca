"""The token and the browser sessions of a user: kept, rotated, expired and revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.core.errors import UnspoolError
from unspool.web.access import SESSION_SECONDS, TOKEN_SECONDS, Access, Login, is_key_of

HOST = "u1.localhost:8377"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def logged_in(access: Access, token: str | None = None) -> Login:
    """A new browser session."""
    login = access.log_in(token or access.token, HOST)
    assert login is not None
    return login


def test_access_survives_a_restart(tmp_path: Path, clock: Clock) -> None:
    """The token and the sessions are the same for every process of the user, and only for the user."""
    access = Access.load_or_create(tmp_path / "data", now=clock)
    login = logged_in(access)
    again = Access.load_or_create(tmp_path / "data", rotates=True, now=clock)
    assert again.token == access.token
    assert again.host_name == access.host_name
    session = again.session(login.cookie, HOST)
    assert session is not None
    assert is_key_of(session, login.key)
    assert not is_key_of(session, login.cookie)
    assert again.session(login.cookie, "127.0.0.1:8377") is None
    assert again.session(login.key, HOST) is None
    for path in (tmp_path / "data").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
        assert login.cookie not in path.read_text()
        assert login.key not in path.read_text()


def test_a_running_server_notices_a_revocation(tmp_path: Path, clock: Clock) -> None:
    """Another process revokes; the token, the sessions and the host name of the server are worthless at once."""
    server = Access.load_or_create(tmp_path, now=clock)
    token, name = server.token, server.host_name
    login = logged_in(server)
    session = server.session(login.cookie, HOST)
    assert session is not None
    assert Access.load_or_create(tmp_path, now=clock).revoke() == 1
    assert not server.is_token(token)
    assert not server.can_log_in(token)
    assert server.session(login.cookie, HOST) is None
    assert not server.is_valid(session)
    assert server.host_name != name


def test_an_old_token_rotates_and_logs_in_once_more(tmp_path: Path, clock: Clock) -> None:
    """Browsers stay logged in; a bookmark with the old token works once, and programs need the new one."""
    access = Access.load_or_create(tmp_path, now=clock)
    old = access.token
    login = logged_in(access)
    clock.now += TOKEN_SECONDS + 1
    access = Access.load_or_create(tmp_path, rotates=True, now=clock)
    assert not access.is_token(old)
    assert access.session(login.cookie, HOST) is not None
    assert access.can_log_in(old)
    logged_in(access, old)
    assert not access.can_log_in(old)
    assert access.log_in(old, HOST) is None
    logged_in(access)


def test_the_token_of_an_earlier_version_logs_in_once(tmp_path: Path, clock: Clock) -> None:
    """It was the cookie then, which other servers may have seen, so it is good for nothing else."""
    (tmp_path / "web-token").write_text("old-token\n")
    access = Access.load_or_create(tmp_path, now=clock)
    assert not (tmp_path / "web-token").exists()
    assert not access.is_token("old-token")
    logged_in(access, "old-token")
    assert access.log_in("old-token", HOST) is None


def test_sessions_expire_when_they_are_not_used(tmp_path: Path, clock: Clock) -> None:
    access = Access.load_or_create(tmp_path, now=clock)
    used, unused = logged_in(access), logged_in(access)
    clock.now += SESSION_SECONDS / 2
    assert access.session(used.cookie, HOST) is not None
    clock.now += SESSION_SECONDS / 2 + 1
    assert access.session(used.cookie, HOST) is not None
    assert access.session(unused.cookie, HOST) is None


def test_a_browser_that_logs_in_again_has_one_session(tmp_path: Path, clock: Clock) -> None:
    access = Access.load_or_create(tmp_path, now=clock)
    first = logged_in(access)
    assert access.log_in(access.token, HOST, old_cookie=first.cookie) is not None
    assert access.session(first.cookie, HOST) is None
    assert access.revoke() == 1


def test_a_damaged_file_is_an_error(tmp_path: Path, clock: Clock) -> None:
    """Nobody gets in because of it."""
    access = Access.load_or_create(tmp_path, now=clock)
    (tmp_path / "web-access.json").write_text("{")
    with pytest.raises(UnspoolError, match=r"web-access\.json cannot be used"):
        _ = access.token
