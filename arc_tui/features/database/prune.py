"""`arc db prune`: which runs leave the database by a rule of retention and which stay, what that
weighs, and their removal with their bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypedDict

import click
from msgspec import Struct, structs
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    examples,
    held_out_option,
    json_option,
    open_store,
    print_json,
    print_table,
)
from arc_tui.ui import format
from arc_tui.views.runs import run_rows
from replay.care.prune import (
    Weight,
    copies_beside,
    erase,
    remove,
    removing,
    replayed,
    unerased,
    weigh,
)
from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow, trace_rows
from taxonomy.held_out import hidden
from taxonomy.judgements import care
from taxonomy.judgements.care import JudgementCounts
from taxonomy.query.values import SPANS_NS, number


class PruneRequest(Struct, frozen=True, kw_only=True):
    """Which runs are to go: those that the `query` means, begun before a moment.

    `keep` are words or queries: `failed`, `passed`, `tagged` (a person said something of it),
    `replayed` (something kept is of it), else as in a list. `sample` is the percentage of what
    would go that stays. With `answers`, stored answers go that no kept replay rests on.
    """

    query: str = ""
    before_ns: int | None = None
    keep: tuple[str, ...] = ()
    sample: float = 0.0
    even_people: bool = False
    answers: bool = False
    with_held_out: bool = False


class RemovedRuns(Struct, frozen=True, kw_only=True):
    """The runs of one outcome and task that go, with all their recordings. `task` None: of all
    the tasks that are not named."""

    outcome: str
    task: str | None
    runs: int
    recordings: int
    spans: int


class KeptRuns(Struct, frozen=True, kw_only=True):
    """How many runs stay, and why, in words."""

    why: str
    runs: int


class PruneView(Struct, frozen=True, kw_only=True):
    """A pruning. `done` False: nothing was changed yet.

    `by_import` counts runs among those going whose start is not known, judged by when they were
    imported. `judgements` counts what is stored about them, `even_people` that labels of people go
    too. `copies` are files beside the database that may hold what goes. `erased`: old bytes were
    taken out of the file.
    """

    done: bool
    runs: int
    going: tuple[RemovedRuns, ...]
    staying: tuple[KeptRuns, ...]
    by_import: int
    weight: Weight
    judgements: JudgementCounts
    even_people: bool
    file_bytes: int | None
    file_bytes_after: int | None = None
    copies: tuple[str, ...] = ()
    erased: bool = False


def preview(store: Store, request: PruneRequest) -> PruneView:
    """What would go; changes nothing. Raises BadQuery."""
    choice = _choose(store, request)
    weight = weigh(store, choice.keys, **_removal_options(request))
    return _view(store, request, choice, weight, care.said_of(store, choice.keys))


def remove_runs(store: Store, request: PruneRequest) -> PruneView:
    """Remove it, then its bytes; an earlier pruning that was cut short is finished too.

    Raises BadQuery, and StoreBusy where another process is in the way.
    """
    before = _size(store)
    with removing(store) as db:
        choice = _choose(store, request)  # again: what was foreseen may have been tagged since
        counts = care.said_of(store, choice.keys)
        weight = remove(db, choice.keys, **_removal_options(request))
        care.forget(store, choice.keys, even_people=request.even_people)
    erased = unerased(store)
    if erased:
        erase(store)
    view = _view(store, request, choice, weight, counts)
    return structs.replace(
        view, done=True, file_bytes=before, file_bytes_after=_size(store), erased=erased
    )


class _RemovalOptions(TypedDict):
    unfinished_before_ns: int | None
    answers: bool


def _removal_options(request: PruneRequest) -> _RemovalOptions:
    # Without a limit of age nothing says that an import will not go on.
    return {"unfinished_before_ns": request.before_ns, "answers": request.answers}


def _view(
    store: Store,
    request: PruneRequest,
    choice: _Choice,
    weight: Weight,
    counts: care.JudgementCounts,
) -> PruneView:
    by_import = (all(_start(row) is None for row in rows) for rows in choice.going)
    return PruneView(
        done=False,
        runs=len(choice.going),
        going=groups(choice.going),
        staying=choice.staying,
        by_import=sum(by_import) if request.before_ns is not None else 0,
        weight=weight,
        judgements=counts,
        even_people=request.even_people,
        file_bytes=_size(store),
        copies=tuple(map(str, copies_beside(store.path))),
    )


def _size(store: Store) -> int | None:
    """Of the file and its log; None in memory."""
    if store.path is None:
        return None
    log = store.path.with_name(store.path.name + "-wal")
    return store.path.stat().st_size + (log.stat().st_size if log.exists() else 0)


# --- which

Rows = tuple[TraceRow, ...]
"""All recordings of a run."""


class _Choice(Struct, frozen=True, kw_only=True):
    going: tuple[Rows, ...]
    staying: tuple[KeptRuns, ...]

    @property
    def keys(self) -> list[str]:
        return [row.trace for rows in self.going for row in rows]


def _choose(store: Store, request: PruneRequest) -> _Choice:
    meant = {row.run for row in run_rows(store, request.query)}
    runs: dict[str, list[TraceRow]] = {}
    for row in trace_rows(store, every=True):
        if row.run in meant:
            runs.setdefault(row.run, []).append(row)
    stays = _reasons(store, request)
    counts = dict.fromkeys((why for why, _ in stays), 0)
    going: list[Rows] = []
    for rows in map(tuple, runs.values()):
        why = next((why for why, stay in stays if stay(rows)), None)
        if why is None:
            going.append(rows)
        else:
            counts[why] += 1
    return _Choice(
        going=tuple(going),
        staying=tuple(KeptRuns(why=why, runs=count) for why, count in counts.items() if count),
    )


Stays = Callable[[Rows], bool]


def _reasons(store: Store, request: PruneRequest) -> list[tuple[str, Stays]]:
    """Why a run stays, the first that holds is the one said."""
    held = frozenset[str]() if request.with_held_out else hidden(store)
    found: list[tuple[str, Stays]] = [
        ("live: still running", lambda rows: any(row.live for row in rows)),
        ("held out", lambda rows: any(row.task in held for row in rows)),
    ]
    limit = request.before_ns
    if limit is not None:
        found.append(("younger", lambda rows: max(map(_moment, rows)) >= limit))
    found += [(f"--keep {word}", _kept(store, word)) for word in request.keep]
    if request.sample:
        share = f"in the sample of {request.sample:.3g} %"
        found.append((share, lambda rows: _sampled(rows, request.sample)))
    return found


def _kept(store: Store, word: str) -> Stays:
    """The runs that a word or a query keeps."""
    match word:
        case "failed" | "passed":
            return lambda rows: any(row.outcome == word for row in rows)
        case "tagged":
            keys = care.spoken_of(store)
        case "replayed":
            keys = replayed(store)
        case _:
            keys = frozenset(row.trace for row in run_rows(store, word, every=True))
    return lambda rows: any(row.trace in keys for row in rows)


def _start(row: TraceRow) -> int | None:
    """When it began, as far as its source had a clock that was set."""
    return row.start_ns if row.start_ns is not None and row.start_ns > 0 else None


def _moment(row: TraceRow) -> int:
    start = _start(row)
    return row.imported_ns if start is None else start


def _sampled(rows: Rows, percent: float) -> bool:
    """Is the run of the share that stays? By its id alone: asked again, the same ones are."""
    digest = hashlib.sha256(b"arc db prune\0" + rows[0].run.encode()).digest()
    return int.from_bytes(digest[:8]) < percent / 100 * 2**64


MOST_GROUPS = 12


def groups(runs: Iterable[Rows]) -> tuple[RemovedRuns, ...]:
    """The recordings of each run, counted by the outcome and task of the preferred one; the
    largest first, the small ones of an outcome together."""
    found: dict[tuple[str, str], list[Rows]] = {}
    for rows in runs:
        head = next((row for row in rows if row.preferred), rows[0])
        found.setdefault((head.outcome, head.task or head.title or ""), []).append(rows)
    order = sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))
    shown = [_removed(*name, own) for name, own in order[:MOST_GROUPS]]
    rest: dict[str, list[Rows]] = {}
    for (outcome, _), own in order[MOST_GROUPS:]:
        rest.setdefault(outcome, []).extend(own)
    return (*shown, *(_removed(outcome, None, own) for outcome, own in sorted(rest.items())))


def _removed(outcome: str, task: str | None, runs: list[Rows]) -> RemovedRuns:
    return RemovedRuns(
        outcome=outcome,
        task=task,
        runs=len(runs),
        recordings=sum(map(len, runs)),
        spans=sum(row.spans for rows in runs for row in rows),
    )


# --- the command, and what it prints

_UNITS = {unit: ns for unit, ns in SPANS_NS.items() if unit} | {"w": 7 * 86400e9}


class Age(click.ParamType[int]):
    """`30d`, `12h`, `2w`: nanoseconds."""

    name = "age"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        age = number(str(value), _UNITS)
        if age is None:
            self.fail(f"{value!r} is not an age. Try: 30d, 12h or 2w", param, ctx)
        return int(age)


class Share(click.ParamType[float]):
    """`5%`: a percentage."""

    name = "share"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        share = number(str(value).removesuffix("%"), {"": 1.0})
        if share is None or share > 100:
            self.fail(f"{value!r} is not a percentage. Try: 5%", param, ctx)
        return share


@click.command(
    epilog=examples(
        "arc db prune --older 30d --keep failed --keep tagged --sample 5%",
        "arc db prune outcome:passed --older 90d --yes",
    )
)
@click.argument("query", nargs=-1)
@click.option(
    "--older",
    type=Age(),
    metavar="AGE",
    help="Only runs that started longer ago than this: 30d, 12h.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="WHAT",
    help="Keep these runs: failed, passed, tagged, replayed, or a query. Repeatable.",
)
@click.option("--sample", type=Share(), default=0.0, metavar="PERCENT",
              help="Keep this share of the rest, always the same runs: 5%.")  # fmt: skip
@click.option(
    "--even-tagged",
    is_flag=True,
    help="Also delete human tags and scores of the runs; kept by default.",
)
@click.option("--answers", is_flag=True,
              help="Also delete every cached response that no remaining replay uses.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Delete. Without it, only show what would be deleted.")
@held_out_option
@json_option
@db_option
def prune(
    query: tuple[str, ...],
    older: int | None,
    keep: tuple[str, ...],
    sample: float,
    even_tagged: bool,
    answers: bool,
    yes: bool,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Delete the runs matching QUERY, as in `arc ls`, and erase their bytes; dry run without --yes.

    Deletes all recordings of a run, its replays, their cached responses and edits. Messages shared
    with other runs are kept, and so are live runs, and held-out ones unless --include-held-out. A
    run with unknown start counts from its import. Backups and exports are not changed.
    """
    with open_store(db) as store:
        waits = unerased(store)
        if not query and older is None:
            if not (yes and waits):
                raise click.UsageError("no runs chosen. Try: a QUERY, --older AGE, or both")
            erase(store)
            click.echo("An earlier prune was interrupted: its remains are erased now", err=True)
            return 0
        request = PruneRequest(
            query=" ".join(query),
            before_ns=None if older is None else now_ns() - older,
            keep=keep,
            sample=sample,
            even_people=even_tagged,
            answers=answers,
            with_held_out=with_held_out,
        )
        view = remove_runs(store, request) if yes else preview(store, request)
    if as_json:
        print_json(view)
        return 0
    _print(view)
    if waits and not yes:
        click.echo("An earlier prune was interrupted. --yes erases its remains", err=True)
    return 0


