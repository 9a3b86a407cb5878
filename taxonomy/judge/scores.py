"""What does a judge say of each step, over all samples, and how is that kept?

A model judges, or the rules in a judge's form. Scores belong to a set, named by its mode, model and
rubric version, so that scores under another rubric, another model or other goals stand beside and
never over. The trace is not touched. Steps are in the ledger's table of scores; what is said of a
whole run belongs to no step and is a note of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import get_args

from msgspec import Struct

from replay.convert import Sent
from replay.errors import ModelRefused, OfflineMiss, RequestRefused
from replay.locked.estimate import Estimate, price_of
from replay.models.cached import Answered, Ask, Cached, Outcome
from replay.models.protocol import BATCH_PRICE_SHARE
from replay.store import answers
from replay.store.handle import Store
from replay.trace import Trace, Usage
from taxonomy.findings import Item, Source, StepScore
from taxonomy.judge.exhibit import SubGoal
from taxonomy.judge.requests import (
    OVERALL,
    Band,
    ItemMark,
    JudgeRequest,
    Mark,
    Refused,
    Unasked,
    marks,
    size,
)
from taxonomy.judge.rubrics import Mode, band_word
from taxonomy.judgements.scores import keep_scores
from taxonomy.rules import findings
from taxonomy.rules.rule import RuleContext
from taxonomy.step_scores import BY, rule_scores

CHARACTERS_PER_TOKEN = 4


class Judged(Struct, frozen=True, kw_only=True):
    """What a judge says of a step; `step` None is the whole run.

    `samples` are the values that count, `value` their mean, None where there is none; `items` what
    stands behind it. `refused` says why an answer was not counted, once an answer; `missing`
    counts answers that are not stored and might not be asked for; `unasked` why nothing was asked.
    `withheld` and `cut` are those of what was shown, in mode `run` at the whole run alone.
    """

    step: int | None
    span: str = ""
    samples: tuple[float, ...] = ()
    items: tuple[Item, ...] = ()
    goal: SubGoal | None = None
    refused: tuple[str, ...] = ()
    missing: int = 0
    unasked: str | None = None
    withheld: int = 0
    cut: int = 0

    @property
    def value(self) -> float | None:
        return sum(self.samples) / len(self.samples) if self.samples else None

    @property
    def spread(self) -> float | None:
        """The largest sample minus the smallest; None for fewer than two."""
        return max(self.samples) - min(self.samples) if len(self.samples) > 1 else None


def judged(
    asked: Iterable[JudgeRequest | Unasked], model: Cached, samples: int, *, fresh: bool = False
) -> Generator[Judged, None, None]:
    """Ask each inquiry `samples` times, as `answers_each`; yields what is said as its last sample
    is in.

    Stored answers come first and cost nothing. Raises ModelRefused where the model declines
    altogether, Stopped after `stop`; what was answered by then is stored.
    """
    inquiries: list[JudgeRequest] = []
    for each in asked:
        if isinstance(each, Unasked):
            yield Judged(step=each.step, span=each.span, unasked=each.why)
        else:
            inquiries.append(each)
    for _, said in judged_each(inquiries, model, samples, fresh=fresh):
        yield said


def judged_each(
    inquiries: Sequence[JudgeRequest], model: Cached, samples: int, *, fresh: bool = False
) -> Generator[tuple[int, Judged], None, None]:
    """The same, each with the place of its inquiry: several may be about one step."""
    with closing(answers_each(inquiries, model, samples, fresh=fresh)) as given:
        for which, outcomes in given:
            yield from ((which, said) for said in _read_samples(inquiries[which], outcomes))


def answers_each(
    inquiries: Sequence[JudgeRequest], model: Cached, samples: int = 1, *, fresh: bool = False
) -> Generator[tuple[int, list[Outcome]], None, None]:
    """What each inquiry's samples come to, with its place, as its last one is in.

    The latest stored answers are used; `fresh` asks for new ones beside those.
    """
    asks = [
        (which, Ask(inquiry.sent, sample))
        for which, inquiry in enumerate(inquiries)
        for sample in sample_range(inquiry.sent, model, samples, fresh=fresh)
    ]
    came: dict[int, dict[int, Outcome]] = {}
    with closing(model.answers([ask for _, ask in asks])) as answers:
        for place, outcome in answers:
            which, ask = asks[place]
            came.setdefault(which, {})[ask.sample] = outcome
            if len(came[which]) == samples:
                yield which, [given for _, given in sorted(came.pop(which).items())]


def ask_batch(
    asked: Iterable[JudgeRequest | Unasked], model: Cached, samples: int = 1, *, fresh: bool = False
) -> ModelRefused | None:
    """Have all that is lacking answered by the provider's batches, within a day at half the price;
    `judged` and `answers_each` find what came then, and are not to ask for it `fresh`. As
    `Cached.ask_ahead`.
    """
    return model.ask_ahead(
        Ask(inquiry.sent, sample)
        for inquiry in asked
        if isinstance(inquiry, JudgeRequest)
        for sample in sample_range(inquiry.sent, model, samples, fresh=fresh)
    )


def sample_range(sent: Sent, model: Cached, samples: int, *, fresh: bool = False) -> range:
    """Which samples of a request are meant: the latest stored ones, or, `fresh`, those after."""
    stored = 0
    while model.holds(sent, stored):
        stored += 1
    first = stored if fresh else max(stored - samples, 0)
    return range(first, first + samples)


def estimate_cost(
    asked: Iterable[JudgeRequest | Unasked],
    model: Cached,
    samples: int,
    *,
    fresh: bool = False,
    batch: bool = False,
) -> Estimate:
    """What `judged` with the same arguments would ask, and about what for. Asks nothing."""
    usages: list[Usage] = []
    keys: set[str] = set()
    for each in asked:
        if isinstance(each, Unasked):
            continue
        for sample in sample_range(each.sent, model, samples, fresh=fresh):
            key = each.sent.key(sample)
            if key not in keys and not model.stored(each.sent, sample):
                usages.append(_usage(each))
            keys.add(key)
    costs = [price_of(model, usage) for usage in usages]
    share = BATCH_PRICE_SHARE if batch else 1.0
    usd = [cost.usd * share for cost in costs if cost is not None]
    return Estimate(
        calls=len(usages),
        stored=len(keys) - len(usages),
        input_tokens=sum(usage.input_tokens or 0 for usage in usages),
        output_tokens=sum(usage.output_tokens or 0 for usage in usages),
        by_size=len(usages),
        usd=sum(usd) if len(usd) == len(usages) else None,
    )


def _usage(inquiry: JudgeRequest) -> Usage:
    return Usage(
        input_tokens=size(inquiry) // CHARACTERS_PER_TOKEN + 1,
        output_tokens=inquiry.answer_tokens,
    )


def _read_samples(
    inquiry: JudgeRequest, outcomes: Sequence[Outcome]
) -> Generator[Judged, None, None]:
    """The samples of an inquiry, for each of its places and, in mode `run`, for all of it."""
    read = [_read(inquiry, outcome) for outcome in outcomes]
    given = [found for found in read if isinstance(found, tuple)]
    refused = tuple(found.why for found in read if isinstance(found, Refused))
    missing = sum(found is None for found in read)
    places: list[tuple[int | None, str]] = [(each.step, each.span) for each in inquiry.places]
    if inquiry.rubric.mode == "run":
        places.append((None, ""))
    for step, span in places:
        said = [mark for found in given for mark in found if mark.step == step]
        shown = inquiry.exhibit if step is None or len(places) == 1 else None
        left_out = ("it leaves the step out",) * (len(given) - len(said))
        yield Judged(
            step=step,
            span=span,
            samples=tuple(mark.value for mark in said if mark.value is not None),
            items=_items(said),
            goal=inquiry.goal,
            refused=(*refused, *left_out),
            missing=missing,
            withheld=shown.withheld if shown else 0,
            cut=shown.cut if shown else 0,
        )


def _read(inquiry: JudgeRequest, outcome: Outcome) -> tuple[Mark, ...] | Refused | None:
    """None where there is no answer."""
    match outcome:
        case Answered():
            return marks(inquiry, outcome.body)
        case RequestRefused():
            return Refused(f"the request was declined: {outcome.message}")
        case OfflineMiss():
            return None


def _items(said: Sequence[Mark]) -> tuple[Item, ...]:
    names = list(dict.fromkeys(name for mark in said for name in mark.said))
    return tuple(_item(name, [mark.said[name] for mark in said]) for name in names)


def _item(name: str, said: Sequence[Band | ItemMark]) -> Item:
    if name == OVERALL:
        scores = [each.score for each in said if isinstance(each, Band)]
        middle = sum(scores) / len(scores)
        nearest = min(said, key=lambda each: abs(getattr(each, "score", 0.0) - middle))
        return Item(name=name, held=None, because=f"{band_word(middle)}: {_cited(nearest)}")
    votes = [each.verdict for each in said if isinstance(each, ItemMark)]
    yes, no = votes.count("yes"), votes.count("no")
    held = None if yes == no else yes > no
    if held is None and yes:
        return Item(name=name, held=None, because=f"the samples disagree, {yes} yes, {no} no")
    word = "not applicable" if held is None else "yes" if held else "no"
    first = next(each for each in said if isinstance(each, ItemMark) and each.verdict == word)
    return Item(name=name, held=held, because="" if held is None else _cited(first))


def _cited(said: Band | ItemMark) -> str:
    steps = ", ".join(map(str, said.steps))
    return f"{' '.join(said.rationale.split())} [{steps}]"


RULE_VERSION = BY
"""What stands for the version of a rubric where the rules answer."""

NOTICE = "demo, rule-based: no model call; these are the rules' own scores in every mode"


def rule_judged(trace: Trace, mode: Mode) -> Iterator[Judged]:
    """What the rules say of each step, and in mode `run` the share of yes over all of them."""
    case = RuleContext(trace)
    scores = rule_scores(case, findings(case))
    for score in scores:
        yield Judged(
            step=score.step,
            span=score.span or "",
            samples=() if score.value is None else (score.value,),
            items=score.items,
            unasked="no item can be decided by rule" if score.value is None else None,
        )
    held = [item.held for score in scores for item in score.items if item.held is not None]
    if mode == "run" and held:
        yield Judged(step=None, samples=(sum(held) / len(held),))


SAMPLES = "samples"
"""The name of the item that lists a score's samples; it decides nothing."""

