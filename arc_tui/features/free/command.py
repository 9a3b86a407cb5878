"""`arc replay --free`: the edited run continues from a step; recorded results answer its calls.

Free runs as `arc replay --free` prints them: the sentence, a row a call, what is missing and how
to go on, what it rests on.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import structs
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    print_json,
    print_table,
    refuse_keyless,
    refuse_unanswered,
    refuse_unfinished,
    with_database,
    with_options,
)
from arc_tui.experiments.progress import spending_line, with_status
from arc_tui.experiments.request import FreeRunRequest, ReplayRequest, views_of
from arc_tui.features.free.run import free_runs, kept_run, run_free_replays
from arc_tui.features.free.view import (
    MARKS,
    UNCHECKED,
    FreeRow,
    FreeRuns,
    FreeView,
    Missed,
    did_words,
    got_words,
    progress_words,
)
from arc_tui.ui import format
from replay.bundle import BadBundle, write
from replay.compare.actions import VERSION
from replay.errors import BadEdit
from replay.free import recorded_results
from replay.free.recorded_results import stubs_to_toml
from replay.locked.row import AUTO
from replay.store import edits
from replay.store.handle import Store
from replay.trace import Effect

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_OPTIONS = (
    click.option("--free", is_flag=True, help="Continue with the edit; tools are mocked."),
    click.option(
        "--stub",
        "stubs",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        help="A TOML file with results for calls without a recorded one; saved, repeatable.",
    ),
    click.option("--allow-stale", is_flag=True, help="Allow stale results for reads."),
    click.option("--reads", multiple=True, metavar="TOOL", help="This tool is read-only."),
    click.option("--writes", multiple=True, metavar="TOOL", help="This tool writes."),
    click.option(
        "--max-steps", type=click.IntRange(min=1), metavar="N", help="Run at most N steps."
    ),
)
NAMES = ("free", "stubs", "allow_stale", "reads", "writes", "max_steps")


def free_options(command: F) -> F:
    """`--free` and what goes with it alone, as `free` and the other `NAMES`."""
    return with_options(*_OPTIONS)(command)


def refuse_free_options(options: dict[str, Any]) -> None:
    """Raises UsageError for an option that needs `--free` where that is not given."""
    for name in NAMES[1:]:
        given = options[name]
        if given is not None and given is not False and given != ():
            spelled = {"stubs": "stub"}.get(name, name).replace("_", "-")
            raise click.UsageError(f"--{spelled} needs --free")


def free_request(request: ReplayRequest, options: dict[str, Any]) -> FreeRunRequest:
    """The request of a locked replay as one of free runs; `options` are those of `free_options`.

    Raises UsageError for what a free run cannot do, BadEdit for a file of stubs.
    """
    if request.resample or request.sampling.schedule != AUTO.schedule:
        raise click.UsageError(
            "--free runs in sequence and reads the cache: leave --schedule and --no-cache out"
        )
    levels = request.sampling.levels
    stubs = [each for file in options["stubs"] for each in recorded_results.stubs_from_file(file)]
    return FreeRunRequest(
        trace=request.trace,
        edit=request.edit,
        model=(request.edit.model if request.edit is not None else None) or request.model,
        live=request.live,
        limits=request.limits,
        start=options["step"],
        samples=levels[0] if len(levels) == 1 else 1,
        stubs=tuple(stubs),
        allow_stale=options["allow_stale"],
        effects=_effects(options["reads"], options["writes"]),
        max_steps=options["max_steps"],
        rules=request.rules,
    )


def _effects(reads: tuple[str, ...], writes: tuple[str, ...]) -> dict[str, Effect]:
    both = sorted(set(reads) & set(writes))
    if both:
        raise BadEdit(f"{both[0]} has both --reads and --writes", f"Try: --writes {both[0]}")
    said: dict[str, Effect] = dict.fromkeys(reads, "read")
    return said | dict.fromkeys(writes, "write")


def run_free(
    store: Store,
    request: FreeRunRequest,
    *,
    as_json: bool,
    exit_code: bool = False,
    bundle: Path | None = None,
) -> int:
    """Make the runs and print them.

    Exit code 0: every run finished its turn; 2: one stopped before that, or no step could be
    replayed. With `exit_code` 1: every run finished, and one diverged.
    """
    if request.live:
        quiet = structs.replace(request, live=False)
        refuse_keyless(lambda: list(views_of(run_free_replays, store, quiet)))
    with closing(views_of(run_free_replays, store, request)) as going:
        found = drained(going, request)
    if bundle is not None:
        bundled(store, found, bundle)
    if as_json:
        print_json(found)
    else:
        print_runs(console(), found, go_on=continuing(store, request))
    refuse_unfinished(next((run.ended for run in found.runs if run.ended is not None), None))
    refuse_unanswered(wanted=True, answers=sum(len(run.rows) for run in found.runs))
    if any(run.status != "finished" for run in found.runs):
        return 2
    return 1 if exit_code and any(run.diverged is not None for run in found.runs) else 0


def drained(views: Iterable[FreeView], request: FreeRunRequest) -> FreeRuns:
    """The runs to their ends, with a line on stderr where that is a terminal."""

    def line(view: FreeView) -> str:
        many = request.samples > 1
        run = f"run {view.sample + 1} of {request.samples} · " if many else ""
        return f"Replaying {run}{progress_words(view, request.limits)}"

    shown = with_status(views, line, console(err=True))
    return free_runs({view.sample: view for view in shown}.values())


def bundled(store: Store, found: FreeRuns, file: Path) -> None:
    """Write the one run with all it rests on to a file."""
    if len(found.runs) != 1:
        raise BadBundle(f"cannot write {file}: a bundle holds one run", "leave -k out")
    digest = found.runs[0].digest
    if digest is None:
        raise BadBundle(f"cannot write {file}: the run is unfinished", "run it to its end")
    core, terms = kept_run(store, digest)
    write(store, core, file, terms)
    click.echo(f"wrote {file}. Try: arc bundle verify {file}", err=True)


# --- going on


def continuing(store: Store, request: FreeRunRequest) -> list[str]:
    """The words of the command that makes the same run with one more file of stubs. Those that
    were given are kept with the trace and need not be named again."""
    words = ["arc", "replay", request.trace, "--free", *_words(store, request)]
    return list(with_database(words))


def _words(store: Store, request: FreeRunRequest) -> Iterator[str]:
    if request.edit is not None:
        yield from ("--edit", _named(store, edits.save(store, request.edit).digest))
    if request.start is not None:
        yield from ("--step", str(request.start))
    if request.samples > 1:
        yield from ("-k", str(request.samples))
    if request.model is not None:
        yield from ("--model", request.model)
    if request.live:
        yield "--live"
        spelled = {"usd": "budget"}
        for name, limit in structs.asdict(request.limits).items():
            if limit is not None:
                yield from (f"--{spelled.get(name, f'max-{name}')}", f"{limit:g}")
    if request.allow_stale:
        yield "--allow-stale"
    for tool, effect in request.effects.items():
        yield from (f"--{effect}s", tool)
    if request.max_steps is not None:
        yield from ("--max-steps", str(request.max_steps))
    for rule in request.rules.lines:
        yield from ("--compare", rule)


def _named(store: Store, digest: str) -> str:
    """What `--edit` finds a stored edit by: its name, where that is the only one and no file."""
    names = [name for name, other in edits.names(store) if other == digest]
    alone = [name for name, _ in edits.names(store) if name in names]
    file = Path(alone[0])
    clear = len(alone) == 1 and file.suffix != ".toml" and not file.exists()
    return alone[0] if clear else edits.short(digest)


DID = 60
RESULT = 72
STUBS = "stubs.toml"
"""The file that the command to go on reads; any other name will do."""

_STYLES = {"same": "", "diverged": "yellow", "unclear": "magenta", "own": "cyan"}


def print_runs(out: Console, found: FreeRuns, *, go_on: Sequence[str]) -> None:
    """The runs, one after the other. `go_on` are the words of the command that makes them again,
    to which a file of stubs is added."""
    out.print(Text(format.plain(found.sentence), "bold"), soft_wrap=True)
    for alike in _alike(found.runs):
        if len(found.runs) > 1:
            numbers = ", ".join(str(run.sample + 1) for run in alike)
            words = f"\n{'run' if len(alike) == 1 else 'runs'} {numbers}: {alike[0].sentence}"
            out.print(Text(format.plain(words), "bold"), soft_wrap=True)
        _print_run(out, alike)
    missing = _missing(found.runs)
    if missing:
        _print_stubs(out, missing, go_on)
    if any(run.status == "stale" for run in found.runs):
        words = "or allow stale results:"
        _print_command(out, words, [*go_on, "--allow-stale"])
    out.print()
    out.print(UNCHECKED, style="dim")


def _alike(runs: Sequence[FreeView]) -> list[list[FreeView]]:
    """Runs with the same actions, tool results and ends, the largest group first."""
    groups: dict[tuple[object, ...], list[FreeView]] = {}
    for run in runs:
        said = tuple((row.mark, *map(str, _cells(row))) for row in run.rows)
        groups.setdefault((run.sentence, said), []).append(run)
    return sorted(groups.values(), key=len, reverse=True)


def _print_run(out: Console, alike: Sequence[FreeView]) -> None:
    """The first of runs that are alike; what it cost, of each."""
    run = alike[0]
    for notice in run.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    if run.rows:
        out.print()
        lines = [line for row in run.rows for line in _lines(row)]
        print_table(out, ["", "step", "action", "tool result", "recorded action"], lines)
    for missed in run.stop.missed if run.stop is not None else ():
        out.print()
        _print_nearest(out, missed)
    out.print()
    figures = dict.fromkeys(figure for each in alike for figure in _figures(each))
    for figure in figures:
        out.print(Text(format.plain(figure), "dim"), soft_wrap=True)


def _cells(row: FreeRow) -> list[str]:
    return [did_words(row), *(f"{each.phrase} {got_words(each)}" for each in row.got)]


def _lines(row: FreeRow) -> Iterator[list[Text | str]]:
    """A line a call; of an answer without calls, one."""
    mark = Text(MARKS[row.mark], _STYLES[row.mark])
    step = str(row.step) if row.step is not None else format.UNKNOWN
    recorded = "" if row.mark == "same" else _short(row.recorded)
    if not row.got:
        yield [mark, step, _short(did_words(row)), "", recorded]
    for place, got in enumerate(row.got):
        ends = (mark, step, recorded) if place == 0 else ("", "", "")
        yield [ends[0], ends[1], _short(got.phrase), got_words(got), ends[2]]


def _print_nearest(out: Console, missed: Missed) -> None:
    out.print(Text(f"No recorded result for {format.one_line(missed.phrase)}: {missed.why}"))
    if not missed.near:
        out.print("the recording has no tool result", style="dim")
        return
    out.print("nearest recorded calls", style="dim")
    for near in missed.near:
        differs = format.one_line(near.differs)
        result = format.cut(format.one_line(near.text), RESULT) or "(empty)"
        error = "error: " if near.is_error else ""
        out.print(Text(f"  step {near.step}  {_short(near.phrase)}"), soft_wrap=True)
        out.print(Text(f"          {differs}", "dim"), soft_wrap=True)
        out.print(Text(f"          {error}{result}", "dim"), soft_wrap=True)


# --- how to go on


def _missing(runs: Sequence[FreeView]) -> list[Missed]:
    """The calls that stubs would answer, each once."""
    found: dict[str, Missed] = {}
    for run in runs:
        for each in run.stop.missed if run.stop is not None else ():
            if each.draft is not None:
                found.setdefault(stubs_to_toml([each.draft]), each)
    return list(found.values())


def _print_stubs(out: Console, missing: Sequence[Missed], go_on: Sequence[str]) -> None:
    """Stubs to paste, as a TOML file, and the command that uses it."""
    out.print()
    out.print(f"write the tool result into {STUBS}, for example:", style="dim")
    for each in missing:
        if each.draft is None:
            continue
        out.print()
        out.print(Text(f"# {_origin(each)}", "yellow"), soft_wrap=True)
        out.print(Text(stubs_to_toml([each.draft]).rstrip("\n")), soft_wrap=True)
    _print_command(out, "then continue:", [*go_on, "--stub", STUBS])


def _origin(missed: Missed) -> str:
    if not missed.drafted_from:
        return "no recorded result of this tool: write one"
    return f"result copied from {format.one_line(missed.drafted_from)}: adapt it to this call"


def _print_command(out: Console, words: str, command: Sequence[str]) -> None:
    out.print()
    out.print(words, style="dim")
    out.print(Text(f"$ {shlex.join(command)}"), soft_wrap=True)


# --- what it rests on


def _figures(run: FreeView) -> Iterator[str]:
    if run.ranks:
        counts = ", ".join(f"{number} {rank}" for rank, number in run.ranks.items())
        yield f"tool results: {counts}"
    yield from dict.fromkeys(f"lost: {loss}" for row in run.rows for loss in row.losses)
    server = f" at {run.server}" if run.server else ""
    weakest = run.fidelity.value if run.fidelity is not None else format.UNKNOWN
    masked = f", {run.masked} masked" if run.masked else ""
    yield (
        f"model {run.model}{server} · lowest fidelity {weakest}{masked}"
        f" · {spending_line(run.spent)}"
    )
    yield f"comparison rules v{VERSION}; at most {run.limit} steps"
    yield f"digest {run.digest}" if run.digest is not None else "not saved: no digest"


def _short(phrase: str) -> str:
    return format.cut(format.one_line(phrase), DID)
