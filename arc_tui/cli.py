"""What commands share: the database, its key, packages they need, printing a view as text or JSON,
live calls and limits.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
import msgspec
from click.core import ParameterSource
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from arc_tui.config import read_redaction
from arc_tui.places import database
from arc_tui.ui import format
from arc_tui.ui.format import count, escape_controls, one_line, plain
from arc_tui.views.runs import held_out_text
from replay.budget import Limits
from replay.errors import ArcError, BadEdit, CannotTell, ModelRefused, OfflineMiss, StoreUnusable
from replay.store import encryption
from replay.store.backup import copied
from replay.store.handle import Store, mask_with, now_ns
from replay.store.rows import trace_rows
from taxonomy.held_out import HeldOutNote
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.judgements.schema import open_ledger

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from arc_tui.importing import ImportReport, Progress
    from arc_tui.ui.tables import Table
    from replay.edit.changes import Edit
    from replay.locked.estimate import Estimate

E = TypeVar("E")
Fn = TypeVar("Fn", bound=Callable[..., Any])
V = TypeVar("V")


class FiniteRange(click.FloatRange):
    """A number of a range: `nan`, which is on neither side of a limit, and `inf` are none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


MORE_THAN_NOTHING = FiniteRange(min=0, min_open=True)

_MODEL = click.option("--model", help="The model to call; default: the recorded one.")
_LIMITS = (
    click.option("--live", is_flag=True, help="Allow calls to a server; needs a limit."),
    click.option("--budget", type=MORE_THAN_NOTHING, help="Spend at most this many USD."),
    click.option("--max-calls", type=click.IntRange(min=1), help="Make at most this many calls."),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Use at most this many tokens."),
    click.option("--max-minutes", type=MORE_THAN_NOTHING, help="Take at most this long."),
)


def with_options(*options: Callable[[Fn], Fn]) -> Callable[[Fn], Fn]:
    """All of these options of a command, in this order in its help."""

    def decorate(command: Fn) -> Fn:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def live_options(command: Fn) -> Fn:
    """`--model`, `--live` and the limits, as `model`, `live`, `budget`, `max_*`."""
    return with_options(_MODEL, *_LIMITS)(command)


def limit_options(command: Fn) -> Fn:
    """`--live` and the limits alone, for a command with models of its own."""
    return with_options(*_LIMITS)(command)


def examples(*lines: str) -> str:
    """The end of a command's help: lines that run as they stand."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def limits(options: dict[str, Any]) -> Limits:
    """The limits out of a command's options."""
    return Limits(
        usd=options["budget"],
        calls=options["max_calls"],
        tokens=options["max_tokens"],
        minutes=options["max_minutes"],
    )


def show_estimate(
    estimate: Callable[[], E],
    text: Callable[[E], str],
    *,
    only: bool,
    live: bool,
    as_json: bool,
    batch: bool = False,
) -> bool:
    """Print what would be asked before anything live is; is that all that was wanted (`only`)?
    `batch`: as batches, of which it also says how long they take.

    Raises ModelRefused before it says anything where a server would be asked without a key.
    """
    known = cache(estimate)  # which may take a while, and is looked at twice
    if live and not only:
        refuse_keyless(known)
    if only and as_json:
        print_json(known())
    elif only or live:
        click.echo(text(known()), err=not only)
    if batch and live and not only:
        click.echo(BATCH_WAIT, err=True)
    return only


BATCH_WAIT = (
    "Batches are answered within a day. Stopping does not end them: the same command, given again,"
    " fetches their answers."
)


def refuse_keyless(look: Callable[[], object]) -> None:
    """Raises ModelRefused where there is no key, and `look`, which asks nobody, lacks an answer of
    a server: what is stored needs none."""
    from replay.models.cached import lacking  # only who asks a model loads what asks it
    from replay.models.servers import require_key

    with lacking() as targets, suppress(OfflineMiss, CannotTell):
        look()
    for target in targets.values():
        require_key(target)


def refuse_missing(missing: int, model: str | None) -> None:
    """Raises OfflineMiss where answers were not stored, once all that is known was shown."""
    if missing:
        raise OfflineMiss(
            f"{format.count(missing, 'answer')} of {model} not stored",
            "Try: --live --budget 0.50",
        )


