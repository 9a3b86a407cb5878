"""A bisection, from a request to its views: `arc bisect` prints the last one, a screen each."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import resting
from arc_tui.features.bisect.plan import KEPT, BisectRequest, KeptBisect, Plan
from arc_tui.features.bisect.view import (
    BisectView,
    Label,
    RoundLine,
    found_rows,
    hunk_sentence,
    limits_of,
    part_lines,
    round_line,
    sentence,
    several,
    text_diff,
    version_rows,
)
from arc_tui.ui import format
from replay import digests
from replay.bisection.course import Ended, Progress, bisect, bisect_hunks
from replay.bisection.hunks import Culprits, applied
from replay.bisection.rounds import Found
from replay.bisection.trials import Rollouts
from replay.errors import ModelRefused
from replay.kept import take_range
from replay.models.choose import label
from replay.store import answers
from replay.store.handle import Store

R = TypeVar("R", Found, Culprits)


def run_bisection(store: Store, request: BisectRequest, models: ModelPool) -> Generator[BisectView]:
    """Search; yields the view before each round of samples, and at the end with its digest.

    Every response is stored as it comes: killed and run again, it continues. Raises
    NotFound, BadEdit, BadVersions, BadPredicate, NothingExpected, ModelRefused where nothing could
    be asked at all, OfflineMiss and Stopped.
    """
    plan = Plan(store, request, models)
    work = _Work(store, plan)
    view = yield from work.run()
    if view.samples and not work.cut_short:
        take_range(store, plan.trace.id, plan.trials.model.name, plan.range)
    if view.samples:
        kept = KeptBisect(
            trace=plan.trace.id, model=plan.trials.model.name, range=plan.range, view=view
        )
        answers.keep(store, f"{KEPT}{plan.trace.id}/{view.digest}", kept)
    yield view


def kept_bisects(store: Store, trace: str) -> list[BisectView]:
    """Earlier bisections of a trace."""
    return [each.view for each in answers.found(store, f"{KEPT}{trace}/", KeptBisect)]


class _Work:
    """A search in progress, as a view. `cut_short`: it ended early, at a limit or a refusal."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.cut_short = False
        self._store = store
        self._plan = plan
        self._rounds: list[RoundLine] = []
        self._samples = 0

    def run(self) -> Generator[BisectView, None, BisectView]:
        plan = self._plan
        if plan.parts:
            ended = yield from self._going(
                bisect_hunks(plan.trials, plan.old, plan.parts, plan.hunk_edit, plan.settings)
            )
            return self._hunks_over(ended)
        over = yield from self._going(bisect(plan.trials, len(plan.trials.versions), plan.settings))
        return self._over(over.found, over.refused)

    def _going(
        self, going: Generator[Progress, None, Ended[R]]
    ) -> Generator[BisectView, None, Ended[R]]:
        while True:
            try:
                progress = next(going)
            except StopIteration as ended:
                found: Ended[R] = ended.value
                self.cut_short = found.refused is not None
                if found.refused is not None and not self._plan.trials.evidence:
                    raise ModelRefused(found.refused) from None
                return found
            yield self._under_way(progress)
            self._samples += len(progress.wanted)

    # --- views

    def _under_way(self, now: Progress) -> BisectView:
        names = [self._plan.trials.versions[each].name for each in now.wanted]
        self._rounds.append(round_line(now.why, names))
        latest = self._rounds[-1]
        wanted = [now.versions.index(each) for each in now.wanted]
        return structs.replace(
            self._common(),
            sentence=f"round {len(self._rounds)}: {latest.versions} · {latest.why}",
            rows=version_rows(self._labels(now.versions), now.seen, now.likely, wanted=wanted),
            unchanged=now.likely[0],
            samples=self._samples,
        )

    def _over(self, found: Found, refused: str | None) -> BisectView:
        labels = self._labels(range(len(found.seen)))
        names = [each.name for each in labels]
        view = structs.replace(
            self._common(),
            status=found.status,
            sentence=sentence(found, labels, self._plan.kind, refused),
            rows=found_rows(labels, found),
            first_bad=None if found.first_bad is None else names[found.first_bad],
            among=tuple(names[at] for at in found.among),
            confidence=found.confidence if found.among else None,
            unchanged=found.likely[0],
            verified=found.verified,
            several=found.several,
            samples=found.samples,
            checks=found.more,
            diff=self._plan.diff(found.among),
        )
        return self._finished(view, found, refused)

    def _hunks_over(self, ended: Ended[Culprits]) -> BisectView:
        culprits, plan = ended.found, self._plan
        first = culprits.parts[0].found
        labels = [Label(name) for name in plan.hunk_names]
        chosen = frozenset(culprits.hunks)
        status = "found" if chosen else first.status
        view = structs.replace(
            self._common(),
            status=status,
            sentence=hunk_sentence(culprits, len(plan.parts), ended.refused),
            rows=found_rows(labels, first),
            first_bad=", ".join(f"hunk {at + 1}" for at in culprits.hunks) or None,
            among=tuple(f"hunk {at + 1}" for at in culprits.hunks),
            confidence=first.confidence if chosen else None,
            unchanged=first.likely[0],
            verified=first.verified,
            several=first.several,
            samples=sum(part.found.samples for part in culprits.parts),
            checks=sum(part.found.more for part in culprits.parts),
            parts=tuple(part_lines(culprits)),
            diff=text_diff(
                plan.old, applied(plan.old, plan.parts, chosen), "old", "old + these hunks"
            )
            if chosen
            else (),
        )
        return self._finished(view, first, ended.refused)

    def _common(self) -> BisectView:
        plan, model = self._plan, self._plan.trials.model
        fidelity, spent = plan.trials.fidelity, plan.models.spending
        return BisectView(
            trace=plan.trace.id,
            kind=plan.kind,
            status="going",
            sentence="",
            step=plan.step,
            free=plan.free,
            detector=plan.trials.name,
            model=label(model.name),
            server=model.server,
            fidelity=fidelity.level.value if fidelity is not None else None,
            fidelity_reasons=fidelity.reasons if fidelity is not None else (),
            notices=tuple(plan.notices),
            rounds=tuple(self._rounds),
            max_samples=plan.settings.max_samples,
            cached=spent.cached,
            calls=spent.calls,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
        )

    def _finished(self, view: BisectView, found: Found, refused: str | None) -> BisectView:
        plan = self._plan
        warning = several(found)
        notices = [*([warning] if warning else []), *plan.notices, *self._lost(plan.trials.lost)]
        if isinstance(plan.trials, Rollouts):
            judged = sum(1 for each in plan.trials.given if each.bad is not None)
            notices += filter(None, [resting(plan.trials.guessed, judged)])
        if refused is not None and view.status == "found":
            notices.append(f"stopped before it was confirmed: {refused}")
        bounds = limits_of(plan.kind, free=plan.free, step=plan.step, model=plan.trials.model.name)
        return structs.replace(
            view,
            notices=tuple(notices),
            bounds=tuple(bounds),
            ended=refused,
            digest=digests.digest(
                "bisect", digests.encode(plan.question), digests.encode(self._seen())
            ),
        )

    def _seen(self) -> Sequence[tuple[object, ...]]:
        return [tuple(each) for each in self._plan.trials.evidence]

    def _lost(self, lost: Mapping[int, str]) -> Iterator[str]:
        """Why samples are unusable, a line per version."""
        counted: dict[int, int] = {}
        for each in self._plan.trials.evidence:
            if each.bad is None:
                counted[each.version] = counted.get(each.version, 0) + 1
        for version, why in sorted(lost.items()):
            name = self._plan.trials.versions[version].name
            many = format.count(counted[version], "sample" if not self._plan.free else "run")
            yield f"{name}: {many} unusable: {why}"

    def _labels(self, versions: Sequence[int]) -> list[Label]:
        known = self._plan.trials.versions
        return [self._plan.label(known[each].name) for each in versions]
