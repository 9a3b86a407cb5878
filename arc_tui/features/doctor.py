"""`arc doctor`: is this machine fit for arc, and does a server behave as replay assumes?

Its checks and reports, printed, and as Markdown for a bug report and the docs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    database_path,
    db_option,
    examples,
    json_option,
    limits,
    live_options,
    print_json,
    print_line,
    print_table,
    require,
)
from arc_tui.experiments.models import targets_of, whole_names
from arc_tui.places import author
from arc_tui.ui import format
from arc_tui.views.monthly_review import NEXT, overdue_text
from arc_tui.views.runs import audit_text
from replay.budget import Budget, Limits
from replay.doctor.assumptions import AS_OF, ASSUMPTIONS, OPENAI_ASSUMPTIONS, Assumption
from replay.doctor.checks import (
    Check,
    Health,
    database_checks,
    machine_checks,
    model_checks,
    stop_check,
)
from replay.doctor.checkup import (
    DEFAULT_MODEL,
    Report,
    Result,
    checkup,
    expected,
    keep,
    kept,
    report,
)
from replay.doctor.context import CheckContext, ServerCheck
from replay.doctor.fire_drill import Drill, run_drill
from replay.doctor.openai_checks import OpenAICheck
from replay.doctor.probes import Found
from replay.errors import ArcError, ModelRefused, StoreUnusable
from replay.models import protocol
from replay.models.choose import DEMO
from replay.models.protocol import Target
from replay.models.servers import require_key
from replay.providers import ANTHROPIC, split_name
from replay.store.handle import Store, now_ns
from taxonomy.audit.probes import audit_version
from taxonomy.judgements.audits import audit_age
from taxonomy.judgements.schema import open_ledger
from taxonomy.monthly_review import last_draw
from taxonomy.query.failures import run_heads
from taxonomy.query.listing import held_out_note

_STYLES = {"ok": "green", "holds": "green", "warn": "yellow", "fail": "red", "fails": "red"}


@click.command(
    epilog=examples("arc doctor", "arc doctor --live --budget 0.50", "arc doctor --fire-drill")
)
@live_options
@click.option("--fire-drill", is_flag=True,
              help="Stop a recorded agent on this machine; say how long it took.")  # fmt: skip
@click.option("--markdown", "as_markdown", is_flag=True,
              help="Print the report as Markdown; without --live, the latest one.")  # fmt: skip
@json_option
@db_option
def doctor(
    as_markdown: bool, as_json: bool, fire_drill: bool, db: Path | None, **options: Any
) -> int:
    """Check database, terminal and models; with --live, the server behaviour that replay needs.

    --live sends about twenty small requests, to claude-haiku-5-5 unless --model names another,
    and saves the report. --fire-drill alone tries `arc stop` on an agent, a server and a database
    of its own. Exit code 0: nothing failed; 1: a check, an assumption or the drill failed.
    """
    path = database_path(db)
    if fire_drill:
        if as_markdown or options["live"]:
            raise click.UsageError("--fire-drill takes neither --live nor --markdown")
        return _drill(path, as_json=as_json)
    checks = () if as_markdown else tuple(_checks(path))
    made = _examined(path, options) if options["live"] else None
    view = DoctorView(checks=checks, report=made, saved=_saved(path))
    if as_json:
        print_json(view)
    elif as_markdown:
        click.echo(markdown(_chosen(view, options["model"])))
    else:
        _print(console(), view)
    return 1 if view.failed else 0


def _checks(path: Path) -> Iterator[Check]:
    yield from database_checks(path, open_ledger)
    yield stop_check(path)
    yield from _review_check(path)
    yield from _audit_check(path)
    yield from machine_checks()
    yield from model_checks()
    yield from terminal_checks(console())


def _review_check(path: Path) -> Iterator[Check]:
    """Where runs were ever drawn to be read by hand: is the next draw due?"""
    if not path.exists():
        return
    try:
        with open_ledger(path) as store:
            given = last_draw(store)
    except StoreUnusable:
        return
    if given is not None:
        days = given.overdue(now_ns())
        yield Check(
            area="database",
            name="monthly review",
            status="ok" if days is None else "warn",
            finding=f"drawn {given.day}" if days is None else overdue_text(days),
            advice="" if days is None else NEXT,
        )


def _audit_check(path: Path) -> Iterator[Check]:
    """Whether the agent was audited, and how long ago; nothing where there are no runs, or the
    database cannot be opened, which its check has said."""
    if not path.exists():
        return
    try:
        with open_ledger(path) as store:
            without = held_out_note(store).hidden
            traces = [head.trace for head in run_heads(store, without=without)]
            age = audit_age(store, traces, audit_version(), now_ns())
    except StoreUnusable:
        return
    if traces:
        yield Check(
            area="database",
            name="audit",
            status="warn" if age.is_stale else "ok",
            finding=audit_text(age),
            advice="Try: arc audit" if age.is_stale else "",
        )


def _saved(path: Path) -> tuple[Report, ...]:
    """The reports in the database; none where it cannot be opened, which its check has said."""
    if not path.exists():
        return ()
    try:
        with open_ledger(path) as store:
            return kept(store)
    except StoreUnusable:
        return ()


def _chosen(view: DoctorView, model: str | None) -> Report:
    """The report just made, else the last one, of that model where one is named."""
    known = [view.report] if view.report is not None else view.saved
    for each in known:
        if model is None or each.model in whole_names([model]):
            return each
    raise ArcError(
        f"no report of {model or 'any model'}",
        "Try: arc doctor --live --budget 0.05",
    )


def _drill(path: Path, *, as_json: bool) -> int:
    """Drill, say what came of it, and whether that is as it should be."""
    require("arc doctor --fire-drill", "aiohttp", "multidict", "truststore", "yarl")
    try:
        found = run_drill(path, author(), [sys.executable, "-m", "arc_tui"])
    except OSError as error:
        raise ArcError(
            f"no folder for the drill beside {path}: {error.strerror or error}"
        ) from error
    if as_json:
        print_json(found)
    else:
        out = console()
        for line in drill_lines(found):
            print_line(out, line, "red" if line.startswith("✗") else "")
    return 1 if found.failures else 0


def drill_lines(found: Drill) -> Iterator[str]:
    """What came of a fire drill, a fact a line."""
    if found.took_ns is not None:
        took, raised = format.duration(found.took_ns), format.duration(found.raised_ns)
        yield f"✓ stopped {took} after the order: {found.error} {raised} after the request"
        calls = format.count(found.refused, "request")
        yield f"  {calls} refused; {found.calls} calls answered, {found.calls_recorded} recorded"
        yield (
            f"  in flight at the order: {found.in_flight}; came whole to the agent:"
            f" {found.answered}, to the recording: {found.recorded}"
        )
        new = "refused" if found.new_run_refused else "not refused"
        yield f"  a new run was {new}; recording {'resumed' if found.resumed else 'not resumed'}"
    for failure in found.failures:
        yield f"✗ {_line(failure)}"


# --- live


def _examined(path: Path, options: dict[str, Any]) -> Report:
    """Check a server and keep the report, also of what was found before an interruption."""
    named = options["model"] or DEFAULT_MODEL
    if named == DEMO:
        raise ModelRefused("the demo model uses no server: nothing to check")
    (target,) = targets_of([named])
    if target.provider.wire == "messages" and target.provider is not ANTHROPIC:
        raise ModelRefused(
            f"no check-up of {target.provider.title}",
            "Try: arc replay RUN --model NAME --live --max-calls 1",
        )
    allowed = limits(options)
    if not allowed.any:
        raise ModelRefused(
            "--live needs a limit", f"Try: --budget 0.05, enough for {DEFAULT_MODEL}"
        )
    require_key(target)
    out = console(err=True)
    out.print(_estimate_text(target, allowed), style="dim", soft_wrap=True)
    with open_ledger(path) as store, _desk(store, target, Budget(allowed)) as context:
        about = context.about()
        found: list[Found] = []
        try:
            for each in checkup(context):
                found.append(each)
                out.print(Text(f"{OUTCOME_MARKS[each.outcome]} {each.check}", "dim"))
        finally:
            made = report(context, about, found)
            if made.tried:
                keep(store, made)
    return made


def _desk(store: Store, target: Target, budget: Budget) -> ServerCheck:
    if target.provider is ANTHROPIC:
        return CheckContext(store, target.name, budget, base_url=target.url)
    return OpenAICheck(store, target, budget)


def _estimate_text(target: Target, allowed: Limits) -> str:
    """What is about to be asked of a server, in one line."""
    plan = expected(target.model)
    price = "price unknown"
    if plan.usd is not None:
        price = f"about {format.usd(plan.usd)}, at most {format.usd(plan.most_usd)}"
    limit = "" if allowed.usd is None else f"; the limit is {format.usd(allowed.usd)}"
    return (
        f"{target.name} at {target.address}: about {plan.calls} requests,"
        f" {format.tokens(plan.input_tokens)} tokens in, {price}{limit}"
    )


# --- what is printed


def _print(out: Console, view: DoctorView) -> None:
    _print_checks(out, view.checks)
    if view.report is not None:
        out.print()
        _print_report(out, view.report)
    else:
        _print_saved(out, view.saved)


def _print_checks(out: Console, checks: tuple[Check, ...]) -> None:
    rows = [
        (_mark(HEALTH_MARKS[each.status], each.status), each.area, each.name, _line(each.finding))
        for each in checks
    ]
    print_table(out, ["", "area", "check", "finding"], rows)
    advised = [each for each in checks if each.advice]
    for each in advised:
        print_line(out, f"{each.area}, {each.name}: {_line(each.advice)}", "yellow")


def _print_report(out: Console, made: Report) -> None:
    for name, value in circumstances(made):
        print_line(out, f"{name}: {_line(value)}")
    rows = [
        (
            _mark(OUTCOME_MARKS[each.outcome], outcome(each)),
            each.id,
            outcome(each),
            _line(each.says),
        )
        for each in made.results
    ]
    out.print()
    print_table(out, ["", "check", "outcome", "assumption"], rows)
    out.print()
    for each in made.results:
        if each.outcome is not None:
            print_line(out, f"{each.id}: {_line(each.finding)}", "dim")
    for each in made.failed:
        failure = f"{each.id} does not hold: {_line(each.otherwise)}"
        print_line(out, failure, "yellow")
    print_line(out, summary(made), "bold")


def _print_saved(out: Console, reports: tuple[Report, ...]) -> None:
    out.print()
    if not reports:
        line = "No server checked yet. Try: arc doctor --live --budget 0.05"
        print_line(out, line, "dim")
    for each in reports:
        where = f"{each.model} at {_server(each)}"
        print_line(out, f"last checked {when(each)}: {where}: {summary(each)}")
        for result in each.failed:
            line = f"  {result.id} does not hold: {_line(result.otherwise)}"
            print_line(out, line, "yellow")


def _mark(mark: str, status: str) -> Text:
    return Text(mark, _STYLES.get(status, ""))


def _line(text: str) -> str:
    return format.one_line(text)


HEALTH_MARKS = {"ok": "✓", "warn": "!", "fail": "✗", "unknown": "?"}
OUTCOME_MARKS = {"holds": "✓", "fails": "✗", "unclear": "?", "not run": "–", None: "·"}

NOT_CHECKED = "not checked"


class DoctorView(Struct, frozen=True, eq=False, kw_only=True):
    """`checks` of this machine; `report` of the check-up just made, None without one.

    `kept` are the last reports of every server and model, the latest first.
    """

    checks: tuple[Check, ...]
    report: Report | None
    saved: tuple[Report, ...]

    @property
    def failed(self) -> bool:
        """Does something on this machine not work, or did an assumption just fail?"""
        broken = any(each.status == "fail" for each in self.checks)
        return broken or (self.report is not None and bool(self.report.failed))


EMPTY = DoctorView(checks=(), report=None, saved=())


def when(report: Report) -> str:
    """The day and minute a report was made."""
    made = datetime.fromtimestamp(report.checked_ns / 1e9, UTC)
    return f"{made:%Y-%m-%d %H:%M} UTC"


def outcome(result: Result) -> str:
    return result.outcome or NOT_CHECKED


def summary(report: Report) -> str:
    """How many assumptions hold, and how many do not or could not be told."""
    counts = {
        "hold": report.count("holds"),
        "fail": report.count("fails"),
        "unclear": report.count("unclear"),
        "not run": report.count("not run"),
        NOT_CHECKED: report.count(None),
    }
    return " · ".join(f"{word} {count}" for word, count in counts.items() if count)


def circumstances(report: Report) -> Iterator[tuple[str, str]]:
    """Where a report comes from, as (name, value)."""
    yield "date", when(report)
    yield "server", _server(report)
    yield "model", _model(report)
    if report.max_input_tokens is not None:
        yield "input limit", f"{format.number(report.max_input_tokens)} tokens"
    yield "client", f"{report.sdk}, API version {report.api}"
    yield "spent", f"at most {format.usd(report.most_usd)}"


def markdown(report: Report) -> str:
    """A report as Markdown, to be attached to a bug report."""
    lines = [f"- {name}: {value}" for name, value in circumstances(report)]
    rows = (
        (f"`{each.id}`", each.says, outcome(each), each.finding, _consequence(each))
        for each in report.results
    )
    head = ("check", "assumption", "outcome", "seen", "so")
    return "\n".join([*lines, f"- outcome: {summary(report)}", "", *_table(head, rows)])


def never_checked_openai() -> str:
    """The same of OpenAI's APIs."""
    return never_checked(OPENAI_ASSUMPTIONS)


