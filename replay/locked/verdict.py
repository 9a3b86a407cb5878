"""What may be said of a locked replay, and nothing beyond it.

Every clause of the sentence follows from a fact, and none says how a run would end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from replay.locked.tally import (
    RECORDED,
    AtBreak,
    BreakTest,
    Counts,
    Judge,
    Mark,
    Reply,
    StepResult,
    StepTest,
    against_recording,
    break_test,
    counts,
    same_model,
    step_test,
)
from replay.models.choose import label
from replay.statistics import ALPHA, Rate, holm, rate
from replay.trace import Level

if TYPE_CHECKING:
    from replay.compare.actions import Difference


class Collateral(Struct, frozen=True, kw_only=True):
    """How many steps the edit left and how, up to its first departure."""

    fixed: int = 0
    broke: int = 0
    changed: int = 0
    same: int = 0
    unclear: int = 0


class Match(Struct, frozen=True, kw_only=True):
    """How often an arm mostly repeats the recording, of the steps that were asked.

    `reworded` steps only speak, in other words; `unclear` are the others that cannot be compared.
    """

    repeated: int
    of: int
    reworded: int = 0
    unclear: int = 0


class Verdict(Struct, frozen=True, kw_only=True):
    """Everything a replay lets one say.

    `model` is the name to show. `samples` is the largest number an arm got at a step; 1 makes a
    `look`. The first departures are step numbers, None for none; where `rebased`, the edit's is
    from control's first answer, for the recorded model is not the one that was asked. `edited` and
    what depends on it are None without an edit. `tests` holds by step what both arms did,
    `effects` the steps at which they differ beyond chance (Fisher's test, Holm over the tests);
    `effect_step` is the first. `noise` is how often control itself departs from the recording, or
    from its own first answer. `at_break_test` counts the answers at the break that still show the
    failure, and says by whose word. `marks` says by step what the edit did. `dimmed` steps come
    after the first departure of the edited arm: their history is not one it would have had.

    `weakest` is the lowest fidelity of a request that was asked, with its `reasons`, `masked` the
    values of those requests that nobody saw; `losses` is what no request could be sent with.
    `basis` says what `sentence` rests on, `notices` what stands against it.
    """

    sentence: str
    model: str
    samples: int
    control: Match
    control_departs: int | None = None
    edited: Match | None = None
    edited_departs: int | None = None
    edited_model: str | None = None
    rebased: bool = False
    tests: Mapping[int, StepTest] = {}
    effects: tuple[int, ...] = ()
    noise: Rate = rate(0, 0)
    break_step: int | None = None
    at_break: AtBreak | None = None
    at_break_test: BreakTest | None = None
    marks: Mapping[int, Mark] = {}
    collateral: Collateral | None = None
    dimmed: tuple[int, ...] = ()
    weakest: Level | None = None
    reasons: tuple[str, ...] = ()
    masked: int = 0
    losses: tuple[str, ...] = ()
    basis: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def look(self) -> bool:
        """Was nothing asked more than once?"""
        return self.samples <= 1

    @property
    def effect_step(self) -> int | None:
        return min(self.effects, default=None)


def summary(
    results: Iterable[StepResult],
    break_step: int | None = None,
    *,
    notice: str | None = None,
    masked: Mapping[int, int] = {},
    edited_model: str | None = None,
) -> Verdict:
    """The verdict over the steps asked so far, in any order. `break_step` is where the run broke.

    `notice` is what the caller knows against a prompt edit, for example that every call of the
    recording is malformed: no prompt answers that. `masked` counts masked values by step.
    """
    rows = sorted(results, key=lambda row: row.step)
    asked = [row for row in rows if row.control]
    edited = [row for row in asked if row.edited]
    tests = {test.step: test for row in edited if (test := step_test(row)) is not None}
    samples = max((max(len(row.control), len(row.edited)) for row in asked), default=0)
    effects = holm({step: test.p for step, test in tests.items()}) if samples > 1 else set()
    rebased = any(row.rebased for row in asked)
    departs = _left(edited, tests) if rebased else _first_departure(_edited(edited))
    broken = next((break_test(row) for row in edited if row.step == break_step), None)
    judge = Judge(tests, effects, break_step, broken, departs, samples <= 1)
    marks = {row.step: each for row in edited if (each := judge.mark(row)) is not None}
    dimmed = {row.step for row in rows if departs is not None and row.step > departs}
    weakest = max((row.fidelity for row in asked), key=lambda each: each.level.rank, default=None)
    facts = Verdict(
        sentence="",
        model=label(rows[0].model) if rows else "",
        samples=samples,
        control=_match(row.control for row in asked),
        control_departs=_first_departure((row, row.control) for row in asked),
        edited=_match(row.edited for row in edited) if edited else None,
        edited_departs=departs,
        edited_model=label(edited_model) if edited_model is not None else None,
        rebased=rebased,
        tests=tests,
        effects=tuple(sorted(effects)),
        noise=_noise(asked),
        break_step=break_step,
        at_break=judge.at_break(edited) if edited else None,
        at_break_test=broken,
        marks=marks,
        collateral=_collateral(marks[step] for step in marks if step not in dimmed),
        dimmed=tuple(sorted(dimmed)),
        weakest=weakest.level if weakest is not None else None,
        reasons=weakest.reasons if weakest is not None else (),
        masked=sum(masked.get(row.step, 0) for row in asked),
        losses=tuple(dict.fromkeys(loss for row in asked for loss in row.losses)),
        notices=(*_refusals(rows), *([notice] if notice else [])),
    )
    if not edited:
        facts = structs.replace(facts, collateral=None)
    return structs.replace(facts, sentence=sentence(facts, rows), basis=basis(facts, asked))


def _first_departure(arms: Iterable[tuple[StepResult, Sequence[Reply]]]) -> int | None:
    return next(
        (row.step for row, replies in arms if against_recording(replies).departs_mostly), None
    )


def _edited(rows: Iterable[StepResult]) -> Iterator[tuple[StepResult, Sequence[Reply]]]:
    return ((row, row.edited) for row in rows)


def _left(rows: Sequence[StepResult], tests: Mapping[int, StepTest]) -> int | None:
    """The first step at which the edit mostly departs from control's first answer."""
    steps = (row.step for row in rows if row.step in tests)
    return next((step for step in steps if tests[step].edited.departs_mostly), None)


def _match(arms: Iterable[Sequence[Reply]]) -> Match:
    """Each step by what most of its samples do."""
    found = [against_recording(replies) for replies in arms]
    reworded = sum(each.rewords_mostly for each in found)
    repeated = sum(
        bool(each.decided) and not each.rewords_mostly and not each.departs_mostly for each in found
    )
    return Match(
        repeated=repeated,
        of=len(found),
        reworded=reworded,
        unclear=sum(not each.decided for each in found),
    )


def _noise(rows: Iterable[StepResult]) -> Rate:
    """How often control departs from what an edit is held against."""
    every = Counts()
    for row in rows:
        replies = [each.beside for each in row.control if each.beside is not None]
        every += counts(replies) if row.rebased else against_recording(row.control)
    return every.departure


def _collateral(marks: Iterable[Mark]) -> Collateral:
    counted = Counter(marks)
    return Collateral(
        fixed=counted["fixed"],
        broke=counted["broke"],
        changed=counted["changed"],
        same=counted["same"],
        unclear=counted["unclear"],
    )


def _refusals(rows: Sequence[StepResult]) -> tuple[str, ...]:
    """A sentence a reason: the first step it holds for, and how many more it holds for."""
    found = (
        ("was not asked", [(row.step, row.refused) for row in rows]),
        ("was not asked with the edit", [(row.step, row.edited_refused) for row in rows]),
        ("lacks samples", [(row.step, row.lacks) for row in rows]),
    )
    steps: dict[str, list[int]] = {}
    for what, reasons in found:
        for step, why in reasons:
            if why is not None:
                steps.setdefault(f"{what}: {why}", []).append(step)
    return tuple(_of_steps(what, where) for what, where in steps.items())


def _of_steps(what: str, steps: Sequence[int]) -> str:
    others = len(steps) - 1
    more = f" ({others} more step{'s' if others > 1 else ''} too)" if others else ""
    return f"step {steps[0]} {what}{more}"


def sentence(facts: Verdict, rows: Sequence[StepResult]) -> str:
    """The verdict for a person: what was seen at which step, and how little few samples say."""
    if not facts.control.of:
        return "No step was asked."
    by_step = {row.step: row for row in rows}
    said = [_of_control(facts, by_step)]
    if facts.edited is not None:
        said.append("; ".join([_of_edit(facts, by_step), *_of_break(facts)]))
    if facts.look:
        said.append("One sample: a look")
    said.extend(_of_model(facts, rows))
    return " ".join(f"{each}." for each in said)


def basis(facts: Verdict, rows: Sequence[StepResult]) -> tuple[str, ...]:
    """What the verdict rests on: samples, tests, and how noisy control is itself."""
    if facts.look:
        return ()
    numbers = sorted({len(row.control) for row in rows if row.control})
    most = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    whose = "its own first answer" if facts.rebased else "the recording"
    noise = f"control itself departs from {whose} in {percent(facts.noise)}"
    if not facts.tests:
        return (f"{most} samples a step", noise)
    method = f"{most} samples an arm, Fisher's test, Holm over {len(facts.tests)} steps"
    return (f"{_beyond(facts)} ({method})", noise)


def _beyond(facts: Verdict) -> str:
    """Where the arms differ beyond chance: at the break, where the edit was, and past that."""
    test = facts.at_break_test
    reached = [str(step) for step in facts.effects if step not in facts.dimmed]
    past = [str(step) for step in facts.effects if step in facts.dimmed]
    said = "no step departs beyond chance"
    if reached:
        said = f"beyond chance at step {', '.join(reached)}"
    elif past:
        said += " up to the first departure"
    if past:
        said += f", after it step {', '.join(past)}"
    return said if test is None else f"at the break p = {test.p:.2g}; {said}"


def _of_control(facts: Verdict, rows: dict[int, StepResult]) -> str:
    match = facts.control
    said = f"Control repeats the recording at {match.repeated} of {match.of} steps"
    if match.reworded:
        said += f", at {match.reworded} more in other words"
    if match.unclear:
        said += f", and {match.unclear} cannot be compared"
    if facts.edited is None and facts.control_departs is not None:
        how = _departure(rows[facts.control_departs], "control")
        said += f"; it first departs at step {facts.control_departs}: {how}"
    return said


def _of_edit(facts: Verdict, rows: dict[int, StepResult]) -> str:
    if not any(row.touched for row in rows.values()):
        return "Your edit changes no request that was asked"
    step = facts.edited_departs
    road = " from control's first answer" if facts.rebased else ""
    if step is None:
        reworded = facts.edited.reworded if facts.edited is not None else 0
        words = f", but speaks in other words at {reworded}" if reworded else ""
        return f"Your edit departs{road} at no step{words}"
    row = rows[step]
    said = f"Your edit first departs{road} at step {step}: {_change(facts, row)}"
    if step == facts.break_step and facts.at_break_test is not None and not facts.look:
        return said  # the clause on the break says by its own count how the arms differ here
    said += _against_control(facts, step)
    if facts.rebased or facts.control_departs is None or facts.control_departs > step:
        return said
    if facts.control_departs < step:
        return f"{said}; control departs at step {facts.control_departs} already"
    alike = row.between is not None and row.between.same
    return f"{said}, as control does" if alike else f"{said}; control departs there too"


def _change(facts: Verdict, row: StepResult) -> str:
    """From what to what the edit departs, by its first answer that does."""
    if not facts.rebased:
        return _departure(row, "edited")
    found = (each.beside for each in row.edited if each.beside is not None)
    return next((each.brief for each in found if each.departs), "otherwise")


def _departure(row: StepResult, side: str) -> str:
    """What an arm does instead, by its first answer that departs."""
    replies = row.control if side == "control" else row.edited
    departing = (each.against for each in replies if each.against.departs)
    found: Difference | None = next(departing, None)
    return found.brief if found is not None else "otherwise"


def _against_control(facts: Verdict, step: int) -> str:
    """How often, where there is more than a look: `, 5/5 against 0/5`."""
    test = facts.tests.get(step)
    if facts.look or test is None:
        return ""
    ours, theirs = test.edited, test.control
    seen = f", {ours.departs}/{ours.decided} against {theirs.departs}/{theirs.decided}"
    return seen if step in facts.effects else f"{seen}, which may be chance"


def _of_break(facts: Verdict) -> list[str]:
    """What became of the failure at the break, and who says so."""
    at, departs, test = facts.break_step, facts.edited_departs, facts.at_break_test
    here = "the break" if at == departs else f"the break (step {at})"
    what = f"the recorded action at {here}"
    if test is not None and test.oracle != RECORDED:
        what = f"{here} ({test.oracle})" if at == departs else f"{here[:-1]}, {test.oracle})"
    match facts.at_break:
        case None:
            return []
        case "gone":
            said = f"{what} is gone{_times(facts, shown=False)}"
        case "still there":
            said = f"{what} is still there{_times(facts, shown=True)}"
        case "in other words":
            said = f"at {here} it speaks in other words, which may mean the same"
        case "not control's":
            if test is not None and test.oracle != RECORDED:
                return [f"{what} is not there in control either"]
            return [f"at {here} control does not repeat the recorded action either"]
        case "unknown":
            return [f"what it does at {here} is not known"]
    if at is not None and departs is not None and departs < at:
        said += ", on a history the edited agent would not have had"
    return [said]


def _times(facts: Verdict, *, shown: bool) -> str:
    """Of more than a look: ` in 8/8 against 0/8`, edited against control."""
    test = facts.at_break_test
    if facts.look or test is None:
        return ""
    ours, theirs = test.edited, test.control
    if not shown:
        ours, theirs = test.edited_n - ours, test.control_n - theirs
    chance = "" if test.p <= ALPHA or shown else ", which may be chance"
    return f" in {ours}/{test.edited_n}, against {theirs}/{test.control_n} in control{chance}"


def percent(share: Rate) -> str:
    """A rate with its interval and count: `3 % (1–8 %, n = 96)`."""
    if share.value is None:
        return "– (n = 0)"
    return (
        f"{100 * share.value:.0f} % ({100 * share.low:.0f}–{100 * share.high:.0f} %, n = {share.n})"
    )


def _of_model(facts: Verdict, rows: Sequence[StepResult]) -> Iterator[str]:
    """Whose answers these are, where they are not those of the model that was recorded."""
    if facts.edited_model is not None:
        yield f"Control is asked of {facts.model}, the edit of {facts.edited_model}"
    recorded = [row.recorded_model for row in rows if row.control and row.recorded_model]
    others = list(dict.fromkeys(name for name in recorded if not same_model(name, rows[0].model)))
    if not recorded:
        yield f"Asked of {facts.model}; which model was recorded is not known"
    elif others:
        yield (
            f"Asked of {facts.model}, not of {others[0]}: this is what {facts.model} would do,"
            " not why the recorded model did what it did"
        )
