"""One step under way in a locked replay: which samples are still wanted, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from replay import action, digests
from replay.action import Action
from replay.compare import actions
from replay.compare.actions import Difference
from replay.compare.rules import Rules
from replay.edit.changes import Edit
from replay.errors import ModelRefused, RequestRefused
from replay.locked.tally import Reply, StepResult, break_test, step_test
from replay.models.cached import Answered, Ask, Cached
from replay.plan import Arm, Plan
from replay.predicate import Detector
from replay.statistics import ALPHA, effect_probability, fisher

Side: TypeAlias = Literal["control", "edited"]


class Models(NamedTuple):
    """Who is asked: one model, or another one in the edited arm where the edit names it."""

    control: Cached
    edited: Cached

    @classmethod
    def one(cls, model: Cached) -> Models:
        """The same model in both arms."""
        return cls(model, model)


class Missing(NamedTuple):
    """A sample of an arm that is wanted and not there."""

    row: Row
    side: Side
    place: int

    @property
    def ask(self) -> Ask:
        return Ask(self.row.arm(self.side).sent, self.row.sampling.number(self.place))

    @property
    def model(self) -> Cached:
        """Who is asked for it."""
        models = self.row.models
        return models.control if self.side == "control" else models.edited


class Row:
    """A step under way. `finished` when nothing more is to be asked of it."""

    def __init__(
        self,
        plan: Plan,
        edit: Edit | None,
        models: Models,
        sampling: Sampling,
        rules: Rules,
        detector: Detector | None = None,
    ) -> None:
        self.plan = plan
        self.models = models
        self.sampling = sampling
        self.finished = plan.refusal is not None
        self.touched = not plan.edited.sent.asks_as(plan.control.sent)
        self._level = sampling.first(plan.step.index)
        is_here = detector is not None and detector.step == plan.step.index
        self._detector = detector if is_here else None
        self._edit = edit
        self._rules = rules
        self._replies: dict[Side, dict[int, Reply]] = {"control": {}, "edited": {}}
        refused = plan.edited_refusal if self.touched else None
        self._refused: dict[Side, str] = {} if refused is None else {"edited": refused}
        self._alike: dict[tuple[Side, bytes], Reply] = {}
        self._result: StepResult | None = None
        self._ended: str | None = None
        self._empty = _asked_nothing(plan, models.control.name, self.touched)

    def arm(self, side: Side) -> Arm:
        return self.plan.control if side == "control" else self.plan.edited

    def missing(self) -> list[Missing]:
        """The samples wanted by now that are not in, the first of each arm before the others."""
        if self.finished:
            return []
        sides: tuple[Side, ...] = ("control", "edited") if self.touched else ("control",)
        return [
            Missing(self, side, place)
            for place in range(self._level)
            for side in sides
            if side not in self._refused and place not in self._replies[side]
        ]

    def take(self, missing: Missing, outcome: Answered | RequestRefused) -> None:
        """What came of one sample. A refused request is not asked again: it would be refused."""
        self._result = None
        if isinstance(outcome, RequestRefused):
            self._refused[missing.side] = str(outcome)
        else:
            self._replies[missing.side][missing.place] = self._reply(missing.side, outcome)

    def end(self, why: ModelRefused) -> None:
        """Nothing more will come, whatever is missing."""
        self._ended = str(why)
        self._result = None
        self.finished = True

    def advance(self, tests: int, breaks: int = 1) -> None:
        """Want more samples where those that are in leave it open whether the arms differ, in a
        replay of so many tests, and of so many at the break."""
        following = self.sampling.after(self._level)
        if following is None or not self._is_open(tests, breaks):
            self.finished = True
        else:
            self._level = following

    def _is_open(self, tests: int, breaks: int) -> bool:
        result = self.result()
        test = step_test(result)
        broken = break_test(result) if self._detector is not None else None
        if test is None:
            return False
        control, edited = test.control, test.edited
        counts = (control.diverges, control.decided, edited.diverges, edited.decided)
        return is_open(*counts, tests) or (broken is not None and is_open(*broken.counts, breaks))

    def result(self) -> StepResult:
        """The step as far as it is known."""
        if self._result is None:
            self._result = self._known()
        return self._result

    def _known(self) -> StepResult:
        control = self._in_order("control")
        edited = () if self._edit is None else control
        if self.touched:
            edited = self._in_order("edited")
        if self._empty.rebased:
            control, edited = self._compared_with_control(control, edited)
        both = bool(control and edited)
        return structs.replace(
            self._empty,
            detector=self._detector.name if self._detector is not None else None,
            control=control,
            edited=edited,
            between=self._compared(control[0].action, edited[0].action) if both else None,
            refused=None if control else self._why_none("control"),
            edited_refused=None if edited or not control else self._refused.get("edited"),
            lacks=self._why_some(),
            declined=next(iter(self._refused.values()), None),
            ended=self._ended,
        )

    def _why_none(self, side: Side) -> str | None:
        return self.plan.refusal or self._refused.get(side) or self._ended

    def _why_some(self) -> str | None:
        """Why samples are missing in an arm that has some."""
        declined = (why for side, why in self._refused.items() if self._replies[side])
        return next(declined, self._ended if self._replies["control"] else None)

    def _in_order(self, side: Side) -> tuple[Reply, ...]:
        found = self._replies[side]
        return tuple(found[place] for place in sorted(found))

    def _compared_with_control(
        self, control: tuple[Reply, ...], edited: tuple[Reply, ...]
    ) -> tuple[tuple[Reply, ...], tuple[Reply, ...]]:
        """Both arms compared with the first whole answer of control."""
        reference = next((each for each in control if each.action.cut is None), None)
        if reference is None:
            return control, edited

        def held(replies: Iterable[Reply]) -> Iterator[Reply]:
            for each in replies:
                beside = self._compared(reference.action, each.action)
                yield each if each is reference else structs.replace(each, beside=beside)

        return tuple(held(control)), tuple(held(edited))

    def _reply(self, side: Side, answer: Answered) -> Reply:
        """The reply in an answer; samples that are word for word alike are looked at once."""
        content = side, digests.pack([answer.body["content"], answer.body.get("stop_reason")])
        if content not in self._alike:
            self._alike[content] = self._read(side, answer)
        known = self._alike[content]
        return known if known.key == answer.key else structs.replace(known, key=answer.key)

    def _read(self, side: Side, answer: Answered) -> Reply:
        arm = self.arm(side)
        offered = action.answered(answer.body, arm.sent.recorded_name)
        given = offered
        if side == "edited" and self._edit is not None:
            given = action.named(offered, self._edit.recorded_name)
        return Reply(
            key=answer.key,
            action=given,
            against=self._compared(self._empty.recorded, given),
            shows=self._detector.shows(given) if self._detector is not None else None,
            flaws=action.flaws(offered, arm.request.tools or ()),
        )

    def _compared(self, first: Action, second: Action) -> Difference:
        tools = self.plan.step.ask.request.tools or ()
        return actions.compare(first, second, tools, self._rules)


def _asked_nothing(plan: Plan, model: str, touched: bool) -> StepResult:
    """What is known of a step before any answer."""
    ask, sent = plan.step.ask, plan.control.sent
    return StepResult(
        step=plan.step.index,
        thread=plan.step.thread,
        model=model,
        recorded_model=ask.response.model or ask.request.model,
        recorded=action.action(ask.response, ask.error),
        fidelity=sent.fidelity(ask.fidelity),
        losses=sent.losses,
        touched=touched,
    )


LEVELS = (3, 8, 20)
"""Samples of each arm: at first, where that leaves it open, and at the most."""

RANGE = 1000
"""Samples of one range; asking everything afresh begins the next."""

Schedule: TypeAlias = Literal["cheap", "fast", "batch"]
"""`cheap` step after step, for the prefix cache; `fast` all at once; `batch` all in one batch of
the provider, at half the price and within a day."""


class Sampling(Struct, frozen=True, kw_only=True):
    """Samples a request gets. `levels` ascend; one level is a fixed number.

    `counts` gives the number by step instead, as an earlier replay came to it. `range` numbers
    fresh rounds of samples: 0 the first, 1 what `--no-cache` opens, and so on.
    """

    levels: tuple[int, ...] = LEVELS
    counts: Mapping[int, int] | None = None
    range: int = 0
    schedule: Schedule = "cheap"

    def number(self, place: int) -> int:
        """The sample number an answer is stored under."""
        return self.range * RANGE + place

    def first(self, step: int) -> int:
        """How many samples a step gets to begin with."""
        return self.levels[0] if self.counts is None else self.counts.get(step, 0)

    def last(self, step: int) -> int:
        """How many samples a step gets at the most."""
        return self.levels[-1] if self.counts is None else self.first(step)

    def after(self, level: int) -> int | None:
        """The next level, None at the last."""
        if self.counts is not None:
            return None
        return next((each for each in self.levels if each > level), None)


AUTO = Sampling()
LOOK = Sampling(levels=(1,))


def fixed(samples: int) -> Sampling:
    """The same number of samples everywhere."""
    return Sampling(levels=(samples,))


def is_open(hits: int, n: int, other_hits: int, other_n: int, tests: int) -> bool:
    """Do these counts leave it open whether the arms differ, in a replay of so many tests?

    Open between 5 % and 95 % for a difference that matters, and where such a difference is likely
    but could not yet be told from chance beside the other tests.
    """
    likely = effect_probability(hits, n, other_hits, other_n)
    if likely <= ALPHA:
        return False
    return likely < 1 - ALPHA or fisher(hits, n, other_hits, other_n) > ALPHA / max(1, tests)
