"""What tries of an edit came to, as they are remembered: by edit, and by the runs they were on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from arc_tui.experiments.models import ModelPool
from arc_tui.features.edit_test.request import EditTestPlan, EditTestRequest
from arc_tui.features.edit_test.view import Spent, TryView
from replay import digests, kept
from replay.edit.changes import Edit
from replay.locked.tally import Reply, StepResult
from replay.store import answers
from replay.store.handle import Store, now_ns

KEPT = "try/"
"""Before the names under which they are remembered."""


class KeptTry(Struct, frozen=True, eq=False, kw_only=True):
    """A finished try. `edit` is the edit's digest, `traces` are the runs that were meant, whether
    anything was asked of them or not."""

    edit: str
    traces: tuple[str, ...]
    models: tuple[str, ...]
    ran_ns: int
    view: TryView


def keep(store: Store, request: EditTestRequest, plan: EditTestPlan, view: TryView) -> None:
    """Remember a finished try. The same evidence again only gets the newer date."""
    assert request.edit is not None
    assert view.digest is not None
    value = KeptTry(
        edit=request.edit.digest,
        traces=meant(plan),
        models=view.spent.models,
        ran_ns=now_ns(),
        view=view,
    )
    answers.keep(store, f"{KEPT}{value.edit}/{view.digest}", value)


def kept_tries(store: Store, edit: Edit | str | None = None) -> list[KeptTry]:
    """The finished tries of an edit, or of all, the latest first."""
    digest = edit.digest if isinstance(edit, Edit) else edit
    prefix = KEPT if digest is None else f"{KEPT}{digest}/"
    return sorted(answers.found(store, prefix, KeptTry), key=lambda each: -each.ran_ns)


def tried_before(
    store: Store, request: EditTestRequest, plan: EditTestPlan, models: tuple[str, ...]
) -> KeptTry | None:
    """The latest try of the same edit on the same runs by the same models."""
    if request.edit is None:
        return None
    runs = meant(plan)
    same = (
        each
        for each in kept_tries(store, request.edit)
        if each.traces == runs and each.models == models
    )
    return next(same, None)


def meant(plan: EditTestPlan) -> tuple[str, ...]:
    """The runs a plan is about."""
    left = (each.trace for each in (*plan.left_out, *plan.not_applicable))
    return tuple(sorted({*(case.row.trace for case in plan.cases), *left}))


def fresh_range(store: Store, plan: EditTestPlan, models: ModelPool) -> int:
    """A range of samples that nothing finished has used of these runs."""
    return max(kept.next_range(store, *each) for each in _traces_and_models(plan, models))


def take_range(store: Store, plan: EditTestPlan, models: ModelPool, range: int) -> None:
    """Remember that a finished try used that range: nobody's fresh samples are of it."""
    for trace, model in _traces_and_models(plan, models):
        kept.take_range(store, trace, model, range)


def _traces_and_models(plan: EditTestPlan, models: ModelPool) -> Iterator[tuple[str, str]]:
    """The traces a plan asks at, each with every model it asks."""
    breaks = {case.broke.trace for case in plan.cases}
    for trace in sorted(breaks | {control.spot.trace for control in plan.controls}):
        yield from ((trace, model.name) for model in models.models)


def digest_of(
    request: EditTestRequest,
    spent: Spent,
    range: int,
    results: Mapping[tuple[str, int], StepResult],
) -> str:
    """What was asked and what was answered, in one word: the same whatever came first."""
    assert request.edit is not None
    rules = msgspec.to_builtins(request.rules.paths)
    question = [request.edit.digest, spent.models, spent.servers, request.samples, range, rules]
    rows = [
        [*place, row.oracle, [*map(_evidence, row.control)], [*map(_evidence, row.edited)]]
        for place, row in sorted(results.items())
    ]
    return digests.digest("try", digests.encode(question), digests.encode(rows))


def _evidence(reply: Reply) -> tuple[str, bool | None, bool | None]:
    return reply.key, reply.shows, reply.against.same
