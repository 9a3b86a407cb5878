"""Free replay: the model runs on, the tape answers, and the run says why it stopped."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from replay.compare.rules import PathRule, Rules
from replay.edit.changes import Edit, RemoveTool, RenameTool, SetObservation, SetSystem
from replay.errors import BadEdit, ModelRefused, NotFound, OfflineMiss
from replay.free import run as free
from replay.free.recorded_results import Stub, Terms, draft
from replay.models.cached import Cached
from replay.models.demo import Demo
from replay.store.handle import Store
from replay.trace import Fidelity, Level, Message, ModelCall, Trace
from tests.build import call, heard, step, tool, trace
from tests.messages_api import message, refusal, text, tool_use
from tests.replay import locked_case
from tests.replay.free_case import (
    FIXTURES,
    TOUR,
    V4,
    Script,
    recorded,
    run,
    says,
    uses,
    uses_of,
)
from tests.replay.locked_case import DIALOGUE, VERIFY, Fixed, Tiny, request, spans, stored, tiny

ROOT = Path(__file__).resolve().parents[2]
EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))
SHOUT = Edit(name="shout", changes=(SetSystem("Be loud."),))
BANK = (tool("get_balance"), tool("withdraw", amount={}), tool("get_rates", day={}))
READ_40, READ_30 = call("get_balance", "40"), call("get_balance", "30")
WITHDRAWN = call("withdraw", "gone", amount=10)
BALANCE: tuple[str, dict[str, Any]] = ("get_balance", {})


def withdraw(amount: int = 10) -> tuple[str, dict[str, Any]]:
    return ("withdraw", {"amount": amount})


def bank(*parts: Any, **more: Any) -> Trace:
    return trace(parts, system="Be brief.", tools=BANK, **more)


ACCOUNT = bank(step(READ_40), step(WITHDRAWN), step(READ_30), "You have 30.")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arc.db") as opened:
        yield opened


# --- on the road


def test_a_run_that_does_what_was_done_ends_where_the_recording_ends() -> None:
    script = Script(uses(BALANCE), uses(withdraw()), uses(BALANCE), says("You have 30."))
    made = run(ACCOUNT, script)
    assert (made.status, made.divergence, made.left) == ("finished", None, None)
    assert made.text == "You have 30."
    assert [each.step for each in made.steps] == [0, 1, 2, 3]
    assert uses_of(made) == [("exact", "40"), ("exact", "gone"), ("exact", "30")]
    assert [(each.call.tool, each.recorded) for each in made.writes] == [("withdraw", True)]
    assert made.stop is not None
    assert (
        made.stop.sentence
        == "The agent replied with text; no user message follows in the recording."
    )


def test_on_the_road_it_asks_what_a_locked_replay_asks_and_shares_its_answers(
    store: Store,
) -> None:
    case = stored(store)
    model = Tiny()
    rows = locked_case.run(case, EDIT, tiny(store, model))
    asked = model.asked
    made = run(case, model, EDIT, store=store)
    assert model.asked == asked
    assert [each.key for each in made.steps] == [row.edited[0].key for row in rows[:2]]
    assert (made.status, made.divergence) == ("miss", 1)


def test_words_beside_calls_and_the_order_of_parallel_calls_are_no_divergence() -> None:
    case = bank(step("Let me see.", READ_40, call("get_rates", "1.2", day=1)), "Done.")
    script = Script(
        message(text("Well."), *uses(("get_rates", {"day": 1}), BALANCE)["content"]), says("Done.")
    )
    made = run(case, script)
    assert (made.status, made.left) == ("finished", None)
    assert uses_of(made) == [("exact", "1.2"), ("exact", "40")]


def test_past_the_end_of_a_recording_that_was_broken_off_it_goes_on_alone() -> None:
    case = bank(step(READ_40), step(WITHDRAWN))
    made = run(case, Script(uses(BALANCE), uses(withdraw()), uses(BALANCE), says("Done.")))
    assert (made.status, made.left) == ("stale", None)
    assert [each.step for each in made.steps] == [0, 1, None]
    done = run(case, Script(uses(BALANCE), uses(withdraw()), says("Done.")))
    assert (done.status, done.text, done.steps[-1].step) == ("finished", "Done.", None)


def test_a_call_to_the_model_that_failed_and_was_made_again_is_one_step_of_the_road(
    store: Store,
) -> None:
    made = spans(DIALOGUE[:2])
    ask = made[-1]
    assert isinstance(ask, ModelCall)
    failed = structs.replace(ask, id="failed", response=structs.replace(ask.response, message=None))
    case = stored(store, [*made[:-1], failed, ask])
    assert len(case.steps) == 2
    model = Tiny()
    done = run(case, model)
    assert (done.status, done.left, model.asked) == ("finished", None, 1)


def test_a_rule_of_the_user_keeps_the_run_on_the_road() -> None:
    rules = Rules((PathRule(tool="withdraw", path="amount", how="tolerance", value="1"),))
    script = Script(uses(BALANCE), uses(withdraw(11)), uses(BALANCE), says("You have 30."))
    assert run(ACCOUNT, script, rules=rules).left is None
    assert run(ACCOUNT, script).left == 1


# --- the tape answers, or the run stops


def test_the_balance_before_a_withdrawal_is_never_served_after_it() -> None:
    early = run(ACCOUNT, Script(uses(withdraw()), uses(BALANCE), says("You have 30.")))
    assert (early.divergence, early.status) == (0, "finished")
    assert uses_of(early) == [("guessed", "gone"), ("guessed", "30")]
    assert early.guesses == {"get_balance": 2}
    told = run(
        ACCOUNT, Script(uses(withdraw()), uses(BALANCE), says("You have 30.")),
        terms=Terms(effects={"get_balance": "read"}),
    )  # fmt: skip
    assert uses_of(told) == [("exact", "gone"), ("exact", "30")]
    assert (told.guesses, told.digest != early.digest) == ({}, True)
    other = run(ACCOUNT, Script(uses(BALANCE), uses(withdraw(20)), uses(BALANCE)))
    assert other.status == "miss"
    stub = Stub(tool="withdraw", arguments={"amount": 20}, result="gone")
    script = Script(uses(BALANCE), uses(withdraw(20)), uses(BALANCE), says("?"))
    strict = run(ACCOUNT, script, terms=Terms(stubs=(stub,)))
    assert (strict.status, uses_of(strict)[-1]) == ("stale", ("stale", None))
    assert strict.stop is not None
    assert strict.stop.sentence == (
        "No recorded result for get_balance(): stale, recorded only after different writes."
    )
    loose = run(ACCOUNT, script, terms=Terms(stubs=(stub,), allow_stale=True))
    assert loose.status == "finished"
    assert loose.ranks == {"exact": 1, "stub": 1, "stale": 1}
    assert [(each.call.arguments, each.recorded) for each in loose.writes] == [
        ({"amount": 20}, False)
    ]


def test_parallel_calls_are_all_answered_or_the_run_stops_before_the_turn() -> None:
    script = Script(uses(BALANCE, ("get_rates", {"day": 7}), ("get_rates", {"day": 8})))
    made = run(ACCOUNT, script)
    assert made.status == "miss"
    assert script.asked == 1
    assert [rank for rank, _ in uses_of(made)] == ["guessed", "miss", "miss"]
    assert made.stop is not None
    assert [each.call.arguments for each in made.stop.calls] == [{"day": 7}, {"day": 8}]
    assert "(and 1 more calls of this step)" in made.stop.sentence


def test_a_miss_names_the_nearest_recorded_calls_for_a_stub_to_be_written_from() -> None:
    case = bank(step(call("get_rates", "1.2", day=1)), "Done.")
    made = run(case, Script(uses(("get_rates", {"day": 7}))))
    assert made.stop is not None
    [missed] = made.stop.calls
    assert [(each.recorded.step, each.phrase) for each in missed.near] == [
        (0, "get_rates day: 1 → 7")
    ]
    assert draft(missed.call, missed.near) == Stub(
        tool="get_rates", arguments={"day": 7}, result="1.2"
    )


def test_with_one_more_stub_the_run_goes_on_and_asks_only_what_is_new(store: Store) -> None:
    case, model = stored(store), Tiny()
    first = run(case, model, EDIT, store=store)
    assert (first.status, model.asked) == ("miss", 2)
    stub = Stub(tool="get_order", arguments={"order_id": 1042}, result='{"total": 55}')
    second = run(case, model, EDIT, Terms(stubs=(stub,)), store)
    assert model.asked == 3
    assert second.steps[2].action is not None
    assert second.steps[2].action.text == "It is done: 55."
    assert second.status == "user"
    again = run(case, model, EDIT, Terms(stubs=(stub,)), store)
    assert model.asked == 3
    assert again.digest == second.digest != first.digest


def test_a_tool_that_is_not_offered_is_reported_and_stops_the_run() -> None:
    made = run(ACCOUNT, Script(uses(("magic", {}))))
    assert made.status == "miss"
    assert made.steps[0].flaws == ("calls magic, which is not offered",)
    assert made.stop is not None
    assert made.stop.sentence == "No recorded result for magic(): tool not offered."


def test_a_tool_the_edit_takes_away_is_not_answered_though_it_was_recorded() -> None:
    edit = Edit(name="gone", changes=(RemoveTool(name="get_balance"),))
    made = run(ACCOUNT, Script(uses(BALANCE)), edit)
    assert (made.status, made.divergence) == ("miss", None)


def test_a_renamed_tool_is_answered_by_what_it_was_recorded_as() -> None:
    edit = Edit(name="renamed", changes=(RenameTool(name="get_balance", new="account_state"),))
    state: tuple[str, dict[str, Any]] = ("account_state", {})
    script = Script(uses(state), uses(state), uses(withdraw()), uses(state), says("You have 30."))
    made = run(ACCOUNT, script, edit)
    assert (made.status, made.divergence) == ("finished", 1)
    assert [rank for rank, _ in uses_of(made)] == ["exact", "reused", "guessed", "guessed"]
    assert set(made.guesses) == {"get_balance"}


def test_an_edited_observation_is_what_the_run_gets() -> None:
    edit = Edit(name="poor", changes=(SetObservation(step=0, text="0"),))
    script = Script(uses(withdraw()), uses(withdraw()))
    assert uses_of(run(ACCOUNT, script, edit)) == [("guessed", "gone"), ("miss", None)]
    both = run(ACCOUNT, Script(uses(BALANCE, BALANCE), says("Poor.")), edit)
    assert uses_of(both) == [("edited", "0"), ("reused", "0")]


def test_a_call_that_hangs_on_a_masked_value_stops_the_run(store: Store) -> None:
    key = "sk-ant-" + "b2" * 20
    said = (
        ("user", f"Look up {key}."),
        ("assistant", [tool_use("get_order", order_id=key)]), ("result", "x"),
        ("assistant", "Done."),
    )  # fmt: skip
    case = stored(store, spans(said))
    arguments = case.steps[0].acts[0].arguments
    assert isinstance(arguments, dict)
    mask = arguments["order_id"]
    assert "SECRET" in mask
    same = run(case, Script(uses(("get_order", {"order_id": mask})), says("Done.")))
    assert same.status == "finished"
    other = run(case, Script(uses(("refund_order", {"order_id": mask}))))
    assert (other.status, other.divergence) == ("masked", None)
    assert other.stop is not None
    assert "it depends on a masked value" in other.stop.sentence


# --- speaking, and other ends


TALK = bank(step(READ_40), "You have 40.", heard("Take 10."), step(WITHDRAWN), "Done.")


def test_the_users_next_words_are_heard_only_by_a_run_that_said_what_was_said() -> None:
    script = Script(uses(BALANCE), says("you have 40"), uses(withdraw()), says("Done."))
    assert run(TALK, script).status == "finished"
    reworded = run(TALK, Script(uses(BALANCE), says("It is 40.")))
    assert (reworded.status, reworded.left, reworded.divergence) == ("user", 1, None)
    assert reworded.text == "It is 40."
    assert reworded.stop is not None
    assert reworded.stop.sentence == (
        "The agent replied with text; the next recorded user message (step 2) replies to a"
        " different one."
    )
    diverged = run(TALK, Script(says("Which account?")))
    assert (diverged.status, diverged.divergence) == ("user", 0)


def test_after_the_users_last_words_any_words_end_the_run() -> None:
    script = Script(uses(BALANCE), says("You have 40."), says("I cannot do that."))
    made = run(TALK, script)
    assert (made.status, made.divergence, made.text) == ("finished", 2, "I cannot do that.")
    silent = run(TALK, Script(uses(BALANCE), says("You have 40."), message()))
    assert silent.stop is not None
    assert silent.stop.sentence.startswith("The agent ended its turn without text; no user message")


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ("max_tokens", "cut at the token limit"),
        ("refusal", "refused by the provider"),
        ("pause_turn", "paused by the provider"),
        ("model_context_window_exceeded", "out of context window"),
    ],
)
def test_an_answer_that_is_not_whole_stops_the_run_and_is_no_divergence(
    stop: str, said: str
) -> None:
    made = run(ACCOUNT, Script(message(tool_use("get_balance"), stop=stop)))
    assert (made.status, made.divergence) == ("cut", None)
    assert made.stop is not None
    assert made.stop.sentence == f"The response was {said}."


def test_a_model_that_declines_stops_the_run_with_its_sentence() -> None:
    made = run(ACCOUNT, Fixed(ModelRefused("no key", "set one")))
    assert (made.status, made.steps[0].key) == ("refused", None)
    assert made.stop is not None
    assert made.stop.sentence == "No response for step 0: no key; set one."


def test_a_recorded_request_that_cannot_be_asked_stops_the_run(store: Store) -> None:
    lost = Fidelity(level=Level.NONE, reasons=("the request was truncated",))
    model = Tiny()
    made = run(stored(store, spans(fidelity=lost)), model)
    assert (made.status, model.asked) == ("refused", 0)
    assert made.stop is not None
    assert made.stop.sentence == "Cannot replay step 0: the request was truncated."


def test_a_run_that_would_go_on_for_ever_is_capped() -> None:
    made = run(ACCOUNT, Script(*[uses(BALANCE)] * 99))
    assert (made.status, len(made.steps), made.limit) == ("cap", 13, 13)
    assert made.ranks == {"exact": 1, "reused": 12}
    assert len(run(ACCOUNT, Script(*[uses(BALANCE)] * 99), max_steps=3).steps) == 3


def test_offline_a_missing_answer_is_an_error_that_names_where(store: Store) -> None:
    case = stored(store)
    run(case, Tiny(), EDIT, store=store)
    stub = Stub(tool="get_order", arguments={"order_id": 1042}, result="x")
    offline = Cached(store, "tiny")
    with pytest.raises(OfflineMiss, match=r"response 2 of the run: no cached response"):
        list(free.run(case, EDIT, offline, Terms(stubs=(stub,))))
    with pytest.raises(OfflineMiss, match=r"step 0: no cached response"):
        list(free.run(case, None, offline))


def test_every_value_is_a_run_and_closing_keeps_what_was_answered(store: Store) -> None:
    case, model = stored(store), Tiny()
    going = free.run(case, EDIT, tiny(store, model))
    first = next(going)
    assert (first.status, first.stop, len(first.steps)) == ("going", None, 1)
    going.close()
    run(case, model, EDIT, store=store)
    assert model.asked == 2


# --- where it begins


def test_from_a_later_step_everything_before_it_is_as_recorded() -> None:
    script = Script(*[says("")] * 2, uses(BALANCE), says("Well."))
    made = run(ACCOUNT, script, start=2)
    assert [each.step for each in made.steps] == [2, 3]
    assert uses_of(made) == [("exact", "30")]
    assert len(script.bodies[0]["messages"]) == 5


def test_a_start_that_is_not_there_and_a_start_beside_the_edit_are_errors(store: Store) -> None:
    helper = spans(DIALOGUE[2:6], root="helper", parent="root")
    case = stored(store, [*spans(DIALOGUE[:6]), *helper])
    with pytest.raises(NotFound):
        run(case, Tiny(), start=5)
    with pytest.raises(BadEdit, match="another thread"):
        run(case, Tiny(), EDIT, start=3)
    named = structs.replace(EDIT, thread="helper")
    assert [each.step for each in run(case, Tiny(), named).steps] == [3]
    assert run(case, Tiny(), start=3).thread == "helper"
    with pytest.raises(BadEdit, match="did you mean 'helper'"):
        run(case, Tiny(), structs.replace(EDIT, thread="helpr"))


# --- its own conversation


def test_off_the_road_the_request_grows_by_its_answers_and_one_turn_of_results() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    first = message(thought, text(" "), text("Wait."), *uses(BALANCE, BALANCE)["content"])
    script = Script(uses(BALANCE), first, uses(withdraw()), says("Done."))
    run(ACCOUNT, script, SHOUT)
    body = script.bodies[2]
    assert body["system"] == "Be loud."
    assert body["messages"][3:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Wait."},
                {"type": "tool_use", "id": "toolu_arc_1", "name": "get_balance", "input": {}},
                {"type": "tool_use", "id": "toolu_arc_2", "name": "get_balance", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_arc_1", "content": "40"},
                {"type": "tool_result", "tool_use_id": "toolu_arc_2", "content": "40"},
            ],
        },
    ]
    assert body["messages"][:3] == script.bodies[1]["messages"]
    for each in script.bodies:
        assert refusal({**each, "model": "claude-test"}) is None


def test_an_observation_of_more_than_text_is_sent_as_it_was_recorded(store: Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA"}}
    said = (
        ("user", "Go."),
        ("assistant", [tool_use("get_order", order_id=1)]), ("result", [image]),
        ("assistant", "Done."),
    )  # fmt: skip
    twice = uses(("get_order", {"order_id": 1}), ("get_order", {"order_id": 1}))
    script = Script(twice, says("Done."))
    run(stored(store, spans(said)), script)
    [result, _] = script.bodies[1]["messages"][-1]["content"]
    assert result["content"] == [image]


def test_a_context_the_recording_rewrote_later_stands_beside_the_result(store: Store) -> None:
    made = spans(DIALOGUE[:6])
    ask = made[-1]
    assert isinstance(ask, ModelCall)
    assert ask.request.context is not None
    summary = Message(dialect="anthropic", body={"role": "user", "content": "So far: 1042."})
    context = structs.replace(ask.request.context, message=summary, parent=None, depth=1)
    rewritten = structs.replace(ask, request=structs.replace(ask.request, context=context))
    case = stored(store, [*made[:-1], rewritten])
    diverged = run(case, Script(uses(("get_order", {"order_id": 3}))))
    assert diverged.notices == (
        "The recording rewrites its context at step 2; a free replay does not.",
    )
    assert run(ACCOUNT, Script(says("No."))).notices == ()


# --- the first divergence


def dialogue(episodes: list[tuple[str, str, int]]) -> list[tuple[str, Any]]:
    """What is said: the user greets or asks, the agent acts one way or another, and reports."""
    said: list[tuple[str, Any]] = []
    for asks, acts, order in episodes:
        said.append(("user", {"greet": "Hello"}.get(asks, f"{asks} order {order}?")))
        if acts == "speaks":
            said.append(("assistant", "Hello, how can I help?"))
        elif acts == "mumbles":
            said.append(("assistant", "Hm."))
        else:
            more = {"amount": 100} if acts == "refund_order" else {}
            said.append(("assistant", [tool_use(acts, order_id=order, **more)]))
            said.append(("result", f'{{"n": {order}}}'))
            said.append(("assistant", f"It is done: {order}."))
    return said


EPISODES = st.lists(
    st.tuples(
        st.sampled_from(["greet", "Refund", "Where is"]),
        st.sampled_from(["speaks", "speaks", "get_order", "get_order", "refund_order", "mumbles"]),
        st.integers(1, 3),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@given(EPISODES, st.booleans())
@settings(deadline=None)
def test_the_first_divergence_is_the_first_mismatch_of_a_locked_replay(
    episodes: list[tuple[str, str, int]], edited: bool
) -> None:
    with Store.open(":memory:") as store:
        case = stored(store, spans(dialogue(episodes)))
        edit = EDIT if edited else None
        rows = locked_case.run(case, edit, tiny(store))
        against = [((row.edited or row.control)[0].against, row.step) for row in rows]
        first = next(((each.same, at) for each, at in against if not each.same), (True, None))
        made = run(case, Tiny(), edit, store=store)
    assert made.left == first[1]
    assert made.divergence == (first[1] if first[0] is False else None)


# --- what it came to


def test_no_sentence_says_how_the_run_would_have_ended() -> None:
    scripts = [
        Script(uses(BALANCE), uses(withdraw()), uses(BALANCE), says("You have 30.")),
        Script(uses(withdraw(3))), Script(uses(("magic", {}))), Script(says("No.")),
        Script(message(stop="max_tokens")), Script(*[uses(BALANCE)] * 99),
        Script(uses(withdraw()), uses(withdraw()), uses(BALANCE)),
    ]  # fmt: skip
    said = [made.stop.sentence for each in scripts if (made := run(ACCOUNT, each)).stop]
    assert len(said) == len(scripts)
    assert not [each for each in said if re.search(r"(?i)\b(pass|fail|succe|solved|correct)", each)]
    assert all(each.endswith(".") for each in said)


def test_the_digest_is_of_what_was_seen() -> None:
    script = Script(uses(BALANCE), uses(withdraw(20)), uses(BALANCE), says("?"))

    def digest(terms: Terms, **beside: Any) -> str:
        return run(ACCOUNT, script, terms=terms, **beside).digest

    def stubbed(result: str, **more: Any) -> Terms:
        return Terms(
            stubs=(Stub(tool="withdraw", arguments={"amount": 20}, result=result),), **more
        )

    assert digest(stubbed("a")) == digest(stubbed("a"))
    unused = Stub(tool="withdraw", arguments={"amount": 99}, result="x")
    more = structs.replace(stubbed("a"), stubs=(*stubbed("a").stubs, unused))
    assert digest(more) == digest(stubbed("a"))
    others = [
        digest(stubbed("a")), digest(stubbed("b")), digest(stubbed("a", allow_stale=True)),
        digest(stubbed("a", effects={"withdraw": "read"})), digest(stubbed("a"), sample=1),
        digest(stubbed("a"), start=1),
    ]  # fmt: skip
    assert len(set(others)) == len(others)


def test_the_weakest_fidelity_asked_stands_with_the_run(store: Store) -> None:
    case = stored(store, spans(asking=request(tools=None), said=DIALOGUE[:2]))
    made = run(case, Tiny())
    assert made.weakest is not None
    assert made.weakest.level is Level.EXACT
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}}
    said = (("user", [{"type": "text", "text": "Hello"}, image]), *DIALOGUE[1:])
    partial = run(stored(store, spans(said), id="media"), Tiny())
    assert partial.weakest == Fidelity(level=Level.PARTIAL, reasons=("media not sent",))


# --- the tour


def test_the_tour_goes_as_far_as_the_tape_and_then_as_far_as_its_stubs(store: Store) -> None:
    case = recorded(store, TOUR)
    made = run(case, Demo(), V4, store=store)
    assert (made.status, made.divergence, len(made.steps)) == ("miss", 4, 5)
    assert made.stop is not None
    assert made.stop.sentence == (
        'No recorded result for get_order(order_id="1039"): never recorded with these arguments.'
    )
    [missed] = made.stop.calls
    drafted = draft(missed.call, missed.near)
    assert (drafted.tool, drafted.arguments) == ("get_order", {"order_id": "1039"})
    read = drafted.result.replace("1049", "1039").replace("shipped", "delivered")
    stubs: tuple[Stub, ...] = (structs.replace(drafted, result=read),)
    further = run(case, Demo(), V4, Terms(stubs=stubs), store)
    assert further.status == "miss"
    assert further.stop is not None
    [write] = further.stop.calls
    assert write.call.tool == "refund_order"
    assert [each.recorded for each in further.writes] == [False]
    assert write.near[0].recorded.step == 4
    stubs += (draft(write.call, write.near),)
    last = run(case, Demo(), V4, Terms(stubs=stubs), store)
    assert (last.status, len(last.steps)) == ("user", 7)
    assert last.ranks == {"exact": 4, "stub": 2}


def test_unedited_the_tour_is_the_recording(store: Store) -> None:
    made = run(recorded(store, TOUR), Demo())
    assert (made.status, made.left, len(made.steps)) == ("finished", None, 8)


@pytest.mark.parametrize(
    "name", ["compare-v8-0", "many-wishes-v8-0", "long-v6-0", "warranty-v3-0", "not-hers-v8-0"]
)
def test_any_bundled_run_under_the_prompt_of_the_tour_ends_with_a_reason(name: str) -> None:
    with Store.open(":memory:") as store:
        case = recorded(store, FIXTURES / "traces" / f"shop-{name}.jsonl")
        cached = Cached(store, "demo", Demo())
        made = run(case, Demo(), V4, store=store)
        rows = locked_case.run(case, V4, cached)
    assert made.stop is not None
    on_road = {each.step for each in made.steps if each.step is not None}
    diverges = [row.step for row in rows if row.edited and row.edited[0].against.diverges]
    assert made.divergence in {None, *diverges[:1]}
    assert made.divergence == next((at for at in diverges if at in on_road), None)


@pytest.mark.process
def test_offline_every_process_comes_to_the_same_digest(tmp_path: Path) -> None:
    path = str(tmp_path / "arc.db")
    digests = set()
    for kept, seed, zone in (((), "0", "UTC"), (("offline",), "4242", "Asia/Kolkata")):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.replay.free_case", path, *kept],
            capture_output=True, text=True, cwd=ROOT, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LANG": "C"},
        )  # fmt: skip
        digests.add(done.stdout)
    assert len(digests) == 1
    assert digests.pop().startswith("sha256:")


# --- nothing can run a tool


FORBIDDEN = {
    "subprocess", "socket", "importlib", "ctypes", "runpy", "pty", "multiprocessing", "asyncio",
    "http", "urllib.request", "httpx", "httpx2", "anthropic", "code", "concurrent",
}  # fmt: skip
BUILT_IN = {"exec", "eval", "compile", "__import__"}


def imported(name: str) -> Iterator[str]:
    """Every module that a module of `replay` names in an import, wherever it stands."""
    found = ROOT / Path(*name.split("."))
    file = found / "__init__.py" if found.is_dir() else found.with_suffix(".py")
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = (f"{node.module}.{each.name}" for each in node.names)
            yield from (node.module, *filter(is_module, inside))


def is_module(name: str) -> bool:
    found = ROOT / Path(*name.split("."))
    return found.is_dir() or found.with_suffix(".py").is_file()


def reached(*names: str) -> set[str]:
    """All that can be reached from modules by imports within `replay`, and what these import."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name.partition(".")[0] == "replay":
            waiting.extend(imported(name))
    return seen


