"""Everything the rules say of one trace, put together.

Deterministic: the same trace gives the same value. The rules' own scores never read the outcome;
which findings count, and how much a candidate must weigh, does depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.trace import SourceScore, Trace
from taxonomy.evidence.replies import Kind
from taxonomy.findings import Diagnosis, StepScore
from taxonomy.localiser.candidates import candidates
from taxonomy.rules import findings
from taxonomy.rules.case import Case
from taxonomy.rules.hallucinated_state import phrase
from taxonomy.rules.malformed import malformed
from taxonomy.rules.wrong_tool import absent
from taxonomy.scores import FRESH, imported, rule_scores
from taxonomy.shapes import classify, classify_binned
from taxonomy.signals import most_voted, published_votes

REDUNDANT = 0.3
"""A passed run that repeats more than this share of its calls is worth a look."""


def diagnose(
    trace: Trace,
    source_scores: tuple[SourceScore, ...] = (),
    more_scores: tuple[StepScore, ...] = (),
) -> Diagnosis:
    """What the rules say of a trace.

    Scores of the source stand beside the rules' own. Shape and published vote are taken over the
    source's where it scored three steps or more, else over the rules'. The candidates rest on the
    rules and, a step, on the most trusted score that someone gave: the source, or a person or a
    judge in `more_scores`, which are not repeated in the diagnosis.
    """
    case = Case(trace)
    found = findings(case)
    own = rule_scores(case, found)
    given = imported(case, source_scores)
    trusted = _by_step(case, given if len({score.step for score in given}) >= 3 else own)
    asks = [turn.ask for turn in case.reading.turns]
    latencies = [ask.duration_ns for ask in asks]
    costs = [ask.cost.usd if ask.cost is not None else None for ask in asks]
    votes = published_votes(trusted, latencies, costs)
    broke = most_voted(votes)
    return Diagnosis(
        trace=trace.id,
        shape=classify_binned(trusted),
        scores=(*own, *given),
        findings=found,
        candidates=candidates(case, found, (*own, *given, *more_scores)),
        published=broke,
        published_votes=votes[broke] if broke is not None else (),
        published_shape=classify(trusted),
        warnings=tuple(_warnings(case, own)) if case.reading.passed else (),
    )


def _by_step(case: Case, scores: Sequence[StepScore]) -> list[float | None]:
    """A score a step, the first of several; None where a step has none."""
    found: list[float | None] = [None] * len(case.reading.turns)
    for score in reversed(scores):
        found[score.step] = score.value
    return found


def _warnings(case: Case, scores: Sequence[StepScore]) -> Iterator[str]:
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
        yield f"{len(refused)} of {len(acts)} calls refused for their arguments"
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
