"""Notifications by Web Push: encrypted as the standard says, minimal, and only to browsers that want them."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from http.client import BadStatusLine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="the packages for Web Push are not installed: pip install 'unspool[push]'")

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from unspool.core.errors import MissingExtraError, UnspoolError, UsageError
from unspool.store.private_files import replace_private
from unspool.web import notifications
from unspool.web.notifications import PushNotifier, notification_of, push_key, run_name
from unspool.web.web_push import PushSubscription, authorization, check, decode, encode, encrypt, new_private_key
from unspool.web.web_push import public_key as public_key_of

RECEIVER = PushSubscription(
    endpoint="https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
    p256dh="BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    auth="BTBZMqHH6r4Tts7J_aSIgg",
    who="a phone",
)
"""From the example of RFC 8291, appendix A."""
RUN = SimpleNamespace(agent="claude", session="s1", spec=SimpleNamespace(folder="/home/dev/tidepool"))


def test_messages_are_encrypted_as_in_the_standard() -> None:
    body = encrypt(
        RECEIVER,
        b"When I grow up, I want to be a watermelon",
        salt=decode("DGv6ra1nlYgDCS1FRnbzlw"),
        sender="yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
    )
    assert encode(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7"
        "A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


def test_the_server_identifies_itself_to_the_push_service_alone() -> None:
    private = new_private_key()
    header = authorization(RECEIVER.endpoint, private, "https://unspool.example.org", now=1000)
    token, _, key = header.removeprefix("vapid t=").partition(", k=")
    signed, _, signature = token.rpartition(".")
    claims = json.loads(decode(signed.split(".")[1]))
    assert claims == {"aud": "https://push.example.net", "exp": 1000 + 12 * 3600, "sub": "https://unspool.example.org"}
    assert key == public_key_of(private)
    raw = decode(signature)
    given = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    verifier = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode(key))
    verifier.verify(given, signed.encode(), ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example.net/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://[::1]/x",
        "https://router.local/x",
        "https://10.0.0.1/x",
        "ftp://push.example.net",
        "https://[",
        "https://push.example.net:port/x",
        "https://push.example.net:99999/x",
        "https://push.example.net/with a space",
        "https://push.example.net/é",
        "",
    ],
)
def test_messages_go_to_the_internet_only(endpoint: str) -> None:
    with pytest.raises(UsageError, match="push service"):
        check(PushSubscription(endpoint=endpoint, p256dh=RECEIVER.p256dh, auth=RECEIVER.auth))


@pytest.mark.parametrize(("p256dh", "auth"), [("", RECEIVER.auth), ("BBBB", RECEIVER.auth), (RECEIVER.p256dh, "x")])
def test_invalid_keys_are_refused(p256dh: str, auth: str) -> None:
    with pytest.raises(UsageError, match="keys"):
        check(PushSubscription(endpoint=RECEIVER.endpoint, p256dh=p256dh, auth=auth))


ASKED = {
    "kind": "asked", "run": "r1", "question": SimpleNamespace(request=SimpleNamespace(id="q1", title="rm -rf secret")),
}  # fmt: skip


@pytest.mark.parametrize(
    ("event", "title"),
    [
        (ASKED, "An agent needs you"),
        ({"kind": "turn_ended", "run": "r1", "outcome": "completed"}, "An agent is done"),
        ({"kind": "turn_ended", "run": "r1", "outcome": "failed"}, "An agent has failed"),
        ({"kind": "turn_ended", "run": "r1", "outcome": "interrupted"}, None),
        ({"kind": "state", "run": "r1", "state": "ended", "error": "it fell over"}, "An agent has failed"),
        ({"kind": "state", "run": "r1", "state": "ended", "error": None}, None),
        ({"kind": "words", "run": "r1", "text": "x"}, None),
    ],
)
def test_people_are_notified_of_what_they_wait_for(event: dict[str, Any], title: str | None) -> None:
    found = notification_of(event, run_name("Fix the tide tables", "claude", "/home/dev/tidepool"))
    assert (found.title if found is not None else None) == title
    if found is not None:
        assert found.body == "Fix the tide tables · Claude Code in tidepool"
        assert "secret" not in str(found), "what it wants to do is not sent to anybody else's server"


def test_browsers_subscribe_get_messages_and_are_forgotten_when_they_are_gone(tmp_path: Path) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []

    def send(subscription: PushSubscription, text: bytes, private: str, contact: str) -> int:
        assert contact == "https://unspool.example.org"
        assert public_key_of(private) == push_key(notifier)[0]
        sent.append((subscription.who, json.loads(text)))
        return 410 if subscription.who == "gone" else 201

    def of_run(_: str) -> Any:
        return RUN

    async def title_of(agent: str, session: str | None) -> str:
        return f"{agent} {session}"

    notifier = PushNotifier(tmp_path, "https://unspool.example.org", of_run, send, title_of)
    gone = PushSubscription(
        endpoint="https://push.example.net/gone", p256dh=RECEIVER.p256dh, auth=RECEIVER.auth, who="gone"
    )

    async def scene() -> None:
        notifier.on_event(ASKED)
        for subscription in (RECEIVER, RECEIVER, gone):
            notifier.subscribe(subscription)
        for _ in range(2):
            notifier.on_event(ASKED)
            await notifier.drain()

    asyncio.run(scene())
    assert sorted(who for who, _ in sent) == ["a phone", "a phone", "gone"]
    assert sent[0][1]["url"] == "/runs/r1"
    assert sent[0][1]["body"] == "claude s1 · Claude Code in tidepool"
    assert (tmp_path / "push.json").stat().st_mode & 0o077 == 0
    again = PushNotifier(tmp_path, None, of_run, send)
    assert push_key(again) == push_key(notifier), "subscriptions stay valid when the server starts again"
    again.unsubscribe(RECEIVER.endpoint)
    assert b"push.example.net" not in (tmp_path / "push.json").read_bytes()


def test_a_server_without_agents_says_why_there_is_no_key() -> None:
    assert push_key(None) == (None, "Running agents is disabled on this server.")


def notifier_in(folder: Path, send: Any = None) -> PushNotifier:
    """One whose file is in a folder."""
    return PushNotifier(folder, None, lambda _: RUN, send)


def other(name: str) -> PushSubscription:
    """Another valid subscription."""
    return PushSubscription(
        endpoint=f"https://push.example.net/{name}", p256dh=RECEIVER.p256dh, auth=RECEIVER.auth, who=name
    )


@pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), None], ids=["unreadable", "damaged"])
def test_subscriptions_are_kept_when_their_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: OSError | None
) -> None:
    """A new key would end all of them, so there is none until the file is readable again."""
    notifier_in(tmp_path).subscribe(RECEIVER)
    file = tmp_path / "push.json"
    kept = file.read_bytes()
    started_later = notifier_in(tmp_path)
    with monkeypatch.context() as patch:
        if fault is None:
            file.write_bytes(kept[:-20])
        else:
            patch.setattr(notifications, "read_file", lambda _: (_ for _ in ()).throw(fault))
        at_the_time = file.stat().st_ino
        with pytest.raises(UnspoolError, match=r"push\.json"):
            started_later.subscribe(other("tablet"))
        with pytest.raises(UnspoolError, match=r"push\.json"):
            started_later.unsubscribe("https://push.example.net/tablet")
        key, reason = push_key(started_later)
        assert key is None
        assert "push.json" in str(reason)
        started_later.on_event(ASKED)
        assert "push.json" in caplog.text, "a notification that is not sent is mentioned"
        assert file.stat().st_ino == at_the_time
    file.write_bytes(kept)
    started_later.subscribe(other("tablet"))
    saved = json.loads(file.read_bytes())
    assert [one["who"] for one in saved["subscriptions"]] == ["a phone", "tablet"]
    assert saved["private"] == json.loads(kept)["private"]


def test_a_subscription_that_cannot_be_saved_is_not_in_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser gets an error; the next one that subscribes must not save it."""

    def fail(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    notifier = notifier_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(notifications, "replace_private", fail)
        with pytest.raises(OSError, match="No space"):
            notifier.subscribe(RECEIVER)
    notifier.subscribe(other("tablet"))
    assert [one["who"] for one in json.loads((tmp_path / "push.json").read_bytes())["subscriptions"]] == ["tablet"]


def test_subscriptions_are_changed_by_one_thread_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread waits from before the list is read until it is saved: it would save an older list."""
    could_start: list[bool] = []

    def save_while_another_tries(path: Path, data: bytes) -> None:
        with ThreadPoolExecutor(1) as another:
            could_start.append(another.submit(notifier._lock.acquire, blocking=False).result())
        replace_private(path, data)

    monkeypatch.setattr(notifications, "replace_private", save_while_another_tries)
    notifier = notifier_in(tmp_path)
    notifier.subscribe(RECEIVER)
    notifier.unsubscribe(RECEIVER.endpoint)
    assert could_start == [False, False]


@pytest.mark.parametrize(
    "fault",
    [BadStatusLine("not HTTP"), OSError("no route"), MissingExtraError("no packages")],
    ids=lambda fault: type(fault).__name__,
)
def test_a_push_service_that_fails_is_named_and_the_others_are_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    reached: list[str] = []

    def send(subscription: PushSubscription, _text: bytes, _private: str, _contact: str) -> int:
        if subscription.who == "a phone":
            raise fault
        reached.append(subscription.who)
        return 201

    async def scene() -> None:
        notifier = notifier_in(tmp_path, send)
        notifier.subscribe(RECEIVER)
        notifier.subscribe(other("tablet"))
        notifier.on_event(ASKED)
        await asyncio.gather(*notifier._tasks)

    asyncio.run(scene())
    assert reached == ["tablet"]
    assert f"A notification could not be sent to a phone: {fault}" in caplog.text


def test_people_are_notified_even_if_the_title_is_unknown(tmp_path: Path) -> None:
    """The store may be unavailable at the moment when an agent needs somebody."""
    bodies: list[str] = []

    def send(_subscription: PushSubscription, text: bytes, _private: str, _contact: str) -> int:
        bodies.append(json.loads(text)["body"])
        return 201

    async def no_store(_agent: str, _session: str | None) -> str:
        raise UnspoolError("the store is locked")

    async def scene() -> None:
        notifier = PushNotifier(tmp_path, None, lambda _: RUN, send, no_store)
        notifier.subscribe(RECEIVER)
        notifier.on_event(ASKED)
        await notifier.drain()

    asyncio.run(scene())
    assert bodies == ["Claude Code in tidepool"]
