"""What can be said of a locked replay, and nothing beyond it.

Every clause of the sentence follows from a fact, and none says how a run would end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from replay.locked.tally import (
    RECORDED,
    AtBreak,
    BreakTest,
    Counts,
    Held,
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


class Collateral(Struct, frozen=True, kw_only=True):
    """How many steps the edit left and how, up to its first divergence."""

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


class Parts(Struct, frozen=True, kw_only=True):
    """What is said of a replay by what it is about: control, the edit (none without one), what the
    result does not show; then what it rests on: where the arms differ beyond chance, how that was
    tested, and how noisy control is."""

    control: str = ""
    edit: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    significance: str = ""
    method: str = ""
    noise: str = ""


class Verdict(Struct, frozen=True, kw_only=True):
    """Everything a replay lets one say.

    `model` is the name to show. `samples` is the largest number an arm got at a step; 1 makes a
    `look`. The first divergences are step numbers, None for none; where `rebased`, the edit's is
    from control's first answer, for the recorded model is not the one that was asked. `edited` and
    what depends on it are None without an edit. `tests` holds by step what both arms did,
    `effects` the steps at which they differ beyond chance (Fisher's test, Holm over the tests);
    `effect_step` is the first. `noise` is how often control itself diverges from the recording, or
    from its own first answer. `at_break_test` counts the answers at the break that still show the
    failure, and says by whose word; `at_break_effect` tells whether the arms differ there beyond
    chance. `marks` says by step what the edit did. `dimmed` steps come
    after the first divergence of the edited arm: their history is not one it would have had.

    `weakest` is the lowest fidelity of a request that was asked, with its `reasons`, `masked` the
    values of those requests that nobody saw; `losses` is what no request could be sent with.
    `basis` says what `sentence` rests on, `notices` what stands against it. `parts` are what
    `sentence` is made of, to be said apart where there are several arms.
    """

    sentence: str = ""
    parts: Parts = Parts()
    model: str
    samples: int
    control: Match
    control_diverges: int | None = None
    edited: Match | None = None
    edited_diverges: int | None = None
    edited_model: str | None = None
    rebased: bool = False
    tests: Mapping[int, StepTest] = {}
    effects: tuple[int, ...] = ()
    noise: Rate = rate(0, 0)
    break_step: int | None = None
    at_break: AtBreak | None = None
    at_break_test: BreakTest | None = None
    at_break_effect: bool = False
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
    held: Held | None = None,
) -> Verdict:
    """The verdict over the steps asked so far, in any order. `break_step` is where the run broke.

    `notice` is what the caller knows against a prompt edit, for example that every call of the
    recording is malformed: no prompt answers that. `masked` counts masked values by step. `held`
    says which tests hold beside those of other arms, None where there is this one alone.
    """
    rows = sorted(results, key=lambda row: row.step)
    replayed = [row for row in rows if row.control]
    edited = [row for row in replayed if row.edited]
    tests = {test.step: test for row in edited if (test := step_test(row)) is not None}
    samples = max((max(len(row.control), len(row.edited)) for row in replayed), default=0)
    rebased = any(row.rebased for row in replayed)
    diverges = _left(edited, tests) if rebased else _first_divergence(_edited(edited))
    broken = next((break_test(row) for row in edited if row.step == break_step), None)
    held = held or _hold(tests, broken)
    effects = held.steps if samples > 1 else set()
    judge = Judge(
        tests, structs.replace(held, steps=effects), break_step, broken, diverges, samples <= 1
    )
    marks = {row.step: each for row in edited if (each := judge.mark(row)) is not None}
    dimmed = {row.step for row in rows if diverges is not None and row.step > diverges}
    weakest = max(
        (row.fidelity for row in replayed), key=lambda each: each.level.rank, default=None
    )
    facts = Verdict(
        model=label(rows[0].model) if rows else "",
        samples=samples,
        control=_match(row.control for row in replayed),
        control_diverges=_first_divergence((row, row.control) for row in replayed),
        edited=_match(row.edited for row in edited) if edited else None,
        edited_diverges=diverges,
        edited_model=label(edited_model) if edited_model is not None else None,
        rebased=rebased,
        tests=tests,
        effects=tuple(sorted(effects)),
        noise=_noise(replayed),
        break_step=break_step,
        at_break=judge.at_break(edited) if edited else None,
        at_break_test=broken,
        at_break_effect=samples > 1 and broken is not None and held.at_break,
        marks=marks,
        collateral=_collateral(marks[step] for step in marks if step not in dimmed),
        dimmed=tuple(sorted(dimmed)),
        weakest=weakest.level if weakest is not None else None,
        reasons=weakest.reasons if weakest is not None else (),
        masked=sum(masked.get(row.step, 0) for row in replayed),
        losses=tuple(dict.fromkeys(loss for row in replayed for loss in row.losses)),
        notices=(*_refusals(rows), *([notice] if notice else [])),
    )
    if not edited:
        facts = structs.replace(facts, collateral=None)
    parts = _parts(facts, rows, held)
    return structs.replace(facts, sentence=sentence(parts), parts=parts, basis=basis(parts))


def _hold(tests: Mapping[int, StepTest], broken: BreakTest | None) -> Held:
    """The tests of one arm."""
    return Held(
        steps=holm({step: test.p for step, test in tests.items()}),
        at_break=broken is not None and broken.p <= ALPHA,
        tests=len(tests),
    )


def _first_divergence(arms: Iterable[tuple[StepResult, Sequence[Reply]]]) -> int | None:
    return next(
        (row.step for row, replies in arms if against_recording(replies).diverges_mostly), None
    )


def _edited(rows: Iterable[StepResult]) -> Iterator[tuple[StepResult, Sequence[Reply]]]:
    return ((row, row.edited) for row in rows)


def _left(rows: Sequence[StepResult], tests: Mapping[int, StepTest]) -> int | None:
    """The first step at which the edit mostly diverges from control's first answer."""
    steps = (row.step for row in rows if row.step in tests)
    return next((step for step in steps if tests[step].edited.diverges_mostly), None)


def _match(arms: Iterable[Sequence[Reply]]) -> Match:
    """Each step by what most of its samples do."""
    found = [against_recording(replies) for replies in arms]
    reworded = sum(each.rewords_mostly for each in found)
    repeated = sum(
        bool(each.decided) and not each.rewords_mostly and not each.diverges_mostly
        for each in found
    )
    return Match(
        repeated=repeated,
        of=len(found),
        reworded=reworded,
        unclear=sum(not each.decided for each in found),
    )


def _noise(rows: Iterable[StepResult]) -> Rate:
    """How often control diverges from what an edit is held against."""
    every = Counts()
    for row in rows:
        replies = [each.beside for each in row.control if each.beside is not None]
        every += counts(replies) if row.rebased else against_recording(row.control)
    return every.divergence


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
        ("not replayed", [(row.step, row.refused) for row in rows]),
        ("not replayed with the edit", [(row.step, row.edited_refused) for row in rows]),
        ("incomplete", [(row.step, row.lacks) for row in rows]),
    )
    steps: dict[str, list[int]] = {}
    for what, reasons in found:
        for step, why in reasons:
            if why is not None:
                steps.setdefault(f"{what}: {why}", []).append(step)
    return tuple(_of_steps(what, where) for what, where in steps.items())


