"""`arc db scrub`: today's rules for secrets over what is stored already."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from arc_tui import format
from arc_tui.cli.common import (
    console,
    db_option,
    diagnose_new,
    json_option,
    open_store,
    print_json,
    print_table,
)
from arc_tui.cli.db.backup import existing
from replay import written
from replay.edit import Edit, SetSystem
from replay.edit_file import from_toml
from replay.store.scrub.run import Scrubbed
from replay.store.scrub.run import scrub as apply_rules
from taxonomy.ledger.scrubbed import JUDGEMENTS


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be masked and change nothing.")
@click.option(
    "--bisected",
    "versions",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A prompt or edit that was bisected and is no kept edit: its answers are found again."
    " May be repeated.",
)
@json_option
@db_option
def scrub(dry_run: bool, versions: tuple[Path, ...], as_json: bool, db: Path | None) -> int:
    """Mask by today's rules, and those of [redact] in the config, what is stored already.

    All texts of all tables, in one step: either everything or nothing is changed. Digests follow,
    so replays, tags and labels stay valid; then the old bytes are erased from the file and its log.
    There is no way back, and copies beside the database still hold the old texts.
    """
    existing(db)
    prompts = [_prompt(file) for file in versions]
    with open_store(db) as store:
        found = apply_rules(store, JUDGEMENTS, prompts=prompts, dry=dry_run)
        if found.done and found.masked:
            diagnose_new(store)
    if as_json:
        print_json(found)
        return 0
    _print(found, dry=dry_run)
    return 0


def _prompt(file: Path) -> Edit:
    text, name = written.from_file(file), written.called(file.stem)
    if file.suffix == ".toml":
        return from_toml(text, str(file), name)
    return Edit(name=name, changes=(SetSystem(text),))


def _print(found: Scrubbed, *, dry: bool) -> None:
    out = console()
    if found.masked:
        rows = [(each.rule, each.table, str(each.places)) for each in found.masked]
        print_table(out, ["rule", "table", "places"], sorted(rows))
    for line in _lines(found):
        out.print(line, soft_wrap=True)
    for line in _warnings(found, dry=dry):
        click.echo(line, err=True)


def _lines(found: Scrubbed) -> Iterable[str]:
    if not found.places:
        yield "nothing is to be masked" if not found.done else "nothing was to be masked"
    else:
        verb = "masked" if found.done else "to be masked"
        yield f"{verb}: {format.count(found.places, 'place')}"
    if found.merged:
        yield f"{format.count(found.merged, 'row')} of content read like others now: stored once"
    if found.rekeyed:
        many = format.count(found.rekeyed, "stored answer")
        yield f"{many} found again under what {_its(found.rekeyed)} now"
    if found.unfinished:
        yield f"{format.count(found.unfinished, 'unfinished import')} dropped"
    if found.erased:
        yield "the old bytes are not in the file or its log any more"


def _its(many: int) -> str:
    return "its request reads" if many == 1 else "their requests read"


def _warnings(found: Scrubbed, *, dry: bool) -> Iterable[str]:
    if found.untold:
        yield (
            f"{format.count(found.untold, 'stored answer')} (of judges, tests, searches) cannot be"
            " told by request: where that changed, it is asked again;"
            " --bisected FILE names a prompt that was bisected"
        )
    if found.copies:
        shown = ", ".join(format.one_line(each) for each in found.copies)
        yield f"files beside the database still hold the old texts, if they held them: {shown}"
    if found.tables:
        shown = ", ".join(format.one_line(each) for each in found.tables)
        yield f"tables of another program were not looked at: {shown}"
    if dry:
        yield "nothing was changed: without --dry-run it is"
