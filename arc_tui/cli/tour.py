"""The demo without a terminal: the whole loop printed, each part under its command."""

from __future__ import annotations

from pathlib import Path

import click

from arc_tui.cli.common import console
from arc_tui.cli.pareto import pareto_lines
from arc_tui.cli.replay_table import print_replay
from arc_tui.cli.replaying import drained
from arc_tui.jobs.replaying import Wanted, replaying
from arc_tui.places import fixtures
from arc_tui.views.runs.view import build_runs
from arc_tui.views.trace.view import build_break
from replay.edit_file import from_files
from taxonomy.ledger import open_ledger

TRACE = "shop-many-wishes-v5-0"
PROMPT = "demo/prompts/v4.md"


def print_tour(path: Path) -> None:
    """Runs and what they fail of, one broken run, another prompt tried on it."""
    out = console()
    prompt = fixtures() / PROMPT
    with open_ledger(path) as store:
        runs = build_runs(store)
        _head(
            f"arc --db {path} pareto", "1. what the bundled runs fail of, as the rules suggest it"
        )
        for line in pareto_lines(runs.pareto, 30):
            out.print(line)
        _head(f"arc --db {path} break {TRACE}", "2. one failed run: where did it break?")
        for said in build_break(store, TRACE).lines():
            out.print(said, soft_wrap=True)
        _head(
            f"arc --db {path} replay {TRACE} --system {prompt}",
            "3. an older prompt, tried on every recorded step",
        )
        wanted = Wanted(trace=TRACE, edit=from_files(prompt, []))
        print_replay(out, drained(replaying(store, wanted)))
    click.echo("\nIn a terminal, `arc demo` opens the app on these runs.")


def _head(command: str, title: str) -> None:
    click.echo(f"\n{title}\n$ {command}\n")