def _of_steps(what: str, steps: Sequence[int]) -> str:
    others = len(steps) - 1
    more = f" (and {others} more step{'s' if others > 1 else ''})" if others else ""
    return f"step {steps[0]} {what}{more}"


def sentence(parts: Parts) -> str:
    """The verdict in words: what each arm did at which step, and how little few samples say."""
    return " ".join((parts.control, *parts.edit, *parts.scope))


def _parts(facts: Verdict, rows: Sequence[StepResult], held: Held) -> Parts:
    if not facts.control.of:
        return Parts(control="No step was replayed.")
    scope = []
    if facts.look:
        scope.append("1 sample: not conclusive")
    if facts.edited is not None and any(row.touched for row in rows):
        scope.append("Outcome not evaluated")
    scope += _of_model(facts, rows)
    return Parts(
        control=f"{_of_control(facts, rows)}.",
        edit=tuple(f"{each}." for each in _edit_clauses(facts, rows)),
        scope=tuple(f"{each}." for each in scope),
        significance=significance(facts) if facts.tests and not facts.look else "",
        method=_method(facts, rows, held),
        noise=_noise_words(facts),
    )


def _edit_clauses(facts: Verdict, rows: Sequence[StepResult]) -> list[str]:
    """What the edit does, and what became of the failure; [] without an edit."""
    if facts.edited is None:
        return []
    by_step = {row.step: row for row in rows}
    touched = any(row.touched for row in rows)
    what = _of_edit(facts, by_step) if touched else "No request changed"
    return ["; ".join([what, *_of_break(facts)])]