def never_checked(assumptions: Iterable[Assumption] = ASSUMPTIONS) -> str:
    """What nobody has checked against the live API, as a sentence with its date and a table."""
    tried = "`arc doctor --live`"
    rows = (
        (each.says, each.otherwise, tried if each.untried is None else each.untried)
        for each in assumptions
    )
    intro = (
        f"As of {AS_OF} this was not tested on the live API: it follows the documentation and is"
        " tested against a strict local server."
    )
    head = ("assumed", "otherwise", "checked by")
    return "\n".join([intro, "", *_table(head, rows)])


def _server(report: Report) -> str:
    provider, _ = split_name(report.model)
    if report.server or provider is None:
        return protocol.address(report.server)
    return provider.title


def _model(report: Report) -> str:
    answered = report.answered_by
    other = f", response by {answered}" if answered not in {None, report.model} else ""
    known = f" ({report.lifecycle})" if report.lifecycle else ""
    return f"{report.model}{known}{other}"


def _consequence(result: Result) -> str:
    return result.otherwise if result.outcome == "fails" else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, tuple("---" for _ in head), *rows):
        yield f"| {' | '.join(format.one_line(cell).replace('|', chr(92) + '|') for cell in row)} |"


# --- what the terminal can show, as far as a program can tell without asking it

