"""Where a replay stands, as one value, and what the screen says of it and of what it would ask."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.attachment import summary_of
from arc_tui.experiments import edits as drafts
from arc_tui.experiments import locked_view as replays
from arc_tui.experiments.edits import Draft
from arc_tui.experiments.locked_view import ReplayView, StepRow, step_rows
from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.experiments.request import at_most
from arc_tui.features.replay.arms import arm_lines
from arc_tui.features.replay.run import ReplayEstimate
from arc_tui.ui import format
from replay.budget import Limits
from replay.locked.estimate import Estimate
from replay.models.choose import label

CHANGED = "Results of the previous edit. ‹replay.run› replays the changed one."


class ReplayState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A draft, what asking would come to, what was asked so far, and how that ended.

    `limits` are those it is asked under. `changed` tells that the edit is another one since.
    """

    draft: Draft = drafts.EMPTY
    estimate: ReplayEstimate | None = None
    view: ReplayView = replays.EMPTY
    limits: Limits = Limits()
    changed: bool = False

    @property
    def rows(self) -> tuple[StepRow, ...]:
        """Every step: as it was asked again in every arm, else as recorded."""
        asked = {row.first.step: row for row in step_rows(self.view)}
        return tuple(asked.get(row.step, StepRow((row,))) for row in self.draft.rows)

    @property
    def lines(self) -> tuple[str, ...]:
        """How it stands: a sentence, and of several arms a line each."""
        if self.view.others and self.view.done:
            return (self._sentence, *arm_lines(self.view))
        found = self.estimate
        if found is None or len(found.names) < 2:
            return (self._sentence,)
        names = ", ".join(format.one_line(each or "this edit") for each in found.names)
        return (self._sentence, f"Arms beside control: {names}")

    @property
    def _sentence(self) -> str:
        parts = self.view.verdict.parts
        verdict = self.view.verdict.sentence
        if self.view.others:
            verdict = " ".join((parts.control, *parts.scope[:1]))
        match self.phase:
            case "running" | "stopping":
                return f"So far: {verdict}" if self.view.done else "Replaying the first step."
            case _ if self.trouble is not None:
                return f"{as_sentence(self.trouble.message)} {self._saved}".rstrip()
            case "stopped":
                return f"{self._stopped} {verdict if self._answered else ''}".rstrip()
            case "done":
                return verdict
            case _:
                return estimate_sentence(self.estimate) if self.estimate is not None else ""

    @property
    def basis(self) -> tuple[str, ...]:
        """What the verdict rests on, where there is one."""
        over = self.phase in ("done", "stopped") and self.trouble is None
        if not over:
            return ()
        if not self.view.others:
            return self.view.verdict.basis
        parts = self.view.verdict.parts
        return tuple(filter(None, (parts.method, parts.noise)))

    @property
    def _answered(self) -> int:
        """Steps with an answer."""
        return self.view.verdict.control.of

    @property
    def _stopped(self) -> str:
        steps = format.count(len(self.draft.rows), "step")
        return f"Stopped after {self._answered} of {steps}. {self._saved}"

    @property
    def _saved(self) -> str:
        return "Completed calls are saved." if self.view.calls + self.view.cached else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """A refusal, a failure that a prompt edit cannot fix, what is missing."""
        said = list(dict.fromkeys(e for arm in self.view.arms for e in arm.verdict.notices))
        if self.phase == "idle" and self.estimate is not None:
            said = list(estimate_notices(self.estimate))
        if self.changed and self.view.done and self.phase != "idle":
            said.insert(0, CHANGED)
        if self.draft.notice is not None and self.draft.notice not in said:
            said.append(self.draft.notice)
        trouble, missing = self.trouble, self.draft.missing
        if trouble is not None and missing and all(each in trouble.message for each in missing):
            record = self.draft.record
            next_run = f"; {record} logs it in the next run" if record is not None else ""
            said.append(f"‹replay.attach› attach {self._best or 'what is missing'}{next_run}")
            return tuple(said)
        if missing:
            said.append(f"{' and '.join(missing)}: ‹replay.attach› attach {self._best}".rstrip())
        if trouble is not None and trouble.hint:
            said.insert(0, trouble.hint)
        return tuple(said)

    @property
    def _best(self) -> str:
        """What may be attached for what is missing, "" where nothing is offered."""
        best = next(iter(self.draft.offers), None)
        return "" if best is None else summary_of(best)


EMPTY = ReplayState()


# --- what it would ask


def estimate_sentence(found: ReplayEstimate) -> str:
    """All of it in one line."""
    if found.calls is None:
        return "Model unknown. ‹replay.model› choose a model."
    return f"{_extent(found)}: {'; '.join(_clauses(found, found.calls))}"


def _extent(found: ReplayEstimate) -> str:
    """What is multiplied: steps, arms, samples."""
    left = found.steps - sum(count for _, count in found.refused)
    steps = format.count(found.steps, "step")
    if left < found.steps:
        steps = f"{format.number(left)} of {steps}"
    arms = f"{found.arms} arms" if found.arms > 1 else "control arm only"
    if found.supposed and found.arms > 1:
        arms += " (with an edit)"
    samples = format.count(found.sampling.levels[0], "sample")
    return f"{steps} × {arms} × {samples}{', cache ignored' if found.resample else ''}"


def estimate_notices(found: ReplayEstimate) -> tuple[str, ...]:
    """That there is no key, and why the steps that drop out cannot be asked."""
    calls = found.calls is not None and found.calls.calls > 0
    keyless = (found.keyless,) if found.keyless and calls and not found.is_free else ()
    return keyless + tuple(
        f"{format.count(count, 'step')} cannot be replayed{whom}: {format.one_line(why)}"
        for whom, reasons in (("", found.refused), (" with the edit", found.edit_refused))
        for why, count in reasons
    )


def _clauses(found: ReplayEstimate, estimate: Estimate) -> Iterator[str]:
    yield f"{_at_first(found, estimate)}{at_most(estimate)}"
    if found.sampling.schedule == "batch":
        yield "one batch, within a day"
    if found.is_free or not estimate.max_calls:
        yield "free"
    else:
        yield f"{format.cost(estimate)}; the run asks for a limit first"


def _at_first(found: ReplayEstimate, estimate: Estimate) -> str:
    """The calls that are sure to come, and of whom."""
    if not estimate.calls:
        return "all cached" if estimate.stored else "no call"
    whom = ", edited arm to ".join(format.one_line(label(name)) for name in found.models)
    said = f"{format.count(estimate.calls, 'call')} to {whom}"
    if estimate.stored:
        said += f", {format.number(estimate.stored)} more cached"
    return said
