"""`arc golden`: tasks made from runs, frozen in a folder of the user's repository, checked, and
exported to what runs them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import click

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    examples,
    json_option,
    limit_option,
    limited,
    open_judged,
    open_store,
    print_json,
    print_list,
)
from arc_tui.features.golden.text import (
    check_line,
    draft_lines,
    finding_line,
    head_line,
    rate_cell,
    set_words,
)
from arc_tui.ui import format
from replay.errors import ArcError
from replay.store.rows import trace_row
from replay.written import refuse_halves
from taxonomy.classes import class_label
from taxonomy.golden.audit import TaskRow, audit
from taxonomy.golden.changes import accept_edit, add_tasks, remove_task
from taxonomy.golden.checks import FORMS, K, draft_task, read_check
from taxonomy.golden.sets import FOLDER, GoldenSet, read_or_new, read_set

dir_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    show_default=True,
    help="The folder of the set.",
)


def today() -> date:
    return datetime.now(UTC).date()


@click.command(
    epilog=examples(
        "arc golden add shop-refund-v1-0",
        "arc golden add last --id stock --check 'contains:in stock' --reason 'incident 12'",
    )
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=RUN_NAME)
@dir_option
@click.option("--id", "name", help="The task's name in the set; default: the task of the run.")
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="KIND:VALUE",
    help=f"In place of the prefilled checks; repeatable. KIND:VALUE is one of {FORMS}.",
)
@click.option(
    "-k",
    "k",
    type=click.IntRange(1, 1000),
    default=K,
    show_default=True,
    help="How many times the task is to be run.",
)
@click.option("--step", type=click.IntRange(min=0), help="The tagged step that the task is about.")
@click.option("--text", help="What the user says; default: the run's user message.")
@click.option("--reason", default="", help="Why it is in the set; default: its failure.")
@json_option
@db_option
def add(
    runs: tuple[str, ...],
    folder: Path,
    name: str | None,
    checks: tuple[str, ...],
    k: int,
    step: int | None,
    text: str | None,
    reason: str,
    as_json: bool,
    db: Path | None,
) -> None:
    """Make a golden task of each RUN, and freeze the set with it.

    Its check is prefilled from the gold of the run; without gold, from the rule that found its
    failure; without that, from its tag. Where none is there, --check has to say it. Secrets are
    masked. All tasks are added, or none.
    """
    if len(runs) > 1 and (name or text or step is not None):
        raise click.UsageError("--id, --text and --step are of one run")
    refuse_halves(name, text, reason, *checks)
    given = [read_check(each) for each in checks]
    found = read_or_new(folder)
    with open_judged(db) as store:
        drafts = [
            draft_task(
                store, trace_row(store, run), id=name, k=k, reason=reason, text=text,
                checks=given, step=step,
            )
            for run in runs
        ]  # fmt: skip
    done = add_tasks(found, [(draft.task, draft.pinned) for draft in drafts], today())
    files = {entry.id: entry.file for entry in done.manifest.task}
    if as_json:
        added = [
            {
                "file": files[each.task.id], "task": each.task, "sources": each.sources,
                "notes": each.notes, "met": each.met, "outcome": each.outcome,
            }
            for each in drafts
        ]  # fmt: skip
        print_json({"golden": done.golden.stamp, "added": added})
        return
    for draft in drafts:
        file = folder / files[draft.task.id]
        click.echo(f"added: task {format.one_line(draft.task.id)} · {format.one_line(str(file))}")
        for line in draft_lines(draft):
            click.echo(f"     {line}")
    click.echo(_set_line(done))


def _set_line(done: GoldenSet) -> str:
    return f"golden set {set_words(done.golden)}: {format.count(len(done.tasks), 'task')}"


@click.command(epilog=examples("arc golden check", "arc golden check --json"))
@dir_option
@click.option("--accept", metavar="TASK", help="Freeze TASK as it was edited by hand.")
@click.option("--because", default="", help="With --accept: why it was edited.")
@json_option
@db_option
def check(folder: Path, accept: str | None, because: str, as_json: bool, db: Path | None) -> int:
    """Check the set against the runs of the database. Exit code 1: a problem was found.

    Problems: hand edits, text of a task in a prompt or example (13 words in a row), pass rates
    above .92 in three measurements in a row, prompts or tools of the newest runs that are not the
    pinned ones, checks that contradict outcomes. Size and classes without a task are advice.
    """
    found = read_set(folder)
    if accept is not None or because:
        if accept is None or not because:
            raise click.UsageError("--accept TASK needs --because, and the other way round")
        refuse_halves(because)
        with open_store(db) as store:
            found = accept_edit(found, accept, store.redactor.text(because), today())
    with open_judged(db) as store:
        said = audit(store, found)
    code = 1 if said.problems else 0
    if as_json:
        print_json(said)
        return code
    click.echo(head_line(said))
    for each in sorted(said.findings, key=lambda each: each.is_advice):
        click.echo(f"{'advice: ' if each.is_advice else ''}{finding_line(each)}")
        if each.hint:
            click.echo(f"     Try: {format.one_line(each.hint)}")
    for note in said.notes:
        click.echo(f"note: {note}")
    return code


@click.command("list", epilog=examples("arc golden list", "arc golden list --json"))
@dir_option
@limit_option
@json_option
@db_option
def list_(folder: Path, limit: int, as_json: bool, db: Path | None) -> None:
    """List the tasks of the set, with their checks and their runs in the database.

    `passed` counts the runs whose outcome is known, `met` the newest 20 that meet the checks, of
    those that arc decides by itself.
    """
    found = read_set(folder)
    with open_judged(db) as store:
        said = audit(store, found)
    if as_json:
        print_json([{"row": row, "task": found.task(row.id)} for row in limited(said.rows, limit)])
    elif said.rows:
        names = [
            "task",
            "class",
            "check",
            "k",
            "since",
            "runs",
            "passed",
            "met",
            "problems",
            "reason",
        ]
        rows = [_cells(found, row) for row in limited(said.rows, limit)]
        print_list(console(), names, rows)
    else:
        click.echo("No golden tasks yet. Try: arc golden add RUN", err=True)


COLUMNS = (
    "task", "class", "check", "k", "since", "runs", "passed", "met", "problems", "reason",
)  # fmt: skip


def _cells(found: GoldenSet, row: TaskRow) -> list[str]:
    task = found.task(row.id)
    sub = task.origin.sub if task.origin else None
    return [
        format.cut(format.one_line(row.id), 32),
        class_label(row.failure, sub) if row.failure else format.UNKNOWN,
        format.cut(format.one_line("; ".join(map(check_line, task.check))), 60),
        str(row.k),
        format.UNKNOWN if row.since is None else str(row.since),
        format.number(row.runs),
        rate_cell(row.passed),
        rate_cell(row.met),
        ", ".join(row.findings) or format.UNKNOWN,
        format.cut(format.one_line(row.reason), 60),
    ]


@click.command(
    "rm",
    epilog=examples(
        "arc golden rm many-wishes --because 'the shop has no returns any more'",
        "arc golden rm warranty --because 'in the prompt' --json",
    ),
)
@click.argument("task")
@dir_option
@click.option("--because", required=True, help="Why; it is kept in the manifest.")
@json_option
@db_option
def remove(task: str, folder: Path, because: str, as_json: bool, db: Path | None) -> None:
    """Remove TASK from the set. The manifest keeps that it was there, and why it went."""
    refuse_halves(because)
    found = read_set(folder)
    with open_store(db) as store:
        done = remove_task(found, task, store.redactor.text(because), today())
    if as_json:
        print_json({"golden": done.golden.stamp, "removed": task})
        return
    click.echo(f"removed: task {format.one_line(task)}")
    click.echo(_set_line(done))


@click.command(
    epilog=examples(
        "arc golden export --pytest -o golden-tests", "arc golden export --inspect -o evals"
    )
)
@dir_option
@click.option("--inspect", "tool", flag_value="inspect", help="For Inspect (inspect eval).")
@click.option("--promptfoo", "tool", flag_value="promptfoo", help="For promptfoo (eval).")
@click.option("--pytest", "tool", flag_value="pytest", help="For pytest.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write to.",
)
@json_option
def export(folder: Path, tool: str | None, output: Path, as_json: bool) -> None:
    """Write what Inspect, promptfoo or pytest runs: every task k times, graded by its checks.

    Needs nothing of arc where it runs. What a tool cannot express is said. Results come back by
    `arc import`, stamped with the version of the set.
    """
    from arc_tui.features.golden.export import export_set

    if tool is None:
        raise click.UsageError("give one of --inspect, --promptfoo, --pytest")
    found = read_set(folder)
    if not found.intact:
        raise ArcError(f"{folder}: is not as it was frozen", "Try: arc golden check")
    if not found.tasks:
        raise ArcError(f"{folder}: has no tasks", "Try: arc golden add RUN")
    done = export_set(found, tool, output)
    if as_json:
        print_json(done)
        return
    for line in done.unexpressed:
        click.echo(f"not expressed: {format.one_line(line)}", err=True)
    click.echo(
        f"{format.count(done.tasks, 'task')} of {set_words(found.golden)} for {tool}: "
        f"{format.one_line(str(output))}"
    )
    for line in done.next:
        click.echo(f"     {format.one_line(line)}")
