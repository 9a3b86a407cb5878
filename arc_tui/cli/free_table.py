"""Free runs as `arc replay --free` prints them: the sentence, a row a call, what is missing and how
to go on, what it rests on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table
from arc_tui.views.free.view import MARKS, FreeRow, FreeRuns, FreeView, Missed, did_words, got_words
from arc_tui.views.free.words import UNCHECKED
from replay.compare import VERSION
from replay.free.stub import to_toml

DID = 60
RESULT = 72
STUBS = "stubs.toml"
"""The file that the command to go on reads; any other name will do."""

_STYLES = {"same": "", "left": "yellow", "unclear": "magenta", "own": "cyan"}


def print_runs(out: Console, found: FreeRuns, *, go_on: Sequence[str]) -> None:
    """The runs, one after the other. `go_on` are the words of the command that makes them again,
    to which a file of stubs is added."""
    out.print(Text(format.plain(found.sentence), "bold"), soft_wrap=True)
    for alike in _alike(found.runs):
        if len(found.runs) > 1:
            numbers = ", ".join(str(run.sample + 1) for run in alike)
            words = f"\n{'run' if len(alike) == 1 else 'runs'} {numbers}: {alike[0].sentence}"
            out.print(Text(format.plain(words), "bold"), soft_wrap=True)
        _print_run(out, alike)
    missing = _missing(found.runs)
    if missing:
        _print_stubs(out, missing, go_on)
    if any(run.status == "stale" for run in found.runs):
        words = "or take what was recorded at another moment, marked as stale:"
        _print_command(out, words, [*go_on, "--allow-stale"])
    out.print()
    out.print(UNCHECKED, style="dim")


def _alike(runs: Sequence[FreeView]) -> list[list[FreeView]]:
    """Runs that did the same, were answered alike and ended alike, the largest group first."""
    groups: dict[tuple[object, ...], list[FreeView]] = {}
    for run in runs:
        said = tuple((row.mark, *map(str, _cells(row))) for row in run.rows)
        groups.setdefault((run.sentence, said), []).append(run)
    return sorted(groups.values(), key=len, reverse=True)


def _print_run(out: Console, alike: Sequence[FreeView]) -> None:
    """The first of runs that are alike; what it cost, of each."""
    run = alike[0]
    for notice in run.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    if run.rows:
        out.print()
        lines = [line for row in run.rows for line in _lines(row)]
        print_table(out, ["", "step", "did", "was answered", "recorded there"], lines)
    for missed in run.stop.missed if run.stop is not None else ():
        out.print()
        _print_nearest(out, missed)
    out.print()
    figures = dict.fromkeys(figure for each in alike for figure in _figures(each))
    for figure in figures:
        out.print(Text(format.plain(figure), "dim"), soft_wrap=True)


def _cells(row: FreeRow) -> list[str]:
    return [did_words(row), *(f"{each.phrase} {got_words(each)}" for each in row.got)]


def _lines(row: FreeRow) -> Iterator[list[Text | str]]:
    """A line a call; of an answer without calls, one."""
    mark = Text(MARKS[row.mark], _STYLES[row.mark])
    step = str(row.step) if row.step is not None else format.UNKNOWN
    recorded = "" if row.mark == "same" else _short(row.recorded)
    if not row.got:
        yield [mark, step, _short(did_words(row)), "", recorded]
    for place, got in enumerate(row.got):
        ends = (mark, step, recorded) if place == 0 else ("", "", "")
        yield [ends[0], ends[1], _short(got.phrase), got_words(got), ends[2]]


def _print_nearest(out: Console, missed: Missed) -> None:
    out.print(Text(f"nothing answers {format.one_line(missed.phrase)}: {missed.why}"))
    if not missed.near:
        out.print("the recording holds no call that was answered", style="dim")
        return
    out.print("nearest recorded calls", style="dim")
    for near in missed.near:
        differs = format.one_line(near.differs)
        result = format.cut(format.one_line(near.text), RESULT) or "an empty text"
        error = "an error: " if near.is_error else ""
        out.print(Text(f"  step {near.step}  {_short(near.phrase)}"), soft_wrap=True)
        out.print(Text(f"          {differs}", "dim"), soft_wrap=True)
        out.print(Text(f"          {error}{result}", "dim"), soft_wrap=True)


# --- how to go on


def _missing(runs: Sequence[FreeView]) -> list[Missed]:
    """The calls that stubs would answer, each once."""
    found: dict[str, Missed] = {}
    for run in runs:
        for each in run.stop.missed if run.stop is not None else ():
            if each.draft is not None:
                found.setdefault(to_toml([each.draft]), each)
    return list(found.values())


def _print_stubs(out: Console, missing: Sequence[Missed], go_on: Sequence[str]) -> None:
    """Stubs to paste, as a TOML file, and the command that uses it."""
    out.print()
    out.print(f"write what it would have got into {STUBS}, for example from here:", style="dim")
    for each in missing:
        if each.draft is None:
            continue
        out.print()
        out.print(Text(f"# {_origin(each)}", "yellow"), soft_wrap=True)
        out.print(Text(to_toml([each.draft]).rstrip("\n")), soft_wrap=True)
    _print_command(out, "then go on:", [*go_on, "--stub", STUBS])


def _origin(missed: Missed) -> str:
    if not missed.drafted_from:
        return "this tool was never answered in the recording: write what it would have said"
    return f"the result is that of {format.one_line(missed.drafted_from)}: make it true here"


def _print_command(out: Console, words: str, command: Sequence[str]) -> None:
    out.print()
    out.print(words, style="dim")
    out.print(Text(f"$ {shlex.join(command)}"), soft_wrap=True)


# --- what it rests on


def _figures(run: FreeView) -> Iterator[str]:
    if run.ranks:
        counts = ", ".join(f"{number} {rank}" for rank, number in run.ranks.items())
        yield f"answered by the tape: {counts}"
    yield from dict.fromkeys(f"lost on the way: {loss}" for row in run.rows for loss in row.losses)
    server = f" at {run.server}" if run.server else ""
    weakest = run.fidelity.value if run.fidelity is not None else format.UNKNOWN
    masked = f", {run.masked} masked" if run.masked else ""
    yield (
        f"model {run.model}{server} · fidelity at worst {weakest}{masked}"
        f" · {run.spent.asked} asked, {run.spent.kept} kept"
        f" · spent {format.usd(run.spent.usd, complete=run.spent.complete)}"
    )
    yield f"compared by rules v{VERSION}; at most {run.limit} answers"
    yield f"digest {run.digest}" if run.digest is not None else "not kept: no digest"


def _short(phrase: str) -> str:
    return format.cut(format.one_line(phrase), DID)
