"""What everyone scored a step, side by side, and what stands behind each score. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.trace.step import Scored, StepView
from arc_tui.widgets.document import INDENT, Block, Item
from taxonomy.findings import Item as RubricItem
from taxonomy.findings import StepScore


def score_blocks(step: StepView) -> Iterator[Item]:
    """Every score of the step, most trusted first; one that counts nowhere says so."""
    for scored in step.scores:
        yield _head(scored, step)
        for item in scored.score.items:
            if item.held is not None or item.because:
                yield _item(item)
        open_ = [item.name for item in scored.score.items if item.held is None and not item.because]
        if open_:
            names = ", ".join(map(format.one_line, open_))
            yield Block(text=f"· undecided: {names}", style="quiet", indent=INDENT)


def _head(scored: Scored, step: StepView) -> Block:
    score, who = scored.score, scored.who
    facts = [who.name, f"rubric {who.rubric}" if who.rubric else ""]
    if not who.used:
        facts.append("counts nowhere")
    else:
        facts.append(_counts(scored, step))
    return Block(
        text=_shown(score),
        style="head" if who.used else "quiet",
        aside=" · ".join(map(format.one_line, filter(None, facts))),
    )


def _shown(score: StepScore) -> str:
    if score.value is not None:
        return f"score {format.score(score.value)}"
    return "no score given" if score.source == "human" else "no score: no item decided"


def _counts(scored: Scored, step: StepView) -> str:
    """Is it the score that counts, and as what? A judge may count on some of its items only."""
    own, used = scored.score, step.score
    if used is None or (own.source, own.by) != (used.source, used.by):
        return ""
    if used.value != own.value:
        return f"counts as {format.score(used.value)}, on the items it is calibrated for"
    return "the one that counts" if len(step.scores) > 1 else ""


def _item(item: RubricItem) -> Block:
    mark, style = {True: ("✓", "good"), False: ("✗", "error"), None: ("·", "quiet")}[item.held]
    return Block(
        text=f"{mark} {format.one_line(item.name)}",
        style=style,
        aside=format.one_line(item.because),
        indent=INDENT,
    )
