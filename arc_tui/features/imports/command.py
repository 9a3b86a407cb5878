"""`arc import` and `arc attach`: what comes into the database, and fields that were not understood.
`arc import --list-formats`: what can be read, and how well it can be replayed.
"""

from __future__ import annotations

import shlex
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import click
from msgspec import Struct, structs
from rich.console import Console
from rich.table import Table

from arc_tui import attachment, importing
from arc_tui.attachment import Attached, RunOffers
from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    drain_import,
    examples,
    json_option,
    open_store,
    print_json,
    print_line,
    print_list,
    print_table,
)
from arc_tui.importing import FileReport
from arc_tui.ui.format import count, cut, number, one_line, plain
from replay.errors import BadTrace
from replay.formats import formats
from replay.formats.otlp import protobuf
from replay.formats.source import Source, decode
from replay.pins import read_pins
from replay.trace import Json, Level

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "import",
    epilog=examples(
        "arc import traces/", "arc import traces/ -v --task-from '(?P<task>[a-z-]+)-v'"
    ),
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--list-formats", is_flag=True, help="List the supported formats and exit.")
@click.option("--format", "format_", help="Read as this format; detected by default.")
@click.option(
    "--task-from", help="Take the task from the path: a regular expression with named groups."
)
@click.option(
    "--pin", "pin_file", type=FILE, help="Label the runs with the pins in this TOML file."
)
@click.option("--replace", is_flag=True, help="On a conflict, replace the stored recording.")
@click.option("--check", is_flag=True, help="Show what is found in each file; import nothing.")
@click.option("--unknown", is_flag=True, help="List unknown fields.")
@click.option("-v", "--verbose", is_flag=True, help="Print each file and each problem.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="Processes that read and diagnose; 1 starts none. Default: the number of cores.",
)
@click.option("--follow", is_flag=True, help="Keep reading as the files grow, until ctrl-c.")
@json_option
@db_option
def import_(
    paths: tuple[Path, ...],
    list_formats: bool,
    format_: str | None,
    task_from: str | None,
    pin_file: Path | None,
    replace: bool,
    check: bool,
    unknown: bool,
    verbose: bool,
    jobs: int | None,
    follow: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Import traces from files and folders (`-` is standard input).

    With --follow, sessions are imported while an agent writes them; an open app shows them grow.
    With --pin, what the runs ran against (`index = "docs-2026-11"`) is kept with them: `arc drift`
    compares it, and `label:pin.index=docs-2026-11` finds it.
    """
    if list_formats:
        print_formats(as_json=as_json)
        return 0
    if not paths:
        raise click.UsageError("No PATHS given. Try: arc import --list-formats")
    if check:
        if follow or unknown or replace or jobs or pin_file:
            raise click.UsageError(
                "--check imports nothing; leave out --follow, --unknown, --replace, --jobs, --pin"
            )
        from arc_tui.features.imports import checking

        checks = checking.check(paths, format_, task_from)
        return checking.print_checks(checks, console(), console(err=True), as_json=as_json)
    pins = read_pins(pin_file) if pin_file is not None else None
    if follow:
        from arc_tui.features.imports import following

        if as_json or unknown or jobs or Path("-") in paths:
            raise click.UsageError(
                "--follow reads files and folders; it cannot go with --json, --unknown, --jobs"
                " or `-`"
            )
        with open_store(db) as store:
            followed = following.follow(
                store,
                paths,
                _pausing(),
                format=format_,
                task_from=task_from,
                pins=pins,
                replace=replace,
            )
            return _follow(followed)
    with closing(importing.fork_for(paths, jobs)) as forked, open_store(db) as store:
        work = importing.import_paths(
            store,
            paths,
            format=format_,
            task_from=task_from,
            pins=pins,
            replace=replace,
            jobs=jobs,
            forked=forked,
        )
        report = drain_import(work)
    if unknown:
        _print_unknown(report, as_json)
    elif as_json:
        print_json(report)
    else:
        _print(report, verbose=verbose)
    return report.exit_code


def _print_unknown(report: importing.ImportReport, as_json: bool) -> None:
    """What was not understood, and the files that could not be read at all."""
    for error in report.errors:
        click.echo(f"arc: {one_line(error)}", err=True)
    found = with_places(unknown_fields(report.files))
    print_json(found) if as_json else print_unknown(found)


def _follow(work: Iterator[FileReport]) -> int:
    """Tell of each trace when it is first read; errors once, however often a file is read."""
    out, known, errors, code = console(), set[str](), set[str](), 0
    for report in work:
        code = max(code, report.exit_code)
        if report.error is not None and report.error not in errors:
            errors.add(report.error)
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


def _print(report: importing.ImportReport, *, verbose: bool) -> None:
    """What failed, and a summary; with `verbose` a line for each file too."""
    out, err = console(), console(err=True)
    for file in report.files:
        if verbose and (file.traces or file.error is None):
            out.print(_line(file), soft_wrap=True)
        for problem in file.problems if verbose else ():
            out.print(f"  {problem.where}: {problem.why}", style="dim", soft_wrap=True)
        for other in file.others if verbose else ():
            out.print(f"  {other}", style="dim", soft_wrap=True)
        if file.error is not None:
            err.print(f"arc: {plain(file.error)}", style="red", soft_wrap=True)
    for error in report.undiagnosed:
        err.print(f"arc: {plain(error)}", style="red", soft_wrap=True)
    out.print(" · ".join(_summary(report)), soft_wrap=True)


def _summary(report: importing.ImportReport) -> Iterator[str]:
    files, traces = report.files, sum(len(file.traces) for file in report.files)
    formats = Counter(file.format for file in files if file.format is not None)
    kinds = ", ".join(f"{many} {name}" for name, many in formats.items())
    kinds = "".join(formats) if len(formats) == 1 else kinds
    yield f"{count(traces, 'trace')} from {count(len(files), 'file')}{kinds and f' ({kinds})'}"
    if same := sum(file.duplicates for file in files):
        yield f"{same} already imported"
    others = [other for file in files for other in file.others]
    if len(others) == 1:
        yield others[0]
    elif others:
        yield f"{len(others)} recordings of runs of which a fuller one is there (-v lists them)"
    if report.skipped:
        yield f"{count(len(report.skipped), 'file')} skipped"
    if problems := sum(len(file.problems) for file in files):
        yield f"{count(problems, 'problem')} (-v lists them)"
    if unknown := len({name for file in files for name in file.unknown}):
        yield f"{count(unknown, 'unknown field')} (--unknown lists them)"


def _line(file: importing.FileReport) -> str:
    parts = [
        count(len(file.traces), "trace"),
        count(file.steps, "step"),
        count(file.spans, "span"),
    ]
    if file.duplicates:
        parts.append(f"{file.duplicates} already imported")
    if file.unknown:
        parts.append(count(len(file.unknown), "unknown field"))
    return f"{plain(file.path)}  {file.format}: {', '.join(parts)}"


@click.command(
    "attach",
    epilog=examples(
        "arc attach last",
        "arc attach last --system prompt.md --tools tools.json",
        "arc attach task:stock --best --infer-tools",
    ),
)
@click.argument("trace", type=RUN_NAME)
@click.option("--system", type=FILE, help="Attach the system prompt in this file.")
@click.option("--tools", type=FILE, help="Attach the tools in this file, a JSON list.")
@click.option("--from", "other", metavar="RUN", help="Copy them from another run.")
@click.option(
    "--infer-tools",
    "infer",
    is_flag=True,
    help="Infer the tools from calls.",
)
@click.option("--best", is_flag=True, help="Accept the best offer for each run.")
@json_option
@db_option
def attach(
    trace: str,
    system: Path | None,
    tools: Path | None,
    other: str | None,
    infer: bool,
    best: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Attach a system prompt or tools that the source did not record.

    Without options, list what the database holds that fits, from other runs of the same client and
    version, agent, task or system prompt, with the evidence and the command that accepts it. --best
    accepts the best offer that nothing speaks against; with --infer-tools, tools inferred from
    calls where there is none.

    TRACE may also be a query, as for `arc ls`: all runs that match. Recorded values are never
    overwritten.
    """
    given = system is not None or tools is not None or other is not None
    if best and given:
        raise click.UsageError("--best chooses itself; leave out --system, --tools and --from")
    with open_store(db) as store:
        if not (given or infer or best):
            found = attachment.list_offers(store, trace)
            print_json(found) if as_json else print_offers(console(), trace, found)
            return 0
        if best:
            work = attachment.attach_best(store, trace, inferred=infer)
        else:
            files = attachment.supplement(system, tools)
            work = attachment.attach_to(store, trace, files, other=other, inferred=infer)
        done = list(work)
    print_json(done) if as_json else print_attached(console(), done)
    return 0 if any(each.what is not None for each in done) else 1


def print_offers(out: Console, query: str, found: Sequence[RunOffers]) -> None:
    """Of one run each offer in full, of several the best one each."""
    if len(found) == 1:
        for line in offer_lines(found[0]):
            print_line(out, line)
        return
    rows = [
        (
            run.trace[:8],
            run.title,
            ", ".join(run.lacks) or "nothing is missing",
            run.offers[0].what if run.offers else "",
            one_line("; ".join((run.offers[0].evidence[0], *run.offers[0].against)))
            if run.offers
            else "",
        )
        for run in found
    ]
    print_list(out, ("id", "task", "not recorded", "best offer", "why"), rows)
    some = [run for run in found if run.offers]
    inferred = all(run.offers[0].inferred for run in some)
    if some:
        also = " --infer-tools" if inferred else ""
        command = f"arc attach {shlex.quote(query)} --best{also}"
        click.echo(
            f"{len(some)} of {count(len(found), 'run')} with offers. Try: {command}", err=True
        )


def offer_lines(run: RunOffers) -> Iterator[str]:
    """What a run lacks, the offers with their evidence and commands, and how to record the next."""
    head = f"{run.trace[:8]}  {run.title}"
    if not run.lacks:
        yield f"{head}: nothing is missing"
        return
    steps = f"{number(run.steps)} of {count(run.of, 'step')}"
    yield f"{head}: {' and '.join(run.lacks)} ({steps})"
    for place, offer in enumerate(run.offers, 1):
        source = ""
        if offer.source is not None:
            more = f", as in {count(offer.runs - 1, 'more run')}" if offer.runs > 1 else ""
            whose = f" of run {offer.source[:8]} ({cut(one_line(offer.title), 40)})"
            source = (" of other calls of this run" if offer.source == run.trace else whose) + more
        yield f"{place}. {offer.what}{source}"
        for each in offer.evidence:
            yield f"     {one_line(each)}"
        for each in offer.against:
            yield f"     but {one_line(each)}"
        yield f"   Try: {offer.command}"
    if not run.offers:
        yield f"No offers. Try: arc attach {run.trace[:8]} --system FILE --tools FILE"
    if run.record is not None:
        yield f"The next run, recorded whole: {run.record}"


def print_attached(out: Console, done: Sequence[Attached]) -> None:
    """A line a run: what was attached to it, from where and why."""
    for each in done:
        words = each.what or each.note or "nothing to add: already recorded"
        if each.what is not None:
            source = f" of run {each.source[:8]}" if each.source is not None else ""
            words += source + "".join(f" · {one_line(why)}" for why in each.evidence)
            words += f" · but {one_line(each.note)}" if each.note else ""
        print_line(out, f"{each.trace[:8]}  {each.title}: {words}")


class UnknownField(Struct, frozen=True, kw_only=True):
    """A field (or a kind of record) that a format has no meaning for, as the importer names it:
    how often it was met, in how many files, the first of these, and where it stands first in that
    (None where that is not known: the file is no JSON, or went by)."""

    format: str
    field: str
    count: int
    files: int
    example: str
    at: str | None = None


def unknown_fields(files: Iterable[FileReport]) -> tuple[UnknownField, ...]:
    """The fields of all files together, by format, the most frequent first."""
    found: dict[tuple[str, str], UnknownField] = {}
    for file in files:
        for field, times in file.unknown.items():
            key = (file.format or "", field)
            known = found.get(key) or UnknownField(
                format=key[0], field=field, count=0, files=0, example=file.path
            )
            found[key] = structs.replace(known, count=known.count + times, files=known.files + 1)
    return tuple(sorted(found.values(), key=lambda each: (each.format, -each.count, each.field)))


def with_places(found: tuple[UnknownField, ...]) -> tuple[UnknownField, ...]:
    """The same with their places, each example looked through once."""
    fields: dict[str, list[str]] = {}
    for each in found:
        fields.setdefault(each.example, []).append(each.field)
    places = {example: spots(Path(example), names) for example, names in fields.items()}
    return tuple(structs.replace(each, at=places[each.example].get(each.field)) for each in found)


def print_unknown(found: tuple[UnknownField, ...]) -> None:
    """As a table; the count goes to stderr."""
    if found:
        rows = [
            [one_line(each.format), one_line(each.field), number(each.count), number(each.files),
             one_line(each.example), one_line(each.at)]
            for each in found
        ]  # fmt: skip
        print_table(console(), ["format", "field", "count", "files", "example", "at"], rows)
    summary = count(len(found), "unknown field") if found else "no unknown fields"
    console(err=True).print(summary)


MOST_BYTES = 32 * 1024 * 1024
"""A larger file is not looked through."""

_KINDS = {"type", "kind", "event"}
_NAMELESS = {"type", "line", "record"}
"""Last words of what importers say of a record that has no kind (`line without a type`)."""


def spots(path: Path, fields: Iterable[str]) -> dict[str, str]:
    """The place of each field (as its importer names it) that stands in the file: a line and the
    way to it, or the way alone; in protobuf the byte where it begins. A field that is not found has
    none.
    """
    named = {each: each.rpartition(" ")[2] for each in fields if not _has_no_name(each)}
    names = set(named.values())
    found: dict[str, str] = {}
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        source = Source(path)
        if protobuf.looks_like(source.head.data):
            return _in_bytes(source.read(), named)
        for where, value in _values(source):
            for name, way in _ways(value, names - found.keys()):
                found[name] = f"{where}: {way}" if where else way
            if len(found) == len(names):
                break
    except (BadTrace, OSError):
        pass  # what was found before it broke is true all the same
    return {each: found[name] for each, name in named.items() if name in found}


def _in_bytes(data: bytes, named: dict[str, str]) -> dict[str, str]:
    """The byte at which the key of each attribute begins, after its tag and length."""
    keys = {field: name.encode() for field, name in named.items()}
    at = {f: data.find(b"\x0a" + bytes([len(k)]) + k) for f, k in keys.items() if len(k) < 128}
    return {field: f"byte {start + 2}" for field, start in at.items() if start >= 0}


def _has_no_name(field: str) -> bool:
    *before, last = field.split()
    return last in _NAMELESS and bool({"no", "without", "empty"} & set(before))


def _values(source: Source) -> Iterator[tuple[str, Json]]:
    """(line, value) of JSON Lines, ("", value) of one document."""
    for index, (place, line) in enumerate(source.lines()):
        try:
            value = decode(line, source.display, "")
        except BadTrace:
            if index == 0:  # a document that begins here and ends further down
                yield "", source.document()
                return
            continue
        yield f"line {place}", value


def _ways(value: Json, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, way) of each name that is a field or a kind of record in the value."""
    wanted = set(names)
    waiting: deque[tuple[str, Json]] = deque([("", value)])
    while waiting and wanted:
        way, inner = waiting.popleft()
        if isinstance(inner, list):
            waiting.extend((f"{way}[{index}]", each) for index, each in enumerate(inner))
            continue
        if not isinstance(inner, dict):
            continue
        for key, each in inner.items():
            below = f"{way}.{key}" if way else key
            hit = key if key in wanted else each if key in _KINDS else None
            if isinstance(hit, str) and hit in wanted:
                wanted.discard(hit)
                yield hit, below
            waiting.append((below, each))


MEANS: dict[Level, str] = {
    Level.EXACT: "the request as it was sent",
    Level.REBUILT: "the full request, rebuilt from the conversation",
    Level.SUPPLIED: "system prompt or tools attached with `arc attach`",
    Level.PARTIAL: "part of the request was not recorded. Try: arc attach TRACE --system FILE",
    Level.NONE: "the step cannot be replayed",
}
"""What is known of a request at each level."""


def print_formats(*, as_json: bool) -> None:
    """The formats that are read: their files, and how well each can be replayed."""
    rows = build_formats()
    if as_json:
        print_json(rows)
        return
    out = console()
    if out.is_terminal:
        table = Table(*HEAD, box=None, header_style="dim", padding=(0, 2, 0, 0))
        table.columns[0].no_wrap = True
        for row in rows:
            table.add_row(*row.cells)
        out.print(table)
    else:
        print_table(out, HEAD, [row.cells for row in rows])
    for level, means in MEANS.items():
        click.echo(f"{level:<9} {means}", err=True)


HEAD = ("format", "reads", "files", "fidelity", "not recorded", "checked on")


class FormatRow(Struct, frozen=True, kw_only=True):
    """One format: its word in `--format`, what it reads, kinds of files, how completely the
    requests read from them can be known (best first), what keeps them from being better, and what
    the reading was checked on: real files, or the source code of the tool that writes them."""

    name: str
    reads: str
    files: str
    fidelity: tuple[Level, ...]
    lacks: str
    verified: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, under `HEAD`."""
        levels = ", ".join(self.fidelity)
        return self.name, self.reads, self.files, levels, self.lacks, self.verified


def build_formats() -> tuple[FormatRow, ...]:
    """Every format, in the order they are asked whether a file is theirs."""
    return tuple(
        FormatRow(
            name=each.NAME,
            reads=each.TITLE,
            files=each.FILES,
            fidelity=each.FIDELITY,
            lacks=each.LACKS,
            verified=each.VERIFIED,
        )
        for each in formats()
    )