def refuse_unfinished(ended: str | None) -> None:
    """Raises ModelRefused where the model declined to go on, once all that is known was shown."""
    if ended is not None:
        raise ModelRefused(f"not finished: {ended}")


def inconclusive(status: str) -> ArcError:
    """Why a bisection that ended on `budget`, or on samples that are all `censored`, has no answer:
    neither yes nor no, so exit code 2."""
    if status == "censored":
        return ArcError("no usable sample", "The output above gives the reason")
    return ArcError("inconclusive: sample limit reached", "Try: --max-samples N")


def refuse_unanswered(*, wanted: bool, answers: int) -> None:
    """Raises ModelRefused where answers were `wanted` and none came: each request was declined,
    and what was shown says why. That is no answer, and so no "no"."""
    if wanted and not answers:
        raise ModelRefused("no request got a response", "The output above gives the reason")


def estimate_line(estimate: Estimate) -> str:
    """What is about to be asked of a server, in one line."""
    if not estimate.calls and not estimate.stored:
        return "0 calls: no request can be made"
    price = "price unknown" if estimate.usd is None else f"about {format.usd(estimate.usd)}"
    said = (
        f"{format.count(estimate.calls, 'live call')} at first, {estimate.stored} answered already;"
        f" {format.tokens(estimate.input_tokens)} tokens in, {price}"
    )
    if estimate.max_calls <= estimate.calls:
        return said
    most = "" if estimate.max_usd is None else f", {format.usd(estimate.max_usd)}"
    return f"{said}; at most {format.number(estimate.max_calls)} where samples disagree{most}"


def require(command: str, *packages: str, extra: str = "serve") -> None:
    """Raises ArcError with what to install where a package that a command needs beyond those of
    `arc` itself is lacking."""
    for package in packages:
        if find_spec(package) is None:
            raise ArcError(
                f"{command} needs {package.replace('_', '-')}, which is not installed",
                f"Try: pip install 'arc-tui[{extra}]'",
            )


def ask_for_key(file: Path) -> str:
    """The key of a file, typed. Raises StoreUnusable where nobody can type it."""
    if not _can_ask():
        raise StoreUnusable(
            f"{file}: is encrypted, and there is no terminal to read its key from",
            f"Try: set {encryption.KEY}, or {encryption.KEY_FILE} to a file with the key",
        )
    from getpass import getpass

    return getpass(f"encryption key of {one_line(str(file))}: ", sys.stderr)


def ask_for_new_key(file: Path) -> str:
    """A new key for a file, typed twice. Raises ArcError where the two are not the same."""
    if not _can_ask():
        raise ArcError("no terminal to read a key from", "Try: --key-from env")
    from getpass import getpass

    key = encryption.fit(getpass(f"new encryption key of {one_line(str(file))}: ", sys.stderr))
    if getpass("repeat the key: ", sys.stderr) != key:
        raise ArcError("the two keys differ")
    return key


def unlock(file: Path) -> None:
    """Know the key of a database before threads need it, or the app has the screen; from then on
    nobody is asked."""
    opened = encryption.connect(file, 0.0)
    if opened is not None:
        opened.close()
    encryption.ask_with(None)


def _can_ask() -> bool:
    return sys.stdin.isatty() and threading.current_thread() is threading.main_thread()


PIPED_WIDTH = 160
_GAP = "  "
_LEAST = 4
ROWS = 50
"""Of a list, where no other limit is given."""

encryption.ask_with(ask_for_key)  # whoever runs a command may be asked for the key of its database
mask_with(read_redaction)


def schedule_option(command: Fn) -> Fn:
    """`--schedule`: how calls follow each other."""
    from replay.locked.row import Schedule  # only who asks a model loads what asks it

    return click.option(
        "--schedule",
        type=click.Choice(get_args(Schedule)),
        default="cheap",
        help="In sequence for the prompt cache, in parallel, or as a batch.",
    )(command)


def resample_option(command: Fn) -> Fn:
    """`--no-cache`, as `resample`."""
    return click.option("--no-cache", "resample", is_flag=True, help="Ignore cached responses.")(
        command
    )


def estimate_option(command: Fn) -> Fn:
    """`--estimate`, as `only_estimate`."""
    return click.option(
        "--estimate", "only_estimate", is_flag=True, help="Estimate only; make no call."
    )(command)


