"""`arc calibrate`, `arc label`: how right the judgements are, and what a person says of a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec import structs

from arc_tui import format
from arc_tui.cli.calibration_table import (
    print_audit,
    print_calibration,
    print_drift,
    print_noise,
)
from arc_tui.cli.common import (
    console,
    db_option,
    diagnose_new,
    json_option,
    open_store,
    print_json,
)
from arc_tui.jobs.importing import diagnose_one
from arc_tui.jobs.trusting import keep_verdicts
from arc_tui.places import author
from arc_tui.views.calibration.drift import build_drift, unchecked
from arc_tui.views.calibration.view import (
    CalibrationView,
    build_audit,
    build_calibration,
    labels_of,
)
from replay.errors import ArcError, no_step
from replay.store import Store
from replay.store.handle import now_ns
from replay.store.rows import step_rows, trace_row
from taxonomy import ledger
from taxonomy.calibration.audit import SHARE
from taxonomy.calibration.labels import (
    SCALE_HINT,
    UNIT_SCALE,
    Scale,
    keep_file_scores,
    place,
    read_labels,
)
from taxonomy.calibration.noise import noise_table
from taxonomy.calibration.rubric_items import item_named, item_names


@click.command()
@click.option(
    "--labels",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    help="A label file, again for another; without it, what people said here.",
)
@click.option("--drift", is_flag=True, help="What changed with a judge's model, rubric, template.")
@click.option("--noise", is_flag=True, help="How noise and length blur the shape of a run.")
@click.option("--audit", is_flag=True, help="The runs to look at again: a sample nobody chose.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=SHARE,
    show_default=True,
    help="The share of runs in the audit sample.",
)
@json_option
@db_option
def calibrate(
    labels: tuple[Path, ...],
    drift: bool,
    noise: bool,
    audit: bool,
    share: float,
    as_json: bool,
    db: Path | None,
) -> int:
    """Hold rules, judge and localiser against labels, beside blind baselines.

    Without --labels the labels are what people said here: tags, runs found clean, scores, rubric
    items. Labels made by a rule are shown apart, as conformance. Exit code 1: no label points at a
    run of the database; with --drift, no judge has scored anything.
    """
    if sum((bool(labels) or drift, noise, audit)) > 1:
        raise click.UsageError("--labels (with --drift), --noise and --audit: ask one")
    if noise:
        cells = list(noise_table())
        print_json(cells) if as_json else print_noise(console(), cells)
        return 0
    with open_store(db) as store:
        if audit:
            chosen = build_audit(store, share)
            print_json(chosen) if as_json else print_audit(console(), chosen)
            return 0 if chosen.rows else 1
        if drift:
            source, said, _ = labels_of(store, labels)
            moved = build_drift(store, source, said, now_ns())
            print_json(moved) if as_json else print_drift(console(), moved)
            return 0 if moved.sets else 1
        view = _calibrated(store, labels)
    print_json(view) if as_json else print_calibration(console(), view)
    return 0 if view.parts else 1


def _calibrated(store: Store, labels: tuple[Path, ...]) -> CalibrationView:
    """The view, with what the rules say today; verdicts that people's labels decide are kept."""
    diagnose_new(store)
    now = now_ns()
    view = build_calibration(store, labels, now)
    keep_verdicts(store, view, now)
    return structs.replace(view, unchecked=unchecked(store, now))


ANSWERS = {"yes": True, "no": False, "?": None}


def _answers(given: tuple[str, ...]) -> dict[str, bool | None]:
    """`NAME=yes` as the item's name and what was said, None to take an answer back."""
    found: dict[str, bool | None] = {}
    for text in given:
        word, mark, answer = text.rpartition("=")
        name = item_named(word)
        if not mark or answer.strip().lower() not in ANSWERS:
            raise click.UsageError(f"--item {text}: write NAME=yes, NAME=no or NAME=?")
        if name is None:
            raise click.UsageError(
                f"--item {text}: no rubric item {word!r}; {', '.join(item_names())}"
            )
        found[name] = ANSWERS[answer.strip().lower()]
    return found


