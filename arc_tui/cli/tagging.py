"""`arc tag`, `tags`, `pareto`: what is said of failures, and how often."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import cast

import click
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json, print_table
from arc_tui.places import author
from replay.errors import NotFound
from replay.store.rows import step_rows, trace_row
from taxonomy import ledger
from taxonomy.classes import CLASSES, FailureClass, Fault, class_label
from taxonomy.pareto import Bar, By, Pareto
from taxonomy.pareto import pareto as count_failures
from taxonomy.query import TagRow, tag_rows


def failure_class(word: str) -> FailureClass:
    """A class by its name, its letter, or a unique beginning. Raises NotFound."""
    wanted = word.lower().replace("_", " ").replace("-", " ")
    found = [entry.name for entry in CLASSES if entry.name == wanted or entry.key == wanted]
    found = found or [entry.name for entry in CLASSES if entry.name.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    names = [entry.name.value for entry in CLASSES]
    raise NotFound("failure class", word, get_close_matches(wanted, names, n=1) or names)


@click.command()
@click.argument("trace")
@click.argument("step", type=int)
@click.argument("class_", metavar="CLASS")
@click.option("--note", help="A sentence to keep with it.")
@click.option("--sub", help="The sub-label of `other`.")
@click.option("--fault", type=click.Choice([fault.value for fault in Fault]), help="Whose doing.")
@click.option("--remove", is_flag=True, help="Take the tag back.")
@db_option
def tag(
    trace: str,
    step: int,
    class_: str,
    note: str | None,
    sub: str | None,
    fault: str | None,
    remove: bool,
    db: Path | None,
) -> int:
    """Tag a step with a failure class: its name or its letter (w a h g l o)."""
    with open_store(db) as store:
        row = trace_row(store, trace)
        rows = step_rows(store, row.trace)
        if not 0 <= step < len(rows):
            raise NotFound("step", f"{step} (there are 0 to {len(rows) - 1})")
        given = ledger.Tag(
            trace=row.trace,
            span=rows[step].span,
            step=step,
            failure=failure_class(class_),
            by=author(),
            sub=sub,
            fault=Fault(fault) if fault else None,
            note=note,
        )
        if remove:
            return 0 if ledger.untag(store, given) else 1
        ledger.tag(store, given)
    click.echo(f"{row.trace[:8]} step {step}: {given.failure.value}")
    return 0


@click.command()
@click.argument("query", nargs=-1)
@json_option
@db_option
def tags(query: tuple[str, ...], as_json: bool, db: Path | None) -> int:
    """Every tag and suggestion with its evidence; words of QUERY must occur in a row."""
    with open_store(db) as store:
        found = [row for row in tag_rows(store) if _says(row, query)]
    if as_json:
        print_json(found)
    elif found:
        names = ["", "id", "task", "trial", "outcome", "step", "class", "fault", "by", "why"]
        print_table(console(), names, [_cells(row) for row in found])
    else:
        click.echo("nothing is tagged or suggested here", err=True)
    return 0 if found else 1


def _says(row: TagRow, query: tuple[str, ...]) -> bool:
    text = " ".join(
        str(value or "")
        for value in (row.trace, row.task, row.trial, row.variant, row.outcome, row.failure,
                      row.sub, row.fault, row.source, row.by, row.why)
    ).lower()  # fmt: skip
    return all(word.lower() in text for word in query)


def _cells(row: TagRow) -> list[Text | str]:
    return [
        "tag" if row.accepted else "?",
        row.trace[:8],
        format.cut(format.one_line(row.task), 28),
        format.one_line(row.trial),
        row.outcome,
        str(row.step),
        format.one_line(class_label(row.failure, row.sub)),
        row.fault.value if row.fault else format.UNKNOWN,
        format.one_line(row.by),
        format.one_line(row.why),
    ]


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
