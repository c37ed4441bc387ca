"""Scripts, style sheets and icons: browsers keep them until a version of unspool has others."""

from __future__ import annotations

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from unspool.web.agent_styles import stylesheet_url
from unspool.web.assets import STATIC, asset_url, assets

Client = TestClient[Litestar]


@pytest.mark.parametrize("name", sorted(path.name for path in STATIC.iterdir()))
def test_a_browser_keeps_files(client: Client, name: str) -> None:
    """With and without compression they are the same."""
    answer = client.get(asset_url(name))
    assert answer.content == (STATIC / name).read_bytes()
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].split(";")[0] == assets()[name].media_type
    plain = client.get(asset_url(name), headers={"accept-encoding": "identity"})
    assert plain.content == answer.content
    assert "content-encoding" not in plain.headers


def test_the_address_of_another_version_is_not_kept(client: Client) -> None:
    """A page that was open before an update can still load scripts, but must not keep new ones under an old address."""
    answer = client.get("/static/0123456789/app.js")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache, private"


@pytest.mark.parametrize("name", ["nothing.js", "..", "%2e%2e%2fapp.py", "app.py"])
def test_only_files_of_the_folder_are_sent(client: Client, name: str) -> None:
    assert client.get(asset_url("") + name).status_code == 404


def test_the_colours_of_agents_are_kept(client: Client) -> None:
    assert "immutable" in client.get(stylesheet_url()).headers["cache-control"]
