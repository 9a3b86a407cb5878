from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.formats import tau_bench
from replay.formats.source import Source, Tally
from replay.steps import build
from replay.trace import Trace
from taxonomy.diagnosis import diagnose
from taxonomy.evidence.claims import day_keys, moments, sentences, statuses, success, windows
from taxonomy.findings import Finding
from taxonomy.rules import contradiction
from taxonomy.rules.rule import RuleContext
from tests.build import call, heard, step, trace
from tests.shared import DATA, needs_shared

NOW = "The current time is 2024-05-15 15:00:00 EST."


def says(words: str, *, created: str = "2024-05-12T00:14:30", system: str = NOW) -> list[Finding]:
    booking = {"reservation_id": "IFOYYZ", "created_at": created}
    made = trace(
        [step(call("get_reservation", booking, reservation_id="IFOYYZ")), words],
        task="Please cancel IFOYYZ.",
        system=system,
    )
    return list(contradiction.find(RuleContext(made)))


@pytest.mark.parametrize(
    "words",
    [
        "Since it was booked on May 12, 2024, it is within the 24-hour cancellation window.",
        "It was booked on 12 May, which is within 24 hours of booking.",
        "Since your reservation was made within the last 24 hours, you can cancel it.",
        "It was created less than 24 hours ago.",
        "The booking was made within the last two days.",
    ],
)
def test_a_window_that_the_dates_deny_is_found(words: str) -> None:
    (finding,) = says(words)
    assert finding.step == 1
    assert [evidence.role for evidence in finding.evidence] == ["says", "observed", "stated"]
    assert "2024-05-12" in finding.evidence[1].text
    assert finding.evidence[2].text.endswith("2024-05-15 15:00:00")


def test_the_phrase_says_which_dates() -> None:
    (finding,) = says("It was booked on May 12, 2024, and is within the 24-hour window.")
    assert finding.why == "falsely claims 12 May is within 24 h of 15 May"


def test_a_date_that_no_result_showed_is_cited_from_the_words_themselves() -> None:
    words = "It was booked on May 10, 2024, and is within the 24-hour window."
    (finding,) = says(words)
    assert finding.why == "falsely claims 10 May is within 24 h of 15 May"
    assert [(each.role, each.step) for each in finding.evidence] == [
        ("says", 1),
        ("says", 1),
        ("stated", None),
    ]
    assert finding.evidence[1].text == words


def test_a_claim_of_age_is_denied_by_a_fresh_date() -> None:
    (finding,) = says("It was created more than 24 hours ago.", created="2024-05-15T09:00:00")
    assert finding.why == "falsely claims 15 May is more than 24 h before 15 May"


@pytest.mark.parametrize(
    "words",
    [
        "It was booked on May 12, 2024, which is not within the 24-hour window.",
        "It was booked on May 12, 2024, more than 24 hours ago.",
        "If it was booked within the last 24 hours, you can cancel it.",
        "Was it booked within the last 24 hours?",
        "Reservations can only be cancelled within 24 hours of booking.",
        "Let me check whether it was made within the last 24 hours.",
        "The refund will be made within 24 hours.",
        "It was booked within the last 7 days.",
    ],
)
def test_a_true_claim_a_policy_a_condition_or_a_question_is_none(words: str) -> None:
    assert says(words) == []


def test_a_date_without_a_clock_may_be_any_hour_of_its_day() -> None:
    assert says("It was made within the last 24 hours.", created="2024-05-14") == []
    assert says("It was made within the last 24 hours.", created="2024-05-14T14:00:00")


def test_without_a_told_time_nothing_can_be_denied() -> None:
    assert says("It was made within the last 24 hours.", system="Be kind.") == []


