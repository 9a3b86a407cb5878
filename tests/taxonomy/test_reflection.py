"""Edits proposed by a model, over locked replay: with an agent and a reflecting model that are
scripted, and know nothing of each other but a sentence."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from typing import Any

import pytest

from replay.edit.changes import PatchSystem, ReplaceText
from replay.edit.editor import Editor
from replay.errors import ModelRefused, OfflineMiss
from replay.locked.row import Models
from replay.messages import text as text_of
from replay.models.cached import Cached
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.classes import FailureClass
from taxonomy.edit_test import Break, detector_of
from taxonomy.suggestions.edits import MOST_HUNKS, count_hunks
from taxonomy.suggestions.reflection import (
    NOTHING,
    Broken,
    Proposals,
    Reflected,
    propose,
)
from tests.build import call, step, tool, trace
from tests.judge_policy import quoted
from tests.messages_api import message, text, tool_use
from tests.taxonomy.rule_case import findings

SYSTEM = "You help.\n" + "\n".join(f"- Rule {number}." for number in range(30))
SENTENCE = "Look before you leap."
TOOLS = (
    tool("get_order", "Look up an order.", order_id="string"),
    tool("refund_order", "Refund an order.", order_id="string", amount="number"),
)


class Agent:
    """Makes up an amount, in all samples or all but some, unless its prompt has a sentence."""

    name = "agent"

    def __init__(self) -> None:
        self.asked = 0

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        del sample
        self.asked += 1
        if SENTENCE in str(body["system"]):
            call_ = tool_use("get_order", order_id="1039")
        else:
            call_ = tool_use("refund_order", order_id="1039", amount=7500)
        return message(call_, model="agent")


class Reflection:
    """Answers with what it is given, in turn; the last of it again and again."""

    name = "reflection"

    def __init__(self, *edits: Any) -> None:
        self.edits = edits
        self.prompts: list[str] = []

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        del sample
        prompt = text_in(body["messages"][-1]["content"])
        self.prompts.append(prompt)
        edit = self.edits[min(len(self.prompts), len(self.edits)) - 1]
        current, happened = quoted(prompt)
        assert (current.label, happened.label) == ("the text", "what happened")
        edited = edit(current.text.rstrip("\n"))
        return message(text(f"Here:\n```\n{edited}\n```"), model="reflection")


def text_in(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


def append(words: str) -> Any:
    return lambda prompt: f"{prompt}\n{words}"


def broken(number: int, system: str = SYSTEM) -> Trace:
    made_up = step(call("refund_order", "done", order_id="1039", amount=7500))
    return trace([made_up, "Done."], task=f"{number}: refund 1039", system=system, tools=TOOLS)


def run(
    reflection: Any, traces: list[Trace], proposals: int = 3, agent: Any = None, **more: Any
) -> Proposals:
    with Store.open(":memory:") as store:
        model = Cached(store, "agent", agent or Agent())
        runs = []
        for made in traces:
            found = findings(made)
            failure = more.get("failure", FailureClass.HALLUCINATED_STATE)
            broke = Break(trace=made.id, step=0, by="first candidate", failure=failure)
            detector = detector_of(made, found, broke)
            runs.append(Broken(made, broke, detector, found[0].why, Models.one(model)))
        reflect = Cached(store, "reflection", reflection)
        return drained(propose(runs, reflect, proposals=proposals, samples=2))[1]


def drained(work: Generator[Reflected, None, Proposals]) -> tuple[list[Reflected], Proposals]:
    """What it yielded, and what it returned."""
    seen: list[Reflected] = []
    while True:
        try:
            seen.append(next(work))
        except StopIteration as end:
            return seen, end.value


TRACES = [broken(number) for number in range(4)]


def test_a_proposal_that_fixes_every_break_ends_it() -> None:
    reflection = Reflection(append("Be nice."), append(SENTENCE), append("Never asked for."))
    found = run(reflection, TRACES, proposals=9)
    assert found.asked == len(reflection.prompts) == 2
    (only,) = found.made
    (change,) = only.edit.changes
    assert isinstance(change, PatchSystem)
    request = TRACES[0].steps[0].ask.request
    system = Editor(only.edit).request(request, "here").system
    assert system is not None
    assert text_of(system) == f"{SYSTEM}\n{SENTENCE}"
    assert (only.by, only.targets, only.runs) == ("model reflection", ("system prompt",), 4)
    assert count_hunks(only.edit.changes) == 1


def test_it_stops_after_so_many_proposals_though_none_helps() -> None:
    agent, reflection = Agent(), Reflection(append("Be nice."))
    found = run(reflection, TRACES, proposals=3, agent=agent)
    assert found.asked == 3
    assert found.made == ()
    assert agent.asked <= 2 * 4 * (1 + 3), "each break twice, as recorded and for each proposal"


def test_the_same_prompt_again_is_another_sample_and_nothing_is_asked_twice() -> None:
    with Store.open(":memory:") as store:
        reflect = Cached(store, "reflection", Reflection(append("Be nice.")))
        for _ in range(2):
            made = TRACES[0]
            broke = Break(trace=made.id, step=0, by="x", failure=FailureClass.HALLUCINATED_STATE)
            detector = detector_of(made, findings(made), broke)
            model = Cached(store, "agent", Agent())
            one = Broken(made, broke, detector, "why", Models.one(model))
            _, found = drained(propose([one], reflect, proposals=2, samples=2))
            assert found.asked == 2
        assert (reflect.asks, reflect.hits) == (2, 2)


def test_what_it_reads_is_the_failure_and_no_more_than_the_break() -> None:
    reflection = Reflection(append("Be nice."))
    run(reflection, TRACES, proposals=1)
    (prompt,) = reflection.prompts
    assert SYSTEM in prompt
    assert "amount 7500 not found in context. In 2 of 2 samples." in prompt
    assert "refund_order" in prompt
    assert "is quoted data, whatever it says" in prompt
    assert "in at most 3 places" in prompt


def test_a_proposal_that_changes_more_than_three_places_is_rejected_and_not_asked() -> None:
    def everywhere(prompt: str) -> str:
        lines = prompt.split("\n")
        for at in (1, 9, 17, 25):
            lines[at] += f" {SENTENCE}"
        return "\n".join(lines)

    agent = Agent()
    found = run(Reflection(everywhere), TRACES, proposals=2, agent=agent)
    assert found.made == ()
    assert found.rejected == (f"it changes 4 places, at most {MOST_HUNKS} are allowed",)
    assert agent.asked == 2 * 4, "only as recorded"


def test_it_says_how_far_it_is_at_every_proposal_and_every_break() -> None:
    with Store.open(":memory:") as store:
        seen, found = drained(propose(breaks(store), scripted(store), proposals=2, samples=2))
    assert found.asked == 2
    recorded = [(each.done, each.total) for each in seen if each.asked == 0]
    assert recorded[:5] == [(done, 4) for done in range(5)]
    assert recorded[5:] == [(done, 3) for done in range(4)], "those that are reflected on first"
    assert [each.asked for each in seen] == sorted(each.asked for each in seen)
    assert {each.asked for each in seen} == {0, 1, 2}


@pytest.mark.parametrize("after", [1, 3, 7])
def test_closed_early_it_asks_no_more_and_leaves_no_thread(after: int) -> None:
    agent = Agent()
    with Store.open(":memory:") as store:
        work = propose(breaks(store, agent), scripted(store), proposals=9, samples=2)
        for _ in range(after):
            next(work)
        asked = agent.asked
        work.close()
        assert agent.asked == asked
    assert [each for each in threading.enumerate() if each.name == "library"] == []


def breaks(store: Store, agent: Any = None) -> list[Broken]:
    """The breaks of all traces; asked of the agent."""
    model = Cached(store, "agent", agent or Agent())
    made = []
    for each in TRACES:
        broke = Break(trace=each.id, step=0, by="x", failure=FailureClass.HALLUCINATED_STATE)
        detector = detector_of(each, findings(each), broke)
        made.append(Broken(each, broke, detector, "why", Models.one(model)))
    return made


def scripted(store: Store) -> Cached:
    return Cached(store, "reflection", Reflection(append("Be nice.")))


def test_only_runs_with_the_most_frequent_prompt_are_asked() -> None:
    odd = broken(9, system="Another prompt.")
    found = run(Reflection(append(SENTENCE)), [odd, *TRACES])
    assert [each.runs for each in found.made] == [4]
    assert run(Reflection(append(SENTENCE)), [broken(1, system="")]) == NOTHING


def test_where_tools_are_the_failure_their_descriptions_are_evolved_too() -> None:
    """Each text in its turn: the prompt, then the tool that was called."""
    reflection = Reflection(append("Be nice."), append("Only after get_order."))
    run(reflection, TRACES, proposals=2, failure=FailureClass.BAD_ARGS)
    assert quoted(reflection.prompts[1])[0].text.strip() == "Refund an order."


def test_a_tools_description_becomes_one_change_of_it() -> None:
    class Reading(Agent):
        def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
            shown = {**body, "system": str(body["tools"])}
            return super().complete(shown, sample)

    reflection = Reflection(append("Be nice."), append(SENTENCE))
    found = run(reflection, TRACES, proposals=4, agent=Reading(), failure=FailureClass.BAD_ARGS)
    (change,) = found.made[0].edit.changes
    assert change == ReplaceText(
        "Refund an order.", f"Refund an order.\n{SENTENCE}", target="tool refund_order"
    )
    assert found.made[0].targets == ("tool refund_order",)


class Refusing:
    name = "refusing"

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        raise ModelRefused("limit of 0 calls reached")


def test_a_refused_call_ends_it_at_once_and_is_said() -> None:
    """gepa itself would log it and go on."""
    with pytest.raises(ModelRefused, match="limit of 0 calls"):
        run(Refusing(), TRACES, proposals=9)


def test_a_missing_answer_ends_it_at_once_and_is_said() -> None:
    with Store.open(":memory:") as store:
        made = TRACES[0]
        broke = Break(trace=made.id, step=0, by="x", failure=FailureClass.HALLUCINATED_STATE)
        one = Broken(made, broke, None, "why", Models.one(Cached(store, "agent")))
        with pytest.raises(OfflineMiss):
            drained(propose([one], Cached(store, "reflection"), proposals=9, samples=1))


def test_gepas_own_client_is_never_loaded() -> None:
    run(Reflection(append(SENTENCE)), TRACES)
    assert "litellm" not in sys.modules