def basis(parts: Parts) -> tuple[str, ...]:
    """What the verdict rests on: samples, tests, and how noisy control is itself; () of a look."""
    found = f"{parts.significance} ({parts.method})" if parts.significance else parts.method
    return tuple(filter(None, (found, parts.noise)))


def _method(facts: Verdict, rows: Sequence[StepResult], held: Held) -> str:
    """How often was asked, and by what test the arms were held against each other."""
    if facts.look:
        return ""
    numbers = sorted({len(row.control) for row in rows if row.control})
    span = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    if not facts.tests:
        return f"{span} samples per step"
    return f"{span} samples per arm, Fisher's exact test, Holm over {_family(facts, held)}"


def _noise_words(facts: Verdict) -> str:
    if facts.look:
        return ""
    first = " against control's first sample" if facts.rebased else ""
    return f"noise floor{first} {percent(facts.noise)}"


def _family(facts: Verdict, held: Held) -> str:
    """What the correction is over."""
    if held.arms > 1:
        return f"{held.tests} tests of {held.arms} arms"
    return f"{len(facts.tests)} step{'' if len(facts.tests) == 1 else 's'}"


def significance(facts: Verdict) -> str:
    """Where the arms differ significantly: up to the edit's first divergence, and after it."""
    reached = [str(step) for step in facts.effects if step not in facts.dimmed]
    past = [str(step) for step in facts.effects if step in facts.dimmed]
    found = "no significant divergence"
    if reached:
        found = f"significant divergence at step {', '.join(reached)}"
    elif past:
        found += f" up to step {facts.edited_diverges}"
    if past:
        found += f"; after divergence, not counted: step {', '.join(past)}"
    return found


def _of_control(facts: Verdict, rows: Sequence[StepResult]) -> str:
    """How far control repeats the recording."""
    match = facts.control
    clause = f"Control matches {match.repeated} of {match.of} steps"
    if match.reworded:
        clause += f", {match.reworded} reworded"
    if match.unclear:
        clause += f", {match.unclear} not comparable"
    if facts.edited is None and facts.control_diverges is not None:
        row = next(each for each in rows if each.step == facts.control_diverges)
        how = _divergence(row, "control")
        clause += f"; it first diverges at step {facts.control_diverges}: {how}"
    return clause


def _of_edit(facts: Verdict, rows: dict[int, StepResult]) -> str:
    step = facts.edited_diverges
    basis = " from control's first sample" if facts.rebased else ""
    if step is None:
        reworded = facts.edited.reworded if facts.edited is not None else 0
        plural = "" if reworded == 1 else "s"
        words = f"; {reworded} step{plural} reworded" if reworded else ""
        return f"The edit does not diverge{basis}{words}"
    row = rows[step]
    clause = f"The edit first diverges{basis} at step {step}: {_change(facts, row)}"
    if step == facts.break_step and facts.at_break_test is not None and not facts.look:
        return clause  # the clause on the break counts how the arms differ here
    clause += _against_control(facts, step)
    if facts.rebased or facts.control_diverges is None or facts.control_diverges > step:
        return clause
    if facts.control_diverges < step:
        return f"{clause}; control already diverges at step {facts.control_diverges}"
    alike = row.between is not None and row.between.same
    return f"{clause}, as does control" if alike else f"{clause}; control diverges there too"


