"""`arc calibrate`: the accuracy of judgements, the effect of noise, and an audit sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click
from msgspec import structs
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    FiniteRange,
    db_option,
    diagnose_new,
    examples,
    json_option,
    open_store,
    print_line,
    print_table,
    print_tables,
    print_view,
)
from arc_tui.features.calibration.drift import (
    DriftView,
    build_drift,
    drift_tables,
    latest_judges,
    unchecked,
    unchecked_line,
)
from arc_tui.features.calibration.sources import SourcesView, build_sources, sources_tables
from arc_tui.features.calibration.tables import (
    ONLY_JUDGES,
    SEVERAL_CELLS,
    agreement_cells,
    confusion_table,
    noise_tables,
    tables,
)
from arc_tui.features.calibration.view import (
    TITLES,
    AuditView,
    CalibrationView,
    Part,
    build_audit,
    build_calibration,
    keep_verdicts,
    labels_of,
)
from arc_tui.ui import format
from arc_tui.ui.tables import Table, counted, estimate, signed
from arc_tui.views.scores import stands
from replay.store.handle import Store, now_ns
from taxonomy.calibration.approval import (
    BANDS,
    LEAST_BANDS,
    LEAST_EACH,
    LEAST_KAPPA,
    LEAST_LABELS,
    LEAST_R,
    OVER_KAPPA,
    ItemAgreement,
    ItemGate,
    JudgeApproval,
    Trust,
)
from taxonomy.calibration.class_gate import LEAST_RUNS, ClassGate
from taxonomy.calibration.disagreement import SHARE, Disagreement
from taxonomy.calibration.labels import Unusable
from taxonomy.calibration.noise import Cell, noise_table
from taxonomy.calibration.report import Calibration


@click.command(
    epilog=examples(
        "arc calibrate",
        "arc calibrate --audit --share 0.1",
        "arc calibrate --sources labels/",
    )
)
@click.option(
    "--labels",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    help="A label file; repeatable. Without it, the labels of this database.",
)
@click.option(
    "--sources",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="A label file, or a folder of them, each of another agent: candidates, held out.",
)
@click.option("--drift", is_flag=True, help="Compare a judge's scores before and after a change.")
@click.option("--noise", is_flag=True, help="How noise and length affect a run's shape.")
@click.option("--audit", is_flag=True, help="List a sample of runs to review again.")
@click.option(
    "--share",
    type=FiniteRange(0, 1, min_open=True),
    default=SHARE,
    show_default=True,
    help="Share of runs in the audit sample.",
)
@click.option(
    "--check", is_flag=True, help="Exit with 1 unless the judge's scores and classes are approved."
)
@json_option
@db_option
def calibrate(
    labels: tuple[Path, ...],
    sources: tuple[Path, ...],
    drift: bool,
    noise: bool,
    audit: bool,
    share: float,
    check: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Measure rules, judge and localiser against labels, beside naive baselines.

    Without --labels the labels are those of this database: tags, clean runs, scores, rubric items.
    Labels made by a rule are listed separately, as conformance. With --check exit code 1:
    what a judge scores or classifies is not approved, or no judge has done so here. Exit code 2: no
    label matches a run.

    --sources compares the break candidates with naive guesses on each label file, with weights
    that were fitted on none of its runs, and with the outcome hidden.
    """
    if sum((bool(labels) or drift, bool(sources), noise, audit)) > 1:
        raise click.UsageError(
            "--labels (or --drift), --sources, --noise and --audit cannot be combined"
        )
    if check and (drift or sources or noise or audit):
        raise click.UsageError("--check goes with --labels alone")
    if noise:
        cells = list(noise_table())
        print_view(cells, as_json, print_noise)
        return 0
    with open_store(db) as store:
        if audit:
            chosen = build_audit(store, share)
            print_view(chosen, as_json, print_audit)
            return 0
        if sources:
            found = build_sources(store, sources)
            print_view(found, as_json, print_sources)
            return 0 if found.sources else 2
        if drift:
            source, given, _ = labels_of(store, labels)
            moved = build_drift(store, source, given, now_ns())
            print_view(moved, as_json, print_drift)
            return 0
        view = _calibrated(store, labels)
        judges = latest_judges(store, now_ns()) if check else ()
    print_view(view, as_json, print_calibration)
    if labels and not view.parts:
        return 2
    return _check(judges) if check else 0


