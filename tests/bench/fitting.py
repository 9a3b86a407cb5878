"""`python -m tests.bench.fitting`: fits the localiser and measures it, each source held out.

Writes `taxonomy/localiser/weights.py`, `fixtures/localiser.json` and the tables of
`docs/reference/localiser.md`; `--dry` only prints. `held_out` says how it is fitted.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from arc_tui.features.calibration.command import print_sources
from arc_tui.features.calibration.sources import SourcesView
from taxonomy.calibration.localisation import ID_LENGTH
from taxonomy.calibration.sources import LabelFile, measure_files
from taxonomy.findings import Band
from taxonomy.judgements import diagnoses
from taxonomy.localiser.candidates import MOST, ranking
from taxonomy.localiser.features import FEATURES, Model
from tests.bench.fit_results import FILE, FitResults, SignWorth
from tests.bench.held_out import GUESSES, chosen_ridge, model_of
from tests.bench.labelled import SOURCES, human_sources, shared_files, shared_store
from tests.docs import DOCS, ROOT, rendered

PAGES = (DOCS / "statistics.md", DOCS / "reference" / "localiser.md")


def folds(files: Sequence[LabelFile], names: Sequence[str] = tuple(GUESSES)) -> Mapping[str, Model]:
    """By source the model that was fitted without it."""
    return {source: model_of(human_sources(files, without=source), names) for source in SOURCES}


def right(files: Sequence[LabelFile], models: Mapping[str, Model], most: int) -> dict[str, int]:
    """By label file in how many runs one of the first `most` steps is decisive."""
    found = {}
    for each in files:
        weights = models[each.source].weights
        found[each.name] = sum(
            bool(run.decisive & {step for step, _ in ranking(
                run.signals.against, run.signals.choices, weights)[:most]})
            for run in each.runs
        )  # fmt: skip
    return found


def speaks(files: Sequence[LabelFile], name: str) -> dict[str, int]:
    """By label file in how many runs with a decisive step a feature speaks."""
    return {
        each.name: sum(
            bool(run.decisive) and any(name in named for named in run.signals.against.values())
            for run in each.runs
        )
        for each in files
    }


def worth(files: Sequence[LabelFile], weights: Mapping[str, float]) -> tuple[SignWorth, ...]:
    """Every feature, and all folds fitted anew without it."""
    found = []
    for feature in FEATURES:
        models = folds(files, [name for name in GUESSES if name != feature.name])
        found.append(
            SignWorth(
                name=feature.name,
                meaning=feature.meaning,
                guess=feature.guess,
                weight=weights[feature.name],
                is_pointer=feature.is_pointer,
                runs=speaks(files, feature.name),
                exact=right(files, models, 1),
                top_3=right(files, models, MOST),
            )
        )
    return tuple(found)


# --- writing


def written(model: Model, models: Mapping[str, Model], files: Sequence[LabelFile]) -> str:
    """The text of `taxonomy/localiser/weights.py`."""
    counts = ", ".join(
        f"{sum(bool(run.decisive) for run in runs)} runs of {name}"
        for name, runs in human_sources(files).items()
    )
    head = [
        '"""What each feature weighs, and how often first candidates as likely were right.',
        "",
        "Written by `python -m tests.bench.fitting`, not by hand. Fitted on people's labels, each",
        f"source weighing the same: {counts}.",
        "How well it does on sources held out is in `fixtures/localiser.json`.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from taxonomy.findings import Band",
        "from taxonomy.localiser.features import Model",
        "",
        "# fmt: off",
        "MODEL = " + _model(model, explained=True),
        "",
        "FOLDS: dict[str, Model] = {",
    ]
    body = [f'    "{source}": {_model(each)},' for source, each in models.items()]
    keys = {
        source: sorted(
            {run.trace[:ID_LENGTH] for each in files if each.source == source for run in each.runs}
        )
        for source in SOURCES
    }
    tail = [
        "}",
        '"""By source the model that was fitted without it."""',
        "",
        "FITTED: dict[str, str] = {",
        *(line for source, own in keys.items() for line in _ids(source, own)),
        "}",
        "# fmt: on",
        '"""By source how the ids of its labelled runs begin: those that signs were chosen, and',
        'weights fitted, in sight of."""',
        "",
    ]
    return "\n".join([*head, *body, *tail])


def _model(model: Model, *, explained: bool = False) -> str:
    rows = [
        f'"{each.name}": {model.weights[each.name]:.2f},'
        + (f"  # {each.guess:.2f}: {each.meaning}" if explained else "")
        for each in FEATURES
    ]
    inside = " " * (4 if explained else 8)
    width = 1 if explained else 4
    lines = [
        "Model(",
        f"{inside}weights={{",
        *(f"{inside}    {' '.join(rows[at : at + width])}" for at in range(0, len(rows), width)),
        f"{inside}}},",
        f"{inside}bands=(",
        *(f"{inside}    ({edge:.2f}, {_band(band)})," for edge, band in model.bands),
        f"{inside}),",
        f"{inside[4:]})",
    ]
    return "\n".join(lines)


def _band(band: Band | None) -> str:
    if band is None:
        return "None"
    return f"Band(low={band.low:.2f}, runs={band.runs})"


def _ids(source: str, keys: Sequence[str]) -> list[str]:
    lines = [" ".join(keys[at : at + 9]) for at in range(0, len(keys), 9)]
    return [f'    "{source}":', *(f'        "{line} "' for line in lines[:-1]),
            f'        "{lines[-1]}",']  # fmt: skip


def rounded(value: Any) -> Any:
    """The value as plain JSON, numbers to three places."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return {name: rounded(each) for name, each in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [rounded(each) for each in plain]
    return round(plain, 3) if isinstance(plain, float) else plain


def main(words: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="arc-fit-") as folder:
        store = shared_store(Path(folder))
        files = shared_files(store)
        shown = shared_files(store, is_hidden=False)
        store.close()
    models, model = folds(files), model_of(human_sources(files))
    shown_models = folds(shown)
    results = FitResults(
        measured=datetime.now(UTC).date().isoformat(),
        engine=diagnoses.engine_version(),
        ridges={
            source: chosen_ridge(human_sources(files, without=source), tuple(GUESSES))
            for source in SOURCES
        },
        folds=measure_files(files, models.__getitem__),
        with_outcome=measure_files(shown, shown_models.__getitem__),
        exact=right(files, models, 1),
        top_3=right(files, models, MOST),
        signs=worth(files, model.weights),
    )
    print_sources(Console(width=150), SourcesView(sources=results.folds))
    for sign in results.signs:
        print(f"{sign.name:<16}{sign.weight:6.2f}  guess {sign.guess:5.2f}  without:", end="  ")
        print("  ".join(f"{sign.exact[name]}/{sign.top_3[name]}" for name in sign.exact))
    if "--dry" in words:
        return
    text = msgspec.json.format(msgspec.json.encode(rounded(results)), indent=1).decode()
    (ROOT / "fixtures" / FILE).write_text(text + "\n")
    (ROOT / "taxonomy" / "localiser" / "weights.py").write_text(written(model, models, files))
    for page in PAGES:
        page.write_text(rendered(page.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
