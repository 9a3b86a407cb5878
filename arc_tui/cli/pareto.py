"""`arc pareto`: how often each class of failure happens."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json
from taxonomy.pareto import Bar, By, Pareto
from taxonomy.pareto import pareto as count_failures


@click.command()
@click.option("--by", type=click.Choice(["tool", "model", "variant", "task"]), help="Split by.")
@click.option("--every", is_flag=True, help="Count each class a run shows, not the first.")
@json_option
@db_option
def pareto(by: str | None, every: bool, as_json: bool, db: Path | None) -> int:
    """How many failed runs show each class. ▒ is suggested by a rule, █ tagged by a person."""
    with open_store(db) as store:
        counted = count_failures(store, by=cast("By | None", by), every=every)
    if as_json:
        print_json(counted)
    else:
        for line in pareto_lines(counted, 40):
            console().print(line)
    return 0 if counted.failed else 1


def pareto_lines(counted: Pareto, width: int) -> list[Text]:
    """The Pareto as lines of text, bars at most `width` wide."""
    bars = (*counted.bars, *counted.apart)
    most = max([bar.runs for bar in bars] + [counted.untagged, 1])
    label = max([len(bar.label) for bar in bars] + [14])
    lines = [_bar_line(bar, most, width, label) for bar in counted.bars]
    if counted.apart:
        lines.append(Text("not the agent's doing", "dim"))
        lines += [_bar_line(bar, most, width, label) for bar in counted.apart]
    rest = format.bar(counted.untagged / most, width)
    lines.append(
        Text(f"{'not yet tagged':<{label}}  ").append(rest, "dim").append(f" {counted.untagged}")
    )
    unknown = f", {counted.unknown} of unknown outcome left out" if counted.unknown else ""
    lines.append(Text(f"{format.count(counted.failed, 'failed run')}{unknown}", "dim"))
    return lines


def _bar_line(bar: Bar, most: int, width: int, label: int) -> Text:
    tagged = format.bar(bar.tagged / most, width)
    suggested = "▒" * len(format.bar(bar.suggested / most, width))
    return Text(f"{bar.label:<{label}}  {tagged}{suggested} {bar.runs}")
