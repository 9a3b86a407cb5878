"""`arc gold`: what a run of a task should do and say, as its user wrote it: bring it in, list it,
remove it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from arc_tui.cli import (
    console,
    db_option,
    examples,
    json_option,
    limit_option,
    limited,
    open_store,
    print_json,
    print_list,
)
from arc_tui.ui import format
from replay import written
from replay.errors import NotFound
from taxonomy.judgements.golds import KeptGold, keep_gold, kept_gold, read_gold, remove_gold

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

NAMED = 5
"""Tasks without a run that are named; `--json` names all."""


@click.command(
    "import", epilog=examples("arc gold import gold.jsonl", "arc gold import gold.jsonl --json")
)
@click.argument("file", type=_FILE)
@json_option
@db_option
def import_(file: Path, as_json: bool, db: Path | None) -> None:
    """Import gold from FILE: JSON Lines, a task a line.

    A line has `task` (the name that runs have), and any of `actions` ({"tool", "arguments"}),
    `order` (any, sequence, graph; with graph `after`: pairs of action numbers from 0, earlier and
    later), `answer` and `plan`. It replaces what was there for the task and outranks the gold of
    the source. Gold first seen after a run began is marked as hindsight. A file with a mistake
    changes nothing.
    """
    given = read_gold(file)
    with open_store(db) as store:
        found = keep_gold(store, given, written.called(file.name))
    if as_json:
        print_json(found)
        return
    counts = [
        f"{format.number(len(tasks))} {word}"
        for word, tasks in (
            ("new", found.added), ("changed", found.changed), ("unchanged", found.same),
        )
        if tasks
    ]  # fmt: skip
    click.echo(f"gold of {format.count(len(given), 'task')}: {', '.join(counts)}")
    if found.no_run:
        names = ", ".join(format.one_line(task) for task in found.no_run[:NAMED])
        more = len(found.no_run) - NAMED
        rest = f" and {format.number(more)} more" if more > 0 else ""
        tasks = format.count(len(found.no_run), "task")
        click.echo(f"no run yet of {tasks}: {names}{rest}. Try: arc ls --columns task", err=True)


@click.command("list", epilog=examples("arc gold list", "arc gold list --json"))
@limit_option
@json_option
@db_option
def list_(limit: int, as_json: bool, db: Path | None) -> None:
    """List the gold that was imported, by task."""
    with open_store(db) as store:
        found = kept_gold(store)
    if as_json:
        print_json(limited(found, limit))
    elif found:
        names = ["task", "actions", "order", "answer", "plan", "runs", "first seen", "file"]
        print_list(console(), names, [_cells(each) for each in limited(found, limit)])
    else:
        click.echo("No gold yet. Try: arc gold import FILE", err=True)


def _cells(gold: KeptGold) -> list[str]:
    actions, plan = gold.body.get("actions"), gold.body.get("plan")
    answer = gold.body.get("answer")
    shown = " or ".join(map(str, answer)) if isinstance(answer, list) else answer
    return [
        format.cut(format.one_line(gold.task), 32),
        _size(actions),
        str(gold.body.get("order", "any")) if actions is not None else format.UNKNOWN,
        format.UNKNOWN if answer is None else format.cut(format.one_line(str(shown)), 32),
        _size(plan),
        format.number(gold.runs),
        _day(gold.first_seen_ns),
        format.one_line(gold.name),
    ]


def _day(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, tz=UTC).date().isoformat()


def _size(values: object) -> str:
    return format.number(len(values)) if isinstance(values, Sequence) else format.UNKNOWN


@click.command("rm", epilog=examples("arc gold rm many-wishes", "arc gold rm warranty --json"))
@click.argument("task")
@json_option
@db_option
def remove(task: str, as_json: bool, db: Path | None) -> None:
    """Remove the imported gold of TASK; the gold of its source counts again, where it has some."""
    with open_store(db) as store:
        if not remove_gold(store, task):
            known = [each.task for each in kept_gold(store)]
            raise NotFound("gold of task", task, known[:NAMED])
    if as_json:
        print_json({"removed": task})
    else:
        click.echo(f"removed: gold of task {format.one_line(task)}")
