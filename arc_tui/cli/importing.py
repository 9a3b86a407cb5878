"""`arc import` and `arc attach`: what comes into the database."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from arc_tui.cli.common import console, db_option, json_option, open_store, print_json
from arc_tui.format import count, cut, one_line, plain
from arc_tui.jobs import importing
from replay.store import Store


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "format_", help="Skip the guess: read as this format.")
@click.option("--task-from", help="A regular expression over the path with named groups.")
@click.option("--replace", is_flag=True, help="Take the new side where a recording conflicts.")
@click.option("--unknown", is_flag=True, help="List the fields that were not understood.")
@click.option("--follow", is_flag=True, help="Go on reading what is written there, until ctrl-c.")
@json_option
@db_option
def import_(
    paths: tuple[Path, ...],
    format_: str | None,
    task_from: str | None,
    replace: bool,
    unknown: bool,
    follow: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Read traces from files and folders (`-` is standard input).

    With --follow sessions that grow fill in while they are written, here and in an open app.
    """
    if follow:
        if as_json or unknown or Path("-") in paths:
            raise click.UsageError(
                "--follow goes with files and folders, not with --json, --unknown or `-`"
            )
        with open_store(db) as store:
            return _follow(store, paths, format_, task_from, replace)
    with open_store(db) as store:
        work = importing.import_paths(
            store, paths, format=format_, task_from=task_from, replace=replace
        )
        report = drain(work)
    if unknown:
        _print_unknown(report, as_json)
    elif as_json:
        print_json(report)
    else:
        _print(report)
    return report.exit_code


def _print_unknown(report: importing.ImportReport, as_json: bool) -> None:
    """What was not understood, and the files that could not be read at all."""
    from arc_tui.cli.unknown import print_unknown, spotted, unknown_fields

    for error in report.errors:
        click.echo(f"arc: {one_line(error)}", err=True)
    found = spotted(unknown_fields(report.files))
    print_json(found) if as_json else print_unknown(found)


def _follow(
    store: Store, paths: tuple[Path, ...], format_: str | None, task_from: str | None, replace: bool
) -> int:
    """Tell of each trace when it is first read; errors once, however often a file is read."""
    from arc_tui.jobs import following

    out, known, said, code = console(), set[str](), set[str](), 0
    work = following.follow(
        store, paths, _pausing(), format=format_, task_from=task_from, replace=replace
    )
    for report in work:
        code = max(code, report.exit_code)
        if report.error is not None and report.error not in said:
            said.add(report.error)
            click.echo(f"arc: {one_line(report.error)}", err=True)
        for trace in report.traces:
            if trace.id not in known:
                known.add(trace.id)
                size = f"{count(trace.steps, 'step')}, {count(trace.spans, 'span')}"
                out.print(f"{trace.id[:8]}  {plain(report.path)}: {size}", soft_wrap=True)
    click.echo(f"{count(len(known), 'trace')} followed", err=True)
    return code


def _pausing() -> Callable[[float], bool]:
    """A wait that ctrl-c ends: what is being read then is read to its end."""
    ended: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: ended.append(number))

    def pause(seconds: float) -> bool:
        end_s = time.monotonic() + seconds
        while not ended and time.monotonic() < end_s:
            time.sleep(min(0.1, seconds))
        return not ended

    return pause


def drain(work: Iterator[importing.Progress | importing.ImportReport]) -> importing.ImportReport:
    """Run an import to its end with a progress line on stderr where that is a terminal."""
    out = console(err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None)
        for event in work:
            if isinstance(event, importing.ImportReport):
                return event
            name = plain(Path(event.path).name)
            bar.update(task, description=cut(name, 40), completed=event.done, total=event.total)
    return importing.ImportReport()


def _print(report: importing.ImportReport) -> None:
    out, err = console(), console(err=True)
    for file in report.files:
        if file.traces or file.error is None:
            out.print(_line(file))
        for problem in file.problems[:3]:
            out.print(f"  {problem.where}: {problem.why}", style="dim")
        if len(file.problems) > 3:
            out.print(f"  … {len(file.problems) - 3} more (--json lists them)", style="dim")
        if file.error is not None:
            err.print(f"arc: {plain(file.error)}", style="red", soft_wrap=True)
    for error in report.undiagnosed:
        err.print(f"arc: {plain(error)}", style="red", soft_wrap=True)
    traces = sum(len(file.traces) for file in report.files)
    same = sum(file.duplicates for file in report.files)
    skipped = f", {count(len(report.skipped), 'file')} skipped" if report.skipped else ""
    known = f", {same} already there" if same else ""
    out.print(f"{count(traces, 'trace')} from {count(len(report.files), 'file')}{known}{skipped}")


def _line(file: importing.FileReport) -> str:
    parts = [
        count(len(file.traces), "trace"),
        count(file.steps, "step"),
        count(file.spans, "span"),
    ]
    if file.duplicates:
        parts.append(f"{file.duplicates} already there")
    if file.unknown:
        parts.append(count(len(file.unknown), "unknown field"))
    return f"{plain(file.path)}  {file.format}: {', '.join(parts)}"


@click.command("attach")
@click.argument("trace")
@click.option("--system", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tools", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from", "other", help="Take them from another trace.")
@click.option("--sketch-tools", is_flag=True, help="Derive tools from the calls seen.")
@db_option
def attach(
    trace: str,
    system: Path | None,
    tools: Path | None,
    other: str | None,
    sketch_tools: bool,
    db: Path | None,
) -> int:
    """Add the system prompt or tools that a source did not record.

    TRACE may be a query: everything `arc ls` lists for it. What was recorded is never overwritten.
    """
    from arc_tui.jobs.attaching import attach_to, supplement

    if not (system or tools or other or sketch_tools):
        raise click.UsageError(
            "nothing to attach: give --system, --tools, --from or --sketch-tools"
        )
    done = False
    with open_store(db) as store:
        for row, added in attach_to(
            store, trace, supplement(store, system, tools, other), sketch_tools
        ):
            done = done or added is not None
            name = one_line(row.title or row.source_id)
            click.echo(f"{row.trace[:8]}  {name}: {added or 'nothing lacking that was given'}")
    return 0 if done else 1
