"""How good is a step, by rules alone: the share of the rubric items that could be decided.

Six items, each True, False or None where rules cannot tell; a step with no decided item has no
score. Nothing here reads the outcome of the run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from replay.trace import SourceScore
from taxonomy.evidence.endings import Ending, closes, ending, hands_over, works
from taxonomy.evidence.reading import Act, Turn, mutates
from taxonomy.findings import Finding, Item, StepScore
from taxonomy.rules import findings, loop, malformed, rule_of
from taxonomy.rules.bad_args import refusal
from taxonomy.rules.rule import RuleContext, brought_again, repeats
from taxonomy.rules.wrong_tool import absent

BY = "arc rules 1"

FITS = "call fits"
GROUNDED = "arguments grounded"
READ = "result read"
VERIFIED = "state re-verified"
FRESH = "nothing repeated"
ENDED = "ended well"
"""The rubric items, by the names a person reads."""

LOOKBACK = 12
"""How many earlier calls of the thread a repeat is looked for among."""

VERIFIES_WITHIN = 5
"""How many later steps of the thread may still look at what a step changed."""


_LESS_IS_BETTER = re.compile(
    r"(?<![a-z])(?:hallucinat|toxi|bias|harm(?!less|on)|risk|error|fail|jailbreak|injection|leak"
    r"|pii|refus|repeti|redundan|distance|loss|latency|duration|cost|tokens)",
    re.I,
)
"""In the name of a score: the more of it, the worse. Whether a tool turned it round, and gives 1
where nothing is wrong, its name does not tell."""


_ITEMS = {"fits": FITS, "grounded": GROUNDED, "read": READ, "fresh": FRESH, "ended": ENDED}
"""The item that a finding of a rule denies: a step that the rule names does not hold it."""


def rule_scores(case: RuleContext, found: Sequence[Finding]) -> tuple[StepScore, ...]:
    """A score for each step. `found` are the findings of the rules on the same case.

    Of a run that passed the rules say less: its items are decided by what they say of it where the
    outcome is unknown.
    """
    named = _named(findings(case.unjudged()) if case.reading.passed else found)
    again, end = loop.repeated(case.reading), ending(case.reading)
    asked = [act for turn in case.reading.turns if not turn.observer for act in turn.acts]
    garbled = {act.span.id for act in malformed.garbled(asked)}
    scores: dict[int, StepScore] = {}
    for turns in case.reading.threads.values():
        before: list[Act] = []
        acts = [act for turn in turns for act in turn.acts]
        for earlier, act in brought_again(acts):
            again.setdefault(act.span.id, f"{act.name} repeats step {earlier.step}")
        for place, turn in enumerate(turns):
            items: tuple[Item, ...] = (
                _fits(case, turn, garbled),
                _grounded(case, turn),
                _read(turns, place, again, end),
                _verified(turns, place),
                _fresh(before, turn, again),
                _ended(case, turns, place, end),
            )
            why = named.get(turn.index, {})
            items = tuple(
                Item(name=item.name, held=False, because=why[item.name])
                if item.name in why and item.held is not False
                else item
                for item in items
            )
            scores[turn.index] = _score(turn, items)
            before = _comparable(before, turn.acts)
    return tuple(scores[index] for index in sorted(scores))


def _named(found: Sequence[Finding]) -> dict[int, dict[str, str]]:
    """By step, the items that findings deny, each with what the first of them says."""
    named: dict[int, dict[str, str]] = {}
    for each in found:
        rule = rule_of(each)
        if rule is not None and rule.denies is not None and not each.is_hint:
            named.setdefault(each.step, {}).setdefault(_ITEMS[rule.denies], each.why)
    return named


def imported(case: RuleContext, source_scores: Sequence[SourceScore]) -> tuple[StepScore, ...]:
    """The source's own scores of model calls and of the calls they asked for, the lowest of a step
    by each name.

    A set of scores that leaves 0..1 anywhere in the run is on another scale, which nothing tells:
    a 1 of five is no full mark. It is left out whole, and so is what measures how bad a step is.
    """
    step_of = {
        span: turn.index
        for turn in case.reading.turns
        for span in (turn.ask.id, *(act.span.id for act in turn.acts))
    }
    sets: dict[str, list[tuple[SourceScore, float]]] = defaultdict(list)
    for score in source_scores:
        if score.value is not None and not _LESS_IS_BETTER.search(score.name):
            sets[f"{score.by} · {score.name}"].append((score, score.value))
    found: dict[tuple[str, int], StepScore] = {}
    for by, given in sets.items():
        if not all(0 <= value <= 1 for _, value in given):
            continue
        for score, value in sorted(given, key=lambda each: -each[1]):
            if score.span in step_of:
                step = step_of[score.span]
                found[by, step] = StepScore(
                    step=step, value=value, source="import", by=by, span=score.span
                )
    return tuple(sorted(found.values(), key=lambda each: (each.step, each.by)))


def _score(turn: Turn, items: tuple[Item, ...]) -> StepScore:
    held = [item.held for item in items if item.held is not None]
    return StepScore(
        step=turn.index,
        value=sum(held) / len(held) if held else None,
        source="rule",
        by=BY,
        span=turn.ask.id,
        items=items,
    )


def _fits(case: RuleContext, turn: Turn, garbled: Collection[str]) -> Item:
    """Each tool exists and takes its arguments; None where no reply and no schema tells."""
    verdicts: list[bool] = []
    for act in turn.acts:
        why = absent(turn, act) or refusal(case, turn, act) or _garbled(act, garbled)
        if why is not None:
            return Item(name=FITS, held=False, because=why)
        if act.reply.failed is not None:
            verdicts.append(True)
    return Item(name=FITS, held=True if verdicts else None)


def _grounded(case: RuleContext, turn: Turn) -> Item:
    """Every value that needs an origin has one; None where no value does."""
    values = case.grounding.get(turn.index, ())
    for value in values:
        if value.origin is None:
            return Item(
                name=GROUNDED,
                held=False,
                because=f"{value.path} {value.value} not found in context",
            )
    return Item(name=GROUNDED, held=True if values else None)


def _garbled(act: Act, garbled: Collection[str]) -> str | None:
    bad = act.span.id in garbled or malformed.malformed(act)
    return f"{act.name or 'a call'} is called empty or garbled" if bad else None


def _read(turns: Sequence[Turn], place: int, again: Mapping[str, str], end: Ending | None) -> Item:
    """After a failed call the step does something about it."""
    turn = turns[place]
    failed = [act for act in (turns[place - 1].acts if place else ()) if act.reply.failed]
    if not failed:
        return Item(name=READ, held=None)
    for act in turn.acts:
        if any(repeats(each, act) for each in failed):
            return Item(name=READ, held=False, because=f"repeats the failed call of {act.name}")
        same = any(each.name == act.name for each in failed)
        if same and act.reply.failed and act.span.id in again:
            return Item(name=READ, held=False, because=again[act.span.id])
    if end is not None and end.turn is turn:
        return _short(READ, end)
    return Item(name=READ, held=True)


def _short(name: str, end: Ending) -> Item:
    """The item of a step that ends the run short, where that denies it or leaves it open."""
    return (
        Item(name=name, held=False, because=end.why) if end.certain else Item(name=name, held=None)
    )


def _verified(turns: Sequence[Turn], place: int) -> Item:
    """What a step changed is looked at again: by its own reply, or by a later step that reads."""
    changed = [act for act in turns[place].acts if _changes(act)]
    if not changed:
        return Item(name=VERIFIED, held=None)
    if all(_shows_state(act) for act in changed):
        return Item(name=VERIFIED, held=True)
    later = [act for turn in turns[place + 1 : place + 1 + VERIFIES_WITHIN] for act in turn.acts]
    if any(works(act) and not mutates(act.span) for act in later):
        return Item(name=VERIFIED, held=True)
    return Item(name=VERIFIED, held=False, because=f"result of {changed[0].name} not verified")


def _changes(act: Act) -> bool:
    """Did a call change something that the run could still look at?"""
    worked = bool(mutates(act.span)) and act.reply.failed is False
    return worked and not closes(act) and not hands_over(act)


def _shows_state(act: Act) -> bool:
    """Does the reply itself show the changed thing rather than acknowledge?"""
    return act.reply.text.lstrip()[:1] in {"{", "["} or len(act.reply.text) > 200


def _comparable(before: list[Act], acts: Sequence[Act]) -> list[Act]:
    """The calls that a repeat is looked for among, with these: none from before a change, after
    which the same call may bring something else."""
    for act in acts:
        changed = mutates(act.span) and act.reply.failed is False
        before = [] if changed else [*before, act]
    return before[-LOOKBACK:]


def _fresh(before: Sequence[Act], turn: Turn, again: Mapping[str, str]) -> Item:
    """Nothing that the step calls or says brings again what came before; None where it says
    something once, or an earlier answer to the same call is not known."""
    unknown = not turn.acts
    for span in (turn.ask.id, *(act.span.id for act in turn.acts)):
        if span in again:
            return Item(name=FRESH, held=False, because=again[span])
    for act in turn.acts:
        for earlier in reversed(before):
            if repeats(earlier, act):
                return Item(
                    name=FRESH, held=False, because=f"{act.name} repeats step {earlier.step}"
                )
            if earlier.key == act.key and None in (earlier.reply.failed, act.reply.failed):
                unknown = True
    return Item(name=FRESH, held=None if unknown else True)


def _ended(case: RuleContext, turns: Sequence[Turn], place: int, end: Ending | None) -> Item:
    """The last step of the first thread ends the run as it should; None for every other."""
    if turns[place] is not case.reading.main[-1]:
        return Item(name=ENDED, held=None)
    if end is not None:
        return _short(ENDED, end)
    answered = turns[place].said and not turns[place].acts
    return Item(name=ENDED, held=True if answered else None)
