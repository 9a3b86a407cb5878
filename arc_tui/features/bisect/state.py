"""A bisection as one value: what can be searched, what that costs, its progress, and the sentences
of its screen.

Ways are offered from what is known: earlier bisections, saved edits, the demo's own prompts;
others are named by the user: files in their order, patterns of them, or the revisions of one
file in git.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path

from msgspec import Struct

from arc_tui.experiments.models import ModelPool, servers_of
from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.experiments.request import CostEstimate
from arc_tui.features.bisect import view as views
from arc_tui.features.bisect.plan import BisectEstimate, BisectRequest, Plan, estimate_cost
from arc_tui.features.bisect.run import kept_bisects
from arc_tui.features.bisect.versions import BadVersions, Source, of_files, of_git, recorded_prompt
from arc_tui.features.bisect.view import BisectView, VersionRow, text_diff
from arc_tui.places import fixtures
from arc_tui.ui import format
from arc_tui.views.columns import run_name
from replay import messages
from replay.bisection.hunks import applied, hunks
from replay.edit.changes import Edit
from replay.edit.editor import Editor
from replay.errors import BadEdit
from replay.models.choose import default_name, label
from replay.statistics import rate
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.detectors import GoldEnding, NothingExpected, detector_at
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.golds import with_own_gold
from taxonomy.query.failures import break_and_notice
from taxonomy.query.listing import natural

# --- what could be searched

LAST = 3
"""The newest prompts that are offered by themselves: one change is likelier among few."""

RANGES = 'such as "prompts/v*.md", or a git range: "prompt.md v1..HEAD"'


class Way(Struct, frozen=True, kw_only=True):
    """Something to search: versions in their order, the hunks between two texts, or an edit tried
    from each step. `kept` is what an earlier search came to."""

    name: str
    words: str = ""
    sources: tuple[Source, ...] = ()
    old: Source | None = None
    new: Source | None = None
    fix: Edit | None = None
    kept: BisectView | None = None


class BisectOptions(Struct, frozen=True, kw_only=True):
    """A run before a search: the step it is asked at (None where it has none), what a rule found
    there by whose word (`by` None: nothing), and the ways there are.

    `gold` tells that its source says what should have been done.
    """

    run: str
    step: int | None
    steps: int
    by: str | None
    why: str
    gold: bool
    model: str | None
    ways: tuple[Way, ...]


def build_options(
    store: Store, name: str, at: int, edit: Edit | None = None, *, exactly: bool = False
) -> BisectOptions:
    """What can be searched at step `at`; unless `exactly` there, where the run broke if no rule
    found anything at `at`, but one did there.

    With an `edit`, its ways come first. Raises NotFound.
    """
    row = trace_row(store, name)
    trace = with_own_gold(store, read.load(store, row.trace))
    step = _step(store, trace, at, exactly=exactly)
    by, why = _found(store, trace, step)
    return BisectOptions(
        run=run_name(row),
        step=step,
        steps=len(trace.steps),
        by=by,
        why=why,
        gold=_has_gold(trace),
        model=default_name(trace),
        ways=tuple(_ways(store, trace, step or 0, edit)),
    )


def _step(store: Store, trace: Trace, at: int, *, exactly: bool) -> int | None:
    if not trace.steps:
        return None
    at = max(0, min(at, len(trace.steps) - 1))
    broke, _ = break_and_notice(store, trace.id)
    if exactly or broke is None or _found(store, trace, at)[0]:
        return at
    return broke if _found(store, trace, broke)[0] else at


def _found(store: Store, trace: Trace, step: int | None) -> tuple[str | None, str]:
    """By whose word an answer at the step is bad, and the finding it rests on."""
    said = diagnosis(store, trace.id)
    findings = said.findings if said is not None else ()
    detector = detector_at(trace, findings, step)
    if detector is None:
        return None, ""
    rule = detector.name.removesuffix(", by rule")
    here = (each.why for each in findings if each.step == step and each.rule == rule)
    return detector.name, format.one_line(next(here, ""))


def _has_gold(trace: Trace) -> bool:
    try:
        GoldEnding(trace)
    except NothingExpected:
        return False
    return True


# --- what is known


def _ways(store: Store, trace: Trace, step: int, edit: Edit | None) -> Iterator[Way]:
    if not trace.steps:
        return
    if edit is not None:
        yield from _of_edit(trace, step, edit)
    for view in kept_bisects(store, trace.id):
        yield Way(name=f"earlier: {view.status}", words=format.one_line(view.sentence), kept=view)
    yield from _of_demo(recorded_prompt(trace, step))
    given = edit.digest if edit is not None else None
    for kept in edits.listed(store):
        if kept.digest != given:
            yield from _of_edit(trace, step, kept.edit)


def _of_edit(trace: Trace, step: int, edit: Edit) -> Iterator[Way]:
    """The parts of an edit, where there are several, and the edit from each step."""
    try:
        request = Editor(edit, trace).request(trace.steps[step].ask.request, "the step", step)
    except BadEdit:
        return
    name = format.cut(format.one_line(edit.name), 40)
    old = recorded_prompt(trace, step)
    new = "" if request.system is None else messages.text(request.system)
    parts = len(hunks(old, new))
    if parts:
        yield Way(
            name=f"hunks of {name}",
            words=f"{format.count(parts, 'hunk')} of the system prompt",
            old=Source(name="as recorded", text=old),
            new=Source(name=edit.name, text=new),
        )
    if edit.model is None:
        words = "last recoverable step"
        yield Way(name=f"{name} from each step", words=words, fix=edit)


def _of_demo(recorded: str) -> Iterator[Way]:
    """The demo's prompts up to the recorded one, where it is one of them."""
    files = in_order(fixtures() / "demo" / "prompts")
    sources = tuple(of_files(files))
    texts = [each.text.rstrip("\n") for each in sources]
    if recorded.rstrip("\n") not in texts:
        return
    until = sources[: texts.index(recorded.rstrip("\n")) + 1]
    if len(until) > LAST:
        yield Way(name=spanned(until[-LAST:]), words="last demo prompts", sources=until[-LAST:])
    if len(until) > 1:
        yield Way(name=spanned(until), words="all demo prompts up to this", sources=until)


