"""Where a try of an edit stands, as one value, and what the screen says of it."""

from __future__ import annotations

from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.experiments.request import CostEstimate
from arc_tui.features.edit_test import view as views
from arc_tui.features.edit_test.plan import KeptTry, estimate_cost, newest_prompt
from arc_tui.features.edit_test.text import basis, extent, headline, moment, notices, sentence
from arc_tui.features.edit_test.view import EditTestRequest, TryView, build_try
from arc_tui.ui import format
from arc_tui.ui.format import cost
from replay.models import label
from replay.store.handle import Store

NO_EDIT = (
    "Nothing is tried yet: ‹try.choose› chooses an edit or a file with a prompt,"
    " ‹try.editor› writes one."
)


class EditTestEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """The runs and steps a try reaches, and what asking them would come to; before there is an edit
    that is not known.

    `prompt` is the newest run's, to start an edit from. `before` is what the same edit came to on
    the same runs, where that was tried.
    """

    view: TryView
    prompt: str
    before: KeptTry | None = None

    @property
    def shown(self) -> TryView:
        """What is known without asking: what was tried before, else what would be."""
        return self.view if self.before is None else self.before.view


def build_estimate(store: Store, request: EditTestRequest) -> EditTestEstimate:
    """The estimate of a try. Asks nothing. Raises as `plan_edit_test` does."""
    plan, models, estimate, before = estimate_cost(store, request)
    return EditTestEstimate(
        models=models,
        calls=estimate if request.edit is not None else None,
        view=build_try(request, plan),
        prompt=newest_prompt(store, plan),
        before=before,
    )


class EditTestState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, what it would ask, what was asked so far, and how that ended."""

    request: EditTestRequest
    estimate: EditTestEstimate | None = None
    view: TryView = views.EMPTY

    @property
    def title(self) -> str:
        """The edit and what it is tried on."""
        edit = self.request.edit
        named = format.one_line(edit.name) if edit is not None else "an edit"
        return f"try {named} on {format.one_line(self.request.query)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said first: the rates, then what they mean."""
        if self.trouble is not None:
            kept = "What was answered is kept." if self.view.done else ""
            return (f"{as_sentence(self.trouble.message)} {kept}".rstrip(),)
        if self.phase == "estimating":
            return ("Looking which runs and steps that is.",)
        if self.phase == "idle":
            return (*self._tried_before, self._said_before)
        if self.running:
            so_far = f"So far: {headline(self.view)}" if self.view.done else ""
            return (so_far or "Asking the first run.",)
        stopped = "Stopped; what was answered is kept." if self.phase == "stopped" else ""
        if not self.view.done:
            return (stopped or "No step was asked.",)
        return f"{stopped} {headline(self.view)}".lstrip(), sentence(self.view)

    @property
    def _tried_before(self) -> tuple[str, ...]:
        """What is kept of the same try, with its day."""
        if self.estimate is None or self.estimate.before is None:
            return ()
        before = self.estimate.before
        when = f"Tried {moment(before.ran_ns)}"
        return f"{when}: {headline(before.view)}", sentence(before.view)

    @property
    def _said_before(self) -> str:
        if self.estimate is None or self.estimate.calls is None:
            return NO_EDIT
        estimate, models = self.estimate.calls, self.estimate.models
        whom = ", ".join(format.one_line(label(name)) for name in models)
        what = f"‹try.run› asks {whom}: {extent(self.estimate.view, estimate)}"
        if not estimate.calls:
            return f"{what}."
        limited = f"{cost(estimate)}, within a limit asked for first"
        return f"{what}, {'free' if self.estimate.is_free else limited}."

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it."""
        said = notices(self.view)
        hint = self.trouble.hint if self.trouble is not None else ""
        return (format.one_line(hint), *said) if hint else said

    @property
    def basis(self) -> tuple[str, ...]:
        """By which rules the rates are counted, where there are some."""
        return basis(self.view) if self.view.done and not self.running else ()


EMPTY = EditTestState(request=EditTestRequest(edit=None))
