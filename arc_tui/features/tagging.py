"""`arc tag`: what people and rules say of failures, how far people agree, and which runs were found
clean. `arc review`: what waits for a person's tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import click
from msgspec import structs
from rich.text import Text

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
    print_line,
    print_list,
    print_table,
    print_tables,
)
from arc_tui.config import read_owners
from arc_tui.places import author
from arc_tui.ui import format
from arc_tui.views import raters
from arc_tui.views.evidence import AGENT_BY
from arc_tui.views.monthly_review import (
    ReviewRequest,
    ReviewView,
    build_review,
    head,
    last_lines,
    overdue,
    tables,
    why_so_many,
)
from arc_tui.views.queue import nothing_waits
from arc_tui.views.raters import RatersView, build_raters
from replay.errors import NotFound
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from taxonomy.classes import CLASSES, Attribution, FailureClass, class_label
from taxonomy.findings import Finding
from taxonomy.judgements.suggestions import withdraw
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
from taxonomy.monthly_review import last_draw
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


@click.command(
    epilog=examples(
        "arc tag add shop-many-wishes-v5-0 4 'hallucinated state' --note 'no lookup'",
        "arc tag add last --clean",
    )
)
@click.argument("trace", type=RUN_NAME)
@click.argument("step", type=int, required=False)
@click.argument("class_", metavar="[CLASS]", required=False)
@click.option("--clean", is_flag=True, help="Mark the run as clean: in place of STEP and CLASS.")
@click.option("--note", help="A sentence to store with it.")
@click.option("--sub", help="The sub-label of `other`.")
@click.option(
    "--attribution", type=click.Choice([each.value for each in Attribution]), help="Whose failure."
)
@db_option
def add(
    trace: str,
    step: int | None,
    class_: str | None,
    clean: bool,
    note: str | None,
    sub: str | None,
    attribution: str | None,
    db: Path | None,
) -> None:
    """Tag a step with a failure class: its name or its letter (w a h g l o).

    With --clean, say instead that nothing is wrong with the run.
    """
    if clean and (step is not None or class_ is not None or sub or attribution):
        raise click.UsageError("--clean is about the whole run: give no STEP, CLASS or attribution")
    with open_store(db) as store:
        if clean:
            row = trace_row(store, trace)
            mark_clean(store, CleanMark(trace=row.trace, by=author(), note=note))
            click.echo(f"{row.trace[:8]}: clean")
            return
        if step is None or class_ is None:
            raise click.UsageError("give a STEP and a CLASS, or --clean")
        given = structs.replace(
            _own_tag(store, trace, step, class_),
            sub=sub,
            attribution=Attribution(attribution) if attribution else None,
            note=note,
        )
        put_tag(store, given)
    click.echo(_tag_line(given))


@click.command(
    "rm", epilog=examples("arc tag rm shop-many-wishes-v5-0 4 h", "arc tag rm last --clean")
)
@click.argument("trace", type=RUN_NAME)
@click.argument("step", type=int, required=False)
@click.argument("class_", metavar="[CLASS]", required=False)
@click.option("--clean", is_flag=True, help="Remove the clean mark: in place of STEP and CLASS.")
@click.option("--agent", metavar="NAME", help="Reject what this agent suggests there instead.")
@db_option
def remove(
    trace: str,
    step: int | None,
    class_: str | None,
    clean: bool,
    agent: str | None,
    db: Path | None,
) -> int:
    """Remove a tag or a clean mark of yours, or an agent's suggestion. Exit code 1: there was
    none."""
    if clean == (class_ is not None) or (clean and (step is not None or agent is not None)):
        raise click.UsageError("give a STEP and a CLASS, or --clean alone")
    with open_store(db) as store:
        if agent is not None and step is not None and class_ is not None:
            meant = _own_tag(store, trace, step, class_)
            by = AGENT_BY + agent.removeprefix(AGENT_BY)
            found = Finding(failure=meant.failure, step=step, why="", rule=by)
            return 0 if withdraw(store, meant.trace, found) else 1
        if step is None or class_ is None:
            mark = CleanMark(trace=trace_row(store, trace).trace, by=author())
            return 0 if unmark_clean(store, mark) else 1
        return 0 if remove_tag(store, _own_tag(store, trace, step, class_)) else 1


def _own_tag(store: Store, trace: str, step: int, word: str) -> Tag:
    """A tag of this person at a step. Raises NotFound."""
    row = trace_row(store, trace)
    rows = step_rows(store, row.trace)
    if not 0 <= step < len(rows):
        raise NotFound("step", f"{step} (there are 0 to {len(rows) - 1})")
    return Tag(
        trace=row.trace,
        span=rows[step].span,
        step=step,
        failure=failure_class(word),
        by=author(),
    )


def _tag_line(given: Tag) -> str:
    whose = f" · attribution: {given.attribution}" if given.attribution else ""
    return f"{given.trace[:8]} · step {given.step} · {given.failure.value}{whose}"


@click.command(epilog=examples("arc tag undo", "arc tag undo --db data/demo.db"))
@db_option
def undo(db: Path | None) -> int:
    """Take back your last tag or clean mark, of whichever run. Exit code 1: there is none."""
    with open_store(db) as store:
        own = [word for word in human_words(store) if word.by == author()]
        if not own:
            click.echo(f"No tags by {format.one_line(author())} yet.", err=True)
            return 1
        last = max(own, key=lambda word: word.said_ns)
        if last.step is None:
            unmark_clean(store, CleanMark(trace=last.trace, by=last.by))
            click.echo(f"removed: {last.trace[:8]}: clean")
            return 0
        given = next(
            each
            for each in human_tags(store)
            if (each.trace, each.step, each.failure, each.by)
            == (last.trace, last.step, last.failure, last.by)
        )
        remove_tag(store, given)
    click.echo(f"removed: {_tag_line(given)}")
    return 0


@click.command(
    "list", epilog=examples("arc tag list class:loop", "arc tag list --agreement --blind")
)
@click.argument("query", nargs=-1)
@click.option("--agreement", is_flag=True, help="Agreement of each pair of people.")
@click.option("--blind", is_flag=True, help="With --agreement: blind reviews only.")
@click.option("--clean", is_flag=True, help="The runs that were marked clean.")
@limit_option
@json_option
@db_option
def list_(
    query: tuple[str, ...],
    agreement: bool,
    blind: bool,
    clean: bool,
    limit: int,
    as_json: bool,
    db: Path | None,
) -> None:
    """List tags and suggested tags with their evidence, of the runs that match QUERY.

    Plain words in QUERY, classes and attributions are matched against each tag. You are ARC_USER,
    else the name of your account.
    """
    if sum((agreement, clean, bool(query))) > 1:
        raise click.UsageError("--agreement, --clean and QUERY cannot be combined")
    if blind and not agreement:
        raise click.UsageError("--blind needs --agreement. Try: arc review --blind, to list runs")
    with open_judged(db) as store:
        if agreement:
            print_agreement(build_raters(store, blind=blind), as_json)
            return
        if clean:
            print_clean_marks(clean_marks(store), as_json)
            return
        wanted = words_meant(store, " ".join(query), read_owners)
        found = tag_rows(store, wanted.sql, wanted.values)
    if as_json:
        print_json(limited(found, limit))
    elif found:
        names = ["", "id", "task", "trial", "outcome", "step", "class", "attribution", "by", "why"]
        print_list(console(), names, [_cells(row) for row in limited(found, limit)])
    else:
        asked = format.one_line(" ".join(query))
        click.echo(f"No tags match '{asked}'." if query else "No tags yet.", err=True)


@click.command(
    epilog=examples("arc review --limit 10", "arc review --blind", "arc review --audit --size 10")
)
@click.argument("query", nargs=-1)
@click.option("--blind", is_flag=True,
              help="Runs that somebody else has tagged and you have not.")  # fmt: skip
@click.option("--audit", is_flag=True, help="The runs drawn to be read by hand this month.")
@click.option("--draw", is_flag=True, help="With --audit: draw anew, from the runs of QUERY.")
@click.option("--size", type=click.IntRange(min=1), help="With --audit: how many runs to draw.")
@click.option("--seed", help="With --audit: what the draw follows from; default: the day.")
@click.option("--evaluation", metavar="QUERY",
              help="With --audit: runs to compare with; default: of golden sets.")  # fmt: skip
@limit_option
@json_option
@db_option
def review(
    query: tuple[str, ...],
    blind: bool,
    audit: bool,
    draw: bool,
    size: int | None,
    seed: str | None,
    evaluation: str | None,
    limit: int,
    as_json: bool,
    db: Path | None,
) -> None:
    """List the runs you should look at next, in order.

    With --audit, draw runs to be read by hand this month, and say how many were read since and
    what they showed. You are ARC_USER, else the name of your account.
    """
    request = ReviewRequest(
        draw=draw, query=" ".join(query), size=size, seed=seed, evaluated=evaluation
    )
    if request != ReviewRequest() and not audit:
        raise click.UsageError("QUERY, --draw, --size, --seed and --evaluation need --audit")
    if audit and blind:
        raise click.UsageError("--audit and --blind cannot be combined")
    with open_judged(db) as store:
        if audit:
            if (query or size or seed) and not draw and last_draw(store) is not None:
                raise click.UsageError("QUERY, --size and --seed are of a new draw: add --draw")
            print_review(build_review(store, request, author()), as_json, limit)
            return
        print_queue(queue(store, author(), blind=blind), as_json, limit)
        reminder = overdue(store)
        if reminder:
            click.echo(reminder, err=True)


def print_review(view: ReviewView, as_json: bool, limit: int) -> None:
    """Progress, what waits, and what the reading showed."""
    if as_json:
        print_json(view)
        return
    out = console()
    out.print(Text(head(view), "bold"), soft_wrap=True)
    print_line(out, why_so_many(view), "dim")
    waiting = view.waiting
    if waiting:
        names = ["id", "task", "trial", "outcome", "step", "reason", "title"]
        print_list(out, names, [_tagging_table_cells(each) for each in limited(waiting, limit)])
    print_tables(out, tables(view))
    print_line(out, "\n".join(last_lines(view)), "dim")


def _cells(row: TagRow) -> list[Text | str]:
    return [
        "tag" if row.accepted else "?",
        row.recording[:8],
        format.cut(format.one_line(row.task), 28),
        format.one_line(row.trial),
        row.outcome,
        str(row.step),
        format.one_line(class_label(row.failure, row.sub)),
        row.attribution.value if row.attribution else format.UNKNOWN,
        format.one_line(row.by),
        format.one_line(row.why),
    ]


def print_queue(found: Queue, as_json: bool, limit: int) -> None:
    """What waits, and how much of it."""
    if as_json:
        print_json(found)
        return
    if not found.waiting:
        click.echo(nothing_waits(found), err=True)
        return
    counts = " · ".join(f"{kind.reason} {kind.waiting} of {kind.of}" for kind in found.kinds)
    left = f"{format.count(len(found.waiting), 'run')} left for {format.one_line(found.by)}"
    if found.held_out:
        hidden = format.count(found.held_out, "run")
        click.echo(f"{hidden} of held-out tasks left out", err=True)
    out = console()
    out.print(Text.assemble((left, "bold"), f": {counts}"), soft_wrap=True)
    names = ["id", "task", "trial", "outcome", "step", "reason", "title"]
    print_list(out, names, [_tagging_table_cells(each) for each in limited(found.waiting, limit)])


def print_agreement(view: RatersView, as_json: bool) -> None:
    """Two by two, then where they disagree."""
    if as_json:
        print_json(view)
        return
    out = console()
    out.print(Text(raters.head(view), "bold"), soft_wrap=True)
    print_tables(out, raters.tables(view))


def print_clean_marks(found: Sequence[CleanMark], as_json: bool) -> None:
    """The runs that people marked clean."""
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
        click.echo("No clean runs yet.", err=True)


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
