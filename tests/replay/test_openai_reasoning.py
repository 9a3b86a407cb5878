"""What a model of the Responses API reasoned is sent back as it was recorded, where that is taken.

OpenAI reads encrypted reasoning for the account and the model alone that made it, and what it
stored is gone after a while: then a step says that the reasoning was not sent.
"""

from __future__ import annotations

from typing import Any

import pytest

from replay.budget import Budget, Limits
from replay.convert import Converter, Sent
from replay.edit.changes import Edit, SetSystem
from replay.errors import RequestRefused
from replay.free import run as free
from replay.free.recorded_results import Stub, Terms
from replay.locked.row import LOOK, Models
from replay.locked.run import replay
from replay.models.choose import choose
from replay.openai_items import OTHERS_REASONING, STORED_REASONING
from replay.recorder.openai import REASONING, Items, OpenAICall
from replay.store.handle import Store
from replay.trace import Fidelity, Level, Request, extend
from replay.turns import THINKING
from tests.openai_servers import Body, OpenaiApi, Said, call, said
from tests.openai_servers.responses import sealed
from tests.openai_servers.typed import response_departure
from tests.replay.test_openai_client import GET, api, recorded_run

__all__ = ["api"]  # the fixture

MODEL = "openai-responses:gpt-5"
EXACT = Fidelity(level=Level.EXACT)


def thought(id: str = "rs_1", **beside: Any) -> Body:
    made = {"type": "reasoning", "id": id, "encrypted_content": sealed("Hm", id), "summary": []}
    return {**made, **beside}


def called(number: int = 1) -> Body:
    return {
        "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
        "name": "get_order", "arguments": '{"order_id":  7}', "status": "completed",
    }  # fmt: skip


def returned(number: int = 1) -> Body:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": "shipped"}


def spoke(text: str) -> Body:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [part]}  # fmt: skip


USER: Body = {"type": "message", "role": "user", "content": "Where is order 7?"}


def recorded(*items: Body, model: str = "gpt-5") -> OpenAICall:
    """A request with these items, as the recording proxy reads it."""
    return Items().read_call({"model": model, "input": [USER, *items], "store": False}, None)


def asked(*items: Body, model: str = "gpt-5") -> Request:
    found = recorded(*items, model=model)
    return Request(
        model=found.model, system=found.system, context=extend(None, found.messages),
        tools=(GET,), params=found.params,
    )  # fmt: skip


def sent(*items: Body, to: str = MODEL) -> Sent:
    return Converter(to).sent(asked(*items))


def bare(item: Body) -> Body:
    """An item without what is given to it at the server, and its text alone."""
    given = {"status"} if item["type"] == "reasoning" else {"status", "id"}
    kept = {name: value for name, value in item.items() if name not in given}
    if isinstance(kept.get("content"), list):
        kept["content"] = kept["content"][0]["text"]
    return kept


@pytest.mark.parametrize(
    "items",
    [
        [thought(), called(), returned()],
        [thought(), spoke("I look."), thought("rs_2"), called(), returned()],
        [spoke("I look."), thought(), called(1), thought("rs_2"), called(2), returned(1),
         returned(2)],
        [thought(), called(1), returned(1), thought("rs_2"), called(2), returned(2)],
        [thought(), thought("rs_2"), called(), returned()],
        [thought(summary=[{"type": "summary_text", "text": "Hm."}]), called(), returned()],
        [{n: v for n, v in thought().items() if n != "id"}, called(), returned()],
    ],
    ids=["call", "text", "between calls", "every answer", "two", "summary", "no id"],
)  # fmt: skip
def test_recorded_reasoning_goes_out_where_it_stood(items: list[Body]) -> None:
    found = sent(*items)
    assert found.body()["input"] == [USER, *map(bare, items)]
    assert found.losses == ()
    assert found.fidelity(EXACT) == EXACT
    with OpenaiApi() as server, choose_at(server) as model:
        assert model.complete(found.body(), 0)["stop_reason"] == "end_turn"


def choose_at(server: OpenaiApi, name: str = MODEL) -> Any:
    from replay.models.servers import ModelConfig

    mine = ModelConfig(base_url=f"{server.base_url}/v1", api="responses", model="gpt-5")
    budget = Budget(Limits(calls=50))
    return choose("mine", Store.open(":memory:"), live=True, budget=budget, models={"mine": mine})


def test_reasoning_whose_place_is_not_known_is_said_not_to_be_recorded() -> None:
    for items in (
        [called(), thought(), spoke("Done."), returned()],
        [spoke(""), thought(), called(), returned()],
    ):
        found = recorded(*items)
        assert found.losses == (REASONING,)
        assert not any("reasoning_items" in each.body for each in found.messages)


def test_reasoning_without_an_item_after_it_is_not_sent() -> None:
    found = sent(thought(), called(), thought("rs_2"), returned())
    assert found.body()["input"] == [USER, thought(), bare(called()), returned()]
    assert found.losses == (THINKING,)


