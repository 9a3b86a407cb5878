"""Several edits of one run beside one control: each comes to what it comes to alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay import bundle
from replay.edit.changes import Edit, ReplaceText, SetModel, SetSystem
from replay.errors import BadEdit, OfflineMiss
from replay.kept import find, keep
from replay.locked.arms import beside_one_control, verdicts
from replay.locked.estimate import estimate, estimate_arms
from replay.locked.row import AUTO, Models, Sampling
from replay.locked.run import Core, core, replay, replay_arms
from replay.locked.tally import StepResult
from replay.models.cached import Cached
from replay.store import edits
from replay.store.handle import Store
from replay.trace import Trace
from tests.messages_api import Body, message, tool_use
from tests.replay.locked_case import BREAK, SYSTEM, VERIFY, Tiny, stored, think

CAREFUL = Edit(name="careful", changes=(SetSystem(VERIFY),))
TWICE = Edit(name="twice", changes=(SetSystem(f"{VERIFY} {VERIFY}"),))
POLITE = Edit(name="polite", changes=(SetSystem(f"{SYSTEM} Be polite."),))
OTHER = Edit(name="other", changes=(SetModel("other"),))
FIXED = Sampling(levels=(3,))


class Nervous:
    """The tiny model, but its refunds are of another amount in every other sample."""

    name = "tiny"

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def complete(self, body: Body, sample: int) -> Body:
        self.asked.append((str(body.get("system")), sample))
        given = think(body)
        if given["content"][0].get("name") == "refund_order" and sample % 2:
            return message(tool_use("refund_order", order_id=1042, amount=sample), model="tiny")
        return given


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arc.db") as opened:
        yield opened


def together(
    trace: Trace, models: Models, *arms: Edit, sampling: Sampling = AUTO
) -> list[dict[int, StepResult]]:
    found: list[dict[int, StepResult]] = [{} for _ in arms]
    going = replay_arms(trace, [(edit, models) for edit in arms], sampling=sampling)
    for place, result in going:
        found[place][result.step] = result
    return found


def core_of(
    trace: Trace, edit: Edit, models: Models, results: dict[int, StepResult], sampling: Sampling
) -> Core:
    from replay.compare.rules import PLAIN

    return core(trace, edit, models, results.values(), sampling=sampling, steps=None, rules=PLAIN)


def test_each_arm_comes_to_the_digest_it_has_alone(store: Store) -> None:
    trace = stored(store)
    arms = (CAREFUL, TWICE, POLITE)
    models = Models.one(Cached(store, "tiny", Tiny()))
    found = together(trace, models, *arms, sampling=FIXED)
    for edit, results in zip(arms, found, strict=True):
        alone = {row.step: row for row in replay(trace, edit, models, sampling=FIXED)}
        assert (
            core_of(trace, edit, models, results, FIXED).digest
            == core_of(trace, edit, models, alone, FIXED).digest
        )


def test_control_is_asked_once_for_all_arms(store: Store) -> None:
    trace = stored(store)
    model = Nervous()
    models = Models.one(Cached(store, "tiny", model))
    together(trace, models, CAREFUL, TWICE, sampling=FIXED)
    of_control = [asked for asked in model.asked if SYSTEM in asked[0]]
    assert len(of_control) == 3 * len(trace.steps)
    assert len(model.asked) == 3 * len(of_control)


def test_what_is_estimated_is_what_is_asked_and_control_counts_once(store: Store) -> None:
    trace = stored(store)
    models = Models.one(Cached(store, "tiny", Tiny()))
    arms = [(CAREFUL, models), (TWICE, models), (POLITE, models)]
    foreseen = estimate_arms(trace, arms, sampling=FIXED)
    one = estimate(trace, CAREFUL, models, sampling=FIXED)
    assert foreseen.calls == 2 * one.calls == 4 * 3 * len(trace.steps)
    together(trace, models, CAREFUL, TWICE, POLITE, sampling=FIXED)
    assert models.control.asks == foreseen.calls


def test_another_model_is_an_arm_beside_the_recorded_one(store: Store) -> None:
    trace = stored(store)
    model = Cached(store, "tiny", Tiny())
    other = Cached(store, "other", Nervous())
    going = replay_arms(
        trace, [(CAREFUL, Models.one(model)), (OTHER, Models(model, other))], sampling=FIXED
    )
    found: list[dict[int, StepResult]] = [{}, {}]
    for place, result in going:
        found[place][result.step] = result
    said = verdicts(
        beside_one_control([each.values() for each in found]), BREAK, models=[None, "other"]
    )
    assert said[0].edited_model is None
    assert said[1].edited_model == "other"
    assert "the edit on other" in said[1].sentence
    assert other.asks == 3 * len(trace.steps)


def test_an_arm_is_shown_beside_all_samples_of_control(store: Store) -> None:
    """One arm is settled with three samples, the other takes more: control is one column."""
    trace = stored(store)
    models = Models.one(Cached(store, "tiny", Nervous()))
    found = together(trace, models, POLITE, CAREFUL)
    samples = [len(results[BREAK].control) for results in found]
    assert len(set(samples)) == 2
    shown = beside_one_control([each.values() for each in found])
    controls = [
        [reply.key for reply in row.control] for rows in shown for row in rows if row.step == BREAK
    ]
    assert controls[0] == controls[1]
    assert len(controls[0]) == max(samples)
    edited = [len(row.edited) for rows in shown for row in rows if row.step == BREAK]
    assert edited == samples


def test_the_correction_is_over_the_tests_of_all_arms(store: Store) -> None:
    """What four samples show of one edit is no longer shown where five were tried."""
    trace = stored(store)
    models = Models.one(Cached(store, "tiny", Tiny()))
    four = Sampling(levels=(4,))
    alone = together(trace, models, CAREFUL, sampling=four)
    one = verdicts(beside_one_control([alone[0].values()]), BREAK, models=[None])[0]
    assert one.at_break_test is not None
    assert one.at_break_test.p == pytest.approx(2 / 70)
    assert one.marks[BREAK] == "fixed"
    assert "; fixed: recorded action" in one.sentence

    arms = [
        CAREFUL,
        *(Edit(name=f"polite {n}", changes=(SetSystem(SYSTEM + "." * n),)) for n in range(1, 5)),
    ]
    found = together(trace, models, *arms, sampling=four)
    among = verdicts(
        beside_one_control([each.values() for each in found]), BREAK, models=[None] * len(arms)
    )
    assert among[0].at_break_test == one.at_break_test
    assert not among[0].at_break_effect
    assert among[0].marks[BREAK] != "fixed"
    assert "; inconclusive: recorded action" in among[0].sentence
    assert f"Holm over {5 * len(trace.steps)} tests of 5 arms" in among[0].basis[0]


def test_a_missing_answer_names_the_arm(store: Store) -> None:
    trace = stored(store)
    asked, offline = (Models.one(Cached(store, "tiny", each)) for each in (Tiny(), None))
    together(trace, asked, CAREFUL, sampling=FIXED)
    with pytest.raises(OfflineMiss, match="arm polite, step 0: no cached response of tiny"):
        together(trace, offline, CAREFUL, POLITE, sampling=FIXED)


def test_an_edit_that_does_not_apply_says_which_arm_it_is(store: Store) -> None:
    trace = stored(store)
    models = Models.one(Cached(store, "tiny", Tiny()))
    misfit = Edit(name="misfit", changes=(ReplaceText(anchor="nowhere", text="x"),))
    with pytest.raises(BadEdit, match=r"^arm misfit: step 0: "):
        together(trace, models, CAREFUL, misfit)
    with pytest.raises(BadEdit, match=r"^arm misfit: step 0: "):
        estimate_arms(trace, [(CAREFUL, models), (misfit, models)])
    with pytest.raises(BadEdit, match=r"^step 0: "):
        together(trace, models, misfit)


def test_all_arms_stand_in_one_bundle_and_are_run_again_from_it(
    store: Store, tmp_path: Path
) -> None:
    trace = stored(store)
    models = Models.one(Cached(store, "tiny", Nervous()))
    arms = [edits.save(store, edit) for edit in (POLITE, CAREFUL)]
    found = together(trace, models, *arms)
    digests = [
        keep(store, core_of(trace, edit, models, results, AUTO))
        for edit, results in zip(arms, found, strict=True)
    ]
    first, *others = (find(store, digest) for digest in digests)
    file = tmp_path / "arms.arc"
    bundle.write(store, first, file, arms=others)
    verified = bundle.verify(file)
    assert verified.same
    assert [arm.digest for arm in verified.arms] == digests
    assert [arm.edit for arm in verified.arms] == ["polite", "careful"]
    alone = tmp_path / "alone.arc"
    bundle.write(store, first, alone)
    assert bundle.verify(alone).others == ()


def test_a_forged_arm_of_a_bundle_is_named(store: Store, tmp_path: Path) -> None:
    from tests.replay.test_bundle import resigned

    trace = stored(store)
    models = Models.one(Cached(store, "tiny", Tiny()))
    arms = [edits.save(store, edit) for edit in (POLITE, CAREFUL)]
    found = together(trace, models, *arms, sampling=FIXED)
    cores = [
        core_of(trace, edit, models, results, FIXED)
        for edit, results in zip(arms, found, strict=True)
    ]
    file = tmp_path / "arms.arc"
    bundle.write(store, cores[0], file, arms=cores[1:])

    def other_edit(members: dict[str, bytes]) -> None:
        members["arms.json"] = members["arms.json"].replace(b"Always verify", b"Always  check")

    resigned(file, other_edit)
    with pytest.raises(bundle.BadBundle, match=r"arms\.json does not match"):
        bundle.verify(file)
