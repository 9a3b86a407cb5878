"""Asserts of completions: what a file may say, and what holds of which completion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.trace import Trace
from taxonomy.stats.asserts import BadAsserts, Checked, read
from tests.build import call, heard, step, trace
from tests.taxonomy.waste_case import with_ask

RUN = trace(
    [
        step("I look it up.", call("get_order", id=7)),
        step(call("refund_order", id=7, amount=5)),
        heard("Thanks?"),
        '```json\n{"refunded": 5}\n```',
    ],
    header={"task": "Refund 12"},
)


def held(folder: Path, body: str, run: Trace = RUN, **labels: str) -> list[tuple[int, bool | None]]:
    """(step, held) of the one assert of a file."""
    return [(each.step, each.held) for each in checked(folder, f'[[assert]]\nname = "a"\n{body}',
                                                       run, **labels)]  # fmt: skip


def checked(folder: Path, text: str, run: Trace = RUN, **labels: str) -> list[Checked]:
    file = folder / "asserts.toml"
    file.write_text(text)
    return read(file).check(run, labels)


def test_every_completion_that_says_something_is_looked_at(tmp_path: Path) -> None:
    """The second step only calls a tool: it is no text that could lack one."""
    assert held(tmp_path, 'contains = "LOOK"') == [(0, True), (2, False)]


def test_all_texts_must_be_there(tmp_path: Path) -> None:
    assert held(tmp_path, 'contains = ["refunded", "5"]\nsteps = "last"') == [(2, True)]
    assert held(tmp_path, 'contains = ["refunded", "6"]\nsteps = "last"') == [(2, False)]


def test_it_is_about_the_tasks_steps_and_tools_that_it_names(tmp_path: Path) -> None:
    look = 'contains = "look"\n'
    assert held(tmp_path, f'{look}task = "refund *"\nsteps = "0-1"') == [(0, True)]
    assert held(tmp_path, f'{look}task = "cancel *"') == []
    assert held(tmp_path, f'{look}tool = "get_*"') == [(0, True)]
    assert held(tmp_path, f'{look}tool = "refund_*"') == []
    assert held(tmp_path, f'{look}steps = "1-"') == [(2, False)]


def test_a_pattern_is_found_anywhere(tmp_path: Path) -> None:
    assert held(tmp_path, r"regex = '\bup\.$'") == [(0, True), (2, False)]


def test_a_fenced_answer_is_what_stands_in_it(tmp_path: Path) -> None:
    assert held(tmp_path, 'parses = "json"') == [(0, False), (2, True)]
    assert held(tmp_path, 'parses = "python"') == [(0, False), (2, True)]
    fits = 'schema = { type = "object", required = ["refunded"] }'
    assert held(tmp_path, f'{fits}\nsteps = "last"') == [(2, True)]
    other = 'schema = { type = "object", required = ["paid"] }'
    assert held(tmp_path, f'{other}\nsteps = "last"') == [(2, False)]


def test_two_fenced_blocks_are_not_one_answer(tmp_path: Path) -> None:
    run = trace(["```\n1\n```\nor\n```\n2\n```"])
    assert held(tmp_path, 'parses = "json"', run) == [(0, False)]


def test_arguments_are_looked_at_call_by_call(tmp_path: Path) -> None:
    body = 'of = "arguments"\ntool = "*_order"\nschema = { required = ["amount"] }'
    assert held(tmp_path, body) == [(0, False), (1, True)]
    assert held(tmp_path, 'of = "arguments"\ntool = "refund_order"\ncontains = \'"amount":5\'') == [
        (1, True)
    ]


@pytest.mark.parametrize(
    ("said", "right"),
    [("Refund.", True), ('"refund"', True), ("cancel", False), ("I would refund it", False)],
)
def test_a_label_is_the_one_expected(tmp_path: Path, said: str, right: bool) -> None:
    labels = 'classifies = ["refund", "cancel"]'
    fixed = held(tmp_path, f'{labels}\nexpected = "refund"', trace([said]))
    by_label = held(tmp_path, f'{labels}\nexpected = "label:intent"', trace([said]),
                    intent="refund")  # fmt: skip
    assert fixed == by_label == [(0, right)]
    any_of = held(tmp_path, labels, trace([said]))
    assert any_of == [(0, said != "I would refund it")]


def test_a_missing_label_or_answer_is_unknown_and_not_wrong(tmp_path: Path) -> None:
    body = 'classifies = ["refund", "cancel"]\nexpected = "label:intent"'
    assert held(tmp_path, body, trace(["refund"])) == [(0, None)]
    silent = with_ask(trace(["refund"]), 0, response=type(RUN.steps[0].ask.response)())
    assert held(tmp_path, 'contains = "refund"', silent) == [(0, None)]


def test_deep_or_foreign_texts_do_not_parse_and_break_nothing(tmp_path: Path) -> None:
    for text in ("[" * 100_000, "\x00", "(" * 5_000, "-" * 50_000 + "1"):
        for language in ("json", "python"):
            assert held(tmp_path, f'parses = "{language}"', trace([text])) == [(0, False)]


GOOD = '[[assert]]\nname = "good"\ncontains = "a"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "required field `assert`"),
        ("assert = []", "has no [[assert]]"),
        ("[[assert", "invalid TOML"),
        ('[[assert]]\ncontains = "a"', "required field `name` - at `$.assert[0]`"),
        ('[[assert]]\nname = "n"\ncontain = "a"', "unknown field `contain` - at `$.assert[0]`"),
        ('[[assert]]\nname = " "\ncontains = "a"', "assert 1, ' ': its name is empty"),
        (f'{GOOD}[[assert]]\nname = "n"', "assert 2, 'n': has none of contains, regex"),
        ('[[assert]]\nname = "n"\ncontains = "a"\nregex = "b"', "has contains and regex: one"),
        ('[[assert]]\nname = "n"\nregex = "("', "regex '(' is not a regular expression"),
        ('[[assert]]\nname = "n"\nregex = "(a+)+$"', "matching may never end"),
        ('[[assert]]\nname = "n"\nschema = { type = "strng" }', "not a valid JSON schema"),
        ('[[assert]]\nname = "n"\nparses = "xml"', "parses 'xml' is none of json, python"),
        ('[[assert]]\nname = "n"\ncontains = ""', "`contains` is empty"),
        ('[[assert]]\nname = "n"\ncontains = []', "`contains` is empty"),
        ('[[assert]]\nname = "n"\nof = "arguments"\ncontains = "a"', "names no `tool`"),
        ('[[assert]]\nname = "n"\nof = "answer"\ncontains = "a"', "at `$.assert[0].of`"),
        ('[[assert]]\nname = "n"\nsteps = "4-2"\ncontains = "a"', "steps '4-2' is not a range"),
        ('[[assert]]\nname = "n"\nclassifies = ["a"]', "needs two labels or more"),
        ('[[assert]]\nname = "n"\nclassifies = ["a", "A."]', "needs two labels or more"),
        ('[[assert]]\nname = "n"\nclassifies = ["a", "b"]\nexpected = "c"', "'c' is none of its"),
        ('[[assert]]\nname = "n"\nregex = "a"\nexpected = "c"', "`expected` is for `classifies`"),
        (GOOD + GOOD, "assert 2, 'good': there are two of this name"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "asserts.toml"
    file.write_text(text)
    with pytest.raises(BadAsserts) as caught:
        read(file)
    assert why in caught.value.message
    assert caught.value.message.startswith(f"{file}: ")


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "asserts.toml"
    file.write_bytes(b"\xff\xfe[[assert]]")
    for wrong, why in ((file, "invalid TOML"), (tmp_path, "cannot be read"),
                       (tmp_path / "none", "No such file")):  # fmt: skip
        with pytest.raises(BadAsserts, match=why):
            read(wrong)


def test_every_example_of_the_docs_can_be_read(tmp_path: Path) -> None:
    from taxonomy.stats import asserts

    assert asserts.__doc__ is not None
    example: Any = asserts.__doc__.split("```")[1].removeprefix("toml\n")
    assert [each.name for each in checked(tmp_path, example)] == ["arguments fit"]
