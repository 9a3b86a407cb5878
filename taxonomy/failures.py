"""How often does each class of failure happen, and whose is it?

Counts are over runs, never over findings: a failed run counts once, by the most trusted source
(person, judge, rule) and its earliest decisive step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec
from msgspec import Struct

from replay.store.handle import Store
from taxonomy.classes import Attribution, FailureClass, class_label
from taxonomy.findings import Source
from taxonomy.judgements.tags import TagRow
from taxonomy.owners import Owners, depends_on_steps, owners_of
from taxonomy.playbook import NO_PLAYBOOK, Playbook
from taxonomy.query.failures import (
    NONE,
    Part,
    Word,
    WordCount,
    count_every_word,
    count_first_words,
    first_tools,
    first_words,
    outcome_count,
    page_of_first_words,
    starts_of,
    unsaid_runs,
)
from taxonomy.query.filter import ALL, Filter
from taxonomy.query.listing import ORDERS, run_order

if TYPE_CHECKING:
    from taxonomy.judgements.scans import Scan, ScanWord

By = Literal["tool", "model", "variant", "task", "week", "owner"]
BYS: tuple[By, ...] = get_args(By)

UNTAGGED = "not yet tagged"
NO_VALUE = "–"
"""The part of a run that does not say what it is split by."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_NS = 86_400 * 10**9


class RunBehind(Struct, frozen=True, kw_only=True):
    """A failed run that a bar counts, and the step it is counted for.

    `trace` is the recording that has the step, `preferred` the one that lists show of the run.
    `by` says so (with `source`); these and the step are None where nobody says anything of it.
    """

    trace: str
    preferred: str
    step: int | None
    task: str | None
    trial: str | None
    accepted: bool = False
    source: Source | None = None
    by: str | None = None
    why: str | None = None
    owner: str | None = None


class ScannedBehind(RunBehind, frozen=True, kw_only=True):
    """The same of a run that a scan found in a trace store: its id there (`source_id`), when it
    began, its title, and its recording `local` where it was pulled, None where it is not here.
    `trace` is the id that a pull gives it."""

    fleet: str
    source_id: str
    start_ns: int | None
    title: str | None
    local: str | None


class Bar(Struct, frozen=True, kw_only=True):
    """One bar: runs tagged by someone, and runs a rule or judge suggests it for.

    `part` is the tool, model … the class is split by. `runs` begin with the tagged ones, and stand
    as a list by task has them. `owner` is whose most of them are (None: nobody is named),
    `owners` how many different answers there are. `rollback` and `guard` are those of the playbook,
    None where it has none. A `tally` names no runs.
    """

    label: str
    tagged: int
    suggested: int
    failure: FailureClass = msgspec.field(name="class")
    sub: str | None
    attribution: Attribution | None
    part: str | None = None
    owner: str | None = None
    owners: int = 0
    rollback: str | None = None
    guard: str | None = None
    runs: tuple[RunBehind, ...] = ()

    @property
    def count(self) -> int:
        return self.tagged + self.suggested


class Pareto(Struct, frozen=True, kw_only=True):
    """Failed runs by class, most first.

    `apart` are failures not attributed to the agent (a prompt edit cannot fix them), `untagged`
    failed runs nobody says anything of, `unknown` runs whose outcome is not known.
    `without_playbook` are the failures for which the playbook has neither a rollback nor a guard,
    None where there is no playbook.
    """

    bars: tuple[Bar, ...]
    apart: tuple[Bar, ...]
    untagged: int
    failed: int
    unknown: int
    without_playbook: tuple[str, ...] | None = None

    @property
    def all_bars(self) -> tuple[Bar, ...]:
        return (*self.bars, *self.apart)


