"""`arc replay --free`: the edited agent runs on from a step, and the tape answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import structs

from arc_tui.cli.common import console, print_json, with_database
from arc_tui.cli.free_table import print_runs
from arc_tui.cli.live import refuse_keyless, refuse_unfinished
from arc_tui.jobs.freeing import FreeWanted, freeing, kept_run
from arc_tui.jobs.replaying import Wanted
from arc_tui.views.free.view import FreeRuns, FreeView, free_runs
from replay.bundle import BadBundle, write
from replay.errors import BadEdit
from replay.free import stub
from replay.locked.sampling import AUTO
from replay.store import Store, edits
from replay.trace import Effect

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_OPTIONS = (
    click.option("--free", is_flag=True, help="Let the edited agent run on; the tape answers."),
    click.option(
        "--from", "start", type=click.IntRange(min=0), metavar="STEP", help="Run free from there."
    ),
    click.option(
        "--stub",
        "stubs",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        help="A TOML file with what calls get that nothing answers; kept, repeatable.",
    ),
    click.option(
        "--allow-stale", is_flag=True, help="Answer a read with what it got at another moment."
    ),
    click.option("--reads", multiple=True, metavar="TOOL", help="This tool changes nothing."),
    click.option("--writes", multiple=True, metavar="TOOL", help="This tool changes something."),
    click.option(
        "--max-steps", type=click.IntRange(min=1), metavar="N", help="Ask at most N answers."
    ),
)
NAMES = ("free", "start", "stubs", "allow_stale", "reads", "writes", "max_steps")


def free_options(command: F) -> F:
    """`--free` and what goes with it alone, as `free` and the other `NAMES`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def refuse_free_options(options: dict[str, Any]) -> None:
    """Raises UsageError for an option that needs `--free` where that is not given."""
    for name in NAMES[1:]:
        given = options[name]
        if given is not None and given is not False and given != ():
            spelled = {"start": "from", "stubs": "stub"}.get(name, name).replace("_", "-")
            raise click.UsageError(f"--{spelled} needs --free")


def free_wanted(wanted: Wanted, options: dict[str, Any]) -> FreeWanted:
    """The wish of a locked replay as one of free runs; `options` are those of `free_options`.

    Raises UsageError for what a free run cannot do, BadEdit for a file of stubs.
    """
    if wanted.resample or wanted.sampling.schedule != AUTO.schedule:
        raise click.UsageError("a free run asks one answer after another, and each sample once")
    levels = wanted.sampling.levels
    stubs = [each for file in options["stubs"] for each in stub.from_file(file)]
    return FreeWanted(
        trace=wanted.trace,
        edit=wanted.edit,
        model=(wanted.edit.model if wanted.edit is not None else None) or wanted.model,
        live=wanted.live,
        limits=wanted.limits,
        start=options["start"],
        samples=levels[0] if len(levels) == 1 else 1,
        stubs=tuple(stubs),
        allow_stale=options["allow_stale"],
        effects=_effects(options["reads"], options["writes"]),
        max_steps=options["max_steps"],
        rules=wanted.rules,
    )


def _effects(reads: tuple[str, ...], writes: tuple[str, ...]) -> dict[str, Effect]:
    both = sorted(set(reads) & set(writes))
    if both:
        raise BadEdit(f"{both[0]} cannot both read and write", "a tool that does both writes")
    said: dict[str, Effect] = dict.fromkeys(reads, "read")
    return said | dict.fromkeys(writes, "write")


def run_free(store: Store, wanted: FreeWanted, *, as_json: bool, bundle: Path | None = None) -> int:
    """Make the runs and print them.

    Exit code 0: every run finished its turn; 1: one stopped before, with a reason; 2: one was not
    finished, or there was nothing that could be asked.
    """
    if wanted.live:
        quiet = structs.replace(wanted, live=False)
        refuse_keyless(lambda: list(freeing(store, quiet)))
    with closing(freeing(store, wanted)) as going:
        found = drained(going, wanted.samples)
    if bundle is not None:
        bundled(store, found, bundle)
    if as_json:
        print_json(found)
    else:
        print_runs(console(), found, go_on=continuing(store, wanted))
    refuse_unfinished(next((run.ended for run in found.runs if run.ended is not None), None))
    if not any(run.rows for run in found.runs):
        return 2
    return 0 if all(run.status == "finished" for run in found.runs) else 1


def drained(going: Iterator[FreeView], samples: int) -> FreeRuns:
    """The runs to their ends, with a line on stderr where that is a terminal."""
    runs: dict[int, FreeView] = {}
    out = console(err=True)
    with out.status("asking") as said:
        for view in going:
            runs[view.sample] = view
            of = f"run {view.sample + 1} of {samples}, " if samples > 1 else ""
            said.update(f"{of}answer {len(view.rows)} of at most {view.limit}")
    return free_runs(runs.values())


def bundled(store: Store, found: FreeRuns, file: Path) -> None:
    """Write the one run with all it rests on to a file."""
    if len(found.runs) != 1:
        raise BadBundle(f"{file} was not written: a bundle holds one run", "leave -k out")
    digest = found.runs[0].digest
    if digest is None:
        raise BadBundle(f"{file} was not written: the run was cut short", "run it to its end")
    core, terms = kept_run(store, digest)
    write(store, core, file, terms)
    click.echo(f"wrote {file}; `arc verify --bundle {file}` runs it again", err=True)


# --- going on


def continuing(store: Store, wanted: FreeWanted) -> list[str]:
    """The words of the command that makes the same run with one more file of stubs. Those that
    were given are kept with the trace and need not be named again."""
    words = ["arc", "replay", wanted.trace, "--free", *_words(store, wanted)]
    return list(with_database(words))


def _words(store: Store, wanted: FreeWanted) -> Iterator[str]:
    if wanted.edit is not None:
        yield from ("--edit", _named(store, edits.save(store, wanted.edit).digest))
    if wanted.start is not None:
        yield from ("--from", str(wanted.start))
    if wanted.samples > 1:
        yield from ("-k", str(wanted.samples))
    if wanted.model is not None:
        yield from ("--model", wanted.model)
    if wanted.live:
        yield "--live"
        spelled = {"usd": "budget"}
        for name, limit in structs.asdict(wanted.limits).items():
            if limit is not None:
                yield from (f"--{spelled.get(name, f'max-{name}')}", f"{limit:g}")
    if wanted.allow_stale:
        yield "--allow-stale"
    for tool, effect in wanted.effects.items():
        yield from (f"--{effect}s", tool)
    if wanted.max_steps is not None:
        yield from ("--max-steps", str(wanted.max_steps))
    for rule in wanted.rules.lines:
        yield from ("--compare", rule)


def _named(store: Store, digest: str) -> str:
    """What `--edit` finds a stored edit by: its name, where that is the only one and no file."""
    names = [name for name, other in edits.names(store) if other == digest]
    alone = [name for name, _ in edits.names(store) if name in names]
    file = Path(alone[0])
    clear = len(alone) == 1 and file.suffix != ".toml" and not file.exists()
    return alone[0] if clear else edits.short(digest)
