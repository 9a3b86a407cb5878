"""The options of `arc gate`, and what it prints and writes. The command itself stands in
`arc_tui.joint_commands`: with `--locked` it replays, which is of another feature.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    MORE_THAN_NOTHING,
    FiniteRange,
    print_line,
    print_table,
    print_view,
    with_options,
)
from arc_tui.features.gate.text import junit, markdown
from arc_tui.ui import format
from arc_tui.views.gate import (
    GateRequest,
    GateView,
    basis,
    build_gate,
    cells,
    facts,
    notices,
    power_line,
    reasons,
    sentence,
    sides,
)
from replay import files
from replay.errors import ArcError
from replay.store.handle import Store
from taxonomy.gate import ALPHA, MIN_DROP, Limits
from taxonomy.golden.sets import read_set

_SHARE = FiniteRange(min=0, max=1)
_INSIDE = FiniteRange(min=0, max=1, min_open=True, max_open=True)

SAME_AS_MIN_DROP = -1.0
"""`--require-power` without a value."""


class _Power(click.ParamType[float]):
    """A drop that must be shown, or none named."""

    name = "drop"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if value == SAME_AS_MIN_DROP:
            return SAME_AS_MIN_DROP
        return _INSIDE.convert(value, param, ctx)


gate_limits = with_options(
    click.option(
        "--min-drop",
        type=_SHARE,
        default=MIN_DROP,
        show_default=True,
        help="A smaller drop of the pass rate never blocks.",
    ),
    click.option(
        "--alpha",
        type=_INSIDE,
        default=ALPHA,
        show_default=True,
        help="The chance of a false block.",
    ),
    click.option(
        "--require-power",
        "power",
        type=_Power(),
        is_flag=False,
        flag_value=SAME_AS_MIN_DROP,
        metavar="[DROP]",
        help="Exit with 2 unless a drop this large would be shown; default: --min-drop.",
    ),
    click.option("--strict", is_flag=True, help="Block on a task always passed, and now never."),
    click.option(
        "--max-cost-rise",
        type=MORE_THAN_NOTHING,
        metavar="SHARE",
        help="Block where cost per resolved task rises by more, .2 for a fifth.",
    ),
)
"""What blocks."""

gate_options = with_options(
    gate_limits,
    click.option(
        "--golden",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Compare the tasks of this golden set only; exit with 2 unless all were run.",
    ),
    click.option(
        "--junit",
        "junit_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write JUnit XML to this file.",
    ),
    click.option(
        "--md",
        "markdown_file",
        type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
        help="Write Markdown to this file; - prints it instead of the table.",
    ),
)
"""What blocks, and what is written."""


def run_gate(store: Store, baseline: str, candidate: str, options: dict[str, Any]) -> GateView:
    """The gate between the runs of two queries."""
    request = GateRequest(
        baseline=baseline,
        candidate=candidate,
        limits=limits_of(options),
        with_held_out=options["with_held_out"],
        golden=None if options["golden"] is None else read_set(options["golden"]),
    )
    return build_gate(store, request)


def limits_of(options: dict[str, Any]) -> Limits:
    """What blocks, out of a command's options."""
    power = options["power"]
    return Limits(
        min_drop=options["min_drop"],
        alpha=options["alpha"],
        power=options["min_drop"] if power == SAME_AS_MIN_DROP else power,
        strict=options["strict"],
        max_cost_rise=options["max_cost_rise"],
    )


def finish(view: GateView, options: dict[str, Any], *, as_json: bool) -> int:
    """Print a gate, write what was asked for, and return the exit code."""
    if options["junit_file"] is not None:
        _write(options["junit_file"], junit(view))
    target = options["markdown_file"]
    if target is not None and str(target) != "-":
        _write(target, markdown(view).encode())
    if target is not None and str(target) == "-":
        if as_json:
            raise click.UsageError("--md - or --json, not both")
        click.echo(markdown(view), nl=False)
    else:
        print_view(view, as_json, print_gate)
    return {"green": 0, "regression": 1}.get(view.decision.status, 2)


def _write(path: Path, content: bytes) -> None:
    try:
        files.put(io.BytesIO(content), path)
    except OSError as error:
        raise ArcError(f"{path}: cannot be written: {error.strerror or error}") from error


ROWS = 40
"""Tasks in a table at most; `--json` has all."""


def print_gate(out: Console, view: GateView) -> None:
    """The verdict, the figures, the tasks that changed, and what has to be known besides."""
    print_line(out, format.plain(sentence(view)), "bold")
    for line in reasons(view):
        print_line(out, line, "red")
    for line in filter(None, [power_line(view)]):
        print_line(out, line)
    out.print()
    table: list[list[Text | str]] = [list(row) for row in facts(view)]
    print_table(out, ["", *sides(view)], table)
    changed = [pair for pair in view.rows if pair.change]
    if changed:
        out.print()
        rows: list[list[Text | str]] = [_row(cells(pair)) for pair in changed[:ROWS]]
        print_table(out, ["task", *sides(view), "change"], rows)
    if len(changed) > ROWS:
        more = format.count(len(changed) - ROWS, "more task")
        print_line(out, f"{more} changed (--json lists all)", "dim")
    out.print()
    for line in notices(view):
        print_line(out, format.plain(line), "yellow")
    for line in basis(view):
        print_line(out, line, "dim")


def _row(words: tuple[str, ...]) -> list[Text | str]:
    task, *others = words
    return [format.cut(task, 60), *others]
