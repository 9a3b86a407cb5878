"""Where a bisection stands, as one value, and what its screen says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.experiments.request import CostEstimate
from arc_tui.features.bisect import view as views
from arc_tui.features.bisect.candidates import BisectOptions
from arc_tui.features.bisect.plan import BisectEstimate, BisectRequest, Plan, estimate_cost
from arc_tui.features.bisect.view import BisectView, VersionRow, text_diff
from arc_tui.ui import format
from replay.bisection.hunks import applied
from replay.models import label, protocol
from replay.statistics import rate
from replay.store.handle import Store

NOTHING = (
    "Nothing is searched yet: ‹bisect.choose› names prompt versions, an edit, or a range of git."
)

Diffs = Mapping[str, tuple[str, ...]]
"""What each version changes of the one before it, by its name."""

HERE = {
    "--most N": "‹bisect.most›", "--free": "‹bisect.whole›", "--model": "‹bisect.model›",
    "--at STEP": "‹bisect.step›",
}  # fmt: skip
"""Options that a sentence names, and the keys of the screen that do the same."""


def here(words: str) -> str:
    """A sentence of the command as the screen says it: with keys, and on one line."""
    for option, key in HERE.items():
        words = words.replace(option, key)
    return format.one_line(words)


class BisectCost(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What is searched, its versions before anything is asked, and what asking would come to."""

    view: BisectView
    diffs: Diffs
    estimate: BisectEstimate

    @property
    def asks(self) -> bool:
        return not self.estimate.settled

    def question(self) -> str:
        where = protocol.address(protocol.server_url())
        return (
            f"{extent(self.estimate)}: {format.tokens(self.estimate.input_tokens)} tokens in each,"
            f" {_cost(self.estimate)}.\nThey go to {where}. Answers are kept and never paid for"
            " twice."
        )


def build_cost(store: Store, request: BisectRequest) -> BisectCost:
    """The cost of a bisection. Asks nothing. Raises as `run_bisection` does before it asks."""
    plan = Plan(store, request, ModelPool(store))
    model, fidelity = plan.asked.model, plan.asked.fidelity
    view = BisectView(
        trace=plan.trace.id,
        kind=plan.kind,
        status="going",
        sentence="",
        step=plan.step,
        free=plan.free,
        oracle=plan.asked.name,
        model=label(model.name),
        server=model.server,
        fidelity=fidelity.level.value if fidelity is not None else None,
        fidelity_reasons=fidelity.reasons if fidelity is not None else (),
        notices=tuple(plan.notices),
        rows=tuple(_rows(plan)),
        most=plan.settings.most,
    )
    return BisectCost(
        models=(model.name,),
        view=view,
        diffs=dict(_diffs(plan)),
        estimate=estimate_cost(store, request),
    )


def _rows(plan: Plan) -> Iterator[VersionRow]:
    names = plan.hunk_names if plan.parts else [each.name for each in plan.asked.versions]
    for name in names:
        note = plan.label(name).note
        yield VersionRow(name=name, note=note, bad=rate(0, 0), hits=0, censored=0, likely=None)