def edit_of(store: Store, words: Sequence[str]) -> Edit | None:
    """The edit that these words name together: one prompt file, and edits in TOML files or by their
    names. None for no word; raises BadEdit for two prompts."""
    prompts = [each for each in words if not each.endswith(".toml") and Path(each).exists()]
    if len(prompts) > 1:
        raise BadEdit(
            "a run has one system prompt", "name one prompt file, and TOML files beside it"
        )
    from replay.store.edits import combined_edit

    others = tuple(each for each in words if each not in prompts)
    return combined_edit(store, Path(prompts[0]) if prompts else None, others)


class RunName(click.ParamType[str]):
    """A run by its id, its beginning, task/trial or `last`; a shell is offered those stored."""

    name = "run"
    offered = 50

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        del param
        encryption.ask_with(None)  # nobody types a key while a shell completes a word
        named = ctx.params.get("db") or ctx.find_root().params.get("db")
        try:
            with Store.open(database(named)) as store:
                begins = "substr(trace, 1, ?) = ?"
                found = trace_rows(store, begins, (len(incomplete), incomplete))[-self.offered :]
        except ArcError:
            return []
        return [CompletionItem(row.trace, help=one_line(row.title)) for row in reversed(found)]


RUN_NAME = RunName()


def db_option(command: Fn) -> Fn:
    """`--db` after the command's name too; the one before it is the default."""
    return click.option(
        "--db",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The database to use.",
    )(command)


