"""Which server an answer belongs to."""

from __future__ import annotations

import pytest

from replay.errors import ModelRefused
from replay.models import protocol


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.anthropic.com", ""),
        ("https://API.anthropic.com:443/", ""),
        ("http://api.anthropic.com", "http://api.anthropic.com"),
        ("http://LocalHost:11434/", "http://localhost:11434"),
        ("http://user:secret@host:80/proxy/", "http://host/proxy"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("", ""),
    ],
)
def test_a_server_has_one_name_whatever_way_it_is_written(url: str, name: str) -> None:
    assert protocol.name(url) == name
    assert protocol.name(name) == name


def test_an_address_with_the_version_in_it_is_refused_with_the_right_one() -> None:
    with pytest.raises(ModelRefused) as error:
        protocol.server_url("http://me:secret@localhost:1234/v1/")
    assert error.value.hint == "Try: set it to http://localhost:1234"
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("url", ["localhost:1234", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ModelRefused, match="not a server address"):
        protocol.server_url(url)


def test_the_environment_names_a_server_where_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    assert protocol.server_url() == protocol.OFFICIAL
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:1")
    assert protocol.server_url() == "http://localhost:1"
    assert protocol.server_url("http://localhost:2") == "http://localhost:2"


def test_this_machine_is_known_by_its_addresses() -> None:
    local = ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"]
    assert all(map(protocol.is_local, local))
    assert not protocol.is_local("https://api.anthropic.com")
