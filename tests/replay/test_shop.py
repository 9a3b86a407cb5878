"""The shop and its recordings: they reproduce, they are as `expected.json` says, the tour works."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from replay import formats, messages, steps
from replay.formats.source import Source, Tally
from replay.models.demo import Demo
from replay.trace import Batch, Level, ModelCall, Step, ToolCall
from tests.shop import __main__ as recorder
from tests.shop import runs
from tests.shop.tools import TOOLS, call
from tests.shop.world import Refused, Shop

FIXTURES = recorder.FIXTURES
EXPECTED: dict[str, Any] = msgspec.json.decode((FIXTURES / "expected.json").read_bytes())
LISTED: dict[str, Any] = EXPECTED["traces"]


@cache
def trace(name: str) -> Batch:
    source = Source(FIXTURES / "traces" / f"{name}.jsonl")
    [batch] = formats.load(source, Tally())
    return batch


def steps_of(name: str) -> tuple[Step, ...]:
    found, loose, plan = steps.build(trace(name).spans)
    assert not loose
    assert not plan.orphans
    return found


def asked_again(step: Step, **edit: Any) -> dict[str, Any]:
    """The recorded request of a step as a body, some parts edited."""
    request = step.ask.request
    assert request.system is not None
    assert request.tools is not None
    assert request.context is not None
    tools = [
        {"name": each.name, "description": each.description, "input_schema": each.schema}
        for each in request.tools
    ]
    said = [message.body for message in request.context.messages()]
    system = request.system.body["content"]
    return {"model": "demo", "system": system, "tools": tools, "messages": said, **edit}


def actions(content: list[dict[str, Any]]) -> list[Any]:
    """What a turn does: its calls, or its words where it makes none."""
    made = [(each["name"], each["input"]) for each in content if each["type"] == "tool_use"]
    return made or [each["text"] for each in content]


def divergences(name: str, sample: int = 0, **edit: Any) -> Iterator[tuple[int, list[Any]]]:
    """The steps of the main thread whose action differs from the recorded one, and that action."""
    for step in steps_of(name):
        if step.thread == runs.AGENT:
            assert step.ask.response.message is not None
            answer = Demo().complete(asked_again(step, **edit), sample)
            if actions(answer["content"]) != actions(step.ask.response.message.body["content"]):
                yield step.index, actions(answer["content"])


@pytest.mark.slow
def test_recording_again_gives_the_committed_bytes(tmp_path: Path) -> None:
    recorder.main(tmp_path)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == len(list(runs.bundle())) + 2
    for path in made:
        assert (tmp_path / path).read_bytes() == (FIXTURES / path).read_bytes(), path
    kept = {path.name for path in (FIXTURES / "traces").glob("shop-*.jsonl")}
    assert kept == {path.name for path in made if path.parent.name == "traces"}


def test_the_bundle_is_small_and_every_trace_of_it_is_complete() -> None:
    files = list((FIXTURES / "traces").glob("shop-*.jsonl"))
    assert 40 <= len(files) <= 60
    assert sum(path.stat().st_size for path in files) < 1_000_000
    for path in files:
        batch = trace(path.stem)
        assert batch.header.source_id == path.stem
        assert batch.header.outcome.by == "shop checker"
        for step in steps_of(path.stem):
            assert step.ask.fidelity.level is Level.EXACT
            assert step.ask.duration_ns
            assert all(act.observation is not None for act in step.acts)


@pytest.mark.parametrize("name", LISTED)
def test_a_listed_trace_is_what_was_written_of_it(name: str) -> None:
    said, header, found = LISTED[name], trace(name).header, steps_of(name)
    assert (header.outcome.status, len(found)) == (said["outcome"], said["steps"])
    assert (said["decisive_step"] is None) == (said["outcome"] == "passed")
    assert said["suspect"] <= (said["outcome"] == "passed")
    if said["decisive_step"] is not None:
        assert said["classes"]
        assert said["decisive_step"] < len(found)
    assert ("loop" in said["classes"]) == (longest_repeat(found) >= 3)
    gave_up = any("I cannot help" in words(step) for step in found)
    assert ("gave_up" in said["classes"]) == gave_up
    assert ("wrong_tool" in said["classes"]) == any(asks_stock_of_a_product(step) for step in found)
    invented = any("I believe" in words(step) or "I take it" in words(step) for step in found)
    assert ("hallucinated_state" in said["classes"]) == invented


def words(step: Step) -> str:
    assert step.ask.response.message is not None
    return messages.text(step.ask.response.message)


def longest_repeat(found: tuple[Step, ...]) -> int:
    """The most identical calls that failed one after the other."""
    longest, run, last = 0, 0, None
    for act in (act for step in found for act in step.acts if act.status == "error"):
        run = run + 1 if (act.name, act.arguments) == last else 1
        last, longest = (act.name, act.arguments), max(longest, run)
    return longest


def asks_stock_of_a_product(step: Step) -> bool:
    called = {act.name for act in step.acts}
    return "in stock" in words(step) and "get_product" in called and "check_stock" not in called


def test_the_list_has_every_class_shape_and_special_case() -> None:
    every = [name for said in LISTED.values() for name in said["classes"]]
    assert set(every) == {
        "wrong_tool", "bad_args", "hallucinated_state", "gave_up", "loop", "other",
    }  # fmt: skip
    assert {said["shape"] for said in LISTED.values()} - {None} == {
        "early_collapse", "late_drift", "steady_degradation", "recovery", "healthy",
    }  # fmt: skip
    assert any(said["suspect"] for said in LISTED.values())
    assert any(said["steps"] >= 20 for said in LISTED.values())
    assert any(len(step.acts) > 1 for name in LISTED for step in steps_of(name))
    assert any(step.thread != runs.AGENT for name in LISTED for step in steps_of(name))


def test_hand_written_scores_stand_at_every_step_of_their_traces() -> None:
    for name, values in recorder.step_scores(FIXTURES).items():
        batch = trace(name)
        asks = [step.ask.id for step in steps_of(name)]
        assert [(score.span, score.value) for score in batch.scores] == list(
            zip(asks, values, strict=True)
        )
        assert {(score.name, score.by) for score in batch.scores} == {("step", "author")}


def test_a_sub_agent_hangs_below_the_call_that_delegated_to_it() -> None:
    spans = {span.id: span for span in trace("shop-compare-v8-0").spans}
    helper = spans["researcher-1"]
    asker = spans[helper.parent or ""]
    assert isinstance(asker, ToolCall)
    assert asker.name == "ask_researcher"
    inner = [s for s in spans.values() if isinstance(s, ModelCall) and s.parent == "researcher-1"]
    assert len(inner) == 3
    assert asker.observation is not None
    assert inner[-1].response.message is not None
    told = messages.text(inner[-1].response.message)
    assert messages.observed(asker.observation).text == told


@pytest.mark.slow
def test_asked_again_unedited_every_first_trial_repeats_itself() -> None:
    first = [run.source_id for run in runs.bundle() if run.trial == 0]
    assert {name: list(divergences(name)) for name in first} == {name: [] for name in first}


def test_on_the_tour_the_fixed_prompt_diverges_first_at_the_break_and_reads_there() -> None:
    tour = EXPECTED["tour"]
    name, at = tour["trace"], tour["break_step"]
    recorded_with = (FIXTURES / tour["recorded_with"]).read_text()
    assert list(divergences(name)) == []
    assert list(divergences(name, system=recorded_with)) == []
    [step] = [step for step in steps_of(name) if step.index == at]
    assert step.acts[0].name == tour["recorded_call"]
    fixed = list(divergences(name, system=(FIXTURES / tour["fixed_by"]).read_text()))
    asked = step.acts[0].arguments or {}
    assert fixed[0] == (at, [(tour["fixed_call"], {"order_id": asked["order_id"]})])


@pytest.mark.parametrize("sample", range(1, 6))
def test_on_the_tour_other_samples_agree_before_the_break_and_about_its_cure(sample: int) -> None:
    tour = EXPECTED["tour"]
    name, at = tour["trace"], tour["break_step"]
    control = dict(divergences(name, sample))
    assert not [step for step in control if step < at]
    assert control.get(at, [(tour["recorded_call"], {})])[0][0] == tour["recorded_call"]
    system = (FIXTURES / tour["fixed_by"]).read_text()
    first, made = next(divergences(name, sample, system=system))
    assert (first, made[0][0]) == (at, tour["fixed_call"])


def test_a_sharper_tool_description_changes_the_wrong_tool_at_its_step_and_no_earlier() -> None:
    tour = EXPECTED["wrong_tool_tour"]
    tools = msgspec.json.decode((FIXTURES / tour["fixed_by"]).read_bytes())
    assert list(divergences(tour["trace"])) == []
    first, made = next(divergences(tour["trace"], tools=tools))
    assert (first, made[0][0]) == (tour["break_step"], tour["fixed_call"])


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("get_order", {"order_id": "1099"}, "order 1099 not found"),
        ("get_order", {}, "order_id is missing"),
        ("get_order", {"order_id": "1038", "loud": True}, "loud is not an argument of get_order"),
        ("refund_order", {"order_id": "1038", "amount": 39.0, "reason": ""}, "integer number"),
        ("refund_order", {"order_id": "1038", "amount": 4000, "reason": ""}, "the 3900 cents left"),
        ("cancel_order", {"order_id": "1049", "reason": ""}, "already shipped: cannot cancel"),
        ("update_address", {"order_id": "1052", "address": "home"}, "address must be like"),
        ("find_orders", {"email": "ana.lind@example.com", "since": "1 March"}, "must be a date"),
        ("search_help", {"query": "life"}, "finds nothing for 'life'"),
        ("check_stock", {"product": "Lamp"}, "did you mean Aurora Lamp"),
        ("lookup_customer", {}, "no such tool: lookup_customer"),
    ],
)  # fmt: skip
def test_the_shop_refuses_with_a_sentence(tool: str, arguments: Any, error: str) -> None:
    with pytest.raises(Refused, match=error):
        call(Shop(), tool, arguments, TOOLS)


def test_a_refund_changes_the_shop_and_cannot_be_had_twice() -> None:
    shop = Shop()
    wanted = {"order_id": "1038", "amount": 3900, "reason": "it leaks"}
    assert call(shop, "refund_order", wanted, TOOLS)["refunded_cents"] == 3900
    assert shop.orders["1038"].refunded_cents == 3900
    with pytest.raises(Refused, match="already refunded"):
        call(shop, "refund_order", wanted, TOOLS)
