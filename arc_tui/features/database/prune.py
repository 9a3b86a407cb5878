"""`arc db prune`: runs leave the database by a rule of retention, and their bytes the file."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    held_out_option,
    json_option,
    open_store,
    print_json,
    print_table,
)
from arc_tui.features.database.retention import PruneRequest, PruneView, preview, remove_runs
from arc_tui.ui import format
from replay.care.prune import (
    erase,
    unerased,
)
from replay.store.handle import now_ns
from taxonomy.query.values import SPANS_NS, number

_UNITS = {unit: ns for unit, ns in SPANS_NS.items() if unit} | {"w": 7 * 86400e9}


class Age(click.ParamType[int]):
    """`30d`, `12h`, `2w`: nanoseconds."""

    name = "age"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        age = number(str(value), _UNITS)
        if age is None:
            self.fail(f"{value!r} is no age: say 30d, 12h or 2w", param, ctx)
        return int(age)


class Share(click.ParamType[float]):
    """`5%`: a percentage."""

    name = "share"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        share = number(str(value).removesuffix("%"), {"": 1.0})
        if share is None or share > 100:
            self.fail(f"{value!r} is no percentage: say 5%", param, ctx)
        return share


@click.command()
@click.argument("query", nargs=-1)
@click.option("--older", type=Age(), metavar="AGE", help="Begun longer ago than this: 30d, 12h.")
@click.option(
    "--keep",
    multiple=True,
    metavar="WHAT",
    help="Leave these: failed, passed, tagged, replayed, or a query. May be repeated.",
)
@click.option("--sample", type=Share(), default=0.0, metavar="PERCENT",
              help="Leave this share of the rest, always the same runs: 5%.")  # fmt: skip
@click.option(
    "--even-tagged",
    is_flag=True,
    help="Delete also what people said of the runs; else their tags and scores stay.",
)
@click.option("--answers", is_flag=True,
              help="Delete also every stored answer that no kept replay rests on.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do it: without this, nothing is changed.")
@held_out_option
@json_option
@db_option
def prune(
    query: tuple[str, ...],
    older: int | None,
    keep: tuple[str, ...],
    sample: float,
    even_tagged: bool,
    answers: bool,
    yes: bool,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Delete the runs that QUERY means, as in `arc ls`, and their bytes: a dry run without --yes.

    A run goes with all its recordings, with its replays and their answers and edits. A message that
    others say too stays. Runs that are live stay, and held-out ones unless --with-held-out. A run
    whose start is not known is as old as its import. Backups and exports are not touched.
    """
    with open_store(db) as store:
        waits = unerased(store)
        if not query and older is None:
            if not (yes and waits):
                raise click.UsageError("say which runs are to go: QUERY, --older AGE, or both")
            erase(store)
            click.echo("an earlier pruning was cut short: what it left is erased now", err=True)
            return 0
        request = PruneRequest(
            query=" ".join(query),
            before_ns=None if older is None else now_ns() - older,
            keep=keep,
            sample=sample,
            even_people=even_tagged,
            answers=answers,
            with_held_out=with_held_out,
        )
        view = remove_runs(store, request) if yes else preview(store, request)
    if as_json:
        print_json(view)
        return 0
    _print(view)
    if waits and not yes:
        click.echo("an earlier pruning was cut short: --yes erases what it left", err=True)
    return 0


def _print(view: PruneView) -> None:
    out = console()
    if view.going:
        rows: list[list[Text | str]] = [
            [
                format.outcome_mark(each.outcome),
                format.cut(format.one_line(each.task or format.UNKNOWN), 40)
                if each.task is not None
                else "other tasks",
                str(each.runs),
                str(each.recordings),
                str(each.spans),
            ]
            for each in view.going
        ]
        print_table(out, ["", "task", "runs", "recordings", "spans"], rows)
    for line in _lines(view):
        out.print(line, soft_wrap=True)
    for line in _warnings(view):
        click.echo(line, err=True)


def _lines(view: PruneView) -> list[str]:
    weight, counts = view.weight, view.said
    parts = [
        format.count(view.runs, "run"),
        format.count(weight.traces, "recording"),
        format.count(weight.spans, "span"),
        format.count(weight.messages, "message"),
    ]
    judgements = {
        "replay": weight.replays,
        "answer": weight.answers,
        "edit": weight.edits,
        "kept result": weight.results,
        "unfinished import": weight.unfinished,
        "suggestion": counts.suggestions,
        "score": counts.scores,
        "diagnosis": counts.diagnoses,
    }
    plurals = {"diagnosis": "diagnoses"}
    parts += [
        format.count(many, name, plurals.get(name)) for name, many in judgements.items() if many
    ]
    verb = "gone" if view.done else "to go"
    lines = [f"{verb}: {', '.join(parts)}; {format.file_size(weight.bytes)} of text"]
    if view.staying:
        stays = ", ".join(f"{each.runs} {format.one_line(each.why)}" for each in view.staying)
        lines.append(f"stays: {stays}")
    if view.by_import:
        one = format.count(view.by_import, "run")
        lines.append(f"{one} of unknown start: as old as the import")
    if counts.people:
        words = format.count(counts.people, "word")
        stay = "goes" if view.even_people else "stays, without its run (--keep tagged keeps both)"
        lines.append(f"{words} of people on these runs: {stay}")
    if view.file_bytes is not None and view.file_bytes_after is not None and view.erased:
        before, after = map(format.file_size, (view.file_bytes, view.file_bytes_after))
        lines.append(f"the file: {before} → {after}; what was deleted is not in it any more")
    return lines


def _warnings(view: PruneView) -> list[str]:
    lines = []
    if view.weight.other_answers:
        many = format.count(view.weight.other_answers, "stored answer")
        lines.append(
            f"{many} (of judges, tests, searches) cannot be told by run and stay:"
            " --answers deletes what no kept replay rests on"
        )
    if view.copies:
        shown = ", ".join(format.one_line(each) for each in view.copies)
        lines.append(f"files beside the database may hold what goes: {shown}")
    if not view.done:
        lines.append("nothing was changed: --yes does it")
    return lines
