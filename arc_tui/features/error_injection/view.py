"""Errors put into runs on purpose, and what the agent did about them: a row an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from arc_tui.experiments.models import Spending
from arc_tui.ui import format
from replay.error_injection.run import PLACES, WINDOW
from replay.error_injection.values import Kind
from replay.statistics import Rate, rate
from taxonomy.stats.recovery import TASKS, Injected, Tried


class InjectRow(Struct, frozen=True, kw_only=True):
    """An error and what became of it. `step` counts from 0.

    `was` is the recorded call or result, `shown` what the agent was shown of it instead; `tried`
    holds a sample each, `path` what the first of them did. `corrected` of `decided` samples.
    """

    trace: str
    task: str | None
    step: int
    kind: Kind
    what: str
    shown: str
    path: tuple[str, ...]
    tried: tuple[Tried, ...]
    corrected: int
    decided: int


class LeftOut(Struct, frozen=True, kw_only=True):
    """A run that got no error, and why."""

    trace: str
    task: str | None
    why: str


class InjectView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything `arc experiment inject-error` prints. `recovery` is over errors,
    each by the share of its samples that corrected it; errors of which nothing can be told are
    not in it. `done` at the end."""

    sentence: str
    recovery: Rate
    rows: tuple[InjectRow, ...]
    left_out: tuple[LeftOut, ...]
    notices: tuple[str, ...]
    models: tuple[str, ...]
    k: int
    total: int
    asked: int = 0
    kept: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    done: bool = False


EMPTY = InjectView(
    sentence="",
    recovery=rate(0, 0),
    rows=(),
    left_out=(),
    notices=(),
    models=(),
    k=1,
    total=0,
)


def build_inject(
    found: Sequence[Injected],
    left: Sequence[LeftOut],
    paths: Mapping[str, tuple[str, ...]],
    spent: Spending,
    *,
    models: tuple[str, ...],
    samples: int,
    total: int,
    done: bool = False,
) -> InjectView:
    """The view of the errors so far. `paths` says by trace what the first sample did."""
    told = [each for each in found if each.decided]
    recovery = rate(sum(each.corrected / len(each.decided) for each in told), len(told))
    return InjectView(
        sentence=_sentence(found, recovery),
        recovery=recovery,
        rows=tuple(_row(each, paths.get(each.trace, ())) for each in found),
        left_out=tuple(left),
        notices=tuple(_notices(found, told)),
        models=models,
        k=samples,
        total=total,
        asked=spent.asked,
        kept=spent.kept,
        spent_usd=spent.usd,
        spent_complete=spent.complete,
        done=done,
    )


def _row(found: Injected, path: tuple[str, ...]) -> InjectRow:
    wrong = found.wrong
    return InjectRow(
        trace=found.trace,
        task=found.task,
        step=wrong.step,
        kind=wrong.kind,
        what=wrong.phrase,
        shown=wrong.text,
        path=path,
        tried=found.tried,
        corrected=found.corrected,
        decided=len(found.decided),
    )


def _sentence(found: Sequence[Injected], recovery: Rate) -> str:
    """How many errors were corrected, and what the others came to."""
    if not found:
        return "No error was put in."
    counted = Counter(each.outcome for one in found for each in one.tried)
    tried = sum(counted.values())
    if not any(one.model for one in found):
        return f"{format.count(len(found), 'error')} ready to be put in; nobody was asked."
    if not tried:
        return "No answer is in yet."
    said = f"Corrected {counted['corrected']} of {format.count(tried, 'error')} within"
    said += f" {WINDOW} answers"
    if any(len(one.tried) > 1 for one in found):
        said = said.replace("errors", f"trials of {format.count(len(found), 'error')}")
    parts = [
        f"acted on {counted['acted']}" if counted["acted"] else "",
        f"carried {counted['carried']} on" if counted["carried"] else "",
        f"{counted['unknown']} cannot be told" if counted["unknown"] else "",
    ]
    said = "; ".join([said, *filter(None, parts)])
    if recovery.value is None:
        return f"{said}."
    between = f"{recovery.low:.2f} to {recovery.high:.2f}"
    return f"{said}. Recovery rate {recovery.value:.2f} ({between})."


def _notices(found: Sequence[Injected], told: Sequence[Injected]) -> Iterator[str]:
    """What a reader must know beside the rate."""
    if told and len(told) < TASKS[0]:
        few = format.count(len(told), "error")
        yield f"{few}: a hint; the article puts errors into {TASKS[0]} to {TASKS[-1]} tasks"
    away = [each for each in found if each.wrong.step not in PLACES]
    if away:
        yield (
            f"{len(away)} put in at another step than {PLACES[0]} or {PLACES[1]}, where neither"
            " could take one or you said so"
        )
    nobody = sum(not each.model for each in found)
    if nobody:
        runs = format.count(nobody, "run does", "runs do")
        yield f"{runs} not say which model answered: --model names one to ask"
    other = sorted({each.model for each in found if each.model and not each.own})
    if other:
        yield (
            f"{', '.join(other)} is not the recorded model: `arc stats` does not count these"
            " among the agent's own"
        )
