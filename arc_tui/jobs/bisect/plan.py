"""What `arc bisect` will hold against each other: which versions, at which step, by whose word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from arc_tui.jobs import expecting
from arc_tui.jobs.bisect.versions import BadVersions, Source, merged
from arc_tui.jobs.everyone import Everyone
from arc_tui.jobs.replaying import break_and_notice
from arc_tui.views.bisect.view import BisectView, Kind, Label, text_diff
from replay.bisection.course import spelled
from replay.bisection.hunks import Chosen, Hunk, hunks
from replay.bisection.rollouts import Rollouts
from replay.bisection.rounds import USUAL, Settings
from replay.bisection.trials import Trials
from replay.bisection.versions import CannotAsk, Version
from replay.budget import Budget, Limits
from replay.edit import Edit
from replay.errors import BadEdit
from replay.free.tape import Terms
from replay.models.choose import choose, default_name
from replay.store import Store, read, replays, stubs
from replay.store.rows import trace_row
from replay.trace import Json, Trace

KEPT = "bisect/"
"""Before the names under which results are remembered."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What to search. One of three: `sources`, the versions in their order; `old` and `new`, whose
    hunks are searched; `fix`, an edit tried from each step of the run.

    `expect` None is the rule's finding at the step. `at` None is where the run broke, or, for whole
    runs (`free`), their first step. `model` None is the trace's own; live calls need a limit.
    `resample` asks everything afresh, beside what is kept.
    """

    trace: str
    sources: tuple[Source, ...] = ()
    old: Source | None = None
    new: Source | None = None
    fix: Edit | None = None
    expect: str | None = None
    judge: str | None = None
    at: int | None = None
    free: bool = False
    settings: Settings = USUAL
    model: str | None = None
    live: bool = False
    limits: Limits = Limits()
    resample: bool = False
    allow_stale: bool = False
    max_steps: int | None = None


class KeptBisect(Struct, frozen=True, kw_only=True):
    """What a bisection came to, as it is remembered. `range` is that of its samples."""

    trace: str
    model: str
    range: int
    view: BisectView


class Plan:
    """A search made ready: `asked` has its versions and judges their samples.

    `step` is the one asked at, None for runs from the first one; `parts` are the hunks, () where
    versions are searched; `everyone` is who will be asked. Nothing is asked here, and nothing can
    be asked that the limits forbid. Raises as `bisecting.bisecting` does before it asks.
    """

    def __init__(self, store: Store, wanted: Wanted) -> None:
        self.trace: Trace = read.load(store, trace_row(store, wanted.trace).trace)
        self.settings = wanted.settings
        self.free = wanted.free or wanted.fix is not None
        self.notices: list[str] = []
        self.parts: tuple[Hunk, ...] = ()
        self.old = ""
        self._store = store
        self._wanted = wanted
        self._sources: tuple[Source, ...] = ()
        notice = break_and_notice(store, self.trace.id)[1]
        if notice is not None:
            self.notices.append(notice)
        budget = Budget(wanted.limits)
        name = wanted.model or default_name(self.trace)
        self._model = choose(name, store, live=wanted.live, budget=budget)
        self.range = (
            replays.next_range(store, self.trace.id, self._model.name) if wanted.resample else 0
        )
        self.step = self._first_step()
        self._judge = expecting.judge_of(
            store, wanted.expect, wanted.judge, self._model.name, live=wanted.live, budget=budget
        )
        self.everyone = Everyone(self._model, self._judge)
        self.asked = self._asked()
        self._fill()
        self.question: Json = [
            self.trace.id,
            self.step,
            self.asked.name,
            self._model.name,
            self._model.server,
            self.range,
        ]

    @property
    def kind(self) -> Kind:
        if self._wanted.fix is not None:
            return "prefix"
        return "hunks" if self.parts else "versions"

    @property
    def hunk_names(self) -> list[str]:
        """How the texts with none, one, two … of the hunks are called."""
        many = len(self.parts)
        return [spelled(frozenset(range(count)), many) for count in range(many + 1)]

    def hunk_edit(self, chosen: Chosen, text: str) -> Edit | None:
        """The edit that makes the prompt the old text with some of its hunks."""
        name = spelled(chosen, len(self.parts))
        return Source(name=name, text=text).edit(self.trace, self._at)

    def label(self, name: str) -> Label:
        """How a version is called, and what is known of it."""
        source = next((each for each in self._sources if each.name == name), None)
        if source is None:
            return Label(name)
        made = next((each for each in self.asked.versions if each.name == name), None)
        recorded = ("as recorded",) if made is not None and made.edit is None else ()
        note = " · ".join((source.note, *recorded) if source.note else recorded)
        return Label(name, note, source.note)

    def diff(self, among: Sequence[int]) -> tuple[str, ...]:
        """What the named version changes of the one before it."""
        if not among or not self._sources:
            return ()
        before, after = self._sources[min(among) - 1], self._sources[max(among)]
        return text_diff(before.text, after.text, before.name, after.name)

    # --- making ready

    @property
    def _at(self) -> int:
        """The step whose prompt is the recorded one."""
        return self.step if self.step is not None else 0

    def _first_step(self) -> int | None:
        wanted = self._wanted
        if not self.free or wanted.at is not None:
            return expecting.step_of(self._store, self.trace, wanted.at)
        return None

    def _asked(self) -> Trials | Rollouts:
        wanted = self._wanted
        if not self.free:
            assert self.step is not None
            oracle = expecting.oracle(
                self._store, self.trace, self.step, wanted.expect, self._judge
            )
            return Trials(self.trace, oracle, self._model, range=self.range)
        known = stubs.of_trace(self._store, self.trace.id)
        return Rollouts(
            self.trace,
            expecting.ending(self.trace, wanted.expect),
            self._model,
            terms=Terms(stubs=known, allow_stale=wanted.allow_stale),
            max_steps=wanted.max_steps,
            range=self.range,
        )

    def _fill(self) -> None:
        wanted = self._wanted
        if wanted.fix is not None:
            self._from_each_step(wanted.fix)
        elif wanted.old is not None and wanted.new is not None:
            self.old = wanted.old.text
            self.parts = hunks(wanted.old.text, wanted.new.text)
            if not self.parts:
                raise BadVersions("the two texts say the same", "name an older and a newer one")
        else:
            distinct = merged(wanted.sources)
            self._sources = distinct.sources
            self.notices += distinct.notices
            self._add(
                Version(name=each.name, edit=_one_model(each.edit(self.trace, self._at)))
                for each in distinct.sources
            )

    def _add(self, versions: Iterable[Version]) -> None:
        for each in versions:
            self.asked.add(Version(name=each.name, edit=each.edit, start=self.step))

    def _from_each_step(self, fix: Edit) -> None:
        """The fix from each step of the run it applies to; the others are said."""
        thread = fix.thread or (self.trace.steps[0].thread if self.trace.steps else None)
        for step in self.trace.steps:
            if step.thread != thread or step.index < (self.step or 0):
                continue
            if step.ask.response.message is None:
                continue
            version = Version(name=f"step {step.index}", edit=_one_model(fix), start=step.index)
            try:
                self.asked.add(version)
            except CannotAsk as refusal:
                self.notices.append(refusal.message)
            except BadEdit as refusal:
                self.notices.append(f"left out: {refusal.message}")
        if len(self.asked.versions) < 2:
            why = self.notices[-1] if self.notices else "the run has too few"
            raise BadVersions(f"the fix can be tried from fewer than two steps: {why}")


def _one_model(edit: Edit | None) -> Edit | None:
    """The edit. Raises BadEdit where it would ask another model: one is asked of all versions."""
    if edit is not None and edit.model is not None:
        raise BadEdit(
            f"{edit.name} sets another model, and all versions ask one", "leave set_model out"
        )
    return edit