def _check(judges: Sequence[Trust]) -> int:
    """1 unless the latest scores of every mode, and all models' classes, are approved, naming those
    that are not."""
    for each in judges:
        if each.state != "approved":
            click.echo(f"{format.one_line(each.by)}: {stands(each)}", err=True)
    if not judges:
        click.echo(
            "No judge has scored or classified here. Try: arc judge TRACE --model NAME", err=True
        )
    return 0 if judges and all(each.state == "approved" for each in judges) else 1


def _calibrated(store: Store, labels: tuple[Path, ...]) -> CalibrationView:
    """The view, with today's findings of the rules; verdicts by people's labels are stored."""
    diagnose_new(store)
    now = now_ns()
    view = build_calibration(store, labels, now)
    keep_verdicts(store, view, now)
    return structs.replace(view, unchecked=unchecked(store, now))


def print_sources(out: Console, view: SourcesView) -> None:
    """Each source, then what holds of all."""
    for name in view.empty:
        print_line(out, format.one_line(f"left out: {name}: no label matches a run"), "yellow")
    if view.sources:
        print_tables(out, sources_tables(view.sources))
    else:
        print_line(out, NO_SOURCE)


NO_SOURCE = "No run of these labels is in the database. Try: arc import PATH"


NO_LABELS = "No labels yet. Try: arc label TRACE STEP SCORE, or arc tag add TRACE STEP CLASS"
"""What a database without labels prints."""

WORST = 5
"""Disagreements of each kind that are printed, and labels of no use; `--json` has all."""


def print_calibration(out: Console, view: CalibrationView) -> None:
    """What was read, then for each kind of label the tables and the worst disagreements."""
    if view.read:
        used = f"{view.placed} of {format.count(view.read, 'label')} match a run of this database"
        print_line(out, f"{format.one_line(view.source)}: {used}")
    else:
        print_line(out, NO_LABELS)
    _print_unusable(out, view.unusable)
    for each in view.unchecked:
        print_line(out, format.one_line(unchecked_line(each)), "yellow")
    for part in view.parts:
        _print_part(out, part)


def _print_unusable(out: Console, unusable: Sequence[Unusable]) -> None:
    for each in unusable[:WORST]:
        line = None if each.line is None else f"line {each.line}:"
        reason = " ".join(filter(None, ("left out:", each.file, line, each.trace, each.why)))
        print_line(out, format.one_line(reason), "yellow")
    _more(out, len(unusable) - WORST)


def _print_part(out: Console, part: Part) -> None:
    figures = part.figures
    counts = f"{format.count(figures.labels, 'label')} on {format.count(figures.runs, 'run')}"
    strengths = ", ".join(f"{count} {name}" for name, count in part.strengths.items())
    heading = f"{TITLES[figures.made_by]}: {counts}{f' ({strengths})' if strengths else ''}"
    out.print()
    print_line(out, format.one_line(heading), "bold")
    if part.prompted:
        print_line(out, prompted_line(part), "yellow")
    print_tables(out, part_tables(part))
    _print_worst(out, part.disagreements)


def prompted_line(part: Part) -> str:
    """How many tags were given while rule suggestions were visible."""
    return (
        f"{part.prompted} of {format.count(part.placed_here, 'tag')} and clean marks are not blind:"
        " rule suggestions were visible, which makes the rules look better than they are"
    )