def _change(facts: Verdict, row: StepResult) -> str:
    """From what to what the edit diverges, by its first sample that does: at this step most do."""
    if not facts.rebased:
        return _divergence(row, "edited")
    found = (each.beside for each in row.edited if each.beside is not None)
    return next(each.brief for each in found if each.diverges)


def _divergence(row: StepResult, side: str) -> str:
    """What an arm does instead, by its first sample that diverges: at this step most do."""
    replies = row.control if side == "control" else row.edited
    return next(each.against.brief for each in replies if each.against.diverges)


def _against_control(facts: Verdict, step: int) -> str:
    """How often, with more than one sample: ` in 5/5 edited, 0/5 control`."""
    test = facts.tests.get(step)
    if facts.look or test is None:
        return ""
    ours, theirs = test.edited, test.control
    seen = f" in {ours.diverges}/{ours.decided} edited, {theirs.diverges}/{theirs.decided} control"
    return seen if step in facts.effects else f"{seen}, not significant"


def _of_break(facts: Verdict) -> list[str]:
    """What became of the failure at the break, and which detector decided."""
    at, diverges, test = facts.break_step, facts.edited_diverges, facts.at_break_test
    where = "" if at == diverges else f" at step {at}"
    if test is None or test.detector == RECORDED:
        failure = f"recorded action{where} repeated"
    else:
        failure = f"failure{where} ({test.detector})"
    failure += _counts(facts)
    match facts.at_break:
        case None:
            return []
        case "absent":
            return [f"{_absent(facts)}: {failure}"]
        case "present":
            clause = f"not fixed: {failure}"
        case "reworded":
            clause = f"inconclusive: text{where or ' at the break'} reworded"
        case "absent in control":
            return [f"inconclusive, absent in control too: {failure}"]
        case "unknown":
            return [f"break{where} not evaluated"]
    return [f"{clause}, after divergence" if _is_past(facts) else clause]


def _absent(facts: Verdict) -> str:
    """What the failure's absence in the edited arm, and not in control, proves."""
    if _is_past(facts):
        return "after divergence, not counted"
    return "fixed" if facts.look or facts.at_break_effect else "inconclusive"


def _is_past(facts: Verdict) -> bool:
    """Does the edited arm leave the recording before the break?"""
    at, diverges = facts.break_step, facts.edited_diverges
    return at is not None and diverges is not None and diverges < at


def _counts(facts: Verdict) -> str:
    """How many samples of each arm still show the failure: ` in 0/8 edited, 8/8 control`."""
    test = facts.at_break_test
    if test is None:
        return ""
    arms = f" in {test.edited}/{test.edited_n} edited, {test.control}/{test.control_n} control"
    return arms if facts.look else f"{arms} ({p_value(test.p)})"


def p_value(p: float) -> str:
    """`p < .001`, `p = .008`."""
    if p > 0.999:
        return "p = 1"
    return "p < .001" if p < 0.001 else f"p = {f'{p:.3f}'.removeprefix('0')}"


def percent(share: Rate) -> str:
    """A rate with its interval and count: `3 % (1–8 %, n = 96)`."""
    if share.value is None:
        return "– (n = 0)"
    return (
        f"{100 * share.value:.0f} % ({100 * share.low:.0f}–{100 * share.high:.0f} %, n = {share.n})"
    )


def _of_model(facts: Verdict, rows: Sequence[StepResult]) -> Iterator[str]:
    """Which model answered, where it is not the one that was recorded."""
    if facts.edited_model is not None:
        yield f"Control runs on {facts.model}, the edit on {facts.edited_model}"
    recorded = [row.recorded_model for row in rows if row.control and row.recorded_model]
    others = list(dict.fromkeys(name for name in recorded if not same_model(name, rows[0].model)))
    if not recorded:
        yield f"Replayed on {facts.model}; recorded model unknown"
    elif others:
        yield (
            f"Replayed on {facts.model}, recorded with {others[0]}:"
            f" the result holds for {facts.model} only"
        )
