"""`arc tag`, `arc tags`: what people and rules say of failures, what waits for a person's tag, how
far people agree, and which runs were found clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import click
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    json_option,
    open_judged,
    open_store,
    print_json,
    print_table,
    print_tables,
)
from arc_tui.config import read_owners
from arc_tui.places import author
from arc_tui.ui import format
from arc_tui.views.queue import nothing_waits
from arc_tui.views.raters import RatersView, build_raters, head, tables
from replay.errors import NotFound
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from taxonomy.classes import CLASSES, Attribution, FailureClass, class_label
from taxonomy.judgements.tags import (
    CleanMark,
    Tag,
    TagRow,
    clean_marks,
    human_tags,
    human_words,
    mark_clean,
    put_tag,
    remove_tag,
    unmark_clean,
)
from taxonomy.query.compile import words_meant
from taxonomy.query.failures import tag_rows
from taxonomy.queue import Queue, Waiting, queue


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
@click.argument("trace", required=False)
@click.argument("step", type=int, required=False)
@click.argument("class_", metavar="CLASS", required=False)
@click.option("--note", help="A sentence to keep with it.")
@click.option("--sub", help="The sub-label of `other`.")
@click.option(
    "--fault", type=click.Choice([fault.value for fault in Attribution]), help="Whose doing."
)
@click.option("--nothing-wrong", "clear", is_flag=True,
              help="Nothing is wrong with the run: in place of STEP and CLASS.")  # fmt: skip
@click.option("--remove", is_flag=True, help="Take the tag back.")
@click.option("--undo", is_flag=True, help="Take back what you said last, of whichever run.")
@db_option
def tag(
    trace: str | None,
    step: int | None,
    class_: str | None,
    note: str | None,
    sub: str | None,
    fault: str | None,
    clear: bool,
    remove: bool,
    undo: bool,
    db: Path | None,
) -> int:
    """Tag a step with a failure class: its name or its letter (w a h g l o).

    Whose doing it was: the agent's, the user's, the harness's or the check's (--fault). --undo
    takes one word back after the other, the last one first. Exit code 1: there was none.
    """
    if undo:
        if trace is not None or note or sub or fault or clear or remove:
            raise click.UsageError("--undo stands alone")
        with open_store(db) as store:
            return _undo(store)
    if trace is None:
        raise click.UsageError("which TRACE?")
    if clear == (class_ is not None) or (clear and (step is not None or sub or fault)):
        raise click.UsageError("give a STEP and a CLASS, or --nothing-wrong alone")
    with open_store(db) as store:
        row = trace_row(store, trace)
        if class_ is None or step is None:
            return _clear(store, CleanMark(trace=row.trace, by=author(), note=note), remove)
        rows = step_rows(store, row.trace)
        if not 0 <= step < len(rows):
            raise NotFound("step", f"{step} (there are 0 to {len(rows) - 1})")
        given = Tag(
            trace=row.trace,
            span=rows[step].span,
            step=step,
            failure=failure_class(class_),
            by=author(),
            sub=sub,
            fault=Attribution(fault) if fault else None,
            note=note,
        )
        if remove:
            return 0 if remove_tag(store, given) else 1
        put_tag(store, given)
    whose = f", the {given.fault}'s doing" if given.fault else ""
    click.echo(f"{row.trace[:8]} step {step}: {given.failure.value}{whose}")
    return 0


def _undo(store: Store) -> int:
    """Take the last word back, of those that this person said."""
    own = [word for word in human_words(store) if word.by == author()]
    if not own:
        click.echo(f"{format.one_line(author())} has tagged nothing", err=True)
        return 1
    last = max(own, key=lambda word: word.said_ns)
    if last.step is None:
        unmark_clean(store, CleanMark(trace=last.trace, by=last.by))
        click.echo(f"{last.trace[:8]}: nothing wrong: taken back")
        return 0
    given = next(
        each
        for each in human_tags(store)
        if (each.trace, each.step, each.failure, each.by)
        == (last.trace, last.step, last.failure, last.by)
    )
    remove_tag(store, given)
    click.echo(f"{last.trace[:8]} step {last.step}: {given.failure.value}: taken back")
    return 0


def _clear(store: Store, given: CleanMark, remove: bool) -> int:
    if remove:
        return 0 if unmark_clean(store, given) else 1
    mark_clean(store, given)
    click.echo(f"{given.trace[:8]}: nothing wrong")
    return 0


@click.command()
@click.argument("query", nargs=-1)
@click.option("--queue", "waiting", is_flag=True, help="What you should look at next, in order.")
@click.option("--agreement", is_flag=True, help="How well people agree, two by two.")
@click.option("--nothing-wrong", "cleared", is_flag=True,
              help="The runs of which somebody said that nothing is wrong.")  # fmt: skip
@click.option("--blind", is_flag=True,
              help="With --queue: runs that somebody else has a word on and you have not. With"
              " --agreement: only what was said blind.")  # fmt: skip
@json_option
@db_option
def tags(
    query: tuple[str, ...],
    waiting: bool,
    agreement: bool,
    cleared: bool,
    blind: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Every tag and suggestion with its evidence that QUERY means, as in `arc ls`.

    Plain words, and what QUERY says of classes and faults, are asked of each tag. You are
    ARC_USER, else the name of your account. Exit code 1: there is none.
    """
    if sum((waiting, agreement, cleared, bool(query))) > 1:
        raise click.UsageError("--queue, --agreement, --nothing-wrong and QUERY: ask one of them")
    if blind and not (waiting or agreement):
        raise click.UsageError("--blind goes with --queue or with --agreement")
    with open_judged(db) as store:
        if waiting:
            return print_queue(queue(store, author(), blind=blind), as_json)
        if agreement:
            return print_agreement(build_raters(store, blind=blind), as_json)
        if cleared:
            return print_cleared(clean_marks(store), as_json)
        wanted = words_meant(store, " ".join(query), read_owners)
        found = tag_rows(store, wanted.sql, wanted.values)
    if as_json:
        print_json(found)
    elif found:
        names = ["", "id", "task", "trial", "outcome", "step", "class", "fault", "by", "why"]
        print_table(console(), names, [_cells(row) for row in found])
    else:
        click.echo("nothing is tagged or suggested here", err=True)
    return 0 if found else 1