def _print_worst(out: Console, found: Sequence[Disagreement]) -> None:
    for about, own in groupby(found, key=lambda each: each.about):
        each_kind = list(own)
        out.print()
        out.print(Text(f"worst disagreements, {about}: {len(each_kind)}", "bold"))
        print_table(
            out,
            ["id", "step", "labelled", "found", "label by", "note"],
            [_cells(each) for each in each_kind[:WORST]],
        )
        _more(out, len(each_kind) - WORST)


def _cells(each: Disagreement) -> list[Text | str]:
    strength = f" ({each.strength})" if each.strength and each.strength != each.by else ""
    return [
        each.trace[:8],
        format.UNKNOWN if each.step is None else str(each.step),
        format.one_line(each.labelled),
        format.cut(format.one_line(each.found), 60),
        format.one_line(f"{each.by or format.UNKNOWN}{strength}"),
        format.cut(format.one_line(each.note), 60),
    ]


def _more(out: Console, count: int) -> None:
    if count > 0:
        out.print(Text(f"… {format.number(count)} more (--json has all)", "dim"))


def print_noise(out: Console, cells: Sequence[Cell]) -> None:
    """Both rules, by noise and length."""
    print_tables(out, noise_tables(cells))


def print_drift(out: Console, view: DriftView) -> None:
    """The sets and how each stands, then every two of one mode."""
    counted = f"{format.count(len(view.sets), 'set')} of judge scores"
    heading = f"{counted}; {format.one_line(view.source)}: {format.count(view.labels, 'step')}"
    print_line(out, f"{heading} with human scores or rubric answers", "bold")
    print_tables(out, drift_tables(view))


def print_audit(out: Console, view: AuditView) -> None:
    """The sample, and whether somebody has looked already."""
    counts = f"{len(view.rows)} of {format.count(view.runs, 'run')}"
    heading = f"audit sample: {counts} (about {view.share:.0%}, selected by a digest of the id)"
    print_line(out, heading, "bold")
    if view.rows:
        rows = [
            [
                row.trace[:8],
                format.one_line(row.task),
                format.one_line(row.trial),
                format.cut(format.one_line(row.title), 60),
                row.outcome,
                format.one_line(", ".join(row.seen_by)) or format.UNKNOWN,
            ]
            for row in view.rows
        ]
        print_table(out, ["id", "task", "trial", "title", "outcome", "reviewed by"], rows)


# --- tables of scores, of rubric items, and which judge is approved

POSITIVE_SCORE = (
    "TPR, TNR: of the steps that people score .55 or more, and of the rest, the share where the"
    " source agrees; bias: its mean minus people's"
)
SCORE_GATE = (
    f"a judge is approved where r is {LEAST_R:.2f} or more on {LEAST_LABELS} labels or more, in"
    f" {LEAST_BANDS} of the {len(BANDS)} bands, in each category of tasks"
)
NO_TRUST = "labels made by a rule approve no judge"
POSITIVE_ITEM = (
    "TPR, TNR: of people's yes, and of their no, the share where the source agrees; undecided"
    " answers are excluded; a source that always says yes agrees as often as `labelled yes`"
)
CLASS_GATE = (
    f"a judge's classes are approved where κ is {LEAST_KAPPA:.2f} or more, its interval over"
    f" {OVER_KAPPA:.2f}, on {LEAST_RUNS} labelled runs or more; until then a rule's count first"
)
ITEM_GATE = (
    f"an item of a judge is approved where κ is {LEAST_KAPPA:.2f} or more, its interval over"
    f" {OVER_KAPPA:.2f}, on {LEAST_EACH} labels or more of yes and of no"
)


def part_tables(part: Part) -> Iterator[Table]:
    """Every table that the labels of one kind give."""
    yield from tables(part.figures)
    by_people = part.figures.made_by == "people"
    for gate in part.class_gates:
        yield classes_table(gate, by_people=by_people)
    if part.taken_for is not None:
        title = "labels (down) and findings of the rules (across), by run"
        yield confusion_table(title, part.taken_for, (SEVERAL_CELLS,))
    if part.figures.scores:
        yield score_table(part.figures)
    for each in part.scatters:
        yield confusion_table(f"people's bands (down) and those of {each.by} (across)", each.bands)
    if part.items:
        yield item_table(part.items, part.item_gates if by_people else ())


