"""`arc compare`: two runs, or a run and a saved replay, side by side by the action of each step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    examples,
    json_option,
    open_store,
    print_json,
    print_line,
    print_table,
)
from arc_tui.features.compare.pair import Line, PairView, Part, build_pair, lines, prompts_pair
from arc_tui.features.compare.run import build_compare
from arc_tui.features.compare.view import (
    LEGEND,
    MARKS,
    CompareRow,
    CompareView,
    facts,
    figures,
    known_facts,
    prompts_line,
)
from arc_tui.ui import format
from replay.compare.actions import VERSION
from replay.compare.rules import rules_from
from replay.errors import ArcError, NotFound
from replay.kept import begun, of_trace
from replay.store.handle import Store
from replay.store.rows import trace_row

LONG = 2000
"""Characters of one text printed before the rest is only counted."""

DID = 60

_STYLES = {"differs": "yellow", "only_a": "red", "only_b": "green", "inconclusive": "magenta"}


@click.command(
    epilog=examples(
        "arc compare shop-many-wishes-v5-0 shop-many-wishes-v4-0",
        "arc compare shop-many-wishes-v5-0 --replay last",
    )
)
@click.argument("trace", type=RUN_NAME, metavar="A")
@click.argument("other_trace", metavar="[B]", required=False)
@click.option(
    "--replay",
    "again",
    metavar="DIGEST",
    help="Compare A with a saved replay: its digest, a unique prefix, or last.",
)
@click.option(
    "--compare",
    "rules",
    multiple=True,
    metavar="PATH=RULE",
    help="How to compare an argument: `Bash.description=ignore`; repeatable.",
)
@click.option("--rows", "every", is_flag=True, help="Print matching steps too.")
@click.option("--step", type=int, help="Print this step of A in full, as a word diff.")
@json_option
@db_option
def compare(
    trace: str,
    other_trace: str | None,
    again: str | None,
    rules: tuple[str, ...],
    every: bool,
    step: int | None,
    as_json: bool,
    db: Path | None,
) -> int:
    """Compare two runs step by step: a difference, not a quality verdict.

    A and B are runs, or saved replays by their digest, as `arc replay` prints it. Exit code 0:
    actions, prompts, tools and outcome are the same; 1: at least one differs.
    """
    if (other_trace is None) == (again is None):
        raise click.UsageError("B is missing: name a run, or a replay of A by --replay DIGEST")
    with open_store(db) as store:
        named = other_trace if again is None else _replay(store, trace, again)
        view = build_compare(store, trace, named or "", rules_from(rules))
        if as_json:
            print_json(view)
        else:
            _print(console(), store, view, every=every, step=step)
    return 0 if view.same else 1


def _replay(store: Store, a: str, named: str) -> str:
    """The digest of a saved replay; `last` is the latest of A."""
    if named != "last":
        return begun(store, named).digest
    kept = of_trace(store, trace_row(store, a).trace)
    if not kept:
        raise ArcError(f"no saved replay of {a}", f"Try: arc replay {a}")
    return kept[0].digest


def _print(out: Console, store: Store, view: CompareView, *, every: bool, step: int | None) -> None:
    for letter, who in (("A", view.a), ("B", view.b)):
        name = who.trace[:8] if who.digest is None else who.digest
        head = Text.assemble((f"{letter}  ", "bold"), format.one_line(f"{who.name} · {name}"))
        out.print(head.append(f" · {' · '.join(facts(who))}"), soft_wrap=True)
    for fact in known_facts(view):
        print_line(out, fact)
    out.print()
    print_line(out, format.plain(view.sentence), "bold")
    out.print(Text(f"({view.note})", "dim"))
    print_line(out, format.plain(" · ".join(figures(view))))
    prompts = prompts_line(view.prompts)
    if prompts:
        print_line(out, prompts, "yellow")
    for each in view.lacks:
        print_line(out, format.one_line(each), "dim")
    if step is not None:
        _print_pair(out, build_pair(store, view, _row_of(view, step)))
        return
    out.print()
    shown = [each for each in lines(view, every=every) if each.kind not in ("known", "prompts")]
    columns = ["", "A", "A action", "B", "B action", "difference"]
    print_table(out, columns, [_cells(view, each) for each in shown])
    print_line(out, LEGEND, "dim")
    by = "; ".join([f"comparison rules v{VERSION} (list: arc replay --rules)", *view.rules])
    print_line(out, format.one_line(by), "dim")
    if view.prompts.differs:
        _print_pair(out, prompts_pair(view.prompts))
    if view.divergence is not None:
        _print_pair(out, build_pair(store, view, view.rows[view.divergence]))


def _row_of(view: CompareView, step: int) -> CompareRow:
    found = next((row for row in view.rows if row.a == step), None)
    if found is None:
        known = [row.a for row in view.rows if row.a is not None]
        hint = f"A has steps {min(known)} to {max(known)}" if known else "A has no steps"
        raise NotFound("step", str(step), hint=hint)
    return found


def _cells(view: CompareView, line: Line) -> list[Text | str]:
    if line.kind != "row":
        return ["", "", Text(line.text, "dim"), "", "", ""]
    row = view.rows[line.first]
    style = _STYLES.get(row.mark, "")
    parts = " ◆" if line.first == view.divergence else ""
    return [
        Text(f"{MARKS[row.mark]}{parts}", style),
        _number(row.a),
        Text(format.cut(row.action_a, DID), style),
        _number(row.b),
        Text(format.cut(row.action_b, DID), style),
        Text(format.cut(row.what, DID), "dim"),
    ]


def _number(step: int | None) -> str:
    return "" if step is None else str(step)


def _print_pair(out: Console, pair: PairView) -> None:
    out.print()
    out.print(Text(pair.title, "bold"))
    for part in pair.parts:
        out.print(Text(f"  {part.title}", "dim"))
        for line in _part(part):
            out.print(line, soft_wrap=True)


_LINES = {"gone": "red", "new": "green", "place": "dim", "same": "dim"}


def _part(part: Part) -> Iterator[Text]:
    if part.diff is not None:
        for line in part.diff:
            text = Text(f"    {line.text}", _LINES.get(line.kind, ""))
            for start, end in line.words:
                text.stylize("bold underline", start + 4, end + 4)
            yield text
        return
    if part.same:
        yield Text(f"    same: {_long(format.one_line(part.a))}", "dim")
        return
    for letter, side in (("A", part.a), ("B", part.b)):
        if side is not None:
            yield Text(f"    {letter}: {_long(side)}")


def _long(text: str) -> str:
    if len(text) <= LONG:
        return text
    return f"{text[:LONG]}… {format.number(len(text) - LONG)} more characters"
