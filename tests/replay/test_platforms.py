"""Claude on Bedrock and on Vertex, as the real clients of the `anthropic` SDK meet the test servers
with credentials that are made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.messages_api import (
    CREDENTIALS,
    FAULTS,
    BedrockApi,
    Body,
    Credentials,
    KnownModel,
    VertexApi,
    message,
    text,
    tool_use,
)
from tests.replay.openai_client import NOBODY

if TYPE_CHECKING:
    from anthropic import AnthropicBedrock, AnthropicVertex

BODY: Body = {
    "model": "eu.anthropic.claude-test-v1:0",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Where is order 7?"}],
}
ANSWER = message(text("It is on its way."), tool_use("get_order", id=7))


pytestmark = pytest.mark.slow  # AWS's library reads the descriptions of all its services


def http() -> Any:
    import httpx2

    return httpx2.Client(trust_env=False, verify=NOBODY)


def bedrock(api: BedrockApi, **beside: Any) -> AnthropicBedrock:
    import anthropic

    keys = {
        "aws_access_key": CREDENTIALS.access_key,
        "aws_secret_key": CREDENTIALS.secret_key,
        "aws_region": CREDENTIALS.region,
    }
    settings = {"max_retries": 0, "http_client": http(), **({} if "api_key" in beside else keys)}
    return anthropic.AnthropicBedrock(
        **{"base_url": api.base_url, "aws_region": CREDENTIALS.region, **settings, **beside}
    )


def vertex(api: VertexApi, **beside: Any) -> AnthropicVertex:
    import anthropic

    settings = {"region": "europe-west1", "project_id": "made-up", "max_retries": 0}
    return anthropic.AnthropicVertex(
        **{"base_url": f"{api.base_url}/v1", "http_client": http(), **settings, **beside}
    )


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file and no setting of whoever runs the tests says who they are."""
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_SESSION_TOKEN",
                 "GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def on_bedrock() -> Iterator[BedrockApi]:
    with BedrockApi(lambda _: ANSWER, reckons=True) as running:
        yield running


@pytest.fixture
def on_vertex() -> Iterator[VertexApi]:
    with VertexApi(lambda _: ANSWER, reckons=True, tokens=["ya29.known"]) as running:
        yield running


def told(content: list[Any]) -> list[tuple[str, Any]]:
    return [(each.type, getattr(each, "text", None) or each.input) for each in content]


def posted(url: str, body: Body, headers: Callable[[bytes], dict[str, str]]) -> tuple[int, str]:
    """Status and body for what the SDK never sends."""
    raw = json.dumps(body).encode()
    with http() as client:
        answer = client.post(url, content=raw, headers=headers(raw))
    return answer.status_code, answer.text


BARE: Body = {n: v for n, v in BODY.items() if n != "model"}
OLDER: Body = {"anthropic_version": "bedrock-2023-05-31", **BARE}


# --- Bedrock


def test_bedrock_answers_a_signed_request_whole_and_streamed(on_bedrock: BedrockApi) -> None:
    with bedrock(on_bedrock) as sdk:
        whole = sdk.messages.create(**BODY)
        with sdk.messages.stream(**BODY) as stream:
            kinds = [each.type for each in stream]
            streamed = stream.get_final_message()
    assert [block.type for block in whole.content] == ["text", "tool_use"]
    assert told(streamed.content) == told(whole.content)
    assert streamed.usage.output_tokens == whole.usage.output_tokens > 0
    assert kinds[0] == "message_start"
    assert "message_stop" in kinds
    first, second = on_bedrock.received
    assert first.path == "/model/eu.anthropic.claude-test-v1:0/invoke"
    assert second.path.endswith("/invoke-with-response-stream")
    assert "model" not in first.body
    assert first.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIAMADEUP/")
    assert on_bedrock.asked == 2
    assert [each.model for each in on_bedrock.answered] == ["claude-test"] * 2


@pytest.mark.parametrize(
    ("beside", "status", "why"),
    [
        ({"aws_secret_key": "other"}, 403, "does not match the signature you provided"),
        ({"aws_access_key": "AKIAOTHER"}, 403, "security token included in the request is invalid"),
        ({"aws_session_token": "other"}, 403, "security token included in the request is invalid"),
        ({"aws_region": "us-east-1"}, 403, "valid region: 'eu-central-1/bedrock'"),
        ({"api_key": "other"}, 403, "Authentication failed"),
    ],
)
def test_bedrock_refuses_who_is_not_known(
    on_bedrock: BedrockApi, beside: Body, status: int, why: str
) -> None:
    import anthropic

    with (
        bedrock(on_bedrock, **beside) as sdk,
        pytest.raises(anthropic.PermissionDeniedError, match=why) as caught,
    ):
        sdk.messages.create(**BODY)
    assert caught.value.status_code == status
    assert on_bedrock.answered == []


