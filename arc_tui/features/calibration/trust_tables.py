"""Scores and rubric items beside people's as tables of text, and who may be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arc_tui.features.calibration.tables import (
    ONLY_JUDGES,
    SEVERAL_CELLS,
    Table,
    confusion_table,
    counted,
    estimate,
    signed,
    tables,
)
from arc_tui.features.calibration.view import Part
from taxonomy.calibration.item_approval import (
    LEAST_EACH,
    LEAST_KAPPA,
    OVER_KAPPA,
    ItemAgreement,
    ItemGate,
)
from taxonomy.calibration.judge_approval import (
    BANDS,
    LEAST_BANDS,
    LEAST_LABELS,
    LEAST_R,
    JudgeApproval,
)
from taxonomy.calibration.report import Calibration

POSITIVE_SCORE = (
    "TPR, TNR: of what people put in the upper two bands (.55 and over) and of the rest, the share"
    " that the source puts there too; bias: its mean minus people's"
)
SCORE_GATE = (
    f"a judge is trusted where r is {LEAST_R:.2f} or more on {LEAST_LABELS} labels or more, in"
    f" {LEAST_BANDS} of the {len(BANDS)} bands, in each category of tasks"
)
NO_TRUST = "labels that a rule made decide nobody's trust"
POSITIVE_ITEM = (
    "TPR, TNR: of people's yes and of their no, the share that the source answers so too; what it"
    " leaves undecided is in no figure; who always says yes agrees as often as `labelled yes`"
)
ITEM_GATE = (
    f"an item of a judge is trusted where κ is {LEAST_KAPPA:.2f} or more and surely over"
    f" {OVER_KAPPA:.2f}, on {LEAST_EACH} labels or more of yes and of no"
)


def part_tables(part: Part) -> Iterator[Table]:
    """Every table that the labels of one kind give."""
    yield from tables(part.figures)
    if part.taken_for is not None:
        title = "what the labels say (down) and what the rules find (across), by run"
        yield confusion_table(title, part.taken_for, (SEVERAL_CELLS,))
    if part.figures.scores:
        yield score_table(part.figures)
    for each in part.scatters:
        yield confusion_table(f"people's bands (down) and those of {each.by} (across)", each.bands)
    if part.items:
        by_people = part.figures.made_by == "people"
        yield item_table(part.items, part.item_gates if by_people else ())


def score_table(figures: Calibration) -> Table:
    """A row a source of scores, and a category of tasks where several are known."""
    rows = tuple(
        (
            each.by,
            each.category or "all",
            str(each.r.n),
            estimate(each.r),
            estimate(each.rho),
            estimate(each.kappa),
            counted(each.achieved.recall),
            counted(each.achieved.specificity),
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
        title="which score",
        columns=("by", "tasks", "n", "r", "ρ", "κ of bands", "TPR", "TNR", "bias"),
        rows=rows,
        notes=(POSITIVE_SCORE, *((SCORE_GATE, *lines) if by_people else (NO_TRUST,))),
    )


def gate_line(gate: JudgeApproval) -> str:
    """Whether scores may be used without a look, and what is missing."""
    if gate.passed:
        return f"{gate.by}: may be trusted for 30 days, r {estimate(gate.r)}"
    missing = "; ".join(gate.missing)
    passed = [each.category for each in gate.categories if each.passed]
    if passed:
        return f"{gate.by}: may be trusted for 30 days on tasks of {', '.join(passed)}; {missing}"
    return f"{gate.by}: not to be trusted: {missing}"


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
        title="which rubric item",
        columns=("by", "item", "labels", "undecided", "labelled yes", "agreement", "κ", "TPR",
                 "TNR"),
        rows=rows,
        notes=(POSITIVE_ITEM, *((ITEM_GATE,) if gates else ()), *map(item_gate_line, gates)),
    )  # fmt: skip


def item_gate_line(gate: ItemGate) -> str:
    """Whether a judge's answers to an item may be used without a look, and what is missing."""
    if gate.passed:
        return f"{gate.by}, {gate.item}: may be trusted for 30 days, κ {estimate(gate.kappa)}"
    return f"{gate.by}, {gate.item}: not to be trusted: {'; '.join(gate.missing)}"
