"""What is said of one step agrees: signs, classes, rubric items, marks, costs, contradictions.

Every rule, feature of the localiser and rubric item has its place in a table here; one that is
added has to be given one. The walk over the real runs looks for any two that exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from msgspec import structs

from replay.store import read
from replay.store.handle import Store
from replay.store.rows import step_rows
from replay.trace import Trace
from taxonomy.diagnosis import diagnose
from taxonomy.evidence.reading import Reading
from taxonomy.findings import Diagnosis, Finding
from taxonomy.first_contradiction.contradictions import ContradictionDetector
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import open_ledger
from taxonomy.localiser import features
from taxonomy.rules import (
    arithmetic,
    bad_args,
    better_tool,
    cap_hit,
    check,
    contradiction,
    false_claim,
    false_success,
    gave_up,
    gold,
    hallucinated_state,
    instruction_broken,
    limits,
    loop,
    malformed,
    requirement,
    unverified,
    user_off_task,
    wrong_tool,
)
from taxonomy.rules.rule import RuleContext
from taxonomy.step_scores import ENDED, FITS, FRESH, GROUNDED, READ, VERIFIED
from taxonomy.waste import Waste, waste
from tests.build import Gives, Part, call, error, step, trace
from tests.shared import DATA, FOLDERS, LABELLED, Imported, imported, needs_shared

RULES = {
    malformed.NAME: FITS,
    wrong_tool.NAME: FITS,
    bad_args.NAME: FITS,
    hallucinated_state.NAME: GROUNDED,
    contradiction.NAME: READ,
    false_success.NAME: READ,
    limits.NAME: READ,
    arithmetic.NAME: READ,
    loop.NAME: FRESH,
    gave_up.NAME: ENDED,
    cap_hit.NAME: ENDED,
    unverified.NAME: VERIFIED,
    better_tool.NAME: None,  # a hint: the tool that was called took its call
    check.NAME: None,  # of the check, which came after the run
    gold.NAME: None,  # of the task: the tools took the calls
    user_off_task.NAME: None,  # of the user
    instruction_broken.NAME: None,  # no item of the score asks for what was forbidden
    requirement.NAME: None,  # nor for what was required
    false_claim.NAME: None,  # the checks deny it, of which no item of the score knows
}
"""The item that does not hold at a step where a rule has its finding."""

SIGNS = {
    features.UNFOUNDED: GROUNDED,
    features.BAD_CALL: FITS,
    features.REPEATS: FRESH,
    features.BAD_END: ENDED,
    features.FIRST_ERROR: None,  # a call may fail of which all items hold; held against the mark
}
"""The same of a sign against a step."""

SAYS_SO = {
    features.ASSUMPTION,
    features.NEW_FACTS,
    features.OBJECTION,
    features.OTHER,
    features.THIN,
}
"""Features of words that no item asks about."""

ITEMS = (FITS, GROUNDED, READ, VERIFIED, FRESH, ENDED)


def test_every_rule_sign_and_item_has_its_place_here() -> None:
    from taxonomy import rules

    assert {each.name for each in rules.RULES} == RULES.keys()
    others = {each.name for each in features.FEATURES} - SIGNS.keys() - SAYS_SO
    assert others - features.POINTERS == {features.FIRST_FINDING}
    assert {item for item in (*RULES.values(), *SIGNS.values()) if item} == set(ITEMS)
    ((score, *_),) = [diagnose(trace([step(call("look"))])).scores]
    assert {item.name for item in score.items} == set(ITEMS)


def test_rules_of_one_name_are_alike_to_those_who_use_their_findings() -> None:
    from taxonomy.rules import EVERY_RULE

    alike = [structs.replace(rule, find=no_findings) for rule in EVERY_RULE]
    assert len({rule.name for rule in alike}) == len(set(alike))


def no_findings(case: RuleContext) -> Iterator[Finding]:
    yield from ()


def clashes(said: Diagnosis, run: Trace, errors: dict[int, int]) -> Iterator[str]:
    """What of a run says otherwise than another says of the same step."""
    own = {score.step: score for score in said.scores if score.source == "rule"}
    held = {step: {item.name: item.held for item in own[step].items} for step in own}
    unsure = {each.why for each in said.findings if (each.confidence or 1.0) < 0.5}
    for found in said.findings:
        denied_item = RULES[found.rule]
        if denied_item is None or found.why in unsure:
            continue
        if held[found.step][denied_item]:
            yield f"step {found.step}: {found.why}, but {denied_item}"
        for at in {each.step for each in found.evidence} if found.rule == malformed.NAME else ():
            if at is not None and held[at][FITS]:
                yield f"step {at}: cited as {found.why}, but {FITS}"
        if own[found.step].value == 1.0 and found.rule != gave_up.NAME:
            yield f"step {found.step}: {found.why}, but a score of 1"
    for candidate in said.candidates:
        for sign in candidate.signals:
            denied_item = SIGNS.get(sign.name)
            if denied_item and sign.phrase not in unsure and held[candidate.step][denied_item]:
                yield f"step {candidate.step}: {sign.phrase}, but {denied_item}"
    yield from _of_errors(said, run, errors)
    yield from _of_repeats(said, run, held)


def _of_errors(said: Diagnosis, run: Trace, errors: dict[int, int]) -> Iterator[str]:
    """Marks, sums and queries go by what is stored, rules and signs by what they read."""
    reading = Reading(run)
    for turn in reading.turns:
        failed = sum(bool(act.reply.failed) for act in turn.acts) + (turn.ask.status == "error")
        # Calls that no model call asked for count at the step they came after.
        if errors[turn.index] < failed or (errors[turn.index] != failed and not run.loose):
            yield f"step {turn.index}: {failed} failed calls, but {errors[turn.index]} counted"
    told = {turn.index for turn, reply in reading.reports() if reply.failed}
    for candidate in said.candidates:
        for sign in candidate.signals:
            here = errors[candidate.step] or candidate.step in told
            if sign.name == features.FIRST_ERROR and not here:
                yield f"step {candidate.step}: {sign.phrase}, but no error"


def _of_repeats(
    said: Diagnosis, run: Trace, held: dict[int, dict[str, bool | None]]
) -> Iterator[str]:
    found: Waste = waste(run)
    again = {*chain.from_iterable(each.steps for each in found.loops)}
    again |= {each.step for each in found.redundant.calls}
    for index in sorted(again):
        if held[index][FRESH]:
            yield f"step {index}: paid for again, but {FRESH}"
    named = [each for each in said.findings if each.rule == loop.NAME]
    paid: dict[int, set[str]] = {}
    for each in found.loops:
        for index in each.steps:
            paid.setdefault(index, set()).add(each.why)
    for finding in named:
        for at in {finding.step, *_cited_again(finding)}:
            if finding.why not in paid.get(at, ()):
                yield f"step {at}: {finding.why}, but {paid.get(at)} among the costs"
    detector = ContradictionDetector(run) if paid else None
    for index, whys in paid.items():
        words = all(why.startswith("repeats the same message") for why in whys)
        if detector is not None and not words and detector.at(index).bad is False:
            yield f"step {index}: {whys}, but nothing against it"
    for against in detector.found if detector is not None else ():
        if against.finding.rule == loop.NAME and against.why not in paid.get(against.step, ()):
            yield f"step {against.step}: {paid.get(against.step)} paid, but {against.why}"


def _cited_again(found: Finding) -> Iterator[int]:
    for each in found.evidence:
        if each.role == "repeats" and each.step is not None and each.step >= found.step:
            yield each.step


def story(store: Store, key: str) -> Iterator[str]:
    said = diagnosis(store, key)
    assert said is not None
    errors = {row.step: row.errors for row in step_rows(store, key)}
    yield from clashes(said, read.load(store, key), errors)


@pytest.mark.data
@needs_shared
def test_no_step_of_a_real_run_is_told_in_two_ways(real: Imported) -> None:
    with open_ledger(real.path) as store:
        assert len(keys(store)) > 500
        assert stories(store) == {}


@pytest.mark.data
@needs_shared
def test_nor_is_one_of_the_other_real_runs(tmp_path: Path) -> None:
    others = (each for each in DATA.iterdir() if each.name not in (*FOLDERS, *LABELLED, "labels"))
    with open_ledger(tmp_path / "others.db") as store:
        imported(store, *sorted(each for each in others if each.is_dir()))
        assert len(keys(store)) > 200
        assert stories(store) == {}


def keys(store: Store) -> list[str]:
    return [key for (key,) in store.db.execute("SELECT key FROM trace WHERE complete")]


def stories(store: Store) -> dict[str, list[str]]:
    """The clashes of every run that has any."""
    return {key[:8]: told for key in keys(store) if (told := list(story(store, key)))}


# --- of each kind, by hand


def told(run: Trace) -> list[str]:
    errors = {
        turn.index: sum(bool(act.reply.failed) for act in turn.acts) for turn in Reading(run).turns
    }
    return list(clashes(diagnose(run), run, errors))


def items(run: Trace, name: str) -> list[bool | None]:
    """An item of each step of a run."""
    found = [item for score in diagnose(run).scores for item in score.items if item.name == name]
    return [item.held for item in found]


Ending: TypeAlias = Literal["passed", "failed", "unknown"]

REFUSED = error("Error: the payment method was not found in the profile")

WORDS = "I think about this order for a while, and when I have thought about it I will see to it."

RUNS: dict[str, Sequence[Part]] = {
    "the same call, refused again": [step(call("look", error("not found"), id=7))] * 3,
    "calls that differ, the same words": [
        step(call("pay", REFUSED, amount=amount)) for amount in range(10, 300)
    ],
    "errors that only time tells apart": [
        step(call("look", error(f"Error: no answer after 30.{n} s, request 7f3a9c0{n}1"), id=7))
        for n in range(3)
    ],
    "the same answer": [step(call("get_order", "open", id=7))] * 4,
    "answers that were not recorded": [step(call("get_order", Gives(None), id=7))] * 4,
    "the same words": [WORDS] * 4,
    "the same twice in one step": [
        step(call("get_order", "open", id=7), call("get_order", "open", id=7)),
        "It is open.",
    ],
    "long ago": [
        step(call("get_order", "open", id=7)),
        *[step(call("get_order", f"state {n}", id=100 + n)) for n in range(20)],
        step(call("get_order", "open", id=7)),
    ],
    "stopped after a failed call": [
        step(call("get_order", error("Error: no such order"), id=7)), "I cannot help with this.",
    ],
    "cut off": [step(call("get_order", "open", id=7)), step("It is op", stop="length")],
}  # fmt: skip


@pytest.mark.parametrize("outcome", ["failed", "unknown", "passed"])
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.slow
def test_one_story_is_told_of_each_kind(name: str, outcome: Ending) -> None:
    assert told(trace(RUNS[name], task="Pay it.", outcome=outcome)) == []


@pytest.mark.parametrize("name", [*RUNS][:6])
@pytest.mark.slow
def test_a_loop_is_one_to_class_rubric_and_costs(name: str) -> None:
    run = trace(RUNS[name], outcome="failed")
    (found,) = [each for each in diagnose(run).findings if each.rule == loop.NAME]
    assert found.step == 1
    assert not any(each is not False for each in items(run, FRESH)[1:])
    (paid,) = waste(run).loops
    assert paid.steps == tuple(range(1, len(run.steps)))
    assert paid.why == found.why


def test_each_step_of_a_loop_stands_against_what_it_was_told() -> None:
    run = trace(RUNS["calls that differ, the same words"], outcome="failed")
    detector = ContradictionDetector(run)
    assert all(detector.at(index).bad for index in range(1, 290))
    (_, against) = detector.at(200).evidence
    assert (against.role, against.step) == ("error", 199)


def test_of_a_loop_without_answers_nobody_can_tell_what_it_was_told() -> None:
    detector = ContradictionDetector(trace(RUNS["answers that were not recorded"]))
    assert [detector.at(index).bad for index in range(4)] == [False, None, None, None]


def test_a_second_call_whose_first_answer_is_unknown_may_bring_news() -> None:
    run = trace([step(call("get_order", Gives(None), id=7))] * 2)
    assert items(run, FRESH) == [True, None]


def test_calls_that_differ_in_what_they_are_told_are_no_loop() -> None:
    told_apart = [step(call("run", error(f"{n} tests failed"), command="pytest")) for n in range(3)]
    run = trace(told_apart, outcome="failed")
    assert not [each for each in diagnose(run).findings if each.rule == loop.NAME]
