"""`arc import --check`: what the readers find in files, and what they do not. Nothing is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from rich.console import Console

from arc_tui import importing
from arc_tui.cli import print_json, print_table
from arc_tui.ui.format import count, one_line, plain
from replay import formats
from replay.errors import ArcError
from replay.formats.coverage import Coverage, Part
from replay.formats.source import Problem, Source, Tally


class FileCheck(Struct, frozen=True, kw_only=True):
    """What one file holds. `complete`: it has model calls, and every part of every call was found;
    `absent` is what files of its format seldom hold, `unread` the fields that were met and not
    understood, by how often."""

    path: str
    format: str | None = None
    traces: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    complete: bool = False
    parts: tuple[Part, ...] = ()
    absent: str | None = None
    unread: dict[str, int] = {}
    problems: tuple[Problem, ...] = ()
    error: str | None = None


def check(paths: Iterable[Path], format: str | None, task_from: str | None) -> Iterator[FileCheck]:
    """A report a file; a file found in a folder that no format claims has none. Raises BadTrace
    where there is no such format."""
    chosen = formats.named(format) if format else None
    named, found = importing.sources_of(paths)
    for source in named:
        yield _check_file(source, chosen, task_from)
    for source in found:
        made = None if source.is_special else _check_file(source, chosen, task_from)
        if made is not None and made.format is not None:
            yield made


def _check_file(source: Source, chosen: formats.Format | None, task_from: str | None) -> FileCheck:
    tally, coverage, error, claimed = Tally(), Coverage(), None, chosen
    try:
        claimed = chosen or formats.sniff(source)
        for batch in formats.load(source, tally, format=claimed, task_from=task_from):
            coverage.add(batch)
    except ArcError as refused:
        error = str(refused)
    parts = coverage.parts()
    whole = coverage.model_calls > 0 and all(part.known == part.total for part in parts)
    return FileCheck(
        path=source.display,
        format=claimed.NAME if claimed is not None else None,
        traces=coverage.traces,
        model_calls=coverage.model_calls,
        tool_calls=coverage.tool_calls,
        complete=whole and error is None and not tally.problems,
        parts=parts,
        absent=claimed.LACKS if claimed is not None and not whole else None,
        unread=dict(tally.unknown),
        problems=tuple(tally.problems),
        error=error,
    )


def print_checks(checks: Iterable[FileCheck], out: Console, err: Console, *, as_json: bool) -> int:
    """Print each, and return the exit code: 2 where a file could not be read."""
    code, found = 0, []
    for each in checks:
        found.append(each)
        code = code if each.error is None else 2
        if not as_json:
            _print(each, out, err)
    if as_json:
        print_json(found)
    elif not found:
        err.print("no file there is in a known format", soft_wrap=True)
    return code


def _print(check: FileCheck, out: Console, err: Console) -> None:
    if check.error is not None:
        err.print(f"arc: {plain(check.error)}", style="red", soft_wrap=True)
        if not check.traces:
            return
    calls = f"{count(check.model_calls, 'model call')}, {count(check.tool_calls, 'tool call')}"
    head = f"{plain(check.path)}  {check.format}: {count(check.traces, 'trace')}, {calls}"
    out.print(head, style="bold", soft_wrap=True)
    rows = [[part.name, f"{part.known} of {part.total}", _why(part)] for part in check.parts]
    if rows:
        print_table(out, ["part", "found", "not found"], rows)
    for problem in check.problems:
        out.print(f"{problem.where}: {problem.why}", style="dim", soft_wrap=True)
    out.print(_verdict(check), soft_wrap=True)
    out.print("")


def _why(part: Part) -> str:
    if part.known == part.total:
        return ""
    if not part.names:
        return "not in the source"
    names = ", ".join(f"{one_line(name)} in {many}" for name, many in part.names.items())
    return f"not understood: {names}"


def _verdict(check: FileCheck) -> str:
    if check.complete:
        return "complete: every part of every call was found"
    if not check.model_calls:
        return "incomplete: it holds no model call, so its steps, tokens and cost are not known"
    lacks = f". Often not recorded ({check.format}): {check.absent}" if check.absent else ""
    return f"incomplete{lacks}"
