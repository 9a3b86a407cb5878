"""Where do labels and findings part, worst first? The list a person works through by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from msgspec import Struct

from taxonomy.calibration.labelled import Labelled
from taxonomy.calibration.labels import Label
from taxonomy.calibration.report import scored_at

About = Literal["break", "class", "score", "item"]
ORDER: tuple[About, ...] = get_args(About)

UNLABELLED = "not labelled"


class Disagreement(Struct, frozen=True, kw_only=True):
    """One point of difference. `off` is in steps for a break, in score for a score, None where
    there is no distance (nothing was found, or nothing was labelled).

    `step` is the labelled one, or the found one where nothing is labelled; None for a whole run.
    """

    about: About
    trace: str
    step: int | None
    labelled: str
    found: str
    off: float | None
    by: str | None = None
    strength: str | None = None
    note: str | None = None


def disagreements(runs: Sequence[Labelled]) -> tuple[Disagreement, ...]:
    """All of them: breaks, then classes, scores, rubric items; in each the farthest off first, and
    what was missed before what nobody labelled."""
    found = [
        *(each for run in runs for each in _breaks(run)),
        *(each for run in runs for each in _classes(run)),
        *(each for run in runs for each in _scores(run)),
        *(each for run in runs for each in _items(run)),
    ]
    return tuple(sorted(found, key=_worst_first))


def _worst_first(each: Disagreement) -> tuple[int, bool, float, bool]:
    return ORDER.index(each.about), each.off is None, -(each.off or 0), each.labelled == UNLABELLED


def _breaks(run: Labelled) -> Iterator[Disagreement]:
    """The first candidate is no decisive step."""
    if not run.decisive:
        return
    first = run.candidates[0] if run.candidates else None
    if first is not None and first.step in run.decisive:
        return
    wanted = min(run.decisive, key=lambda step: abs(step - first.step) if first else step)
    label = next(each.label for each in run.labels if each.label.decisive and each.step == wanted)
    yield Disagreement(
        about="break",
        trace=run.row.trace,
        step=wanted,
        labelled=" or ".join(f"step {step}" for step in run.decisive),
        found=f"step {first.step}: {first.why}" if first else "no candidate",
        off=None if first is None else abs(first.step - wanted),
        **_said(label),
    )


def _classes(run: Labelled) -> Iterator[Disagreement]:
    """A class that labels name and the rules do not find in the run, or the other way round."""
    if run.classes is None:
        return
    found = {each.failure: each for each in reversed(run.found("rule"))}
    for failure in sorted(run.classes - set(found)):
        each = next(each for each in run.labels if failure in (each.label.classes or ()))
        yield Disagreement(
            about="class",
            trace=run.row.trace,
            step=each.step,
            labelled=failure.value,
            found="not found",
            off=None,
            **_said(each.label),
        )
    for failure in sorted(set(found) - run.classes):
        yield Disagreement(
            about="class",
            trace=run.row.trace,
            step=found[failure].step,
            labelled=UNLABELLED,
            found=f"{failure.value}: {found[failure].why}",
            off=None,
            **_said(run.labels[0].label),
        )


def _scores(run: Labelled) -> Iterator[Disagreement]:
    """A score beside a person's of the same step, or of the run."""
    for by in sorted({score.by for score in run.scores if score.source != "human"}):
        scored = run.scored(by)
        for each in run.labels:
            other = scored_at(scored, each.step) if scored else None
            if each.label.score is None or other is None or each.label.score == other:
                continue
            yield Disagreement(
                about="score",
                trace=run.row.trace,
                step=each.step,
                labelled=f"{each.label.score:.2f}",
                found=f"{other:.2f} · {by}",
                off=abs(other - each.label.score),
                **_said(each.label),
            )


def _items(run: Labelled) -> Iterator[Disagreement]:
    """A source answers a rubric item otherwise than a person did."""
    for score in run.scores:
        if score.source == "human":
            continue
        answers = {item.name: item for item in score.items if item.held is not None}
        for each in run.labels:
            if each.step != score.step:
                continue
            for name, held in each.label.items.items():
                answer = answers.get(name)
                if answer is not None and answer.held != held:
                    because = f" ({answer.because})" if answer.because else ""
                    yield Disagreement(
                        about="item",
                        trace=run.row.trace,
                        step=each.step,
                        labelled=f"{name}: {_yes(held)}",
                        found=f"{_yes(not held)}{because} · {score.by}",
                        off=None,
                        **_said(each.label),
                    )


def _yes(held: bool) -> str:
    return "yes" if held else "no"


def _said(label: Label) -> dict[str, str | None]:
    return {"by": label.by, "strength": label.strength, "note": label.note}
