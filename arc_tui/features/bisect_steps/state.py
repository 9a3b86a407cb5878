"""Where the search for the step at which belief left the world stands, as one value, and what the
screen says of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.features.bisect_steps import text
from arc_tui.features.bisect_steps import view as views
from arc_tui.features.bisect_steps.plan import BisectStepsRequest
from arc_tui.features.bisect_steps.text import SearchCost, TrialCost
from arc_tui.features.bisect_steps.view import StepRow, StepsView
from arc_tui.ui import format
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import NO_TOOLS


class BisectStepsState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, what it would ask, what is known so far, and how that ended.

    `run` is what the run is called. `search` is the cost of the search, where a model is to be
    asked for it; `trial` that of the test of the step that was found.
    """

    request: BisectStepsRequest
    run: str = ""
    search: SearchCost | None = None
    trial: TrialCost | None = None
    view: StepsView = views.EMPTY

    @property
    def found(self) -> StepRow | None:
        """The step that was found."""
        step = self.view.decisive
        return None if step is None or self.running else self.view.rows[step]

    @property
    def testable(self) -> bool:
        """Can the step that was found be tested now?"""
        tested = self.view.trial is not None
        return self.trial is not None and self.trial.refused is None and not tested

    @property
    def lacks(self) -> tuple[str, ...]:
        """What must be attached before the step can be tested, or any can be asked."""
        refused = self.trial.refused if self.trial is not None else None
        said = [refused or "", *(row.phrase for row in self._unasked)]
        return (NO_TOOLS,) if any(NO_TOOLS in each for each in said) else ()

    @property
    def _unasked(self) -> tuple[StepRow, ...]:
        """The steps of a search that can ask none."""
        return () if any(row.asked for row in self.view.rows) else self.view.rows

    @property
    def is_incomplete(self) -> bool:
        """Must it still be said what a saved run does, or what saves it?"""
        request = self.request
        return request.oracle == "savable" and (request.fix is None or request.expect is None)

    @property
    def title(self) -> str:
        """Whose steps they are."""
        return f"steps of {self.run}" if self.run else ""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said first: the step, then what its test came to."""
        if self.trouble is not None:
            kept = "What was answered is kept." if any(r.asked for r in self.view.rows) else ""
            why = as_sentence(format.one_line(text.by_keys(self.trouble.message)))
            return (f"{why} {kept}".rstrip(),)
        match self.phase:
            case "estimating":
                return ("Reading the run.",)
            case "idle":
                return (self._said_before,)
            case "running" | "stopping" if self.request.validate and self._searched:
                return (self.view.sentence, f"Testing step {self.view.decisive}.")
            case "running" | "stopping":
                return (f"So far: {self.view.sentence}",) if self.view.rows else ("Asking.",)
            case _:
                return self._said_after

    @property
    def _said_after(self) -> tuple[str, ...]:
        stopped = "Stopped; what was answered is kept. " if self.phase == "stopped" else ""
        first = f"{stopped}{self.view.sentence}"
        trial = self.view.trial
        return (first,) if trial is None else (first, text.by_keys(trial.sentence))

    @property
    def _searched(self) -> bool:
        """Was every step looked at that is going to be?"""
        return self.view.status != "budget" and self.view.decisive is not None

    @property
    def _said_before(self) -> str:
        if self.search is None:
            return text.lacking(self.request)
        return text.before(self.search)

    @property
    def _open(self) -> bool:
        """Has no test settled yet whether it broke there?"""
        return self.view.trial is None or self.view.trial.status == "inconclusive"

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against reading that alone."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[str]:
        if self.trouble is not None and self.trouble.hint:
            yield text.by_keys(format.one_line(self.trouble.hint))
        if self.found is not None and self._open:
            yield text.HYPOTHESIS
        if self.request.oracle == "savable" and self.request.allow_stale:
            yield "Answers of another moment are allowed (‹steps.stale› takes that back)."
        shown = self.view.notices if self.phase not in ("estimating", "idle") else ()
        said_else = (text.HYPOTHESIS, text.READ_OFF)
        yield from (text.by_keys(said) for said in shown if said not in said_else)

    @property
    def doing(self) -> str:
        """What a person can do about it now."""
        if self.phase not in ("done", "stopped"):
            return ""
        if self.found is None:
            return text.elsewhere(self.request)
        if self.view.trial is not None:
            return text.after_trial(self.view)
        return "" if self.trial is None else text.testing(self.trial)


EMPTY = BisectStepsState(request=BisectStepsRequest(trace=""))


def build_run(store: Store, trace: str) -> str:
    """What a run is called: its task and trial, else its title, else where it is from."""
    row = trace_row(store, trace)
    if row.task:
        return " · ".join(filter(None, map(format.one_line, (row.task, row.trial))))
    return format.one_line(row.title or row.source_id)
