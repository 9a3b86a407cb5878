"""Claude on Bedrock and on Vertex, as `arc` asks it: the clients of the `anthropic` SDK against
loopback servers of both, with credentials that are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replay.budget import Budget, Limits
from replay.convert import Converter
from replay.errors import ModelRefused, RequestRefused
from replay.models.cached import Cached
from replay.models.choose import choose
from replay.store.handle import Store
from replay.trace import Message, Request, extend
from tests.messages_api import (
    CREDENTIALS,
    FAULTS,
    BedrockApi,
    Body,
    MessagesApi,
    VertexApi,
    message,
    text,
    tool_use,
)
from tests.replay.live_case import clean_environment

pytestmark = pytest.mark.slow  # AWS's library reads the descriptions of all its services

ANSWER = message(text("It is on its way."), tool_use("get_order", id=7))
MODELS = {
    "bedrock": "bedrock:eu.anthropic.claude-test-v1:0",
    "vertex": "vertex:claude-test@20260101",
}


@pytest.fixture(params=list(MODELS))
def platform(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[str, MessagesApi]]:
    """A model of each platform, and the only server there is."""
    clean_environment(monkeypatch, tmp_path)
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_REGION": CREDENTIALS.region,
        "AWS_ACCESS_KEY_ID": CREDENTIALS.access_key,
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS.secret_key,
        "CLOUD_ML_REGION": "europe-west1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "made-up",
        "ANTHROPIC_VERTEX_ACCESS_TOKEN": "ya29.known",
    }.items():
        monkeypatch.setenv(name, value)
    make: dict[str, Callable[[], MessagesApi]] = {
        "bedrock": lambda: BedrockApi(lambda _: ANSWER, reckons=True),
        "vertex": lambda: VertexApi(lambda _: ANSWER, reckons=True, tokens=["ya29.known"]),
    }
    forget_credentials()
    with make[request.param]() as running:
        monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", running.base_url)
        monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", f"{running.base_url}/v1")
        yield MODELS[request.param], running


def forget_credentials() -> None:
    """The SDK keeps what it found for the life of a process."""
    from anthropic.lib.aws import _auth

    _auth._get_session.cache_clear()  # type: ignore[attr-defined]


def live(model: str, store: Store) -> Cached:
    return choose(model, store, live=True, budget=Budget(Limits(calls=20)))


def ask(model: str, limit: int = 100, **params: object) -> tuple[Body, Cached]:
    """What the model says, and the model behind its stored answers."""
    context = extend(None, [Message(dialect="anthropic", body={"role": "user", "content": "Hi"})])
    request = Request(context=context, params={"max_tokens": limit, **params})
    with Store.open(":memory:") as store, live(model, store) as asked:
        return asked.answer(Converter(asked.name).sent(request), 0).body, asked


@pytest.mark.parametrize("limit", [100, 20_000], ids=["whole", "streamed"])
def test_the_same_message_comes_whole_and_streamed(
    platform: tuple[str, MessagesApi], limit: int
) -> None:
    model, api = platform
    found, asked = ask(model, limit)
    assert [block["type"] for block in found["content"]] == ["text", "tool_use"]
    assert found["content"][1]["input"] == {"id": 7}
    assert found["stop_reason"] == ANSWER["stop_reason"]
    assert found["usage"]["input_tokens"] > 0
    assert asked.server.startswith(api.base_url)
    assert api.asked == 1


@pytest.mark.parametrize("fault", ["overloaded", "server error"])
def test_what_may_pass_is_tried_again(
    platform: tuple[str, MessagesApi], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.models.line.FIRST_WAIT_S", 0.001)
    model, api = platform
    api.fault(FAULTS[fault])
    assert ask(model)[0]["content"]
    assert api.asked == 2


@pytest.mark.parametrize("fault", ["stream dropped", "stream closed", "stream ends early"])
def test_a_broken_stream_is_asked_again(
    platform: tuple[str, MessagesApi], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.models.line.FIRST_WAIT_S", 0.001)
    model, api = platform
    api.fault(FAULTS[fault])
    assert ask(model, 20_000)[0]["content"]
    assert api.asked == 2


def test_a_declined_request_is_one_sentence(platform: tuple[str, MessagesApi]) -> None:
    model, _ = platform
    with pytest.raises(RequestRefused, match="HTTP 400"):
        ask(model, tool_choice={"type": "tool", "name": "none"}, output_config={"effort": "odd"})


def test_wrong_credentials_are_one_sentence(
    platform: tuple[str, MessagesApi], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = platform
    forget_credentials()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    monkeypatch.setenv("ANTHROPIC_VERTEX_ACCESS_TOKEN", "wrong")
    with pytest.raises(ModelRefused, match=r"HTTP 40[13]") as error:
        ask(model)
    assert "with the credentials of" in error.value.hint


def test_no_credentials_are_one_sentence(
    platform: tuple[str, MessagesApi], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, api = platform
    forget_credentials()
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "ANTHROPIC_VERTEX_ACCESS_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(ModelRefused, match="no credentials for Claude on"):
        ask(model)
    assert api.asked == 0
