"""`arc label`: what a person says of a step, to hold the judge against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec import structs

from arc_tui.cli import RUN_NAME, FiniteRange, db_option, diagnose_new, examples, open_store
from arc_tui.importing import diagnose_one
from arc_tui.places import author
from arc_tui.ui import format
from replay.errors import ArcError, no_step
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from taxonomy.calibration.labels import (
    OWN_ITEM,
    SCALE_HINT,
    UNIT_SCALE,
    Scale,
    item_named,
    item_names,
    keep_file_scores,
    place,
    read_labels,
)
from taxonomy.judge.own_rubrics import kept_rubrics
from taxonomy.judgements.scores import HumanScore, give, last_opinion, opinion, take_back

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


def _refuse_unknown(store: Store, answers: Mapping[str, bool | None]) -> None:
    """Refuses an item of a user's rubric that no judge here was asked."""
    known = {item for each in kept_rubrics(store) for item in each.items}
    for name in answers:
        if OWN_ITEM.fullmatch(name) and name not in known:
            names = ", ".join(sorted(known)) or "none was used yet"
            raise click.UsageError(f"--item {name}: no item of a rubric used here; {names}")


@click.command(
    epilog=examples(
        "arc label last 1 0.2 --note 'no lookup before the refund'",
        "arc label last 1 --item 'arguments grounded=no'",
    )
)
@click.argument("trace", type=RUN_NAME, required=False)
@click.argument("step", type=int, required=False)
@click.argument("score", type=FiniteRange(0, 1), required=False)
@click.option(
    "--item",
    "items",
    multiple=True,
    metavar="NAME=yes|no|?",
    help="Answer a rubric item; repeatable. ? removes the answer.",
)
@click.option("--note", help="A sentence to store with it.")
@click.option(
    "--from",
    "files",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Import others' scores of steps: JSON Lines, as `arc calibrate --labels` reads.",
)
@click.option("--by", metavar="NAME", help="With --from: only the scores by this name.")
@click.option(
    "--scale",
    metavar="WORST..BEST",
    help="With --from: the scale of the scores, such as -1..1 or 1..5.  [default: 0..1]",
)
@click.option("--remove", is_flag=True, help="Remove your labels of the step.")
@click.option("--undo", is_flag=True, help="Remove your last label.")
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

    An item of a rubric of yours (arc judge --rubric) goes by both names: 'refunds: amount agreed'.

    --from brings in scores that a judge or a person gave elsewhere (--remove takes them back).
    They are used as they are: a run's first score below the middle of the scale is its first break
    candidate, and a run scored throughout without one has none.
    """
    if files:
        if trace is not None or items or note or undo:
            raise click.UsageError("--from goes only with --by, --scale and --remove")
        with open_store(db) as store:
            _label_from(store, files, by, _scale(scale), remove=remove)
        return 0
    if by or scale:
        raise click.UsageError("--by and --scale go with --from FILE")
    if undo:
        if trace is not None or items or note or remove:
            raise click.UsageError("--undo takes no other arguments")
        with open_store(db) as store:
            return _undo(store)
    if trace is None or step is None:
        raise click.UsageError("give a TRACE and a STEP")
    if remove == (score is not None or bool(items)):
        raise click.UsageError("give a SCORE from 0 to 1, an --item, or only --remove")
    answers = _answers(items)
    with open_store(db) as store:
        _refuse_unknown(store, answers)
        row = trace_row(store, trace)
        rows = step_rows(store, row.trace)
        if not 0 <= step < len(rows):
            raise no_step(step, len(rows))
        before = opinion(store, row.trace, step, author())
        if before is None:
            before = HumanScore(trace=row.trace, span=rows[step].span, step=step, by=author())
        given = _revised(before, score, answers, note)
        if remove or given.empty:
            removed = take_back(store, row.trace, step, author())
            diagnose_one(store, row.trace)
            return 0 if removed else 1
        give(store, given)
        diagnose_one(store, row.trace)
    click.echo(f"{row.trace[:8]} step {step}: {_answers_text(given)}")
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
        raise ArcError(f"no score by '{by}': the scores are by {', '.join(names) or 'unknown'}")
    placed, unplaced = place(store, [each for each in scored if by in (None, each.by or unnamed)])
    brought = keep_file_scores(store, placed, unnamed=unnamed, remove=remove)
    lost = (*lost, *unplaced)
    if not brought:
        why = f": line {lost[0].line} {lost[0].why}" if lost else ""
        raise ArcError(
            f"{', '.join(map(str, files))}: no score matches a step of this database{why}",
            'a score is {"trace": …, "at": {"step": 3}, "score": 0.5, "by": …}',
        )
    diagnose_new(store)
    for each in brought:
        steps = format.count(sum(map(len, each.steps.values())), "step")
        runs = format.count(len(each.steps), "run")
        done = "removed" if remove else "scored"
        click.echo(f"{format.one_line(each.by)}: {steps} of {runs} {done}")
    if len(brought) > 1:
        click.echo(
            "of several equally trusted scores of a step the median counts;"
            " --by NAME imports those of one name",
            err=True,
        )
    if lost:
        first = f"line {lost[0].line} {lost[0].why}"
        click.echo(f"{format.count(len(lost), 'label')} left out: {first}", err=True)


def _undo(store: Store) -> int:
    """Take back all that this person said of the step they spoke of last."""
    last = last_opinion(store, author())
    if last is None:
        click.echo(f"{format.one_line(author())} has labelled no step", err=True)
        return 1
    take_back(store, last.trace, last.step, last.by)
    diagnose_one(store, last.trace)
    click.echo(f"{last.trace[:8]} step {last.step}: {_answers_text(last)}: removed")
    return 0


def _revised(
    before: HumanScore,
    score: float | None,
    answers: Mapping[str, bool | None],
    note: str | None,
) -> HumanScore:
    """An opinion with what is said now. A new score takes the old one's note away."""
    items = {**before.items, **answers}
    kept = before.note if score is None else None
    return structs.replace(
        before,
        value=before.value if score is None else score,
        items={name: held for name, held in items.items() if held is not None},
        note=note or kept,
    )


def _answers_text(given: HumanScore) -> str:
    score = [] if given.value is None else [format.score(given.value)]
    return " · ".join(
        (*score, *(f"{name} {'yes' if held else 'no'}" for name, held in given.items.items()))
    )
