"""Everything the rules say of one trace, put together.

Deterministic: the same trace gives the same value. The rules' own scores never read the outcome;
which findings count, and how much a candidate must weigh, does depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replay.trace import SourceScore, Trace
from taxonomy.evidence.checks import report_checks
from taxonomy.evidence.gold_differences import compare_to_gold
from taxonomy.evidence.results import Kind
from taxonomy.findings import Diagnosis, Signal, StepScore, most_trusted
from taxonomy.localiser.candidates import candidates
from taxonomy.localiser.failed_checks import certain_first
from taxonomy.localiser.known import known_first
from taxonomy.rules import findings
from taxonomy.rules.hallucinated_state import phrase
from taxonomy.rules.malformed import malformed
from taxonomy.rules.rule import RuleContext
from taxonomy.rules.wrong_tool import absent
from taxonomy.shapes import classify, classify_binned, most_voted, published_votes
from taxonomy.step_scores import FRESH, imported, rule_scores

REDUNDANT = 0.3
"""A passed run that repeats more than this share of its calls is worth a look."""


def diagnose(
    trace: Trace,
    source_scores: tuple[SourceScore, ...] = (),
    more_scores: tuple[StepScore, ...] = (),
) -> Diagnosis:
    """What the rules say of a trace.

    Scores of the source stand beside the rules' own. Given scores are, a step, the most trusted
    one of the source and of `more_scores`, which are not repeated in the diagnosis: those of people
    and judges. Shape and published vote are taken over them where they are of three steps or more,
    else over the rules'; of the candidates they decide first, but for what gold shows.
    """
    case = RuleContext(trace)
    found = findings(case)
    own = rule_scores(case, found)
    checks = report_checks(case.reading, case.check_runs, case.writes, source_scores)
    turns = case.reading.turns
    beside = imported(case, source_scores)
    others = (*beside, *more_scores)
    given = most_trusted(score for score in others if score.step in range(len(turns)))
    scored = given if len(given) >= 3 else most_trusted(own)
    trusted = _by_step(case, scored)
    votes = _votes(case, trusted)
    broke = most_voted(votes)
    gold = compare_to_gold(case.reading)
    return Diagnosis(
        trace=trace.id,
        shape=classify_binned(trusted),
        scores=(*own, *beside),
        findings=found,
        candidates=known_first(
            case.reading,
            gold,
            found,
            certain_first(case, found, checks, candidates(case, found, own, given)),
        ),
        published=broke,
        published_votes=votes[broke] if broke is not None else (),
        published_shape=classify(trusted),
        warnings=tuple(_warnings(case, own)) if case.reading.passed else (),
        gold=gold,
        checks=checks,
    )


def published_step(case: RuleContext, own: Sequence[StepScore]) -> int | None:
    """The step of the published rule over the rules' scores."""
    return most_voted(_votes(case, _by_step(case, most_trusted(own))))


def _by_step(case: RuleContext, scored: Mapping[int, StepScore]) -> list[float | None]:
    return [
        scored[turn.index].value if turn.index in scored else None for turn in case.reading.turns
    ]


def _votes(case: RuleContext, scores: Sequence[float | None]) -> dict[int, tuple[Signal, ...]]:
    asks = [turn.ask for turn in case.reading.turns]
    latencies = [ask.duration_ns for ask in asks]
    costs = [ask.cost.usd if ask.cost is not None else None for ask in asks]
    return published_votes(scores, latencies, costs)


def _warnings(case: RuleContext, scores: Sequence[StepScore]) -> Iterator[str]:
    """What was wrong in a run that passed all the same, a short phrase each."""
    acts = case.reading.acts
    absentees = dict.fromkeys(act.name for act in acts if absent(case.reading.turns[act.step], act))
    for name in absentees:
        yield f"called {name or 'a tool without a name'}, which does not exist"
    bad = sum(map(malformed, acts))
    if bad:
        yield f"{bad} of {len(acts)} calls malformed"
    refused = [act for act in acts if act.reply.failed and act.reply.kind is Kind.ARGUMENTS]
    if refused:
        yield f"{len(refused)} of {len(acts)} calls rejected for their arguments"
    for values in case.grounding.values():
        for value in values:
            if value.origin is None:
                yield phrase(value)
                break
    fresh = [item.held for score in scores for item in score.items if item.name == FRESH]
    decided = [held for held in fresh if held is not None]
    repeated = decided.count(False)
    if decided and repeated / len(decided) > REDUNDANT:
        yield f"{repeated} of {len(decided)} steps repeated earlier work"
