"""`arc report`: where a page goes, and what is said of it. What it shows is told by whoever calls:
features of their own make the pages of comparisons and replays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import click
from msgspec import Struct

from arc_tui.cli import console, print_json
from arc_tui.features.report.html import render
from arc_tui.features.report.view import Page
from arc_tui.ui import format
from replay import files
from replay.errors import ArcError
from replay.formats import report
from replay.formats.report import EmbeddedRun
from replay.formats.source import Source
from replay.redact.redactor import Redactor

STDOUT = "-"

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The file to write, - for stdout; default: report-NAME.html here. Takes the place of an"
    " earlier report, never of another file.",
)


class Reported(Struct, frozen=True, kw_only=True):
    """A page that was written: where, its bytes, and the runs in it with their digests."""

    path: str
    bytes: int
    kind: str
    runs: tuple[EmbeddedRun, ...]


def put_page(page: Page, redactor: Redactor, output: Path | None, *, as_json: bool) -> None:
    """Write the page and say so. Raises ArcError where it cannot be written, or where something
    else than a report is there."""
    if str(output) == STDOUT:
        if as_json:
            raise click.UsageError("--json and -o -: both are printed, name a file")
        sys.stdout.buffer.write(_render_page(page, redactor))
        sys.stdout.buffer.flush()
        return
    path = output or Path(f"report-{_file_name(page)}.html")
    _refuse_others(path)
    data = _render_page(page, redactor)
    _put(data, path)
    held = tuple(run.held for run in page.runs)
    made = Reported(path=str(path), bytes=len(data), kind=page.kind, runs=held)
    if as_json:
        print_json(made)
        return
    for line in _lines(made):
        click.echo(format.one_line(line))


def _render_page(page: Page, redactor: Redactor) -> bytes:
    with console(err=True).status("Masking the page"):
        return render(page, redactor)


def put_text(text: str, output: Path | None, *, as_json: bool) -> None:
    """Print Markdown, or write it to a file that is not there yet: people go on writing in it.
    Raises ArcError where one is there, or it cannot be written."""
    if output is None or str(output) == STDOUT:
        print_json({"markdown": text}) if as_json else click.echo(text, nl=False)
        return
    if output.exists() or output.is_symlink():
        raise ArcError(f"{output}: exists, and somebody may have written in it", "Try: -o FILE")
    data = text.encode()
    _put(data, output)
    made = Reported(path=str(output), bytes=len(data), kind="postmortem", runs=())
    print_json(made) if as_json else click.echo(format.one_line(f"wrote {output}"))


def _put(data: bytes, path: Path) -> None:
    try:
        files.put(BytesIO(data), path)
    except OSError as error:
        raise ArcError(f"{path}: cannot be written: {error.strerror}", "Try: -o FILE") from error


def _file_name(page: Page) -> str:
    return "-".join(run.held.trace[:8] for run in page.runs) or page.kind


def _refuse_others(path: Path) -> None:
    """Raises ArcError where something is there that is no report."""
    if not path.exists() and not path.is_symlink():
        return
    try:
        is_report = report.sniff(Source(path).head)
    except ArcError:
        is_report = False
    if not is_report:
        raise ArcError(f"{path}: exists, and is no report of arc", "Try: -o with another file")


def _lines(made: Reported) -> Iterator[str]:
    yield f"wrote {made.path} · {format.number(round(made.bytes / 1000))} kB"
    for held in made.runs:
        if held.masked:
            yield f"run {held.trace[:8]} · {held.digest} in the report"
            yield f"masked in spans {', '.join(held.masked)}; recorded as {held.recorded}"
        else:
            yield f"run {held.trace[:8]} · {held.digest} as recorded"