def _cells(row: TagRow) -> list[Text | str]:
    return [
        "tag" if row.accepted else "?",
        row.recording[:8],
        format.cut(format.one_line(row.task), 28),
        format.one_line(row.trial),
        row.outcome,
        str(row.step),
        format.one_line(class_label(row.failure, row.sub)),
        row.fault.value if row.fault else format.UNKNOWN,
        format.one_line(row.by),
        format.one_line(row.why),
    ]


def print_queue(found: Queue, as_json: bool) -> int:
    """What waits, and how much of it; 1 where nothing does."""
    if as_json:
        print_json(found)
        return 0 if found.waiting else 1
    if not found.waiting:
        click.echo(nothing_waits(found), err=True)
        return 1
    counts = " · ".join(f"{kind.reason} {kind.waiting} of {kind.of}" for kind in found.kinds)
    left = f"{format.count(len(found.waiting), 'run')} left for {format.one_line(found.by)}"
    if found.held_out:
        hidden = format.count(found.held_out, "run")
        click.echo(f"{hidden} of held-out tasks left out", err=True)
    out = console()
    out.print(Text.assemble((left, "bold"), f": {counts}"), soft_wrap=True)
    names = ["id", "task", "trial", "outcome", "step", "reason", "title"]
    print_table(out, names, [_tagging_table_cells(each) for each in found.waiting])
    return 0


def print_agreement(view: RatersView, as_json: bool) -> int:
    """Two by two, then where they part; 1 where no two people have a word on one run."""
    if as_json:
        print_json(view)
    else:
        out = console()
        out.print(Text(head(view), "bold"), soft_wrap=True)
        print_tables(out, tables(view))
    return 0 if view.pairs else 1


def print_cleared(found: Sequence[CleanMark], as_json: bool) -> int:
    """The runs that people saw nothing wrong in; 1 where there is none."""
    if as_json:
        print_json(found)
    elif found:
        rows: list[list[Text | str]] = [
            [
                each.trace[:8],
                format.one_line(each.by),
                "blind" if each.blind else "",
                format.one_line(each.note),
            ]
            for each in found
        ]
        print_table(console(), ["id", "by", "", "note"], rows)
    else:
        click.echo("nobody said of a run that nothing is wrong with it", err=True)
    return 0 if found else 1


def _tagging_table_cells(each: Waiting) -> list[Text | str]:
    return [
        each.trace[:8],
        format.cut(format.one_line(each.task), 28),
        format.one_line(each.trial),
        each.outcome,
        str(each.step),
        each.reason,
        format.cut(format.one_line(each.title), 60),
    ]
