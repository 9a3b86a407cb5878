"""`arc serve`: the app in a browser of this machine."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

import click

from arc_tui.cli import database_path, db_option, examples, require, unlock
from arc_tui.ending import SIGNALS
from arc_tui.features.record.live import LOOPBACK
from replay.errors import ArcError

SERVE_PORT = 4380
"""Where the app is served unless told."""


@click.command(epilog=examples("arc serve", "arc serve --port 0"))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=SERVE_PORT, show_default=True,
    help="The port on 127.0.0.1; 0 is any free port.",
)  # fmt: skip
@click.option("--host", default=LOOPBACK, show_default=True, help="Only this address is supported.")
@db_option
def serve(port: int, host: str, db: Path | None) -> int:
    """Serve the app to a browser on this machine, until ctrl-c.

    The printed address works once, for one browser; each of its tabs is a session of its own.

    Needs the extra `serve`: pip install 'arc-tui[serve]'
    """
    import asyncio

    from arc_tui.settings import read_settings

    if host not in (LOOPBACK, "localhost"):
        raise ArcError(
            f"arc serve cannot listen on '{host}', only on {LOOPBACK}: the connection is not"
            " encrypted, and anyone who reaches it can read every run and use your API keys",
            f"Try, on the other machine: ssh -L {port}:{LOOPBACK}:{port} this-machine",
        )
    require("arc serve", "aiohttp", "textual_serve")
    path = database_path(db)
    unlock(path)
    read_settings()  # a mistake in them is said here, not in each tab
    asyncio.run(_serve(path, port))
    return 0


async def _serve(path: Path, port: int) -> None:
    import asyncio

    from arc_tui.serve.server import serve

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGINT, *SIGNALS):
        with suppress(NotImplementedError):  # where loops know no signals, ctrl-c ends it at once
            loop.add_signal_handler(each, stop.set)
    await serve(path, port=port, ready=_say_ready, tell=_say, stop=stop)


def _say_ready(address: str) -> None:
    click.echo(address)
    sys.stdout.flush()
    click.echo(
        "Open this address in a browser on this machine; it works once · ctrl-c stops", err=True
    )


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)