def tally(
    store: Store,
    *,
    by: By | None = None,
    every: bool = False,
    owners: Owners | None = None,
    playbook: Playbook = NO_PLAYBOOK,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> Pareto:
    """The bars of `pareto`, counted by the database: the runs behind them are not read, but where
    whose a failure is depends on its step."""
    if owners is not None and depends_on_steps(store):
        return pareto(
            store, by=by, every=every, owners=owners, playbook=playbook, without=without,
            chosen=chosen,
        )  # fmt: skip
    count = count_every_word if every else count_first_words
    counted = count(store, by=_counted_by(by), without=without, chosen=chosen)
    groups: dict[str, list[_Counted]] = {}
    for each in counted:
        whose = (each.failure, each.sub, each.attribution)
        owner = owners.of(*whose) if owners is not None else None
        part = _part(each.part, by, owner)
        label = _whole(each.failure, each.sub, each.attribution, part)
        groups.setdefault(label, []).append(_Counted(each, part, owner))
    bars = [_counted(label, group, playbook) for label, group in groups.items()]
    failed = outcome_count(store, "failed", without=without, chosen=chosen)
    said = sum(each.runs for each in counted)
    unsaid = len(unsaid_runs(store, without=without, chosen=chosen)) if every else failed - said
    unknown = outcome_count(store, "unknown", without=without, chosen=chosen)
    return _pareto(bars, by, failed, unsaid, unknown, playbook)


def pareto(
    store: Store,
    *,
    by: By | None = None,
    every: bool = False,
    of: Bar | None = None,
    owners: Owners | None = None,
    playbook: Playbook = NO_PLAYBOOK,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> Pareto:
    """The Pareto over the preferred recordings of the `chosen` runs, those of the tasks `without`
    left out.

    Each failed run counts once, by its most trusted source and earliest step; with `every`, once
    for each class said of it. `by` splits a class further; weeks are in order. Without `owners`
    nobody is asked whose a failure is. `of` one bar, only what is said as it says is read.
    """
    word = None if of is None else Word(of.failure, of.sub)
    said = first_words(store, every=every, of=word, without=without, chosen=chosen)
    named = (None,) * len(said) if owners is None else owners_of(store, said, owners)
    part = _splitter(store, by, said)
    counted: dict[tuple[str, str], tuple[TagRow, str | None, RunBehind]] = {}
    for row, owner in zip(said, named, strict=True):
        part_of = owner or NO_VALUE if by == "owner" else part(row)
        counted.setdefault(
            (row.run, _whole(row.failure, row.sub, row.attribution, part_of)),
            (row, part_of, _behind(row, owner)),
        )
    groups: dict[str, list[tuple[TagRow, str | None, RunBehind]]] = {}
    for (_, label), each in counted.items():
        groups.setdefault(label, []).append(each)
    place = _places(store)

    def by_task(run: RunBehind) -> tuple[bool, int, int]:
        return not run.accepted, place[run.preferred], run.step or 0

    bars = [_bar(label, group, playbook, by_task) for label, group in groups.items()]
    failed = outcome_count(store, "failed", without=without, chosen=chosen)
    unsaid = failed - len({row.run for row in said})
    unknown = outcome_count(store, "unknown", without=without, chosen=chosen)
    return _pareto(bars, by, failed, unsaid, unknown, playbook)


def scan_pareto(
    store: Store,
    scan: Scan,
    *,
    by: By | None = None,
    every: bool = False,
    owners: Owners | None = None,
    playbook: Playbook = NO_PLAYBOOK,
    without: Collection[str] = NONE,
) -> Pareto:
    """The same over the runs of a scan, by what rules said of them there. Owners by a goal's step
    are not asked: the steps are not here."""
    from taxonomy.judgements.scans import scan_outcomes, scan_words  # a list of runs needs none

    counted: dict[tuple[str, str], tuple[ScanWord, str | None, RunBehind]] = {}
    for word in scan_words(store, scan.id, every=every, without=without):
        owner = None if owners is None else owners.of(word.failure, word.sub, word.attribution)
        part = _part_of_word(word, by, owner)
        label = _whole(word.failure, word.sub, word.attribution, part)
        counted.setdefault((word.trace, label), (word, part, _scanned_behind(scan, word, owner)))
    groups: dict[str, list[tuple[ScanWord, str | None, RunBehind]]] = {}
    for (_, label), each in counted.items():
        groups.setdefault(label, []).append(each)
    outcomes = scan_outcomes(store, scan.id, without=without)
    failed = outcomes.get("failed", 0)
    return _pareto(
        [_bar(label, group, playbook, _order) for label, group in groups.items()],
        by,
        failed,
        failed - len({trace for trace, _ in counted}),
        outcomes.get("unknown", 0),
        playbook,
    )


def untagged_of_scan(
    store: Store, scan: Scan, *, without: Collection[str] = NONE
) -> tuple[RunBehind, ...]:
    """The failed runs of a scan of which no rule says anything, each with its first candidate as a
    hint."""
    from taxonomy.judgements.scans import UNSAID, scanned_runs

    return tuple(
        sorted(
            (
                ScannedBehind(
                    trace=run.key or "", preferred=run.key or "", step=run.why_step,
                    task=run.task, trial=run.trial, why=run.why, fleet=scan.fleet,
                    source_id=run.trace, start_ns=run.start_ns, title=run.title, local=local,
                )
                for run, local in scanned_runs(store, scan.id, UNSAID, without=without)
            ),
            key=_order,
        )
    )  # fmt: skip


def _scanned_behind(scan: Scan, word: ScanWord, owner: str | None) -> ScannedBehind:
    return ScannedBehind(
        trace=word.key, preferred=word.key, step=word.step, task=word.task, trial=word.trial,
        source="rule", by=word.by, why=word.why, owner=owner, fleet=scan.fleet,
        source_id=word.trace, start_ns=word.start_ns, title=word.title, local=word.local,
    )  # fmt: skip


def _part_of_word(word: ScanWord, by: By | None, owner: str | None) -> str | None:
    """The part of a class as a bar names it."""
    match by:
        case None:
            return None
        case "owner":
            return owner or NO_VALUE
        case "week":
            return iso_week(word.start_ns)
        case "tool":
            return word.tool or "no call"
        case "model":
            return word.models or NO_VALUE
        case "variant":
            return word.variant or NO_VALUE
        case "task":
            return word.task or NO_VALUE


def page_behind(
    store: Store,
    of: Bar,
    limit: int,
    *,
    owners: Owners | None = None,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> tuple[RunBehind, ...]:
    """The first `limit` runs behind a bar of `pareto` that is not split."""
    said = page_of_first_words(
        store, Word(of.failure, of.sub), of.attribution, limit, without=without, chosen=chosen
    )
    named = (None,) * len(said) if owners is None else owners_of(store, said, owners)
    return tuple(_behind(row, owner) for row, owner in zip(said, named, strict=True))


def _pareto(
    found: Sequence[Bar],
    by: By | None,
    failed: int,
    untagged: int,
    unknown: int,
    playbook: Playbook,
) -> Pareto:
    bars = _in_order(found, by)
    lacking = (
        _whole(bar.failure, bar.sub, bar.attribution)
        for bar in bars
        if bar.rollback is None and bar.guard is None
    )
    return Pareto(
        bars=tuple(bar for bar in bars if is_agents(bar.attribution)),
        apart=tuple(bar for bar in bars if not is_agents(bar.attribution)),
        untagged=untagged,
        failed=failed,
        unknown=unknown,
        without_playbook=None if playbook.file is None else tuple(dict.fromkeys(lacking)),
    )


def _counted_by(by: By | None) -> Part | None:
    """What the database counts by: weeks are made of days, owners of what is said."""
    match by:
        case None | "owner":
            return None
        case "week":
            return "day"
        case _:
            return by


def _part(counted: str | int | None, by: By | None, owner: str | None) -> str | None:
    """The part of a class as a bar names it, out of what the database counts by."""
    match by:
        case None:
            return None
        case "owner":
            return owner or NO_VALUE
        case "week":
            return iso_week(None if counted is None else int(counted) * _DAY_NS)
        case "tool":
            return "no call" if counted is None else str(counted)
        case _:
            return str(counted) if counted else NO_VALUE


class _Counted(NamedTuple):
    """A count, the part it falls into, and whose these failures are."""

    words: WordCount
    part: str | None
    owner: str | None


def untagged_runs(
    store: Store, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> tuple[RunBehind, ...]:
    """The failed runs nobody says anything of, as a list by task has them."""
    place = _places(store)
    unsaid = unsaid_runs(store, without=without, chosen=chosen)
    return tuple(
        RunBehind(trace=run.trace, preferred=run.trace, step=None, task=run.task, trial=run.trial)
        for run in sorted(unsaid, key=lambda run: place[run.trace])
    )


def _places(store: Store) -> dict[str, int]:
    """Where a list by task has each failed run."""
    failed = Filter("outcome = ?", ("failed",), recorded=True)
    return {trace: at for at, trace in enumerate(run_order(store, failed, order=ORDERS["task"]))}


def is_agents(attribution: Attribution | None) -> bool:
    """Is it attributed to the agent, as far as is known?"""
    return attribution in (None, Attribution.AGENT)


def iso_week(start_ns: int | None) -> str:
    """The week a run began in (UTC), as ISO 8601 writes it: `2026-W47`; `–` where unknown."""
    from taxonomy.metrics.change import dated  # only who counts by weeks compares any

    began_ns = dated(start_ns)
    if began_ns is None:
        return NO_VALUE
    year, week, _ = (_EPOCH + timedelta(microseconds=began_ns // 1000)).isocalendar()
    return f"{year}-W{week:02}"


def failure_label(row: TagRow) -> str:
    """A failure as a bar that is not split names it: class, sub-label, attribution."""
    return _whole(row.failure, row.sub, row.attribution)


@lru_cache(maxsize=1024)
def _whole(
    failure: FailureClass, sub: str | None, attribution: Attribution | None, part: str | None = None
) -> str:
    label = " · ".join(filter(None, (class_label(failure, sub), part)))
    return label if is_agents(attribution) else f"{label} ({attribution})"


def _splitter(
    store: Store, by: By | None, said: Sequence[TagRow]
) -> Callable[[TagRow], str | None]:
    """Which part of a class a row falls into, None where classes are whole."""
    match by:
        case "tool":
            tools = first_tools(store, ((row.recording, row.step) for row in said))
            return lambda row: tools.get((row.recording, row.step), "no call")
        case "model":
            return lambda row: row.models or NO_VALUE
        case "variant":
            return lambda row: row.variant or NO_VALUE
        case "task":
            return lambda row: row.task or NO_VALUE
        case "week":
            starts = starts_of(store, (row.trace for row in said))
            return lambda row: iso_week(starts[row.trace])
        case "owner" | None:
            return lambda _: None


def _behind(row: TagRow, owner: str | None) -> RunBehind:
    return RunBehind(
        trace=row.recording,
        preferred=row.trace,
        step=row.step,
        task=row.task,
        trial=row.trial,
        accepted=row.accepted,
        source=row.source,
        by=row.by,
        why=row.why,
        owner=owner,
    )


def _counted(label: str, group: Sequence[_Counted], playbook: Playbook) -> Bar:
    first = group[0].words
    tagged = sum(each.words.runs for each in group if each.words.accepted)
    owners: Counter[str | None] = Counter()
    for each in group:
        owners[each.owner] += each.words.runs
    written = playbook.of(first.failure, first.sub, first.attribution)
    return Bar(
        label=label,
        tagged=tagged,
        suggested=sum(each.words.runs for each in group) - tagged,
        failure=first.failure,
        sub=first.sub,
        attribution=first.attribution,
        part=group[0].part,
        owner=_most_common(owners),
        owners=len(owners),
        rollback=written.rollback,
        guard=written.guard,
    )


def _most_common(owners: Counter[str | None]) -> str | None:
    return min(owners, key=lambda name: (-owners[name], name is None, name or ""))


def _bar(
    label: str,
    group: Sequence[tuple[TagRow | ScanWord, str | None, RunBehind]],
    playbook: Playbook,
    order: Callable[[RunBehind], tuple[object, ...]],
) -> Bar:
    row, part, _ = group[0]
    written = playbook.of(row.failure, row.sub, row.attribution)
    runs = sorted(
        (run for _, _, run in group),
        key=order,
    )
    tagged = sum(run.accepted for run in runs)
    owners = Counter(run.owner for run in runs)
    return Bar(
        label=label,
        tagged=tagged,
        suggested=len(runs) - tagged,
        failure=row.failure,
        sub=row.sub,
        attribution=row.attribution,
        part=part,
        owner=_most_common(owners),
        owners=len(owners),
        rollback=written.rollback,
        guard=written.guard,
        runs=tuple(runs),
    )


def _order(run: RunBehind) -> tuple[bool, bool, str, str, str, int]:
    """Of runs that are not here: tagged first, then by what the run is called."""
    named = run.task or ""
    return not run.accepted, run.task is None, named, run.trial or "", run.trace, run.step or 0


def _in_order(bars: Sequence[Bar], by: By | None) -> list[Bar]:
    """Most first; weeks stay with their class, which goes by all of its weeks."""
    if by != "week":
        return sorted(bars, key=lambda bar: (-bar.count, bar.label))
    whole: Counter[tuple[FailureClass, str]] = Counter()
    for bar in bars:
        whole[bar.failure, bar.sub or ""] += bar.count
    return sorted(
        bars,
        key=lambda bar: (-whole[bar.failure, bar.sub or ""], bar.failure, bar.sub or "", bar.label),
    )
