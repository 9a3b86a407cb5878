"""Leave one source out: weights, strength of the ridge and bands that never saw what they judge.

For each source everything is fitted on the other sources that people labelled, each of them
weighing the same, and then frozen. Inside such a fit the ridge and the bands come from leaving
each of its sources out in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.statistics import rate
from taxonomy.calibration.sources import SourceRun, Sources
from taxonomy.findings import Band
from taxonomy.localiser.candidates import ranking, shown
from taxonomy.localiser.features import FEATURES, Model
from taxonomy.localiser.signals import strength
from tests.bench.logit import Choice, fit, log_loss

GUESSES = {feature.name: feature.guess for feature in FEATURES}
RIDGES = (3.0, 10.0, 30.0, 100.0)
EDGES = (0.0, 0.6)
"""Where bands begin, in likelihood."""

FEWEST = 10
"""A band needs so many first candidates; a source with fewer than `FEW` says nothing."""

FEW = 3

_EVEN = 50.0
"""What the runs of one source weigh together in a fit."""


def fitted(sources: Sources, ridge: float, names: Sequence[str]) -> dict[str, float]:
    """Weights drawn to the guesses; a sign never comes to speak for what it speaks against."""
    prior = [GUESSES[name] for name in names]
    found = fit(choices(sources, names), prior, ridge)
    return {
        name: max(0.0, value) if GUESSES[name] > 0 else min(0.0, value)
        for name, value in zip(names, found, strict=True)
    }


def choices(sources: Sources, names: Sequence[str]) -> list[Choice]:
    """The runs with a decisive step; those of each source weigh the same together."""
    found = []
    for runs in sources.values():
        broken = [run for run in runs if run.decisive]
        found += [_choice(run, names, _EVEN / len(broken)) for run in broken]
    return found


def _choice(run: SourceRun, names: Sequence[str], weight: float) -> Choice:
    steps, against = run.signals.choices, run.signals.against
    return Choice(
        rows=[[strength(against.get(step, {}), name) for name in names] for step in steps],
        right=frozenset(at for at, step in enumerate(steps) if step in run.decisive),
        weight=weight,
    )


def chosen_ridge(sources: Sources, names: Sequence[str]) -> float:
    """The ridge whose fits lose least on sources left out of these, the strongest for a single
    one."""
    if len(sources) < 2:
        return RIDGES[-1]
    losses = {
        ridge: sum(
            log_loss(
                choices({name: sources[name]}, names),
                list(fitted(_without(sources, name), ridge, names).values()),
            )
            for name in sources
        )
        for ridge in RIDGES
    }
    return min(RIDGES, key=losses.__getitem__)


def _without(sources: Sources, name: str) -> Sources:
    return {each: runs for each, runs in sources.items() if each != name}


def model_of(sources: Sources, names: Sequence[str] = tuple(GUESSES)) -> Model:
    """Weights and bands, fitted on all of the sources; features that are not named weigh 0."""
    weights = dict.fromkeys(GUESSES, 0.0) | fitted(sources, chosen_ridge(sources, names), names)
    return Model(weights=weights, bands=_bands(sources, names))


# --- bands

Claim = tuple[float, bool]


def claims(runs: Sequence[SourceRun], weights: Mapping[str, float]) -> list[Claim]:
    """(likelihood, was it right) of every first candidate that is more than a positional guess."""
    model = Model(weights=weights)
    found = []
    for run in runs:
        best = shown(run.signals, model) if run.decisive and not run.signals.is_group else ()
        if best and not best[0].is_positional:
            chance = ranking(run.signals.against, run.signals.choices, weights)[0][1]
            found.append((chance, best[0].step in run.decisive))
    return found


def _bands(sources: Sources, names: Sequence[str]) -> tuple[tuple[float, Band | None], ...]:
    """How often first candidates of each likelihood were right, each source held out of the
    weights that made them.

    A band begins at the lowest lower bound of the sources' 95 % intervals, since the next source
    will differ too. Group chats, of which there is one source, are left
    out: nothing could be held against what they would state.
    """
    by_source = {}
    for name in sources:
        others = _without(sources, name)
        weights = fitted(others, chosen_ridge(others, names), names) if others else GUESSES
        full = dict.fromkeys(GUESSES, 0.0) | dict(weights)
        by_source[name] = claims(sources[name], full)
    found: list[tuple[float, Band | None]] = []
    for place, edge in enumerate(EDGES):
        above = EDGES[place + 1] if place + 1 < len(EDGES) else 1.01
        held = [
            [right for chance, right in own if edge <= chance < above] for own in by_source.values()
        ]
        found.append((edge, _band([each for each in held if len(each) >= FEW])))
    return tuple(found)


def _band(held: Sequence[Sequence[bool]]) -> Band | None:
    runs = sum(map(len, held))
    if runs < FEWEST:
        return None
    rates = [rate(sum(each), len(each)) for each in held]
    return Band(low=round(min(each.low for each in rates), 2), runs=runs)
