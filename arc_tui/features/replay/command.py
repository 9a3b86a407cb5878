"""`arc replay`: the model called again at every recorded step, with and without an edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from arc_tui.attachment import with_offer
from arc_tui.cli import (
    RUN_NAME,
    console,
    estimate_line,
    limits,
    print_json,
    refuse_unanswered,
    refuse_unfinished,
    resample_option,
    schedule_option,
    show_estimate,
    with_options,
)
from arc_tui.experiments.locked_view import ReplayView
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import progress_line, with_bar
from arc_tui.experiments.request import ReplayRequest, model_arm, views_of, with_own_names
from arc_tui.features.replay.run import estimate_cost, run_replay
from arc_tui.features.replay.text import csv_of, print_replay
from arc_tui.ui import format
from replay import kept
from replay.budget import Limits
from replay.bundle import BadBundle, write
from replay.compare.rules import rules_from
from replay.errors import ArcError
from replay.locked.row import LEVELS, Sampling
from replay.plan import cannot_replay
from replay.store.edits import combined_edit, edit_named
from replay.store.handle import Store
from replay.store.rows import trace_row
from taxonomy.query.failures import break_and_notice

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

F = TypeVar("F", bound=Callable[..., Any])


class Samples(click.ParamType[tuple[int, ...]]):
    """`auto`, or a number."""

    name = "samples"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if value == "auto":
            return LEVELS
        if not str(value).isdecimal() or not 1 <= int(value) <= 100:
            self.fail(f"{value!r} is neither a number from 1 to 100 nor auto", param, ctx)
        return (int(value),)


_OPTIONS = (
    click.argument("trace", type=RUN_NAME),
    click.option("--system", type=_FILE, help="A file with the system prompt to test."),
    click.option(
        "--edit",
        "changes",
        multiple=True,
        metavar="FILE|NAME",
        help="A TOML file with changes, or a stored edit by its name; repeatable.",
    ),
    click.option(
        "--arm",
        "arms",
        multiple=True,
        metavar="FILE|NAME",
        help="An edit of its own beside the same control: a prompt, a TOML file, or a stored"
        " edit; repeatable.",
    ),
    click.option(
        "--model",
        "models",
        multiple=True,
        metavar="[PROVIDER:]NAME",
        help="The model to call; default: the recorded one. Repeated, each is an arm of its own"
        " beside control on the recorded one.",
    ),
    click.option(
        "-k",
        "levels",
        type=Samples(),
        default="auto",
        metavar="N|auto",
        help="Samples per request; auto takes 3, then 8 and 20 where inconclusive.",
    ),
    schedule_option,
    resample_option,
    click.option(
        "--step",
        type=click.IntRange(min=0),
        help="With --expect: the step to test, else the break candidate. With --free: the step to"
        " continue from.",
    ),
    click.option(
        "--compare",
        "rules",
        multiple=True,
        metavar="PATH=RULE",
        help="How an argument is compared: `search.query=casefold`; repeatable.",
    ),
)


def replay_options(command: F) -> F:
    """What is replayed with which edit, how often and how it is compared; of `trace`, the run."""
    return with_options(*_OPTIONS)(command)


def replay_request(store: Store, trace: str, options: dict[str, Any]) -> ReplayRequest:
    """What `replay_options` and the live ones ask for. Raises BadEdit and NotFound."""
    edit = combined_edit(store, options["system"], options["changes"])
    models: tuple[str, ...] = options["models"]
    arms = [edit] if edit is not None else []
    arms += [edit_named(store, each) for each in options["arms"]]
    arms += [model_arm(each) for each in models if len(models) > 1]
    first, *others = with_own_names(arms) or (None,)
    return ReplayRequest(
        trace=trace,
        edit=first,
        others=tuple(each for each in others if each is not None),
        model=models[0] if len(models) == 1 else None,
        live=options["live"],
        limits=limits(options),
        sampling=Sampling(levels=options["levels"], schedule=options["schedule"]),
        resample=options["resample"],
        rules=rules_from(options["rules"]),
    )


def replay_locked(
    store: Store,
    request: ReplayRequest,
    *,
    as_json: bool,
    as_csv: bool,
    only_estimate: bool,
    show_rules: bool,
    exit_code: bool,
    bundle: Path | None,
) -> int:
    """Replay every recorded step and print.

    Exit code 0: finished; 2: unfinished, or a step was not answered. With `exit_code` 1: the edit
    changes an action.
    """
    if show_estimate(
        lambda: estimate_cost(store, request),
        estimate_line,
        only=only_estimate,
        live=request.live,
        as_json=as_json,
        batch=request.sampling.schedule == "batch",
    ):
        return 0
    try:
        view = drained(views_of(run_replay, store, request), request.limits)
    except ArcError as error:
        _, notice = break_and_notice(store, trace_row(store, request.trace).trace)
        if notice is not None:  # it is worth more than the refusal
            click.echo(f"arc: {format.one_line(notice)}", err=True)
        raise with_offer(store, request.trace, error) from None
    if bundle is not None and view.ended is None:
        bundled(store, view, bundle)
    if as_json:
        print_json(view)
    elif as_csv:
        click.echo(csv_of(view), nl=False)
    else:
        print_replay(console(), view, rules=show_rules)
    refuse_unfinished(view.ended)
    unanswered = sum(arm.unanswered for arm in view.arms)
    refuse_unanswered(wanted=unanswered > 0, answers=view.calls + view.cached)
    if not view.verdict.control.of:  # nothing was replayed
        cannot = cannot_replay([reason for row in view.rows for reason in row.reasons])
        if cannot is not None:
            raise with_offer(store, request.trace, cannot)
        return 2
    if exit_code and view.differs:
        return 1
    return 2 if unanswered else 0


def bundled(store: Store, view: ReplayView, file: Path) -> None:
    """Write a finished replay with all it rests on to a file."""
    digests = [arm.digest for arm in view.arms if arm.digest is not None]
    if len(digests) < len(view.arms):
        raise BadBundle(f"cannot write {file}: the replay is unfinished", "run it to its end")
    first, *arms = (kept.find(store, digest) for digest in digests)
    write(store, first, file, arms=arms)
    click.echo(f"wrote {file}. Try: arc bundle verify {file}", err=True)


def drained(views: Iterable[ReplayView], limits: Limits) -> ReplayView:
    """The last view of a replay, with a progress line on stderr where that is a terminal."""

    def line(view: ReplayView) -> str:
        return progress_line("Replaying step", view.done, view.total, spending_of(view), limits)

    *_, view = with_bar(views, line, console(err=True))
    return view