RUN_NOTE = "judged run:"
"""With the trace and the set, the name under which a score of a whole run is kept."""

_MODES: dict[str, Mode] = {mode: mode for mode in get_args(Mode)}


class ScoreSet(Struct, frozen=True, kw_only=True):
    """What makes two scores comparable. `goals` is the version of the goals where there are any."""

    mode: Mode
    model: str
    rubric: str
    goals: str | None = None

    @property
    def by(self) -> str:
        """`judge:<mode>:<model>:<rubric version>`, the goals' version joined to the rubric's."""
        goals = f"+goals-{self.goals}" if self.goals else ""
        return f"judge:{self.mode}:{self.model}:{self.rubric}{goals}"

    @property
    def own(self) -> str:
        """The name of a user's rubric, "" for those of `arc`."""
        name = self.rubric.rpartition("-")[0]
        return name if "." in name else ""


def parsed(by: str) -> ScoreSet | None:
    """The set a score's `by` names, None where it is no judge's. A model's name may hold colons."""
    kind, _, rest = by.partition(":")
    mode, _, rest = rest.partition(":")
    model, _, version = rest.rpartition(":")
    if kind != "judge" or mode not in _MODES or not model:
        return None
    rubric, _, goals = version.partition("+goals-")
    return ScoreSet(mode=_MODES[mode], model=model, rubric=rubric, goals=goals or None)


class RunScore(Struct, frozen=True, kw_only=True):
    """A judge's score 0..1 of a whole run, and what stands behind it."""

    trace: str
    by: str
    value: float
    items: tuple[Item, ...]


def keep(
    store: Store, trace: str, by: str, given: Iterable[Judged], source: Source = "judge"
) -> None:
    """Keep what a judge said, in place of what the same set said of the same steps before.

    What has no value is not kept: nothing was scored, and an older score of it still stands.
    """
    known = [each for each in given if each.value is not None]
    steps = (
        StepScore(
            step=each.step,
            value=each.value,
            source=source,
            by=by,
            span=each.span,
            items=_kept_items(each),
        )
        for each in known
        if each.step is not None
    )
    with store.writing():
        keep_scores(store, trace, steps)
        for each in known:
            if each.step is None and each.value is not None:
                whole = RunScore(trace=trace, by=by, value=each.value, items=_kept_items(each))
                answers.keep(store, f"{RUN_NOTE}{trace}:{by}", whole)


def _kept_items(given: Judged) -> tuple[Item, ...]:
    shown = ", ".join(f"{value:.2f}" for value in given.samples)
    return (*given.items, Item(name=SAMPLES, held=None, because=shown))