STORED = thought(encrypted_content=None)
OPEN = thought(encrypted_content=None, content=[{"type": "reasoning_text", "text": "Hm."}])


@pytest.mark.parametrize(
    ("item", "to", "loss"),
    [
        (thought(), "openai-responses:gpt-5.1", OTHERS_REASONING),
        (thought(), "openai-responses:gpt-5-2025-08-07", None),
        (thought(), "openai-responses-plain:gpt-5", THINKING),
        (thought(), "openai:gpt-5", THINKING),
        (thought(), "openai:qwen3:8b", THINKING),
        (thought(), "claude-opus-5-5", THINKING),
        (STORED, MODEL, STORED_REASONING),
        (OPEN, "openai-responses:gpt-oss:20b", None),
        (OPEN, MODEL, STORED_REASONING),
        (STORED, "openai-responses:gpt-oss:20b", STORED_REASONING),
    ],
)
def test_what_cannot_be_read_there_is_not_sent_and_never_exact(
    item: Body, to: str, loss: str | None
) -> None:
    found = sent(item, called(), returned(), to=to)
    assert ("reasoning" in str(found.conversation.messages())) == (loss is None)
    assert (loss in found.losses) == (loss is not None)
    if loss is None:
        assert response_departure(found.body()) is None
    else:
        assert found.fidelity(EXACT).level is Level.REBUILT
        assert loss in found.fidelity(EXACT).reasons


def test_the_model_that_made_it_is_known_by_its_answer() -> None:
    items = Items()
    items.read_call({"model": "gpt-5", "input": [USER]}, {"output": [thought(), called()]})
    later = {"model": "gpt-5.1", "input": [USER, thought(), called(), returned()]}
    found = items.read_call(later, None)
    context = extend(None, found.messages)
    request = Request(model="gpt-5.1", context=context, tools=(GET,))
    assert Converter("openai-responses:gpt-5.1").sent(request).losses == (OTHERS_REASONING,)


def test_reasoning_of_another_account_is_refused_with_the_way_out() -> None:
    foreign = thought(encrypted_content="gAAAAAxyz")
    refused = sent(foreign, called(), returned())
    with OpenaiApi() as server, choose_at(server) as model:
        with pytest.raises(RequestRefused, match="could not be verified") as error:
            model.complete(refused.body(), 0)
        assert "--model openai-responses-plain:NAME" in error.value.hint
        plain = sent(foreign, called(), returned(), to="openai-responses-plain:gpt-5")
        assert model.complete(plain.body(), 0)["stop_reason"] == "end_turn"


def test_a_replay_asks_with_the_reasoning_in_both_arms(api: OpenaiApi) -> None:
    posted: list[Body] = []

    def policy(body: Body) -> Said:
        posted.append(body)
        return said("", call("get_order", order_id=7), reasoning="I look.")

    api.policy = policy
    with Store.open(":memory:") as store:
        trace = recorded_run(store, model="gpt-5")
        budget = Budget(Limits(calls=50))
        with choose(MODEL, store, live=True, budget=budget) as model:
            edit = Edit(name="verify", changes=(SetSystem("Always verify first."),))
            list(replay(trace, edit, Models.one(model), sampling=LOOK))
    assert posted
    assert all(each["include"] == ["reasoning.encrypted_content"] for each in posted)


@pytest.mark.parametrize("limit", [300, 16_200], ids=["whole", "streamed"])
def test_a_free_replay_sends_back_what_the_model_reasoned(api: OpenaiApi, limit: int) -> None:
    posted: list[Body] = []

    def policy(body: Body) -> Said:
        posted.append(body)
        if len(body["input"]) > 4:
            return said("It was shipped.", reasoning="Done.")
        return said("I look.", call("get_order", order_id=8), reasoning="I look it up.")

    api.policy = policy
    stubbed = Terms(stubs=(Stub(tool="get_order", arguments={"order_id": 8}, result="shipped"),))
    with Store.open(":memory:") as store:
        trace = recorded_run(store, model="gpt-5", max_output_tokens=limit)
        budget = Budget(Limits(calls=50))
        with choose(MODEL, store, live=True, budget=budget) as model:
            *_, last = free.run(trace, None, model, stubbed)
        assert last.stop is not None
        assert last.stop.status == "user", last.stop.sentence
        kinds = [each["type"] for each in posted[-1]["input"]]
        assert kinds[1:5] == ["reasoning", "message", "function_call", "function_call_output"]
        assert posted[-1]["input"][1]["encrypted_content"].startswith("gAAAAA")
        assert response_departure({**posted[-1], "model": "gpt-5"}) is None
        before = api.asked
        with choose(MODEL, store) as offline:
            *_, again = free.run(trace, None, offline, stubbed)
        assert [each.key for each in again.steps] == [each.key for each in last.steps]
        assert api.asked == before
