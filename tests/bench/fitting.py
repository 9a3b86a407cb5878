"""`python -m tests.bench.fitting`: fits the localiser on the shared labels and says how good it is.

Weights: a conditional logit over the steps of each run, drawn to the guesses of the feature table
by a ridge that cross-validation chooses. Every figure is of runs held out of the fit; which
features there are was decided with these very sets in sight, so figures on other sets may be lower.
Runs that no fit sees, long ones among them, are reported beside.

Writes `taxonomy/localiser/weights.py` and `fixtures/localiser.json`; `--dry` only prints.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from replay.statistics import Rate
from taxonomy.calibration.localisation import Hits, Localisation, Run, baselines, localisation
from taxonomy.judgements import diagnoses
from taxonomy.localiser.candidates import MOST, WORTH, shown
from taxonomy.localiser.features import FEATURES
from tests.bench.held_out import (
    EARLY,
    FITTED,
    FOLDS,
    GUESSES,
    SEEDS,
    HeldOut,
    Sets,
    Table,
    Weights,
    choice,
    chosen_ridge,
    claims,
    fitted,
    held_out,
    honest,
    table_of,
)
from tests.bench.labelled import BUNDLED, Labelled, bundled, shared_sets
from tests.bench.stretched import LONG, WRITES, stretched, wrong_writes

ROOT = Path(__file__).resolve().parents[2]

# --- figures

OURS = "localiser, held out"

Guesser = Callable[[HeldOut], Sequence[int]]


def guessers(table: Table) -> dict[str, Guesser]:
    """Every way to name a step that is reported."""

    def ours(each: HeldOut) -> list[int]:
        found = shown(each.run.against, each.run.choices, each.weights, table)
        return [candidate.step for candidate in found]

    def guessed(each: HeldOut) -> list[int]:
        found = shown(each.run.against, each.run.choices, GUESSES)
        return [candidate.step for candidate in found]

    return {
        OURS: ours,
        "hand weights": guessed,
        "first finding": lambda each: [] if each.run.found is None else [each.run.found],
        "published rule": lambda each: [] if each.run.published is None else [each.run.published],
    }


def forced(runs: Sequence[HeldOut], names: Sequence[str]) -> Localisation:
    """The best step of each run, with no leave to abstain."""
    found = []
    for each in runs:
        rows = choice(each.run, names).rows
        sums = [sum(each.weights[n] * x for n, x in zip(names, row, strict=True)) for row in rows]
        order = sorted(range(len(rows)), key=lambda place: (-sums[place], place))
        found.append(_run(each.run, [each.run.choices[place] for place in order[:3]]))
    return localisation("no leave to abstain", found)


def _run(run: Labelled, guesses: Sequence[int]) -> Run:
    return Run(decisive=tuple(sorted(run.decisive)), guesses=tuple(guesses), steps=run.steps)


def measured(runs: Sequence[HeldOut], table: Table) -> dict[str, Any]:
    """The figures of one set, every guesser beside the blind baselines."""
    figures = [
        localisation(name, [_run(each.run, guess(each)) for each in runs])
        for name, guess in guessers(table).items()
    ]
    blind = baselines([_run(each.run, ()) for each in runs])
    return {"runs": len(runs), "guessers": figures, "blind": blind}


# --- writing


def written(weights: Weights, table: Table, sets: Sets) -> str:
    """The text of `taxonomy/localiser/weights.py`."""
    counts = ", ".join(f"{len(runs)} runs of {name}" for name, runs in sets.items())
    rows = [
        f'    "{each.name}": {weights[each.name]:.2f},  # {each.guess:.2f}: {each.meaning}'
        for each in FEATURES
    ]
    bins = [f"    ({edge:.2f}, {right:.2f})," for edge, right in table]
    return "\n".join(
        [
            '"""What each feature weighs, and how often a step so likely was right.',
            "",
            "Written by `python -m tests.bench.fitting`, not by hand. Fitted on people's labels:",
            f"{counts}.",
            "Drawn to the guesses by hand that stand beside them. How well this does on runs held",
            "out is in `fixtures/localiser.json`.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            "# fmt: off",
            "WEIGHTS: dict[str, float] = {",
            *rows,
            "}",
            '"""By feature: its weight in log odds, then the guess by hand, and what it means."""',
            "",
            "CONFIDENCE: tuple[tuple[float, float], ...] = (",
            *bins,
            ")",
            "# fmt: on",
            '"""(from this likelihood on, how often right), of candidates in runs held out."""',
            "",
        ]
    )


def shares(figure: Localisation) -> str:
    """One line of figures over all runs, an abstention a miss, and exact over the answered."""
    hits = figure.over_all
    rates = (hits.exact, hits.within_1, hits.within_3, hits.within_5, hits.top_3)
    far = "–" if hits.mean_distance is None else f"{hits.mean_distance:.1f}"
    answered = figure.over_answered.exact
    return f"{'  '.join(map(_share, rates))}  {far:>5}  answered {_share(answered)}"