def test_the_time_may_be_told_by_the_user_or_by_a_clock() -> None:
    booking = call("get_booking", {"id": "B1", "created_at": "2024-05-12T00:00:00"}, id="B1")
    by_user = trace([heard("Today is May 15, 2024."), step(booking), "It was made 2 hours ago."])
    clock = step(call("get_current_time", "2024-05-15T15:00:00Z"))
    claim = "It was made within the last 24 hours."
    by_clock = trace([clock, step(booking), claim])
    assert not list(contradiction.find(RuleContext(by_user)))  # "2 hours ago" is no window
    (finding,) = contradiction.find(RuleContext(by_clock))
    clocked = finding.evidence[2]
    assert (clocked.role, clocked.text, clocked.step) == ("stated", "2024-05-15T15:00:00Z", 0)


@needs_shared
def test_the_airline_agent_that_takes_a_three_day_old_booking_for_a_fresh_one() -> None:
    said = diagnose(airline("26", "1"))
    first = said.candidates[0]
    assert first.step == 3
    assert first.why.startswith("falsely claims 12 May is within 24 h of 15 May, then call not in")
    (finding,) = [each for each in said.findings if each.rule == contradiction.NAME]
    assert (finding.step, finding.why) == (3, "falsely claims 12 May is within 24 h of 15 May")
    says, observed, told = finding.evidence
    assert says.text.startswith("Since it was booked on May 12, 2024")
    assert (observed.step, observed.place) == (2, "get_reservation_details")
    assert '"created_at": "2024-05-12T' in observed.text
    assert (told.step, told.place) == (None, "system prompt")


@needs_shared
def test_the_same_task_done_right_says_nothing_false() -> None:
    said = diagnose(airline("26", "0"))
    assert said.findings == ()


def airline(task: str, trial: str) -> Trace:
    source = Source(DATA / "tau_bench" / "gpt-4o-airline.json")
    for batch in tau_bench.read(source, Tally()):
        if (batch.header.task, batch.header.trial) == (task, trial):
            made, loose, _ = build(batch.spans)
            return Trace(
                id="airline", run="airline", header=batch.header, spans=batch.spans,
                steps=made, loose=loose,
            )  # fmt: skip
    raise AssertionError("no such run")


# --- the parts


def test_windows_are_read_with_their_span() -> None:
    (window,) = windows("It was booked within the last 48 hours.")
    assert (window.inside, window.span) == (True, timedelta(hours=48))
    (window,) = windows("It was ordered more than three days ago.")
    assert (window.inside, window.span) == (False, timedelta(days=3))


@pytest.mark.parametrize(
    ("sentence", "stem"),
    [
        ("Your flight has been successfully booked.", "book"),
        ("I successfully updated the file.", "updat"),
        ("It could not be booked.", None),
        ("It will be successfully booked.", None),
    ],
)
def test_a_flat_claim_of_success(sentence: str, stem: str | None) -> None:
    assert success(sentence) == stem


def test_statuses_are_grouped_by_what_they_mean() -> None:
    assert list(statuses("Order 1 has been canceled.")) == [("cancelled", "canceled")]
    assert list(statuses("If order 1 is cancelled, tell me.")) == []


def test_moments_in_their_several_spellings() -> None:
    texts = ["2024-05-12", "May 12, 2024", "12 May 2024", "12th of May 2024", "May 12th, 2024"]
    assert {moment.at.isoformat() for text in texts for moment in moments(text)} == {
        "2024-05-12T00:00:00"
    }
    (moment,) = moments("2024-05-15 03:00 PM")
    assert (moment.at.hour, moment.whole_day) == (15, False)
    assert list(moments("May 12")) == []
    assert [moment.at.year for moment in moments("May 12", year=2023)] == [2023]
    assert day_keys("5/12") == {"05-12", "12-05"}


@given(st.text(max_size=300))
def test_any_text_can_be_read_for_claims(text: str) -> None:
    for sentence in sentences(text):
        list(windows(sentence))
        list(statuses(sentence))
        success(sentence)
    list(moments(text, year=2024))
