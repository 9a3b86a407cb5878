"""`arc replay --expect`: met or not, in the exit codes that `git bisect run` reads."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import click
from click.exceptions import Exit
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    FiniteRange,
    console,
    estimate_line,
    print_json,
    print_table,
    refuse_keyless,
    show_estimate,
    with_options,
)
from arc_tui.experiments.expectation import JUDGE
from arc_tui.experiments.models import ModelPool, spending_of
from arc_tui.experiments.progress import spending_line, with_status
from arc_tui.features.replay.expectation import (
    AnswerRow,
    ExpectView,
    Question,
    estimate_cost,
    evaluate_expectation,
)
from arc_tui.ui import format
from replay.errors import ArcError, CannotTell, Stopped
from replay.store.handle import Store

F = TypeVar("F", bound=Callable[..., Any])

NO_ESTIMATE = "--estimate needs a locked replay: the calls of a free run are unknown beforehand"

MET, NOT_MET, CANNOT_TELL, USER_ERROR, BUG = 0, 1, 125, 128, 129
"""`git bisect run` takes 125 as "skip this revision" and stops at anything above 127."""

_OPTIONS = (
    click.option(
        "--expect",
        metavar="E",
        help="Test only whether this is met: 'tool=get_order', rule, gold, judge; for git bisect.",
    ),
    click.option(
        "--share",
        type=FiniteRange(0, 1, min_open=True, max_open=True),
        metavar="S",
        help="Met where more than this share of the samples meet it; else a half.",
    ),
    click.option("--judge", metavar="NAME", help="The judge model with --expect judge."),
)


def expect_options(command: F) -> F:
    """`--expect` and what goes with it alone, as `expect`, `share` and `judge`."""
    return with_options(*_OPTIONS)(command)


def refuse_expect_options(options: dict[str, Any]) -> None:
    """Raises UsageError for an option that needs `--expect` where that is not given."""
    for name in ("share", "judge"):
        if options[name] is not None:
            raise click.UsageError(f"--{name} needs --expect")


class ForBisect(click.Command):
    """A command that with `--expect` ends in the codes of `git bisect run`, whatever goes wrong."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if not any(each.partition("=")[0] == "--expect" for each in args):
            return super().make_context(info_name, args, parent, **extra)
        with _Codes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.params.get("expect") is None:
            return super().invoke(ctx)
        with _Codes():
            return super().invoke(ctx)


class _Codes:
    """Turns what goes wrong inside into a sentence and a code: the last resort under `--expect`.

    Being interrupted stays what it is.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        match error:
            case Stopped() | Exit() | click.Abort():
                return
            case CannotTell():
                raise Exit(_report(error.message, error.hint, CANNOT_TELL))
            case ArcError():
                raise Exit(_report(error.message, error.hint, USER_ERROR))
            case click.BadParameter(param=click.Parameter(type=click.Path())):
                raise Exit(_report(error.format_message(), "", CANNOT_TELL))
            case click.ClickException():
                raise Exit(_report(error.format_message(), "", USER_ERROR))
            case Exception():
                traceback.print_exception(error)
                raise Exit(BUG)
            case _:
                return


def _report(message: str, hint: str, code: int) -> int:
    click.echo(f"arc: {format.one_line(message)}", err=True)
    if hint:
        click.echo(f"     {format.one_line(hint)}", err=True)
    return code


def there(files: Sequence[str]) -> None:
    """Raises CannotTell for a file of changes that is not there: the revision has none."""
    for each in files:
        if each.endswith(".toml") and not Path(each).exists():
            raise CannotTell(f"file not found: {each}")


def run_expect(store: Store, question: Question, *, as_json: bool, only_estimate: bool) -> int:
    """Test it, print, and return the code."""
    if only_estimate and question.free is not None:
        raise click.UsageError(NO_ESTIMATE)
    if question.request.live and question.free is not None:
        refuse_keyless(lambda: list(evaluate_expectation(store, question, ModelPool(store))))
    judged = "; includes one judge call per new response"
    counted = judged if question.expect == JUDGE else ""
    if show_estimate(
        lambda: estimate_cost(store, question),
        lambda found: f"{estimate_line(found)}{counted}",
        only=only_estimate,
        live=question.request.live and question.free is None,
        as_json=as_json,
    ):
        return MET
    with question.request.model_pool(store) as models:
        view = _last(evaluate_expectation(store, question, models))
    if as_json:
        print_json(view)
    else:
        _print(console(), view)
    return {True: MET, False: NOT_MET, None: CANNOT_TELL}[view.met]


def _last(views: Iterator[ExpectView]) -> ExpectView:
    *_, view = with_status(views, lambda view: f"Replaying · {view.sentence}", console(err=True))
    return view


def _print(out: Console, view: ExpectView) -> None:
    out.print(Text(format.one_line(view.sentence), "bold"), soft_wrap=True)
    for reason in view.reasons:
        out.print(Text(f"not judged: {format.one_line(reason)}", "yellow"), soft_wrap=True)
    out.print()
    print_table(out, ["", "times", "did"], [_cells(row) for row in view.answers])
    out.print()
    where = "whole runs" if view.free else f"step {view.step}"
    edit = format.one_line(view.edit) if view.edit is not None else "no edit"
    server = f" at {view.server}" if view.server else ""
    out.print(
        Text(
            f"{where} · bad: {format.one_line(view.detector)} · {edit} · model {view.model}{server}"
            f" · met above {view.bound:g}"
            f" · {format.fidelity(view.fidelity, view.fidelity_reasons)}"
            f" · {spending_line(spending_of(view))}",
            "dim",
        ),
        soft_wrap=True,
    )


def _cells(row: AnswerRow) -> list[Text | str]:
    mark = {True: Text("✓", "green"), False: Text("✗", "red"), None: Text("?", "dim")}[row.met]
    return [mark, f"×{row.times}", format.cut(format.one_line(row.did), 100)]