def test_bedrock_takes_session_tokens_and_keys_of_its_own() -> None:
    known = Credentials(
        access_key="ASIAMADEUP", secret_key="s", region="us-east-1", session_token="t/+="
    )
    with BedrockApi(credentials=known, bearer="bedrock-api-key-made-up") as api:
        with bedrock(api, aws_access_key="ASIAMADEUP", aws_secret_key="s", aws_region="us-east-1",
                     aws_session_token="t/+=") as sdk:  # fmt: skip
            assert sdk.messages.create(**BODY).content
        with bedrock(api, api_key="bedrock-api-key-made-up") as sdk:
            assert sdk.messages.create(**BODY).content


def changed_body(headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    return headers, body.replace(b"order 7", b"order 8")


def changed_header(headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    return {**headers, "content-type": "text/plain"}, body


def old(headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    return headers, body


@pytest.mark.parametrize(
    ("change", "later_s", "why"),
    [
        (changed_body, 0, "does not match"),
        (changed_header, 0, "does not match"),
        (old, 301, "Signature expired"),
        (old, 0, None),
    ],
)
def test_a_signature_covers_body_headers_and_time(
    change: Callable[[dict[str, str], bytes], tuple[dict[str, str], bytes]],
    later_s: int,
    why: str | None,
) -> None:
    import time

    with BedrockApi(clock=lambda: time.time() + later_s) as api:
        url = f"{api.base_url}/model/anthropic.claude-test-v1%3A0/invoke"
        body = json.dumps(OLDER).encode()
        headers, raw = change(signed(url, body), body)
        with http() as client:
            answer = client.post(url, content=raw, headers=headers)
        assert (answer.status_code == 200) == (why is None)
        assert why is None or why in answer.json()["message"]


def signed(url: str, body: bytes) -> dict[str, str]:
    """Headers with a signature that AWS's own library makes."""
    from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
    from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
    from botocore.credentials import Credentials as Keys  # type: ignore[import-untyped]

    headers = {"content-type": "application/json"}
    request = AWSRequest("POST", url, headers=headers, data=body)
    keys = Keys(CREDENTIALS.access_key, CREDENTIALS.secret_key)
    SigV4Auth(keys, "bedrock", CREDENTIALS.region).add_auth(request)
    return dict(request.headers)


def test_bedrock_refuses_what_the_messages_api_refuses(on_bedrock: BedrockApi) -> None:
    import anthropic

    with bedrock(on_bedrock) as sdk:
        for beside, why in (
            ({"temperature": 0}, "temperature: Extra inputs are not permitted"),
            ({"anthropic_version": "1999-01-01"}, "anthropic_version: Field required"),
        ):
            with pytest.raises(anthropic.BadRequestError, match=why) as caught:
                sdk.messages.create(**BODY, extra_body=beside)
            assert caught.value.response.headers["x-amzn-errortype"] == "ValidationException"
    url = f"{on_bedrock.base_url}/model/anthropic.claude-test-v1%3A0/invoke"
    for name in ("model", "stream"):
        status, text = posted(url, {**OLDER, name: True}, lambda raw: signed(url, raw))
        assert (status, json.loads(text)["message"]) == (
            400,
            f"{name}: Extra inputs are not permitted",
        )
    assert posted(url, OLDER, lambda raw: signed(url, raw))[0] == 200
    with (
        BedrockApi(models=[KnownModel("claude-known")]) as api,
        bedrock(api) as sdk,
        pytest.raises(anthropic.BadRequestError, match="model identifier is invalid"),
    ):
        sdk.messages.create(**BODY)


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        ("busy for a second", "RateLimitError"),
        ("server error", "InternalServerError"),
        ("bad gateway", "InternalServerError"),
        ("truncated", "APIConnectionError"),
        ("stream error", "APIStatusError"),
        ("stream closed", "RemoteProtocolError"),
        ("stream dropped", "ReadError"),
        ("stream ends in an event", "RemoteProtocolError"),
        ("stream ends early", None),
        ("stream ends in arguments", None),
    ],
)
def test_what_breaks_on_bedrock(on_bedrock: BedrockApi, name: str, becomes: str | None) -> None:
    on_bedrock.fault(FAULTS[name])
    met, kinds = None, []
    with bedrock(on_bedrock) as sdk:
        try:
            if not name.startswith("stream"):
                sdk.messages.create(**BODY)
            for event in sdk.messages.create(**BODY, stream=True):
                kinds.append(event.type)  # noqa: PERF401 - those before it breaks count
        except Exception as error:  # each of the SDK's, httpx2's and botocore's own
            met = type(error).__name__
    assert met == becomes
    assert "message_stop" not in kinds


def test_the_frames_of_a_stream_have_checksums(on_bedrock: BedrockApi) -> None:
    from botocore.eventstream import ChecksumMismatch, EventStreamBuffer  # type: ignore[import-untyped]

    from tests.messages_api.platforms import frame

    raw = frame({":message-type": "event", ":event-type": "chunk"}, {"bytes": "e30="})
    buffer = EventStreamBuffer()
    buffer.add_data(raw)
    (event,) = buffer
    assert event.headers[":event-type"] == "chunk"
    assert json.loads(event.payload) == {"bytes": "e30="}
    buffer = EventStreamBuffer()
    buffer.add_data(raw.replace(b"e30", b"e31"))
    with pytest.raises(ChecksumMismatch):
        list(buffer)


# --- Vertex


def test_vertex_answers_whole_and_streamed(on_vertex: VertexApi) -> None:
    asked = {**BODY, "model": "claude-test@20250514"}
    with vertex(on_vertex, access_token="ya29.known") as sdk:
        whole = sdk.messages.create(**asked)
        with sdk.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        counted = sdk.messages.count_tokens(model="claude-test@20250514", messages=BODY["messages"])
    assert told(streamed.content) == told(whole.content)
    assert streamed.usage.output_tokens == whole.usage.output_tokens > 0
    assert counted.input_tokens == whole.usage.input_tokens
    first, second, _ = on_vertex.received
    models = "/v1/projects/made-up/locations/europe-west1/publishers/anthropic/models"
    assert first.path == f"{models}/claude-test@20250514:rawPredict"
    assert second.path == f"{models}/claude-test@20250514:streamRawPredict"
    assert [each.model for each in on_vertex.answered] == ["claude-test"] * 2


def account(folder: Path, token_uri: str) -> Path:
    """The file of a service account that is made up, with a key that is made for it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "account.json"
    path.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": "made-up",
                "private_key_id": "1",
                "private_key": private.decode(),
                "client_email": "agent@made-up.iam.gserviceaccount.com",
                "token_uri": token_uri,
            }
        )
    )
    return path


def test_a_service_account_gets_its_token_on_loopback(
    on_vertex: VertexApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = account(tmp_path, on_vertex.token_uri)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    asked = {**BODY, "model": "claude-test"}
    with vertex(on_vertex) as sdk:
        for _ in range(2):
            assert sdk.messages.create(**asked).content
    paths = [each.path for each in on_vertex.received]
    assert paths[0] == "/token"
    assert paths.count("/token") == 1
    assert on_vertex.asked == 2


def test_an_assertion_for_something_else_gets_no_token(
    on_vertex: VertexApi, tmp_path: Path
) -> None:
    from google.auth.exceptions import RefreshError
    from google.auth.transport.requests import Request
    from google.oauth2 import service_account

    path = account(tmp_path, on_vertex.token_uri)
    read: Any = service_account.Credentials.from_service_account_file
    credentials = read(str(path), scopes=["https://www.googleapis.com/auth/drive"])
    with pytest.raises(RefreshError, match="invalid_grant"):
        credentials.refresh(Request())


def test_vertex_refuses(on_vertex: VertexApi) -> None:
    import anthropic

    asked = {**BODY, "model": "claude-test"}
    for beside, error, why in (
        ({"access_token": "ya29.other"}, "AuthenticationError", "invalid authentication"),
        ({"project_id": "other"}, "NotFoundError", "no such path"),
        ({"region": "us-east5"}, "NotFoundError", "no such path"),
    ):
        with (
            vertex(on_vertex, **{"access_token": "ya29.known", **beside}) as sdk,
            pytest.raises(getattr(anthropic, error), match=why),
        ):
            sdk.messages.create(**asked)
    with (
        vertex(on_vertex, access_token="ya29.known") as sdk,
        pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs"),
    ):
        sdk.messages.create(**asked, extra_body={"temperature": 0})
    with (
        VertexApi(models=[KnownModel("claude-known")], tokens=["t"]) as api,
        vertex(api, access_token="t") as sdk,
        pytest.raises(anthropic.NotFoundError, match="Publisher Model `claude-test`"),
    ):
        sdk.messages.create(**asked)


@pytest.mark.parametrize(
    ("beside", "status", "why"),
    [
        ({}, 200, "It is on its way."),
        ({"model": "claude-test"}, 400, "model: Extra inputs are not permitted"),
        ({"stream": True}, 400, "stream: not as rawPredict needs it"),
        ({"anthropic_version": "1999-01-01"}, 400, "anthropic_version: Field required"),
    ],
)
def test_vertex_refuses_a_body_of_another_place(
    on_vertex: VertexApi, beside: Body, status: int, why: str
) -> None:
    models = "/v1/projects/made-up/locations/europe-west1/publishers/anthropic/models"
    body = {**BARE, "anthropic_version": "vertex-2023-10-16", **beside}
    url = f"{on_vertex.base_url}{models}/claude-test:rawPredict"
    found = posted(url, body, lambda _: {"authorization": "Bearer ya29.known"})
    assert found[0] == status
    assert why in found[1]


@pytest.mark.parametrize("name", ["overloaded", "stream error", "stream closed"])
def test_what_breaks_on_vertex(on_vertex: VertexApi, name: str) -> None:
    import anthropic
    import httpx2

    on_vertex.fault(FAULTS[name])
    asked = {**BODY, "model": "claude-test", "stream": name.startswith("stream")}
    with (
        vertex(on_vertex, access_token="ya29.known") as sdk,
        pytest.raises((anthropic.APIStatusError, httpx2.RemoteProtocolError)),
    ):
        list(sdk.messages.create(**asked))
