"""Options of every command that may ask a server: `--live` and the limits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from arc_tui import format
from arc_tui.cli.common import print_json
from arc_tui.jobs.meeting import CannotTell
from replay.budget import Limits
from replay.errors import ModelRefused, OfflineMiss
from replay.locked.estimate import Estimate
from replay.models import server
from replay.models.cached import lacking
from replay.models.wire import require_key

E = TypeVar("E")
F = TypeVar("F", bound=Callable[..., Any])

MORE_THAN_NOTHING = click.FloatRange(min=0, min_open=True)

_OPTIONS = (
    click.option("--model", help="The model to ask; for a replay the trace's own by default."),
    click.option("--live", is_flag=True, help="Allow calls to a server; needs a limit."),
    click.option("--budget", type=MORE_THAN_NOTHING, help="Spend at most this many USD."),
    click.option("--max-calls", type=click.IntRange(min=1), help="Make at most this many calls."),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Use at most this many tokens."),
    click.option("--max-minutes", type=MORE_THAN_NOTHING, help="Take at most this long."),
)


def live_options(command: F) -> F:
    """`--model`, `--live` and the limits, as `model`, `live`, `budget`, `max_*`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def limits(options: dict[str, Any]) -> Limits:
    """The limits out of a command's options."""
    return Limits(
        usd=options["budget"],
        calls=options["max_calls"],
        tokens=options["max_tokens"],
        minutes=options["max_minutes"],
    )


def said_before(
    estimated: Callable[[], E],
    words: Callable[[E], str],
    *,
    only: bool,
    live: bool,
    as_json: bool,
) -> bool:
    """Say what would be asked before anything live is; is that all that was wanted (`only`)?

    Raises ModelRefused before it says anything where a server would be asked without a key.
    """
    if live and not only:
        refuse_keyless(estimated)
    if only and as_json:
        print_json(estimated())
    elif only or live:
        click.echo(words(estimated()), err=not only)
    return only


def refuse_keyless(look: Callable[[], object]) -> None:
    """Raises ModelRefused where there is no key, and `look`, which asks nobody, lacks an answer of
    a server: what is stored needs none."""
    try:
        require_key(server.base_url())
    except ModelRefused:
        with lacking() as names, suppress(OfflineMiss, CannotTell):
            look()
        if names:
            raise


def refuse_missing(missing: int, model: str | None) -> None:
    """Raises OfflineMiss where answers were not stored, once all that is known was shown."""
    if missing:
        raise OfflineMiss(
            f"{format.count(missing, 'answer')} of {model} not stored",
            "--live with a limit (--budget USD) asks for them",
        )


def refuse_unfinished(ended: str | None) -> None:
    """Raises ModelRefused where the model declined to go on, once all that is known was shown."""
    if ended is not None:
        raise ModelRefused(f"not finished: {ended}")


def refuse_unanswered(*, wanted: bool, answers: int) -> None:
    """Raises ModelRefused where answers were `wanted` and none came: each request was declined,
    and what was shown says why. That is no answer, and so no "no"."""
    if wanted and not answers:
        raise ModelRefused("no request was answered", "what is printed says why")


def foreseen(estimate: Estimate) -> str:
    """What is about to be asked of a server, in one line."""
    price = "price unknown" if estimate.usd is None else f"about {format.usd(estimate.usd)}"
    said = (
        f"{format.count(estimate.calls, 'live call')} at first, {estimate.stored} answered already;"
        f" {format.tokens(estimate.input_tokens)} tokens in, {price}"
    )
    if estimate.most_calls <= estimate.calls:
        return said
    most = "" if estimate.most_usd is None else f", {format.usd(estimate.most_usd)}"
    return f"{said}; at most {format.number(estimate.most_calls)} where samples disagree{most}"