def _share(given: Rate) -> str:
    if given.value is None:
        return f"{'–':>20}"
    return f"{given.value:5.2f} [{given.low:.2f} {given.high:.2f}] {given.n:3}"


def report(sets: Sets, held: Sequence[HeldOut], names: Sequence[str]) -> None:
    """The forced figures of each set and their mean, for one list of features."""
    exact = []
    for name in sets:
        figure = forced([each for each in held if each.of == name], names)
        exact.append(figure.over_all.exact.value or 0.0)
        print(f"  {name:<18} {shares(figure)}")
    print(f"  mean over sets: exact {sum(exact) / len(exact):.3f}")


def printed(figures: Mapping[str, Any], honesty: Mapping[str, Any]) -> None:
    """The figures of every set, and the reliability tables."""
    for name, told in figures.items():
        print(f"\n{name}, {told['runs']} runs:  exact, ±1, ±3, ±5, top 3, mean distance")
        for figure in told["guessers"]:
            print(f"  {figure.name:<22} {shares(figure)}")
        for what, hits in (
            ("best step", told["blind"].constant),
            ("best place", told["blind"].relative),
        ):
            print(
                f"  {what:<22} {'  '.join(map(_share, _rates(hits)))}  {hits.mean_distance:>5.1f}"
            )
    for what, table in honesty.items():
        print(f"\nreliability of {what} candidates, held out; a first is shown from {WORTH:g} on")
        for each in table.bins:
            print(f"  stated {each.stated:.2f}  right {_share(each.right)}")
        print(f"  mean error {table.error or 0:.3f}")


def main(words: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="arc-fit-") as folder:
        sets = shared_sets(Path(folder))
        beside = {
            BUNDLED: bundled(Path(folder)),
            LONG: stretched(Path(folder)),
            WRITES: wrong_writes(Path(folder)),
        }
    print(
        {name: len(runs) for name, runs in sets.items()},
        {name: len(runs) for name, runs in beside.items()},
    )
    by_seed = [held_out(sets, seed) for seed in range(SEEDS)]
    table = table_of([claim for runs in by_seed for claim in claims(runs)])
    ridge = chosen_ridge(sets, 0)
    weights = fitted(sets, ridge)
    names = (*FITTED, EARLY)
    print("\nheld out, no leave to abstain:  exact, ±1, ±3, ±5, top 3, mean distance")
    report(sets, by_seed[0], FITTED)
    print("the same with a feature for nothing but the place in the run:")
    report(sets, held_out(sets, 0, names), names)
    figures = {
        name: measured([each for each in by_seed[0] if each.of == name], table) for name in sets
    }
    for name, runs in beside.items():
        figures[name] = measured([HeldOut(name, run, weights) for run in runs], table)
    honesty = {"first": honest(by_seed, 1), "all": honest(by_seed, MOST)}
    printed(figures, honesty)
    print(f"\nconfidence {table}\nweights, ridge {ridge:g}")
    for feature in FEATURES:
        print(f"  {feature.name:<14} {weights[feature.name]:5.2f}  guess {feature.guess:.2f}")
    if "--dry" in words:
        return
    (ROOT / "taxonomy" / "localiser" / "weights.py").write_text(written(weights, table, sets))
    result = {
        "measured": datetime.now(UTC).date().isoformat(),
        "engine": diagnoses.engine_version(),
        "fitted_on": list(sets),
        "folds": FOLDS,
        "note": "the bundled runs were in sight when the rules were written: no measure of them;"
        f" {LONG}: the same chats among made-up turns; {WRITES}: a rule's word, no person's",
        "sets": figures,
        "exact_by_seed": {name: [_exact(runs, name, table) for runs in by_seed] for name in sets},
        "reliability": honesty,
        "confidence": table,
        "weights": weights,
    }
    text = msgspec.json.format(msgspec.json.encode(_rounded(result)), indent=1).decode()
    (ROOT / "fixtures" / "localiser.json").write_text(text + "\n")


def _rounded(value: Any) -> Any:
    """The value as plain JSON, numbers to three places."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return {name: _rounded(each) for name, each in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [_rounded(each) for each in plain]
    return round(plain, 3) if isinstance(plain, float) else plain


def _rates(hits: Hits) -> tuple[Rate, ...]:
    return (hits.exact, hits.within_1, hits.within_3, hits.within_5, hits.top_3)


def _exact(runs: Sequence[HeldOut], name: str, table: Table) -> float:
    ours = guessers(table)[OURS]
    told = [_run(each.run, ours(each)) for each in runs if each.of == name]
    return localisation(name, told).over_all.exact.value or 0.0


if __name__ == "__main__":
    main(sys.argv[1:])
