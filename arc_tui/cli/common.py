"""What commands share: the database option, printing a view as text or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from arc_tui.cli.unlocking import ask_for_key
from arc_tui.config import read_redaction
from arc_tui.format import count, escaped, one_line, plain
from arc_tui.places import database
from arc_tui.views.runs.view import apart_words
from replay.store import Store
from replay.store.backup import copied
from replay.store.cipher import keys
from replay.store.masking import mask_with
from replay.store.words import filling
from taxonomy import ledger
from taxonomy.ledger import open_ledger
from taxonomy.stats.holding import Apart

F = TypeVar("F", bound=Callable[..., Any])

PIPED_WIDTH = 160
_GAP = "  "
_LEAST = 4

keys.ask_with(ask_for_key)  # whoever runs a command may be asked for the key of its database
mask_with(read_redaction)


def db_option(command: F) -> F:
    """`--db` after the command's name too; the one before it is the default."""
    return click.option(
        "--db",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The database to use.",
    )(command)


def json_option(command: F) -> F:
    """`--json`: the view as JSON, its keys as documented."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def held_out_option(command: F) -> F:
    """`--with-held-out`: nobody looks at what is kept for a test by accident."""
    return click.option(
        "--with-held-out", is_flag=True, help="The runs of held-out tasks too, else hidden."
    )(command)


def say_apart(given: Apart) -> None:
    """On stderr, how many runs of held-out tasks are hidden."""
    if given.runs and not given.shown:
        click.echo(f"{apart_words(given)} (--with-held-out shows them)", err=True)


def open_store(db: Path | None) -> Store:
    """The store that was asked for, on this command or before it."""
    outer = click.get_current_context().find_root().obj
    indexing, copying = filling.set(_indexing), copied.set(_copied)
    try:
        return open_ledger(database(db or outer))
    finally:
        filling.reset(indexing)
        copied.reset(copying)


def _copied(path: Path) -> None:
    click.echo(f"an older database: copied to {path} before it was changed", err=True)


def _indexing(done: int, total: int) -> None:
    """Said on a terminal while a database of an older version gets its index."""
    if sys.stderr.isatty():
        end = done == total
        click.echo(f"\rreading {done} of {total} messages for the search", err=True, nl=end)


def with_database(words: Sequence[str]) -> tuple[str, ...]:
    """The words of an `arc` command, with `--db` as it was given to this one."""
    context: click.Context | None = click.get_current_context()
    while context is not None:
        if context.get_parameter_source("db") is ParameterSource.COMMANDLINE:
            return (words[0], "--db", str(context.params["db"]), *words[1:])
        context = context.parent
    return tuple(words)


def open_judged(db: Path | None) -> Store:
    """The same store once the rules have seen every trace of it as they are today.

    After another version of them, or when a judge's time ran out, some wait to be looked at; in a
    database that may only be read they go on waiting.
    """
    store = open_store(db)
    waiting = len(ledger.undiagnosed(store))
    if waiting and store.read_only:
        older = f"{count(waiting, 'trace')} not analysed, or by older rules"
        click.echo(f"{store.path}: read-only; {older}", err=True)
    elif waiting:
        click.echo(f"the rules look at {count(waiting, 'trace')} anew", err=True)
        diagnose_new(store)
    return store


def diagnose_new(store: Store) -> None:
    """Let the rules look at what they have not seen, and say where they failed."""
    from arc_tui.jobs import importing  # the readers are not needed otherwise

    for error in importing.drained(importing.diagnose_new(store)):
        click.echo(f"arc: {one_line(error)}", err=True)


def print_json(value: Any) -> None:
    """A value as indented JSON on stdout."""
    said = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.buffer.write(escaped(said).encode() + b"\n")
    sys.stdout.buffer.flush()


class PlainConsole(Console):
    """Shows foreign text and never obeys it: whatever is printed, no control character of it is."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else plain(segment.text)
            yield segment if text == segment.text else segment._replace(text=text)


def console(*, err: bool = False) -> Console:
    """A console that colours only a terminal and gives a pipe room."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else PIPED_WIDTH
    return PlainConsole(file=stream, width=width, highlight=False, emoji=False, markup=False)


def print_table(out: Console, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> None:
    """Rows under a dim head, each column as wide as its widest cell.

    On a terminal the widest columns are cut until a row fits the line; a pipe gets all of it.
    """
    texts = [list(columns), *([_plain(cell) for cell in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    if not out.is_terminal:  # no colour, nothing to cut: no need for Rich to lay it out
        for text in texts:
            line = _GAP.join(map(set_cell_size, text, widths)).rstrip()
            out.file.write(plain(line) + "\n")
        return
    widths = fitted(widths, out.width - len(_GAP) * (len(widths) - 1))
    for row in [[Text(name, "dim") for name in columns], *rows]:
        shown_line = Text()
        for cell, width in zip(row, widths, strict=True):
            shown = cell.copy() if isinstance(cell, Text) else Text(cell)
            shown.truncate(width, overflow="ellipsis", pad=True)
            shown_line.append_text(shown).append(_GAP)
        shown_line.rstrip()
        out.print(shown_line, soft_wrap=True)


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """The widths, the widest made smaller until all fit the room (none under four)."""
    cut = list(widths)
    while sum(cut) > room and max(cut) > _LEAST:
        widest = cut.index(max(cut))
        cut[widest] -= 1
    return cut


def _plain(cell: Text | str) -> str:
    return cell.plain if isinstance(cell, Text) else cell
