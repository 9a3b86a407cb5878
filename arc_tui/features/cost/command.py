"""`arc money`: where the money of a run went, and what of it brought nothing."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click
from rich.text import Text

from arc_tui.cli import console, db_option, json_option, open_store, print_json
from arc_tui.features.cost.text import sections
from arc_tui.features.cost.view import Where, build_money


@click.command()
@click.argument("trace")
@click.option("--route", metavar="MODEL", help="What would it cost at the price of this model?")
@click.option(
    "--where",
    type=click.Choice(get_args(Where)),
    default="all",
    show_default=True,
    help="Which steps --route moves there.",
)
@json_option
@db_option
def money(trace: str, route: str | None, where: Where, as_json: bool, db: Path | None) -> None:
    """Where the money went: dear steps, cache breaks, observations sent again, work done twice."""
    with open_store(db) as store:
        view = build_money(store, trace, route, where)
    if as_json:
        print_json(view)
        return
    out = console()
    for place, (title, lines) in enumerate(sections(view)):
        if place:
            out.print()
        out.print(Text(title, "bold"), soft_wrap=True)
        for line in lines:
            out.print(Text(f"  {line}"), soft_wrap=True)