def in_order(folder: Path) -> list[Path]:
    """The prompts of a folder, v2 before v10."""
    return sorted(folder.glob("*.md"), key=lambda path: natural(str(path)))


def spanned(sources: Sequence[Source]) -> str:
    """Versions in a few words: `v3 … v5`."""
    names = [format.cut(format.one_line(each.name), 30) for each in sources]
    return f"{names[0]} … {names[-1]}" if len(names) > 2 else " and ".join(names)


# --- what a person names


def named(words: str) -> Way:
    """The versions that a person names: files and patterns, the oldest first, or `PATH A..B`.

    What a pattern finds is put in its natural order. Raises BadVersions.
    """
    try:
        said = shlex.split(words)
    except ValueError as error:
        raise BadVersions(f"{words!r} cannot be read: {error}", RANGES) from error
    if len(said) == 2 and ".." in said[1] and not Path(said[1]).expanduser().exists():
        sources = of_git(Path(said[0]).expanduser(), said[1])
    else:
        sources = of_files([file for each in said for file in _files(each)])
    if len(sources) < 2:
        raise BadVersions(f"{words!r} is one version; a bisection needs two", RANGES)
    return Way(name=spanned(sources), sources=tuple(sources))


def _files(word: str) -> list[Path]:
    path = Path(word).expanduser()
    if path.exists():
        return in_order(path) if path.is_dir() else [path]
    found = [
        Path(each)
        for each in sorted(glob(str(path), recursive=True), key=lambda path: natural(str(path)))
    ]
    if not found:
        raise BadVersions(f"no file {word!r}", RANGES)
    return [each for each in found if each.is_file()]


# --- what it would ask

Diffs = Mapping[str, tuple[str, ...]]
"""What each version changes of the one before it, by its name."""