def json_option(command: Fn) -> Fn:
    """`--json`: the view as JSON, its keys as documented."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def held_out_option(command: Fn) -> Fn:
    """`--include-held-out`: nobody looks at what is kept for a test by accident."""
    return click.option(
        "--include-held-out", "with_held_out", is_flag=True, help="Include runs of held-out tasks."
    )(command)


def print_held_out(given: HeldOutNote) -> None:
    """On stderr, how many runs of held-out tasks are hidden."""
    if given.runs and not given.shown:
        click.echo(f"{held_out_text(given)} (--include-held-out shows them)", err=True)


def database_path(db: Path | None) -> Path:
    """The database that was asked for, on this command or before it."""
    return database(db or click.get_current_context().find_root().obj)


def open_store(db: Path | None, *, before: bool = False) -> Store:
    """The store that was asked for, on this command or before it; `before` as of `Store.open`."""
    with copies_told():
        return open_ledger(database_path(db), before=before)


@contextmanager
def copies_told() -> Iterator[None]:
    """Say where an older database is copied to before it is changed."""
    telling = copied.set(_report_copy)
    try:
        yield
    finally:
        copied.reset(telling)


def _report_copy(path: Path) -> None:
    click.echo(f"an older database: copied to {path} before it was changed", err=True)


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
    with ExitStack() as undo:
        store = undo.enter_context(open_store(db))
        if not store.read_only:
            from taxonomy.calibration.class_gate import settle_gates

            settle_gates(store, now_ns())
        waiting = len(undiagnosed(store))
        if waiting and store.read_only:
            older = f"{count(waiting, 'trace')} not analysed, or by older rules"
            click.echo(f"{store.path}: read-only; {older}", err=True)
        elif waiting:
            click.echo(f"analysing {count(waiting, 'trace')} with the current rules", err=True)
            diagnose_new(store)
        undo.pop_all()
    return store


def diagnose_new(store: Store) -> None:
    """Let the rules look at what they have not seen, and say where they failed."""
    from arc_tui import importing

    for error in importing.run_to_end(importing.diagnose_new(store)):
        click.echo(f"arc: {one_line(error)}", err=True)


def drain_import(work: Iterator[Progress | ImportReport]) -> ImportReport:
    """Run an import to its end with a progress line on stderr where that is a terminal."""
    from arc_tui import importing

    with progress_bar() as advance:
        for event in work:
            if isinstance(event, importing.ImportReport):
                return event
            words = format.import_words(event.path, event.traces)
            advance(event.path if event.diagnoses else words, event.done, event.total)
    return importing.ImportReport()


def print_json(value: Any) -> None:
    """A value as indented JSON on stdout."""
    said = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.buffer.write(escape_controls(said).encode() + b"\n")
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


def print_view(value: V, as_json: bool, print_text: Callable[[Console, V], object]) -> None:
    """A value as JSON, or as text by a function that is given the console."""
    if as_json:
        print_json(value)
    else:
        print_text(console(), value)


def print_views(
    views: Collection[V], as_json: bool, print_text: Callable[[Console, V], object]
) -> None:
    """Values as a JSON list, or one after another as text, an empty line between them."""
    if as_json:
        print_json(list(views))
        return
    for place, view in enumerate(views):
        if place:
            click.echo()
        print_text(console(), view)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A line on stderr, where that is a terminal, that says what is done, how much of how much."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    out = console(err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda said, done, total: bar.update(
            task, description=said, completed=done, total=total
        )


def print_line(out: Console, words: str, style: str = "") -> None:
    """A line as it is, however wide: a terminal wraps it, a pipe gets all of it."""
    out.print(Text(words, style), soft_wrap=True)


def print_table(out: Console, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> None:
    """Rows under a dim head, each column as wide as its widest cell.

    On a terminal the widest columns are cut until a row fits the line, but no id, which is there to
    be copied; a pipe gets all of it.
    """
    texts = [list(columns), *([_plain(cell) for cell in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    if not out.is_terminal:  # no colour, nothing to cut: no need for Rich to lay it out
        for text in texts:
            line = _GAP.join(map(set_cell_size, text, widths)).rstrip()
            out.file.write(plain(line) + "\n")
        return
    ids = {at for at, name in enumerate(columns) if name == "id"}
    widths = fit_widths(widths, out.width - len(_GAP) * (len(widths) - 1), whole=ids)
    for row in [[Text(name, "dim") for name in columns], *rows]:
        shown_line = Text()
        for cell, width in zip(row, widths, strict=True):
            shown = cell.copy() if isinstance(cell, Text) else Text(cell)
            shown.truncate(width, overflow="ellipsis", pad=True)
            shown_line.append_text(shown).append(_GAP)
        shown_line.rstrip()
        out.print(shown_line, soft_wrap=True)


def limit_option(command: Fn) -> Fn:
    """`--limit`, as `limit`: rows of a list at most, 0 for all."""
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=ROWS,
        show_default=True,
        help="At most so many rows; 0: all.",
    )(command)


def limited(rows: Sequence[V], limit: int) -> Sequence[V]:
    """The first rows; says on stderr how many are not among them."""
    if not limit or len(rows) <= limit:
        return rows
    click.echo(f"{limit} of {format.number(len(rows))} shown. Try: --limit 0", err=True)
    return rows[:limit]


def print_list(out: Console, columns: Sequence[str], rows: Sequence[Sequence[Text | str]]) -> None:
    """Rows of a list: a table on a terminal, without empty columns; else TSV of the columns that
    have a heading."""
    if not out.is_terminal:
        for row in [columns, *rows]:
            cells = (cell for cell, heading in zip(row, columns, strict=True) if heading)
            out.file.write("\t".join(plain(_plain(cell)) for cell in cells) + "\n")
        return
    used = [
        at
        for at in range(len(columns))
        if any(_plain(row[at]) not in ("", format.UNKNOWN) for row in rows)
    ]
    print_table(out, [columns[at] for at in used], [[row[at] for at in used] for row in rows])


def print_tables(out: Console, found: Iterable[Table]) -> None:
    """Each under its title, its notes below it."""
    for table in found:
        out.print()
        out.print(Text(table.title, "bold"), soft_wrap=True)
        if table.rows:
            print_table(out, table.columns, [list(row) for row in table.rows])
        for note in table.notes:
            out.print(Text(format.one_line(note), "dim"), soft_wrap=True)


def fit_widths(widths: Sequence[int], room: int, whole: Collection[int] = ()) -> list[int]:
    """The widths, the widest made smaller until all fit the room: none under four, none at the
    places of `whole`."""
    cut = list(widths)
    places = [at for at in range(len(cut)) if at not in whole]
    while sum(cut) > room:
        widest = max(places, key=cut.__getitem__, default=None)
        if widest is None or cut[widest] <= _LEAST:
            break
        cut[widest] -= 1
    return cut


def _plain(cell: Text | str) -> str:
    return cell.plain if isinstance(cell, Text) else cell
