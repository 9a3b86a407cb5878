"""One call told by several spans is one call, whichever instrumentations wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay import digests
from replay.formats.genai import attributes
from replay.formats.genai.builder import Builder
from replay.formats.genai.reconcile import reconcile
from replay.formats.genai.records import RawSpan
from replay.formats.source import Tally
from replay.messages import observed
from replay.steps import nodes_of, plan
from replay.trace import AnySpan, ModelCall, OtherSpan, ToolCall
from tests.replay.reconcile_case import (
    MODELS,
    Attributes,
    figures_alone,
    in_genai,
    in_openinference,
    run,
    tool_in_genai,
)


def summary(raws: list[RawSpan]) -> list[object]:
    """What the steps of a trace are: their digests, figures and calls."""
    spans = Builder(reconcile(raws), Tally()).spans()
    by_id: dict[str, AnySpan] = {span.id: span for span in spans}
    steps = plan(nodes_of(spans))
    found: list[object] = [len(steps.loose)]
    for ask, acts in zip(steps.asks, steps.acts, strict=True):
        model = by_id[ask]
        assert isinstance(model, ModelCall)
        assert model.usage is not None
        assert model.response.message is not None
        shown = model.request.context.messages() if model.request.context else ()
        made = [by_id[act] for act in acts]
        found.append(
            (
                [digests.message_digest(each) for each in shown],
                digests.message_digest(model.response.message),
                digests.toolset_digest(model.request.tools or ()),
                (model.usage.input_tokens, model.usage.output_tokens),
                sorted(
                    (c.call_id, c.name, json.dumps(c.arguments), c.status == "error", result(c))
                    for c in made
                    if isinstance(c, ToolCall)
                ),
            )
        )
    return found


def result(call: ToolCall) -> str | None:
    return observed(call.observation).text if call.observation is not None else None


def test_the_run_told_once_has_three_steps_and_three_calls() -> None:
    loose, *steps = summary(run(lambda words: (words[:1], [])))
    assert loose == 0
    assert [len(step[4]) for step in steps] == [2, 1, 0]  # type: ignore[index]
    assert steps[1][4][0][:4] == (  # type: ignore[index]
        "call_1_0", "refund_order", '{"id": "1039", "amount": 7500}', True,
    )  # fmt: skip


@given(st.data())
def test_a_call_told_by_several_spans_counts_once(data: st.DataObject) -> None:
    def pick(words: list[Any]) -> tuple[list[Any], list[bool]]:
        several = st.lists(st.sampled_from(words), min_size=1, max_size=3, unique=True)
        chosen = data.draw(several)
        return chosen, data.draw(st.lists(st.booleans(), min_size=3, max_size=3))

    assert summary(run(pick)) == summary(run(lambda words: (words[:1], [])))


@given(st.sampled_from(MODELS[:3]), st.booleans())
def test_figures_that_another_span_has_are_the_call_s(
    contents: Callable[[int], Attributes], first: bool
) -> None:
    """Contents by one instrumentation, figures by another; in either order."""

    def pick(words: list[Any]) -> tuple[list[Any], list[bool]]:
        if words[0] is not in_genai:
            return words[:1], []
        accounts = [figures_alone, lambda turn: without_figures(contents(turn))]
        return (accounts if first else accounts[::-1]), [True]

    assert summary(run(pick)) == summary(run(lambda words: (words[:1], [])))


def without_figures(given: Attributes) -> Attributes:
    return {n: v for n, v in given.items() if "usage" not in n and "token" not in n}


def made_of(*raws: RawSpan) -> list[AnySpan]:
    return list(Builder(reconcile(raws), Tally()).spans())


def model(name: str, parent: str | None, start: int, **more: Any) -> RawSpan:
    attributes = more.pop("attributes", in_genai(0))
    return RawSpan(
        trace="t", id=name, parent=parent, name=more.pop("called", "chat"), start_ns=start,
        end_ns=more.pop("end_ns", start + 10), attributes=dict(attributes), **more,
    )  # fmt: skip


def asks_of(spans: list[AnySpan]) -> list[str]:
    return [span.id for span in spans if isinstance(span, ModelCall)]


def test_what_a_model_was_asked_is_held_once() -> None:
    work = RawSpan(trace="t", id="work", name="shop", start_ns=20, end_ns=40)
    inner = model("inner", "work", 22, attributes=in_genai(1))
    found = reconcile([model("root", "elsewhere", 0), work, inner])
    held = {each.raw.id: each for each in found}
    spans = Builder(found, Tally()).spans()
    asked = [each.request.context for each in spans if isinstance(each, ModelCall)]
    assert len(asked) == 2
    assert None not in asked
    assert attributes.INPUT not in held["inner"].raw.attributes
    assert held["inner"].of(attributes.GIVEN) is None
    assert held["root"].of(attributes.GIVEN) is not None, "the title of the run is read from it"


def test_a_span_around_several_calls_groups_them() -> None:
    inner = [model(f"turn {at}", "loop", at * 20, attributes=in_genai(at)) for at in range(3)]
    outer = model("loop", None, 0, end_ns=100, attributes={"gen_ai.operation.name": "chat"})
    assert asks_of(made_of(outer, *inner)) == ["turn 0", "turn 1", "turn 2"]


def test_a_client_s_failed_tries_are_no_steps() -> None:
    outer = model("sdk", None, 0, end_ns=100)
    failed = model("try 1", "sdk", 1, status="error", attributes=figures_alone(0))
    good = model("try 2", "sdk", 20, attributes=figures_alone(0))
    spans = made_of(outer, failed, good)
    assert len(asks_of(spans)) == 1
    assert {s.extra.get("same_as") for s in spans if isinstance(s, OtherSpan)} == {"sdk"}


def test_calls_at_the_same_time_by_one_instrumentation_are_several() -> None:
    found = [model(f"m{at}", "root", at, end_ns=100 - at) for at in range(3)]
    assert len(asks_of(made_of(*found))) == 3


def test_calls_of_other_lengths_at_the_same_time_are_several() -> None:
    one = model("one", "root", 0, end_ns=100)
    other = model("other", "root", 1, attributes=in_openinference(1))
    assert len(asks_of(made_of(one, other))) == 2


def test_a_sub_agent_s_calls_are_its_own() -> None:
    outer = model("planner", None, 0, end_ns=100)
    agent = RawSpan(
        trace="t", id="agent", parent="planner", name="researcher", start_ns=2, end_ns=50,
        attributes={"gen_ai.operation.name": "invoke_agent"},
    )  # fmt: skip
    inner = model("inner", "agent", 3, attributes=in_genai(1))
    assert asks_of(made_of(outer, agent, inner)) == ["planner", "inner"]


HELPER = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-4o-mini",
    "output.value": '{"messages": ["ChatMessage(role=…)"], "tools": []}',
}


def test_a_helper_that_makes_a_request_ready_is_no_call() -> None:
    ready = model("ready", "root", 0, attributes=HELPER, called="prepare")
    real = model("real", "root", 20)
    assert asks_of(made_of(ready, real)) == ["real"]


@pytest.mark.parametrize("why", ["alone", "of the name of those that answer", "failed"])
def test_a_call_without_an_answer_stays_one(why: str) -> None:
    alike = "chat" if why == "of the name of those that answer" else "prepare"
    status: Any = "error" if why == "failed" else "ok"
    silent = model("silent", "root", 0, attributes=HELPER, called=alike, status=status)
    found = [silent] if why == "alone" else [silent, model("real", "root", 20)]
    assert "silent" in asks_of(made_of(*found))


def test_several_tools_run_together_are_no_tool() -> None:
    merged = RawSpan(
        trace="t", id="merged", name="execute_tool (merged tools)", start_ns=40, end_ns=50,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"},
    )  # fmt: skip
    assert not [span for span in made_of(merged) if isinstance(span, ToolCall)]


def test_a_graph_s_turns_are_one_agent_s_and_two_agents_stay_two() -> None:
    def turn(at: int, attributes: Attributes) -> list[RawSpan]:
        node = RawSpan(
            trace="t", id=f"node {at}", parent="root", name="agent", start_ns=at * 100,
            end_ns=at * 100 + 50, attributes={"openinference.span.kind": "AGENT"},
        )  # fmt: skip
        return [node, model(f"m{at}", node.id, at * 100 + 1, attributes=attributes)]

    def threads(*found: RawSpan) -> set[str]:
        return set(plan(nodes_of(made_of(*found))).threads)

    turns = [span for at in range(3) for span in turn(at, in_genai(at))]
    assert threads(*turns) == {"main"}
    again = [span for at in range(2) for span in turn(at, in_genai(0))]
    assert threads(*again) == {"node 0", "node 1"}


@pytest.mark.parametrize(
    ("inner", "arguments", "many"),
    [
        ("get_order", {"id": 7}, 1),
        ("get_order", {"id": 8}, 2),
        ("order", {}, 2),
        ("find", {"id": 7}, 2),
    ],
)
def test_a_tool_inside_a_tool_is_the_same_by_its_name_and_arguments(
    inner: str, arguments: Attributes, many: int
) -> None:
    def ran(name: str, parent: str | None, start: int, given: Attributes) -> RawSpan:
        told = tool_in_genai(name, given, "shipped", "a")
        return RawSpan(
            trace="t", id=name, parent=parent, name=name, start_ns=start, end_ns=100 - start,
            attributes=told,
        )  # fmt: skip

    spans = made_of(
        ran("Shop-get_order", None, 1, {"id": 7}), ran(inner, "Shop-get_order", 2, arguments)
    )
    assert len([span for span in spans if isinstance(span, ToolCall)]) == many