@click.command()
@click.argument("trace", required=False)
@click.argument("step", type=int, required=False)
@click.argument("score", type=click.FloatRange(0, 1), required=False)
@click.option(
    "--item",
    "items",
    multiple=True,
    metavar="NAME=yes|no|?",
    help="Did a rubric item hold? Repeatable; ? takes the answer back.",
)
@click.option("--note", help="A sentence to keep with it.")
@click.option(
    "--from",
    "files",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Bring in others' scores of steps: JSON Lines as `arc calibrate --labels` takes them.",
)
@click.option("--by", metavar="NAME", help="With --from: the scores of this name alone.")
@click.option(
    "--scale",
    metavar="WORST..BEST",
    help="With --from: the scale of its scores, such as -1..1 or 1..5.  [default: 0..1]",
)
@click.option("--remove", is_flag=True, help="Take back what you said of the step.")
@click.option("--undo", is_flag=True, help="Take back what you said last, of whichever step.")
@db_option
def label(
    trace: str | None,
    step: int | None,
    score: float | None,
    items: tuple[str, ...],
    note: str | None,
    files: tuple[Path, ...],
    by: str | None,
    scale: str | None,
    remove: bool,
    undo: bool,
    db: Path | None,
) -> int:
    """Score a step from 0 to 1, for `arc calibrate` to hold the judge against.

    0–.2 not achieved · .3–.5 partial · .6–.8 achieved with caveats · .9–1 fully, verifiably.

    --item says whether a rubric item held, with a score or without: tool choice, arguments
    grounded, result read, state re-verified, ended well; of the rules' own, call fits and nothing
    repeated.

    --from brings in scores that a judge or a person gave elsewhere (--remove takes them back).
    They are used as they are: a run's first score below the middle of the scale is its first break
    candidate, and a run scored throughout without one has none.
    """
    if files:
        if trace is not None or items or note or undo:
            raise click.UsageError("--from stands alone, with --by, --scale and --remove")
        with open_store(db) as store:
            _label_from(store, files, by, _scale(scale), remove=remove)
        return 0
    if by or scale:
        raise click.UsageError("--by and --scale go with --from FILE")
    if undo:
        if trace is not None or items or note or remove:
            raise click.UsageError("--undo stands alone")
        with open_store(db) as store:
            return _undo(store)
    if trace is None or step is None:
        raise click.UsageError("which TRACE and which STEP?")
    if remove == (score is not None or bool(items)):
        raise click.UsageError("give a SCORE from 0 to 1, an --item, or --remove alone")
    answers = _answers(items)
    with open_store(db) as store:
        row = trace_row(store, trace)
        rows = step_rows(store, row.trace)
        if not 0 <= step < len(rows):
            raise no_step(step, len(rows))
        before = ledger.opinion(store, row.trace, step, author())
        if before is None:
            before = ledger.Opinion(trace=row.trace, span=rows[step].span, step=step, by=author())
        said = _revised(before, score, answers, note)
        if remove or said.empty:
            removed = ledger.take_back(store, row.trace, step, author())
            diagnose_one(store, row.trace)
            return 0 if removed else 1
        ledger.give(store, said)
        diagnose_one(store, row.trace)
    click.echo(f"{row.trace[:8]} step {step}: {_told(said)}")
    return 0


def _scale(text: str | None) -> Scale:
    """`1..5`: the worst and the best score."""
    if text is None:
        return UNIT_SCALE
    worst, _, best = text.partition("..")
    try:
        found = Scale(worst=float(worst), best=float(best))
    except ValueError:
        found = Scale(worst=0.0, best=0.0)
    if found.worst == found.best or not math.isfinite(found.best - found.worst):
        raise click.UsageError(f"--scale {text}: write WORST..BEST, such as -1..1")
    return found


def _label_from(
    store: Store, files: tuple[Path, ...], by: str | None, scale: Scale, *, remove: bool
) -> None:
    """Bring in the scores of files, or take them back, and look anew at the runs they are of."""
    labels, lost = read_labels(*files, scale=scale)
    off = next((each for each in lost if each.off_scale), None)
    if off is not None:  # then the other scores are on another scale too
        raise ArcError(f"{off.file or files[0]}: line {off.line} {off.why}", SCALE_HINT)
    unnamed = files[0].name
    scored = [each for each in labels if each.score is not None and each.at is not None]
    names = dict.fromkeys(each.by or unnamed for each in scored)
    if by is not None and by not in names:
        raise ArcError(f"no score by '{by}': the scores are by {', '.join(names) or 'nobody'}")
    placed, unplaced = place(store, [each for each in scored if by in (None, each.by or unnamed)])
    brought = keep_file_scores(store, placed, unnamed=unnamed, remove=remove)
    lost = (*lost, *unplaced)
    if not brought:
        why = f": line {lost[0].line} {lost[0].why}" if lost else ""
        raise ArcError(
            f"{', '.join(map(str, files))}: no score of a step of this database{why}",
            'a score is {"trace": …, "at": {"step": 3}, "score": 0.5, "by": …}',
        )
    diagnose_new(store)
    for each in brought:
        steps = format.count(sum(map(len, each.steps.values())), "step")
        runs = format.count(len(each.steps), "run")
        done = "taken back" if remove else "scored"
        click.echo(f"{format.one_line(each.by)}: {steps} of {runs} {done}")
    if len(brought) > 1:
        click.echo(
            "of several scores of a step that are trusted alike the middle one counts;"
            " --by NAME brings those of one name",
            err=True,
        )
    if lost:
        first = f"line {lost[0].line} {lost[0].why}"
        click.echo(f"{format.count(len(lost), 'label')} left out: {first}", err=True)


def _undo(store: Store) -> int:
    """Take back all that this person said of the step they spoke of last."""
    last = ledger.last_opinion(store, author())
    if last is None:
        click.echo(f"{format.one_line(author())} has said nothing of a step", err=True)
        return 1
    ledger.take_back(store, last.trace, last.step, last.by)
    diagnose_one(store, last.trace)
    click.echo(f"{last.trace[:8]} step {last.step}: {_told(last)}: taken back")
    return 0


def _revised(
    before: ledger.Opinion,
    score: float | None,
    answers: Mapping[str, bool | None],
    note: str | None,
) -> ledger.Opinion:
    """An opinion with what is said now. A new score takes the old one's note away."""
    items = {**before.items, **answers}
    kept = before.note if score is None else None
    return structs.replace(
        before,
        value=before.value if score is None else score,
        items={name: held for name, held in items.items() if held is not None},
        note=note or kept,
    )


def _told(said: ledger.Opinion) -> str:
    score = [] if said.value is None else [format.score(said.value)]
    return " · ".join(
        (*score, *(f"{name} {'yes' if held else 'no'}" for name, held in said.items.items()))
    )
