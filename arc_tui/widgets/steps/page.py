"""A step of the search in full: what contradicts what, the fix and its test, what it did. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from arc_tui import format
from arc_tui.views.steps.sentences import p_words
from arc_tui.views.steps.view import FixView, SourceRow, StepRow, StepsView, TrialView
from arc_tui.views.steps.words import rate_words
from arc_tui.views.trace import view as traces
from arc_tui.views.trace.step import StepView
from arc_tui.widgets.document import INDENT, Block, Document, Item, Keyed
from arc_tui.widgets.placed import Placed
from arc_tui.widgets.trace.pages import observations_page, response_page

BLANK = Block(text="")
NOT_ASKED = "not asked"
"""What a row says that could be asked, and was not yet."""


def steps_page(view: StepsView, row: StepRow | None, detail: StepView | None) -> Document:
    """What speaks against the step, then what it did; `detail` None where that is not read yet."""
    if row is None:
        return ()
    parts = [tuple(_against(row))]
    if row.decisive and view.trial is not None:
        parts.append(tuple(_trial(view.trial)))
    if row.decisive and view.fix is not None:
        parts.append(tuple(_fix(view.fix, tried=view.trial is not None)))
    if view.facts:
        parts.append(tuple(_facts(view.facts)))
    if detail is not None:
        parts.append(tuple(_did(detail)))
    return tuple(item for part in parts if part for item in (*part, BLANK))[:-1]


def _against(row: StepRow) -> Iterator[Item]:
    """The things that contradict each other, each with its place; else the oracle's word."""
    if row.sources:
        yield Block(text="belief against world", style="candidate" if row.decisive else "error")
        for place, each in enumerate(row.sources):
            yield _source(each, row.step, f"source {row.step} {place}")
    elif row.phrase and row.asked:
        yield Block(text=format.plain(row.phrase), style="role")
    elif not row.asked and row.phrase != NOT_ASKED:
        yield Block(text=f"not asked: {format.plain(row.phrase)}", style="quiet")


def _source(each: SourceRow, here: int, key: str) -> Placed:
    message = f", message {each.message}" if each.message is not None else ""
    return Placed(
        text=format.plain(each.text),
        label=format.one_line(each.role),
        aside=format.one_line(f"{each.where}{message}"),
        goes=each.step if each.step != here else None,
        indent=INDENT,
        key=key,
    )


def _trial(trial: TrialView) -> Iterator[Item]:
    """Both arms of the test with their intervals."""
    style = {"validated": "good", "refuted": "error"}.get(trial.status, "role")
    by = format.one_line(f"by {trial.by}; Fisher's exact test, two-sided, {p_words(trial.p)}")
    yield Block(text=trial.status, style=style, aside=by)
    for name, arm, lost in (
        ("control", trial.control, trial.control_lost),
        ("with the fix", trial.fixed, trial.fixed_lost),
    ):
        bad = f"{trial.bad} " if arm.n else ""
        yield Block(text=f"{bad}{rate_words(arm, lost)}", label=name, indent=INDENT)


def _fix(fix: FixView, *, tried: bool) -> Iterator[Item]:
    name = "the fix that was tried" if tried else "the fix that ‹steps.validate› tries"
    yield Keyed(text=name, style="role", aside=format.one_line(fix.name))
    for change in fix.changes:
        yield Block(text=format.plain(change), indent=INDENT)


def _facts(facts: tuple[str, ...]) -> Iterator[Item]:
    yield Block(text="asked about", style="role")
    for fact in facts:
        yield Block(text=format.plain(fact), indent=INDENT)


def _did(detail: StepView) -> Iterator[Item]:
    """What the step said; then its calls, each with what came back where that was recorded."""
    yield Block(text="what it did", style="role")
    response, came = detail.response, detail.observations
    if response is not None and came and (response.text or response.thinking):
        detail = structs.replace(detail, response=structs.replace(response, calls=()))
    yield from response_page(traces.EMPTY, detail)
    if came:
        yield from observations_page(traces.EMPTY, detail)
