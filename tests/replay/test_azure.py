"""OpenAI's models on Azure: the SDK's own client against the loopback server's Azure paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.budget import Budget, Limits
from replay.convert import Converter
from replay.errors import ModelRefused
from replay.locked.row import LOOK, Models
from replay.locked.run import replay
from replay.models.cached import Cached
from replay.models.choose import choose
from replay.models.servers import ModelConfig, require_key, resolve
from replay.store.handle import Store
from tests.openai_servers import Fault, OpenaiApi, call, said
from tests.replay.live_case import clean_environment
from tests.replay.test_openai_client import EDIT, RECORDED, chat, policy, recorded_run

MODELS = ("azure:gpt-4o", "azure-responses:gpt-4o")
BOTH = pytest.mark.parametrize("model", MODELS, ids=["chat", "responses"])
VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "AZURE_OPENAI_ENDPOINT",
             "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN")  # fmt: skip


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch, tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenaiApi]:
    with OpenaiApi(policy, keys={"made-up"}) as running:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{running.base_url}/")
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "made-up")
        monkeypatch.setenv("OPENAI_API_VERSION", "2026-08-01-preview")
        yield running


def live(model: str, store: Store) -> Cached:
    return choose(model, store, live=True, budget=Budget(Limits(calls=100)))


@BOTH
@pytest.mark.slow
def test_a_run_is_replayed_on_a_deployment(api: OpenaiApi, model: str) -> None:
    with Store.open(":memory:") as store:
        trace = recorded_run(store)
        with live(model, store) as asked:
            rows = list(replay(trace, EDIT, Models.one(asked), sampling=LOOK))
        assert rows
        assert asked.server == api.base_url
        paths = {each.path for each in api.received}
    chats = model == "azure:gpt-4o"
    assert paths == {
        "/openai/deployments/gpt-4o/chat/completions" if chats else "/openai/responses"
    }
    assert {each.query["api-version"] for each in api.received} == {"2026-08-01-preview"}
    assert {each.headers["api-key"] for each in api.received} == {"made-up"}
    assert api.asked == len(api.answered) > 0


@BOTH
@pytest.mark.parametrize("limit", [300, 16_200], ids=["whole", "streamed"])
def test_an_answer_is_read_whole_and_streamed_alike(api: OpenaiApi, model: str, limit: int) -> None:
    api.policy = lambda _: said("I look.", call("get_order", order_id=7))
    sent = Converter(model).sent(chat(*RECORDED, params={"max_tokens": limit}))
    with Store.open(":memory:") as store, live(model, store) as asked:
        found = asked.answer(sent, 0).body
        assert asked.usd > 0
    assert [each["type"] for each in found["content"]] == ["text", "tool_use"]
    assert api.received[0].body.get("stream", False) is (limit > 16_000)


def test_a_token_stands_in_for_a_key(api: OpenaiApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "made-up")
    with Store.open(":memory:") as store, live("azure:gpt-4o", store) as asked:
        asked.answer(Converter("azure:gpt-4o").sent(chat(RECORDED[0])), 0)
    assert api.received[0].headers["authorization"] == "Bearer made-up"
    assert "api-key" not in api.received[0].headers


def test_a_section_of_the_settings_says_all_of_it(
    api: OpenaiApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORK_KEY", "made-up")
    mine = ModelConfig(
        provider="azure", model="our gpt", base_url=f"{api.base_url}/openai",
        key_env="WORK_KEY", api_version="2024-10-21",
    )  # fmt: skip
    budget = Budget(Limits(calls=9))
    with (
        Store.open(":memory:") as store,
        choose("mine", store, live=True, budget=budget, models={"mine": mine}) as asked,
    ):
        assert asked.name == "azure:our gpt"
        asked.answer(Converter(asked.name).sent(chat(RECORDED[0])), 0)
    (received,) = api.received
    assert received.target == (
        "/openai/deployments/our%20gpt/chat/completions?api-version=2024-10-21"
    )
    by_responses = ModelConfig(provider="azure", model="gpt-5", api="responses")
    assert resolve("mine", {"mine": by_responses}).model == "azure-responses:gpt-5"


def test_a_deployment_that_is_not_there_is_said_to_be_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    with (
        OpenaiApi(models=["gpt-4o"]) as api,
        Store.open(":memory:") as store,
    ):
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", api.base_url)
        with (
            live("azure:gpt-5", store) as asked,
            pytest.raises(ModelRefused, match="deployment for this resource") as error,
        ):
            asked.answer(Converter(asked.name).sent(chat(RECORDED[0])), 0)
    assert error.value.hint == f"Try: --model NAME, one that {api.base_url} serves"


def test_a_wrong_key_and_a_wrong_path_are_one_sentence(
    api: OpenaiApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Converter("azure:gpt-4o").sent(chat(RECORDED[0]))
    with Store.open(":memory:") as store:
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "another")
        with live("azure:gpt-4o", store) as asked, pytest.raises(ModelRefused) as error:
            asked.answer(sent, 0)
        assert "HTTP 401" in error.value.message
        assert "AZURE_OPENAI_API_KEY, or AZURE_OPENAI_AD_TOKEN" in error.value.hint
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "made-up")
        api.fault(Fault(status=404, body="<html>Nothing here</html>"))
        with live("azure:gpt-4o", store) as asked, pytest.raises(ModelRefused) as error:
            asked.answer(sent, 0)
        assert "has no Chat Completions API of Azure OpenAI" in error.value.message
        assert "AZURE_OPENAI_ENDPOINT" in error.value.hint


@BOTH
def test_what_lacks_is_said_before_anyone_is_asked(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    def lacks() -> str:
        with pytest.raises(ModelRefused) as error:
            require_key(resolve(model))
        return str(error.value)

    assert "AZURE_OPENAI_ENDPOINT is not set. Try: set" in lacks()
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://work.openai.azure.com")
    assert "no version of its API given. Try: set OPENAI_API_VERSION" in lacks()
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert "no key for" in lacks()
    assert "Azure OpenAI. Try: set AZURE_OPENAI_API_KEY" in lacks()
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    require_key(resolve(model))
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://work.openai.azure.com/openai/v1/")
    assert "Azure's v1 API, which is asked as OpenAI's. Try: OPENAI_BASE_URL set to it" in lacks()
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "work.openai.azure.com")
    assert "AZURE_OPENAI_ENDPOINT is not a server address" in lacks()


@BOTH
def test_azure_is_sent_no_batches(api: OpenaiApi, model: str) -> None:
    from replay.models.cached import Ask

    sent = Converter(model).sent(chat(RECORDED[0]))
    with (
        Store.open(":memory:") as store,
        live(model, store) as asked,
        pytest.raises(ModelRefused, match=r"does not accept batches\. Try: another --schedule"),
    ):
        list(asked.answers([Ask(sent, 0)], batch=True))
    assert api.received == []