LEAST_COLUMNS, LEAST_ROWS = 80, 24
"""What the app is laid out for; it opens in less, and cuts."""

RULER = "✓ ◆ ▁▇ – 日本"
"""Marks the app uses, and two wide letters."""


def terminal_checks(out: Console) -> Iterator[Check]:
    """Size, colour, letters, and what stands between the app and the screen."""
    yield _output(out)
    if out.is_terminal:
        yield _size(out)
    yield _colour(out)
    yield from _letters(out)
    if os.environ.get("TMUX"):
        yield _tmux()


def _check(name: str, status: Health, finding: str, advice: str = "") -> Check:
    return Check(area="terminal", name=name, status=status, finding=finding, advice=advice)


def _output(out: Console) -> Check:
    term = os.environ.get("TERM") or "not set"
    if not out.is_terminal or not sys.stdin.isatty():
        found = f"input or output is not a terminal (TERM {term}); commands work, the app does not"
        return _check("terminal", "unknown", found)
    if term in {"dumb", "not set"} and os.name == "posix":
        return _check("terminal", "fail", f"TERM is {term}", "Try: export TERM=xterm-256color")
    return _check("terminal", "ok", f"TERM {term}")


def _size(out: Console) -> Check:
    columns, rows = out.size
    found = f"{columns} × {rows}"
    if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
        return _check("size", "warn", found, f"the app needs {LEAST_COLUMNS} × {LEAST_ROWS}")
    return _check("size", "ok", found)


