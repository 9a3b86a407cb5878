"""`arc record -- CMD`: run a command, and keep what it asks models exactly as it asked."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arc_tui.cli.common import db_option
from arc_tui.format import count, cut, one_line
from arc_tui.live.needed import require
from arc_tui.places import database

if TYPE_CHECKING:
    from arc_tui.jobs.recording import Recorded

SHOWN = 5
"""Runs that are told one by one."""

UNUSED = (
    "nothing was recorded: the command called no model by ANTHROPIC_BASE_URL or OPENAI_BASE_URL"
)


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--task", help="What the command is to do; runs of one task are compared.")
@click.option("--variant", help="Which version of the agent it is.")
@click.option("--title", help="A title; by default what the user first says.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="A label; repeatable.")
@click.option("--split", is_flag=True, help="Make a run of every conversation.")
@db_option
@click.pass_context
def record(
    ctx: click.Context,
    command: tuple[str, ...],
    task: str | None,
    variant: str | None,
    title: str | None,
    labels: tuple[str, ...],
    split: bool,
    db: Path | None,
) -> int:
    """Run COMMAND and record its calls of models, exactly.

    It finds a proxy on 127.0.0.1 under ANTHROPIC_BASE_URL and OPENAI_BASE_URL, which passes
    everything on as it is. `arc` beside it shows the run while it grows. The exit code is the
    command's.

    Needs the extra `serve`: pip install 'arc-tui[serve]'
    """
    import asyncio

    from arc_tui.jobs import recording
    from replay.formats.intake import mended
    from replay.recorder.log import About
    from replay.written import refuse_halves

    require("arc record", "aiohttp", "multidict", "truststore", "yarl")
    # What the server remarks of a broken connection would land in the command's own output.
    logging.getLogger("aiohttp").addHandler(logging.NullHandler())
    refuse_halves(task, variant, title, *labels)
    about = About(
        title=title,
        task=task,
        variant=variant,
        labels={"command": mended(shlex.join(command)), **dict(map(_label, labels))},
    )
    path = database(db or ctx.find_root().obj)
    try:
        done = asyncio.run(recording.record(path, command, about, apart=split))
    except recording.CannotRun as error:
        click.echo(f"arc: {one_line(error.message)}", err=True)
        return error.code
    _say(done, ["--db", str(path)] if db else [])
    return done.code


def _label(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--label {given!r} is not NAME=VALUE")
    return name, value


def _say(done: Recorded, where: list[str]) -> None:
    """What was recorded, on stderr: stdout is the command's."""
    for written in done.traces[:SHOWN]:
        title = cut(one_line(written.title or "untitled"), 60)
        size = count(written.steps, "step")
        click.echo(f"recorded {written.id[:8]}  {title}: {size}", err=True)
    if len(done.traces) > SHOWN:
        click.echo(f"… and {count(len(done.traces) - SHOWN, 'more run')}", err=True)
    if done.unread:
        click.echo(f"{count(done.unread, 'call')} could not be read", err=True)
    if done.trouble is not None:
        click.echo(f"arc: not everything could be kept: {one_line(done.trouble)}", err=True)
    if not done.traces:
        if done.trouble is None and not done.unread:
            click.echo(UNUSED, err=True)
        return
    after = ["arc", "show", done.traces[0].id[:8]] if len(done.traces) == 1 else ["arc", "ls"]
    click.echo(f"next: {shlex.join([*after, *where])}", err=True)