def classes_table(found: ClassGate, *, by_people: bool) -> Table:
    """A row a class that people or the judge name, and whether its suggestions are approved."""
    rows = tuple(
        (
            each.name,
            str(each.tp + each.fn),
            str(each.tp + each.fp),
            counted(each.precision),
            counted(each.recall),
            estimate(each.kappa),
        )
        for each in found.rows
        if each.f1.n
    )
    agreed = f"agreement {counted(found.agreed)}, κ {estimate(found.kappa)}"
    step = f"decisive step: {counted(found.step)} at a step that people tagged"
    return Table(
        title=f"classes by {found.by}: {format.count(found.agreed.n, 'labelled run')}",
        columns=("", "labelled", "found", "precision", "recall (TPR)", "κ"),
        rows=rows,
        notes=(agreed, step, *((CLASS_GATE, class_gate_line(found)) if by_people else (NO_TRUST,))),
    )


def class_gate_line(gate: ClassGate) -> str:
    """Whether a judge's classes are approved, and what is missing."""
    if gate.passed:
        return f"{gate.by}: approved for 30 days, κ {estimate(gate.kappa)}"
    return f"{gate.by}: not approved: {'; '.join(gate.missing)}"


def score_table(figures: Calibration) -> Table:
    """A row a source of scores, and a category of tasks where several are known."""
    rows = tuple(
        (
            each.by,
            each.category or "all",
            *agreement_cells(each),
            signed(each.bias),
        )
        for each in figures.scores
    )
    by_people = figures.made_by == "people"
    judges = {each.by for each in figures.scores if each.source == "judge"}
    lines = (
        gate_line(each) if each.by in judges else f"{gate_line(each)} ({ONLY_JUDGES})"
        for each in figures.gates
    )
    return Table(
        title="scores",
        columns=("by", "tasks", "n", "r", "ρ", "κ of bands", "TPR", "TNR", "bias"),
        rows=rows,
        notes=(POSITIVE_SCORE, *((SCORE_GATE, *lines) if by_people else (NO_TRUST,))),
    )


def gate_line(gate: JudgeApproval) -> str:
    """Whether scores are approved, and what is missing."""
    if gate.passed:
        return f"{gate.by}: approved for 30 days, r {estimate(gate.r)}"
    missing = "; ".join(gate.missing)
    passed = [each.category for each in gate.categories if each.passed]
    if passed:
        return f"{gate.by}: approved for 30 days on tasks of {', '.join(passed)}; {missing}"
    return f"{gate.by}: not approved: {missing}"


def item_table(items: Sequence[ItemAgreement], gates: Sequence[ItemGate]) -> Table:
    """A row a source and rubric item."""
    rows = tuple(
        (
            each.by,
            each.item,
            str(each.labels),
            str(each.undecided),
            counted(each.yes),
            counted(each.agreed),
            estimate(each.held.kappa),
            counted(each.held.recall),
            counted(each.held.specificity),
        )
        for each in items
    )
    return Table(
        title="rubric items",
        columns=("by", "item", "labels", "undecided", "labelled yes", "agreement", "κ", "TPR",
                 "TNR"),
        rows=rows,
        notes=(POSITIVE_ITEM, *((ITEM_GATE,) if gates else ()), *map(item_gate_line, gates)),
    )  # fmt: skip


def item_gate_line(gate: ItemGate) -> str:
    """Whether a judge's answers to an item are approved, and what is missing."""
    if gate.passed:
        return f"{gate.by}, {gate.item}: approved for 30 days, κ {estimate(gate.kappa)}"
    return f"{gate.by}, {gate.item}: not approved: {'; '.join(gate.missing)}"
