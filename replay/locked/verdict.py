"""What may be said of a locked replay, and nothing beyond it.

The answer at the break step, control against edited; the first departure of each arm; what the
edit changed elsewhere, up to where it left the road. One sample is a look, not a result; of more,
only what stands out from chance counts, over all steps that were tested. Whether the edited run
would have ended well is not known and never said: only a run that goes on from the departure could
tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from replay.locked.marks import AtBreak, Judge, Mark
from replay.locked.sentence import basis, sentence
from replay.locked.step_result import Reply, StepResult
from replay.locked.tally import (
    BreakTest,
    Counts,
    StepTest,
    against_recording,
    break_test,
    counts,
    step_test,
)
from replay.models.choose import label
from replay.statistics import Rate, holm, rate
from replay.trace import Level


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
    said = []
    for rows_of, words in (
        ([row for row in rows if row.refused is not None], "was not asked"),
        ([row for row in rows if row.edited_refused is not None], "was not asked with the edit"),
        ([row for row in rows if row.lacks is not None], "lacks samples"),
    ):
        if rows_of:
            row, others = rows_of[0], len(rows_of) - 1
            more = f" ({others} more step{'s' if others > 1 else ''} too)" if others else ""
            why = row.refused or row.edited_refused or row.lacks
            said.append(f"step {row.step} {words}: {why}{more}")
    return tuple(said)
