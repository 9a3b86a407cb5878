"""What a paraphrase must keep: identifiers, numbers, dates, quoted words; and whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.paraphrase_test.paraphrases import (
    FRAMES,
    BadParaphrases,
    NothingAsked,
    framed,
    read,
    request_of,
    sameness,
    tried,
)
from tests.build import call, heard, step, trace

REQUEST = (
    "Please refund order #1038 (2 kettles, $12.50) that Ana bought on 12 May 2024;"
    ' write to ana.lind@example.com and read src/config.toml in "priority" mode.'
)
SAME = (
    'Order 1038: two kettles for $12.50, bought by Ana, 12 May 2024. Money back, "priority" mode as'
    " in src/config.toml, and a line to ana.lind@example.com, please."
)


def test_other_words_around_the_same_facts_ask_for_the_same() -> None:
    assert sameness(REQUEST, SAME).refusal is None


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("1038", "1083", "1038"),
        ("two kettles", "kettles", "2"),
        ("12.50", "12.05", "12.50"),
        ("May", "June", "May"),
        ("2024", "this year", "2024"),
        ("ana.lind@example.com", "her address", "ana.lind@example.com"),
        ("src/config.toml", "the config", "src/config.toml"),
        ('"priority"', "priority", "“priority”"),
    ],
)
def test_a_fact_that_is_lost_or_changed_is_named(old: str, new: str, lost: str) -> None:
    found = sameness(REQUEST, SAME.replace(old, new))
    assert lost in found.lost
    assert f"loses {lost}" in (found.refusal or "").replace("it loses ", "loses ")


def test_a_fact_that_is_added_is_named_too() -> None:
    assert sameness("Refund my kettle.", "Refund my kettle, order 1038.").added == ("1038",)


def test_the_numbers_of_a_list_are_none_of_the_request() -> None:
    assert sameness("Refund it. Then tell me.", "1. Refund it.\n2. Then tell me.").refusal is None


def test_thousands_and_trailing_zeros_are_the_same_number() -> None:
    assert sameness("Pay 1,200 and 5.0", "5 and 1200, to be paid").refusal is None


def test_a_word_in_capitals_is_a_code_unless_it_is_only_stressed() -> None:
    assert sameness("Cancel IFOYYZ.", "Cancel my booking.").lost == ("IFOYYZ",)
    assert sameness("I want a REFUND.", "A refund, please.").refusal is None
    assert sameness("A refund, please.", "I want A REFUND.").refusal is None


def test_a_name_that_may_be_lost_is_said_and_does_not_refuse() -> None:
    found = sameness("I wrote to Chloe Martin.", "I wrote to her.")
    assert (found.names, found.refusal) == (("Chloe", "Martin"), None)


@given(st.text(max_size=80))
def test_any_text_asks_for_what_it_asks_for(text: str) -> None:
    found = sameness(text, text)
    assert (found.lost, found.added, found.names) == ((), (), ())


def test_every_frame_keeps_the_request_and_changes_its_look() -> None:
    texts = framed(REQUEST, len(FRAMES))
    assert len(set(texts)) == len(FRAMES)
    assert [each.refusal for each in tried(REQUEST, texts, "rule")] == [None] * len(FRAMES)


def test_the_request_itself_and_a_text_said_twice_are_no_paraphrases() -> None:
    found = tried("Refund it.", ["Refund  it.", "Money back.", "Money back.", " "], "me")
    assert [each.refusal is None for each in found] == [False, True, False, False]
    assert found[3].refusal == "it is empty"


def test_the_request_is_what_the_user_said_first() -> None:
    run = trace([step(call("look")), heard("And now?"), "Done."], task="Refund it.")
    assert (request_of(run).text, request_of(run).message) == ("Refund it.", 0)
    later = request_of(run, 3)
    assert (later.text, later.message) == ("And now?", 3)
    with pytest.raises(NothingAsked, match="in message 1"):
        request_of(run, 1)
    with pytest.raises(NothingAsked, match="before its first step"):
        request_of(trace([step(call("look"))], task=None))


def test_a_file_names_tasks_or_traces(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text(
        '[[task]]\nmatch = "refund*"\ntexts = ["A"]\n[[task]]\ntrace = "sha"\ntexts = ["B", "C"]\n'
    )
    run = trace(["Done."], header={"task": "Refund 7"})
    assert read(file).of(run)[:1] == ("A",)
    assert ("B" in read(file).of(run)) == run.id.startswith("sha")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[task]]\nmatch = 'a'\ntexts = []\n", "task 1: `texts` is empty"),
        ("[[task]]\ntexts = ['a']\n", "task 1: give `match` or `trace`"),
        ("[[task]]\nmatch = 'a'\ntext = 'a'\n", "unknown field `text`"),
        ("task = 3", "Expected `array`"),
        ("[[task]", "words.toml"),
    ],
)
def test_a_file_that_will_not_do_says_where_and_why(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "words.toml"
    file.write_text(text)
    with pytest.raises(BadParaphrases, match=why):
        read(file)
