"""`arc fleet failures`: failed runs of a trace store by class, counted where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from arc_tui.cli import console, examples, print_json, print_line, print_list
from arc_tui.features.fleet.command import fleet_request, window_options
from arc_tui.ui import format
from arc_tui.ui.tables import share

if TYPE_CHECKING:
    from taxonomy.fleet.failures import FleetFailures

HEADINGS = ("class", "runs", "share", "newest trace", "counts")


@click.command(
    epilog=examples(
        "arc fleet failures prod --since 7d",
        "arc fleet failures prod 'tool:refund_order model:claude*' --since 1d --json",
    )
)
@click.argument("name")
@window_options
def failures(name: str, as_json: bool, **asked: Any) -> int:
    """Count failed runs of a store by class, without copying them.

    QUERY is as for `arc ls`. The store counts the part of a class that SQL can tell; which step
    failed, the evidence and all other classes come with `arc fleet pull`. A run may show several
    classes. `--json` has the traces of each.

    Needs the extra `fleet`: pip install 'arc-tui[fleet]'
    """
    request = fleet_request(name, asked)
    from arc_tui.features.fleet.run import open_fleet
    from arc_tui.features.fleet.text import effort, window
    from taxonomy.fleet.failures import count_failures

    with open_fleet(name, request.bounds) as fleet:
        found = count_failures(fleet.connection, fleet.dialect, request.query, request.window)
        read = fleet.connection.read
    if as_json:
        print_json(found)
        return 0
    err = console(err=True)
    if found.failed:
        print_list(console(), HEADINGS, list(_rows(found)))
    else:
        words = f" match '{format.one_line(request.query)}'" if request.query else ""
        print_line(err, f"No failed runs{words} in this time. Try: an earlier --since")
    runs = format.count(found.failed, "failed run")
    print_line(err, f"{name}: {runs}, {window(request.window)} · {effort(read)}")
    for note in notes(found) if found.failed else ():
        print_line(err, note, "dim")
    return 0


def _rows(found: FleetFailures) -> Iterator[list[str]]:
    for row in found.rows:
        newest = row.traces[0] if row.traces else format.UNKNOWN
        yield [row.label, format.number(len(row.traces)), share(row.share), newest, row.counts]
    yield [
        "not explained by these",
        format.number(len(found.unexplained)),
        share(found.unexplained_share),
        found.unexplained[0] if found.unexplained else format.UNKNOWN,
        "failed runs that show none of these",
    ]


def notes(found: FleetFailures) -> Iterator[str]:
    """What the answer is not."""
    yield (
        f"counted by SQL: a part of {len(found.rows)} of {found.classes} classes; the rest of them"
        " and the others need a pull. Shares have 95 % intervals (Wilson); a run may show several"
    )
    if found.left_out:
        yield f"this store does not tell: {', '.join(found.left_out)}"
    yield from found.notes