def _diffs(plan: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not plan.parts:
        for at, version in enumerate(plan.asked.versions):
            if at:
                yield version.name, plan.diff([at])
        return
    names = plan.hunk_names
    texts = [applied(plan.old, plan.parts, range(count)) for count in range(len(names))]
    for at in range(1, len(names)):
        yield names[at], text_diff(texts[at - 1], texts[at], names[at - 1], names[at])


class BisectState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, what it would ask, what was asked so far, and how that ended.

    `way` says what is searched, "" for nothing yet. `options` are what is known of the run.
    """

    request: BisectRequest
    way: str = ""
    options: BisectOptions | None = None
    cost: BisectCost | None = None
    view: BisectView = views.EMPTY

    @property
    def title(self) -> str:
        """The run, and what is searched in it."""
        run = self.options.run if self.options is not None else "this run"
        if not self.way:
            return f"an earlier bisection · {run}" if self.view.rows else f"which edit broke {run}?"
        return f"bisect {self.way} · {run}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said first: the verdict, or how far it is."""
        if self.trouble is not None:
            kept = "What was answered is kept." if self.view.samples else ""
            return (f"{as_sentence(self.trouble.message)} {kept}".rstrip(),)
        match self.phase:
            case "estimating":
                return ("Looking what can be searched.",)
            case "idle":
                return (self._said_before,)
            case "stopped":
                return "Stopped; ‹bisect.run› goes on, and asks only the rest.", *self._likeliest
            case "done":
                return f"{here(self.view.sentence)}.", *self._next
            case _ if not self.view.rounds:
                return ("Asking the first round.",)
            case _:
                return as_sentence(here(self.view.sentence)), *self._likeliest

    @property
    def _said_before(self) -> str:
        if self.cost is None:
            return NOTHING
        price = "free" if self.cost.is_free else f"{_cost(self.cost.estimate)}, limit first"
        return f"‹bisect.run› asks {extent(self.cost.estimate)}, {price}."

    @property
    def _likeliest(self) -> tuple[str, ...]:
        """What is likeliest so far, once there is something to go by."""
        if not self.view.samples or self.view.unchanged is None:
            return ()
        shares = {row.name: row.likely or 0.0 for row in self.view.rows[1:]}
        name = max(shares, key=lambda each: shares[each])
        if self.view.unchanged >= shares[name]:
            return (f"Likeliest so far: nothing changed ({self.view.unchanged:.2f}).",)
        said = format.one_line(name)
        said = f"lost from {said} on" if self.view.kind == "prefix" else f"{said} broke it"
        return (f"Likeliest so far: {said} ({shares[name]:.2f}).",)

    @property
    def _next(self) -> tuple[str, ...]:
        """What is open, and the key that goes on from there."""
        if self.view.status == "found" and self.view.verified is None:
            return ("Not confirmed: neither side of the boundary was asked again.",)
        if self.view.status == "non-monotone" and len(self.request.sources) > 2:
            return ("‹bisect.from_here› leaves out the versions before the one under the cursor.",)
        return ()

    @property
    def bounds(self) -> tuple[str, ...]:
        """What the result does not say."""
        return tuple(map(here, self.view.says_not)) if self.phase == "done" else ()

    @property
    def bad(self) -> str:
        """What counts as bad, where, and by whose word; "" where that is not known yet."""
        if not self.view.oracle:
            return ""
        runs = self.view.free or self.view.kind == "prefix"
        where = "whole runs" if runs else f"at step {self.view.step}"
        if runs and self.view.step is not None:
            where += f" from step {self.view.step} on"
        found = self.options is not None and self.view.oracle == self.options.by
        why = f": {self.options.why}" if found and self.options is not None else ""
        return f"bad {where}: {format.one_line(self.view.oracle)}{why if not runs else ''}"

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it."""
        said = tuple(map(here, self.view.notices))
        hint = self.trouble.hint if self.trouble is not None else ""
        return (format.one_line(hint), *said) if hint else said

    def diff_of(self, row: VersionRow) -> tuple[str, ...]:
        """What a version changes of the one before it; of the named ones, what they all change."""
        if row.among and self.view.diff:
            return self.view.diff
        return self.cost.diffs.get(row.name, ()) if self.cost is not None else ()


EMPTY = BisectState(request=BisectRequest(trace=""))


def extent(estimate: BisectEstimate) -> str:
    """Whom a search asks, and about how often: `about 17 answers of demo, rule-based`."""
    each = "" if estimate.calls_each == 1 else f" of up to {estimate.calls_each} calls"
    stored = f", {estimate.stored} of them there" if estimate.stored else ""
    whom = format.one_line(label(estimate.model))
    about = f"about {format.count(estimate.samples, 'answer')}{each}{stored}"
    return f"{whom}: {about}, at most {estimate.most}"


def _cost(estimate: BisectEstimate) -> str:
    usd = estimate.about_usd
    return "price unknown" if usd is None else f"about {format.usd(usd)}"