def acting(modules: set[str]) -> set[str]:
    """Those that can start a process, reach a network, or load code by its name."""
    return {name for name in modules if FORBIDDEN & {name, name.partition(".")[0]}}


ANSWERING = (
    "effects",
    *(f"free.{name}" for name in ("recorded_results", "recorded", "result")),
)


def source(name: str) -> str:
    return (ROOT / "replay" / f"{name.replace('.', '/')}.py").read_text()


def test_nothing_that_answers_a_call_can_reach_a_process_a_network_or_code_to_run() -> None:
    found = reached(*(f"replay.{name}" for name in ANSWERING))
    assert not acting(found)
    assert "os" not in {each for name in ANSWERING for each in imported(f"replay.{name}")}
    for name in ("free.run", *ANSWERING):
        for node in ast.walk(ast.parse(source(name))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in BUILT_IN


def test_a_free_run_reaches_nothing_that_acts_but_the_model_it_is_given() -> None:
    found = reached("replay.free.run")
    assert not acting(found)
    assert "replay.models.claude" not in found


def test_no_one_can_hand_over_a_function_for_a_tool() -> None:
    for name in ("free.run", *ANSWERING):
        assert "Callable" not in source(name)
    function: Any = lambda call: "x"  # noqa: E731
    terms = Terms(stubs=(function,))
    with pytest.raises(AttributeError):
        run(ACCOUNT, Script(says("No.")), terms=terms)
