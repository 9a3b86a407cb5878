"""Where the prefix cache broke, and the cause that the two requests show."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from replay.trace import AgentSpan, Context, Fidelity, Level, Message, ModelCall, Trace, extend
from taxonomy.waste.cache import Cause, Kind, cache_breaks, falls
from tests.build import Part, call, step, tool, trace
from tests.taxonomy.waste_case import paid, rebuilt, usage, waited, with_ask, with_request

SYSTEM = "You keep house. Today is 10 May 2026. Answer in one line."
TOOLS = (tool("look", "Looks."), tool("ask", "Asks."))
PARTS: tuple[Part, ...] = (
    *(step(call("look", f"room {n} is empty", room=n)) for n in range(3)),
    "Done.",
)

WARM = [
    usage(20_000, read=0, write=20_000),
    usage(20_500, read=20_000, write=500),
    usage(21_000, read=20_500, write=500),
    usage(21_500, read=21_000, write=500),
]
COLD = usage(21_000, read=0, write=21_000)
"""Step 2 having lost what step 1 left."""


def house(*, broken: bool = True, **known: Any) -> Trace:
    """A run of four steps whose third read nothing of what was there, its requests unchanged."""
    usages = [*WARM[:2], COLD, WARM[3]] if broken else WARM
    return paid(PARTS, usages, system=SYSTEM, tools=TOOLS, **known)


def causes(run: Trace) -> tuple[Cause, ...]:
    """The causes of the only break of a run."""
    (found,) = cache_breaks(run)
    return found.causes


def conversation(run: Trace, index: int) -> list[Message]:
    context = run.steps[index].ask.request.context
    assert context is not None
    return context.messages()


def asked_with(run: Trace, messages: list[Message]) -> Trace:
    """The run whose step 2 sent these messages."""
    return with_request(run, 2, context=extend(None, messages))


def system(text: str) -> Message:
    return Message(dialect="anthropic", body={"role": "system", "content": text})


def user(text: str) -> Message:
    return Message(dialect="anthropic", body={"role": "user", "content": text})


def test_a_cache_that_is_read_as_it_was_left_has_no_break() -> None:
    assert cache_breaks(house(broken=False)) == ()


def test_a_source_without_cache_figures_has_no_break() -> None:
    run = paid(PARTS, [usage(20_000), usage(20_500), usage(900), usage(21_500)], tools=TOOLS)
    assert cache_breaks(run) == ()


def test_a_break_says_what_was_left_what_was_read_and_what_it_cost() -> None:
    (found,) = cache_breaks(house())
    assert (found.step, found.after) == (2, 1)
    assert (found.left_tokens, found.left_exact, found.read_tokens) == (20_500, True, 0)
    assert found.fall == 1.0
    assert found.missed_tokens == 20_500
    assert found.extra_usd == pytest.approx(20_500 * (3.75 - 0.30) / 1e6)


def test_what_an_unknown_model_lost_has_no_price() -> None:
    (found,) = cache_breaks(house(model="no-such-model"))
    assert found.extra_usd is None


def test_where_writes_are_not_counted_at_least_what_was_read_was_there() -> None:
    usages = [usage(20_000, read=0), usage(20_500, read=19_968), usage(21_000, read=2_048)]
    (found,) = cache_breaks(paid(PARTS[:3], usages))
    assert (found.left_tokens, found.left_exact, found.missed_tokens) == (19_968, False, 17_920)


def test_a_step_without_figures_is_passed_over() -> None:
    usages = [WARM[0], None, usage(21_000, read=0, write=21_000)]
    (found,) = cache_breaks(paid(PARTS[:3], usages))
    assert (found.step, found.after, found.left_tokens) == (2, 0, 20_000)


def test_threads_do_not_share_a_prefix() -> None:
    run = house()
    agent = AgentSpan(id="helper", name="helper", parent="root")
    third = run.steps[2].ask.id
    spans = [
        structs.replace(span, parent="helper")
        if isinstance(span, ModelCall) and span.id == third
        else span
        for span in run.spans
    ]
    assert cache_breaks(rebuilt(run, [agent, *spans])) == ()


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_more_is_missed_than_was_there_and_fits(left: int, read: int, size: int) -> None:
    missed = falls(left, read, size)
    assert 0 <= missed <= min(left, size)
    assert missed == 0 or read < min(left, size)


def test_a_cache_that_keeps_whole_blocks_does_not_break() -> None:
    assert falls(24_352, 24_288, 24_435) == 0


# --- causes


def test_a_tool_that_joined_is_named() -> None:
    run = with_request(house(), 2, tools=(*TOOLS, tool("sweep", "Sweeps.")))
    assert causes(run) == (Cause(kind=Kind.TOOLS, detail="sweep added"),)


def test_tools_that_left_or_were_described_anew_are_named() -> None:
    run = with_request(house(), 2, tools=(tool("look", "Looks closely."),))
    assert causes(run)[0].detail == "ask removed; look rewritten"


def test_tools_in_another_order_are_another_prefix() -> None:
    run = with_request(house(), 2, tools=TOOLS[::-1])
    assert causes(run) == (Cause(kind=Kind.TOOLS, detail="their order"),)


def test_a_date_in_the_system_prompt_is_recognised() -> None:
    run = with_request(house(), 2, system=system(SYSTEM.replace("10 May", "11 May")))
    said = Cause(kind=Kind.SYSTEM, detail="only its date: 10 May 2026 became 11 May 2026")
    assert causes(run) == (said,)


def test_a_counter_in_the_system_prompt_is_recognised() -> None:
    run = paid(PARTS, [*WARM[:2], COLD], system="Turn 7 of 9.")
    run = with_request(run, 2, system=system("Turn 8 of 9."))
    assert causes(run)[0].detail == "only numbers: “7 of 9.” became “8 of 9.”"


def test_other_words_in_the_system_prompt_are_quoted() -> None:
    run = with_request(house(), 2, system=system(SYSTEM.replace("one line", "verse")))
    assert causes(run) == (
        Cause(kind=Kind.SYSTEM, detail="“one line.” became “verse.”"),
    )  # fmt: skip


def test_an_earlier_message_that_changed_is_named() -> None:
    run = house()
    messages = conversation(run, 2)
    messages[0] = user("Do the other task.")
    assert causes(asked_with(run, messages)) == (
        Cause(kind=Kind.MESSAGE, detail="message 0 (user) of 3"),
    )


def test_several_changed_messages_are_counted() -> None:
    run = house()
    messages = conversation(run, 2)
    messages[0], messages[2] = user("Do the other task."), user("cleared")
    assert causes(asked_with(run, messages))[0].detail == (
        "message 0 (user) of 3, the first of 2 changed"
    )


def test_a_message_put_in_between_is_seen() -> None:
    run = house()
    messages = conversation(run, 2)
    messages.insert(1, user("By the way."))
    assert causes(asked_with(run, messages)) == (
        Cause(kind=Kind.MESSAGE, detail="inserted before message 1 (assistant)"),
    )


def test_a_compaction_is_a_rewritten_conversation() -> None:
    run = house()
    summary = [conversation(run, 2)[0], user("So far: both rooms are empty.")]
    assert causes(asked_with(run, summary)) == (
        Cause(
            kind=Kind.REWRITTEN,
            detail="3 messages became 2, of which the first 1 are the same",
        ),
    )


def test_a_rewind_takes_messages_off() -> None:
    run = asked_with(house(), conversation(house(), 2)[:1])
    assert causes(run)[0].detail == "its last 2 of 3 messages were removed"


def test_a_cache_mark_or_a_block_around_a_text_changes_nothing() -> None:
    run = house()
    messages = conversation(run, 2)
    block = {"type": "text", "text": "Do the task.", "cache_control": {"type": "ephemeral"}}
    messages[0] = Message(dialect="anthropic", body={"role": "user", "content": [block]})
    assert causes(asked_with(run, messages))[0].kind is Kind.UNKNOWN


def test_a_setting_that_leaves_cached_messages_behind() -> None:
    run = with_request(house(), 2, params={"tool_choice": {"type": "any"}, "max_tokens": 9})
    assert causes(run) == (Cause(kind=Kind.SETTINGS, detail="tool_choice"),)


def test_another_model_has_another_cache() -> None:
    run = with_request(house(), 2, model="claude-opus-4-5")
    assert causes(run) == (
        Cause(kind=Kind.MODEL, detail="claude-sonnet-4-5 became claude-opus-4-5"),
    )


def test_a_pause_longer_than_a_prefix_is_kept() -> None:
    assert causes(waited(house(), 2, 6 * 60)) == (
        Cause(kind=Kind.PAUSE, detail="6 min after step 1; a prefix stays cached 5 min"),
    )


def test_what_was_written_for_an_hour_outlives_six_minutes() -> None:
    run = house()
    for index, each in enumerate(WARM[:2]):
        hourly = structs.replace(each, cache_write_1h_tokens=each.cache_write_tokens)
        run = with_ask(run, index, usage=hourly)
    assert causes(waited(run, 2, 6 * 60))[0].kind is Kind.UNKNOWN
    assert causes(waited(run, 2, 61 * 60))[0].detail.endswith("cached 60 min")


def test_a_prompt_too_short_to_be_kept() -> None:
    run = with_ask(house(), 2, usage=usage(700, read=0, write=0))
    kinds = [cause.kind for cause in causes(asked_with(run, conversation(run, 2)[:1]))]
    assert kinds == [Kind.REWRITTEN, Kind.SMALL]


def test_every_change_is_named_because_each_would_do_alone() -> None:
    run = with_request(house(), 2, tools=TOOLS[:1], system=system("Other."), model="claude-opus-4")
    assert [cause.kind for cause in causes(run)] == [Kind.TOOLS, Kind.SYSTEM, Kind.MODEL]


def test_where_nothing_differs_the_cause_is_unknown() -> None:
    (cause,) = causes(house())
    assert cause.kind is Kind.UNKNOWN
    assert cause.detail == ("no recorded difference, but the requests themselves were not recorded")


def test_requests_known_to_the_letter_need_no_proviso() -> None:
    run = house()
    for index in range(4):
        run = with_ask(run, index, fidelity=Fidelity(level=Level.EXACT))
    assert causes(run)[0].detail == "no recorded difference"


def test_what_was_not_recorded_is_said() -> None:
    (found,) = cache_breaks(paid(PARTS, [*WARM[:2], COLD]))
    assert found.causes[0].detail == ("no recorded difference; not recorded: tools, system prompt")


def test_contexts_without_messages_are_compared_too() -> None:
    run: Trace = trace(["One.", "Two."], task=None)
    run = with_ask(run, 0, usage=usage(5_000, read=0, write=5_000))
    run = with_ask(run, 1, usage=usage(5_200, read=0, write=0))
    context: Context | None = run.steps[0].ask.request.context
    assert context is None
    assert "messages" in causes(run)[0].detail