def _colour(out: Console) -> Check:
    if "NO_COLOR" in os.environ:
        return _check("colour", "ok", "off (NO_COLOR); marks carry the same information")
    if not out.is_terminal:
        return _check("colour", "unknown", "unknown without a terminal")
    if out.color_system is None:
        return _check(
            "colour",
            "warn",
            "none; marks carry the same information",
            "Try: set TERM to the terminal's name",
        )
    found = {"standard": "16 colours", "256": "256 colours", "truecolor": "16 million colours"}
    return _check("colour", "ok", found.get(out.color_system, out.color_system))


def _letters(out: Console) -> Iterator[Check]:
    if not out.encoding.lower().startswith("utf"):
        advice = "Try: a UTF-8 locale, as in LANG=C.UTF-8"
        yield _check("letters", "fail", f"{out.encoding} cannot encode the app's marks", advice)
        return
    yield _check("letters", "ok", out.encoding)
    if out.is_terminal:
        dots = "·" * cell_len(RULER)
        found = f"|{RULER}| must be as wide as |{dots}|. Try: another font"
        yield _check("widths", "unknown", found)


def _tmux() -> Check:
    if not os.environ.get("TERM", "").startswith(("tmux", "screen")):
        advice = "Try: set -g default-terminal tmux-256color, in tmux.conf"
        return _check(
            "tmux", "warn", "TERM does not match tmux: some keys and colours are wrong", advice
        )
    return _check("tmux", "ok", "in between")