class BisectCost(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What is searched, its versions before anything is asked, and what asking would come to."""

    view: BisectView
    diffs: Diffs
    estimate: BisectEstimate

    @property
    def asks(self) -> bool:
        return not self.estimate.settled

    def question(self) -> str:
        where = servers_of(self.models)
        return (
            f"{extent(self.estimate)}: {format.tokens(self.estimate.input_tokens)} input tokens"
            f" each, {_cost(self.estimate)}.\nServer: {where}. Responses are cached."
        )


def build_cost(store: Store, request: BisectRequest) -> BisectCost:
    """The cost of a bisection. Asks nothing. Raises as `run_bisection` does before it asks."""
    plan = Plan(store, request, ModelPool(store))
    model, fidelity = plan.trials.model, plan.trials.fidelity
    view = BisectView(
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
        rows=tuple(_rows(plan)),
        max_samples=plan.settings.max_samples,
    )
    return BisectCost(
        models=(model.name,),
        view=view,
        diffs=dict(_diffs(plan)),
        estimate=estimate_cost(store, request),
    )


def _rows(plan: Plan) -> Iterator[VersionRow]:
    names = plan.hunk_names if plan.parts else [each.name for each in plan.trials.versions]
    for name in names:
        note = plan.label(name).note
        yield VersionRow(name=name, note=note, bad=rate(0, 0), hits=0, unusable=0, likely=None)


def _diffs(plan: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not plan.parts:
        for at, version in enumerate(plan.trials.versions):
            if at:
                yield version.name, plan.diff([at])
        return
    names = plan.hunk_names
    texts = [applied(plan.old, plan.parts, range(count)) for count in range(len(names))]
    for at in range(1, len(names)):
        yield names[at], text_diff(texts[at - 1], texts[at], names[at - 1], names[at])


# --- where it stands

NOTHING = "Nothing to bisect yet. ‹bisect.choose› choose versions, an edit or a git range"


HERE = {
    "--max-samples N": "‹bisect.max_samples›", "--free": "‹bisect.whole›",
    "--model": "‹bisect.model›", "--step STEP": "‹bisect.step›",
}  # fmt: skip
"""Options that a sentence names, and the keys of the screen that do the same."""


def here(words: str) -> str:
    """A sentence of the command as the screen says it: with keys, and on one line."""
    for option, key in HERE.items():
        words = words.replace(option, key)
    return format.one_line(words)


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
            return f"earlier bisection · {run}" if self.view.rows else f"Bisect edits of {run}"
        return f"bisect {self.way} · {run}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said first: the verdict, or how far it is."""
        if self.trouble is not None:
            saved = "Completed calls are saved." if self.view.samples else ""
            return (f"{as_sentence(self.trouble.message)} {saved}".rstrip(),)
        match self.phase:
            case "estimating":
                return ("Reading the run.",)
            case "idle":
                return (self._said_before,)
            case "stopped":
                return "Stopped. Completed calls are saved. ‹bisect.run› continue", *self._likeliest
            case "done":
                return as_sentence(here(self.view.sentence)), *self._next
            case _ if not self.view.rounds:
                return ("Running round 1.",)
            case _:
                return as_sentence(here(self.view.sentence)), *self._likeliest

    @property
    def _said_before(self) -> str:
        if self.cost is None:
            return NOTHING
        price = "free" if self.cost.is_free else f"{_cost(self.cost.estimate)}; needs a limit"
        return f"{extent(self.cost.estimate)}, {price}. ‹bisect.run› run"

    @property
    def _likeliest(self) -> tuple[str, ...]:
        """What is likeliest so far, once there is something to go by."""
        if not self.view.samples or self.view.unchanged is None:
            return ()
        shares = {row.name: row.likely or 0.0 for row in self.view.rows[1:]}
        name = max(shares, key=lambda each: shares[each])
        if self.view.unchanged >= shares[name]:
            return (f"Most likely so far: no change ({self.view.unchanged:.2f}).",)
        first = format.one_line(name)
        likeliest = f"not recoverable from {first} on" if self.view.kind == "prefix" else first
        return (f"Most likely so far: {likeliest} ({shares[name]:.2f}).",)

    @property
    def _next(self) -> tuple[str, ...]:
        """What is open, and the key that goes on from there."""
        if self.view.status == "found" and self.view.verified is None:
            return ("Not confirmed: no new samples of the boundary.",)
        if self.view.status == "non-monotone" and len(self.request.sources) > 2:
            return ("‹bisect.from_here› leave out the versions above the cursor",)
        return ()

    @property
    def bounds(self) -> tuple[str, ...]:
        """What the result does not say."""
        return tuple(map(here, self.view.bounds)) if self.phase == "done" else ()

    @property
    def bad(self) -> str:
        """What counts as bad, where, and by whose word; "" where that is not known yet."""
        if not self.view.detector:
            return ""
        runs = self.view.free or self.view.kind == "prefix"
        where = "whole runs" if runs else f"at step {self.view.step}"
        if runs and self.view.step is not None:
            where += f" from step {self.view.step} on"
        found = self.options is not None and self.view.detector == self.options.by
        why = f": {self.options.why}" if found and self.options is not None else ""
        return f"bad {where}: {format.one_line(self.view.detector)}{why if not runs else ''}"

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
    cached = f", {estimate.stored} cached" if estimate.stored else ""
    whom = format.one_line(label(estimate.model))
    about = f"about {format.count(estimate.samples, 'sample')}{each}{cached}"
    return f"{whom}: {about}, at most {estimate.max_samples}"


def _cost(estimate: BisectEstimate) -> str:
    usd = estimate.about_usd
    return "price unknown" if usd is None else f"about {format.usd(usd)}"