def _print(view: PruneView) -> None:
    out = console()
    if view.going:
        rows: list[list[Text | str]] = [
            [
                format.outcome_mark(each.outcome),
                format.cut(format.one_line(each.task or format.UNKNOWN), 40)
                if each.task is not None
                else "other tasks",
                str(each.runs),
                str(each.recordings),
                str(each.spans),
            ]
            for each in view.going
        ]
        print_table(out, ["", "task", "runs", "recordings", "spans"], rows)
    for line in _lines(view):
        out.print(line, soft_wrap=True)
    for line in _warnings(view):
        click.echo(line, err=True)


def _lines(view: PruneView) -> list[str]:
    weight, counts = view.weight, view.judgements
    parts = [
        format.count(view.runs, "run"),
        format.count(weight.traces, "recording"),
        format.count(weight.spans, "span"),
        format.count(weight.messages, "message"),
    ]
    judgements = {
        "replay": weight.replays,
        "answer": weight.answers,
        "edit": weight.edits,
        "saved result": weight.results,
        "unfinished import": weight.unfinished,
        "suggestion": counts.suggestions,
        "score": counts.scores,
        "diagnosis": counts.diagnoses,
    }
    plurals = {"diagnosis": "diagnoses"}
    parts += [
        format.count(many, name, plurals.get(name)) for name, many in judgements.items() if many
    ]
    verb = "deleted" if view.done else "to delete"
    lines = [f"{verb}: {', '.join(parts)}; {format.file_size(weight.bytes)} of text"]
    if view.staying:
        stays = ", ".join(f"{each.runs} {format.one_line(each.why)}" for each in view.staying)
        lines.append(f"kept: {stays}")
    if view.by_import:
        one = format.count(view.by_import, "run")
        lines.append(f"{one} with unknown start: the import time counts")
    if counts.people:
        labels = format.count(counts.people, "human label")
        stay = "deleted" if view.even_people else "kept without the run (--keep tagged keeps both)"
        lines.append(f"{labels} on these runs: {stay}")
    if view.file_bytes is not None and view.file_bytes_after is not None and view.erased:
        before, after = map(format.file_size, (view.file_bytes, view.file_bytes_after))
        lines.append(f"file size: {before} → {after}; the deleted bytes were erased")
    return lines


def _warnings(view: PruneView) -> list[str]:
    lines = []
    if view.weight.other_answers:
        many = format.count(view.weight.other_answers, "cached response")
        lines.append(
            f"{many} (of judges, tests, bisections) cannot be matched to a run and stay."
            " --answers deletes those that no remaining replay uses"
        )
    if view.copies:
        shown = ", ".join(format.one_line(each) for each in view.copies)
        lines.append(f"files next to the database may contain deleted content: {shown}")
    if not view.done:
        lines.append("Nothing was changed. Run with --yes to delete")
    return lines
