"""Environment drift in sentences and figures: the same in command and screen."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.features.drift.view import A, B, DriftRow, DriftView
from arc_tui.ui import format
from arc_tui.ui.tables import counted, signed
from replay.locked.verdict import p_value
from taxonomy.environment.report import Passes, Probe


def sentence(view: DriftView) -> str:
    """What was found, first of all."""
    held = [row for row in view.rows if row.held]
    few = format.count(len(view.rows) - len(held), "difference")
    if held:
        said = f"The environments differ beyond chance: {format.count(len(held), 'difference')}"
        return (
            f"{said}, and {few} in too few runs to tell."
            if len(held) < len(view.rows)
            else f"{said}."
        )
    if view.rows:
        return f"Inconclusive: {few} between the environments, in too few runs to tell from chance."
    return "No difference between the environments, as far as they are recorded."


def sides(view: DriftView) -> Iterator[str]:
    """Which runs: `A  variant=v4 · 12 runs`."""
    queries = (view.request.first, view.request.second)
    for name, query, n in zip((A, B), queries, view.drift.runs, strict=True):
        yield f"{name}  {format.one_line(query) or 'all runs'} · {format.count(n, 'run')}"


HEAD = ("of", "change", A, B, "p")


def cells(row: DriftRow) -> tuple[str, str, str, str, str]:
    """A difference under `HEAD`."""
    p = p_value(row.p).removeprefix("p ").removeprefix("= ")
    return (
        row.what,
        row.change,
        _of(row.first),
        _of(row.second),
        p if row.held else f"{p} (few runs)",
    )


def _of(count: tuple[int, int]) -> str:
    return f"{count[0]}/{count[1]}"


RATES_HEAD = ("pass rate", A, B, "B − A")


def rates(view: DriftView) -> Iterator[tuple[str, str, str, str]]:
    """Pass rates under `RATES_HEAD`, of all runs and by environment."""
    drift = view.drift
    yield ("all runs", *_passes(drift.every))
    for name, found, runs in (
        ("equal environments", drift.equal, drift.in_equal),
        ("unequal environments", drift.unequal, drift.in_unequal),
    ):
        if any(runs):
            yield (name, *_passes(found))


def _passes(found: Passes) -> tuple[str, str, str]:
    change = format.UNKNOWN
    if found.change is not None:
        value, low, high = found.change
        change = f"{signed(value)} ({signed(low)} to {signed(high)})"
    return counted(found.first), counted(found.second), change


def notes(view: DriftView) -> Iterator[str]:
    """What else has to be known: how it was compared, environments, results."""
    drift = view.drift
    if not drift.found.by_task:
        yield (
            "Most runs have no task that the other group has: other inputs alone may change"
            " results. Each task counts once."
        )
    if drift.found.untold:
        items = format.count(drift.found.untold, "key or type", "keys or types")
        yield f"Not enough results to tell: {items} of results in one group only."
    if any(drift.in_equal) or any(drift.in_unequal):
        yield (
            "Equal environments, as far as recorded:"
            f" {drift.in_equal[0]} of {drift.runs[0]} runs of {A},"
            f" {drift.in_equal[1]} of {drift.runs[1]} of {B}."
        )
    if any(drift.unknown):
        yield (
            "Neither tools, models, versions nor pins recorded:"
            f" {drift.unknown[0]} of {drift.runs[0]} runs of {A},"
            f" {drift.unknown[1]} of {drift.runs[1]} of {B}."
        )


def probe_lines(view: DriftView) -> Iterator[str]:
    """What locked replays say of the model."""
    if not any(found.runs for found in view.drift.probes):
        yield (
            "Model drift unknown: no locked replay of these runs by their model yet."
            " Try: arc replay RUN --live --budget 1"
        )
        return
    for name, found in zip((A, B), view.drift.probes, strict=True):
        if found.runs:
            yield f"Model drift, {name}: {_probe(found)}"
        else:
            yield f"Model drift, {name}: unknown, no locked replay by its model yet."


def _probe(found: Probe) -> str:
    said = (
        "replayed unchanged, answers diverge from the recording in"
        f" {counted(found.diverge)} ({format.count(found.runs, 'run')})"
    )
    if found.noise.n:
        return f"{said}; noise floor: two answers to one request differ in {counted(found.noise)}."
    return f"{said}; noise floor unknown. Try: arc replay RUN -k 3"


UNSEEN = {
    "tools": "a tool added or removed",
    "definitions of tools": "a changed argument",
    "answering models": "another model behind the same name",
    "keys of results": "a changed field of a result",
    "versions": "another version of the agent, a package or an MCP server",
    "pins": "a changed index, snapshot or data set",
}
"""What would not be seen where a part of the environment is not recorded."""


def unseen_lines(view: DriftView) -> Iterator[str]:
    """What cannot be told, by what is not recorded."""
    recorded, runs = view.drift.recorded, view.drift.runs
    parts = [
        f"{part} ({known[0]} of {runs[0]} runs of {A}, {known[1]} of {runs[1]} of {B})"
        for part, known in recorded.items()
        if any(known) and known != runs
    ]
    if parts:
        yield f"Recorded in part: {', '.join(parts)}."
    never = [UNSEEN[part] for part, known in recorded.items() if not any(known)]
    if never:
        yield f"Cannot be told, because no run records it: {'; '.join(never)}."


def basis(view: DriftView) -> Iterator[str]:
    """How it is decided."""
    found = view.drift.found
    within = "within tasks" if found.by_task else "over tasks"
    yield (
        "Reported is what most runs of one group have and none of the other, with p at most"
        f" {found.level:.2g}: exact conditional test {within}, two-sided, so that the chance of any"
        f" false report is at most .05 (Tarone). {format.count(found.tested, 'item')} differed"
        " between runs."
    )
    yield "Intervals: Wilson at 95 %, corrected for tasks; of a difference, Newcombe."


def plain_text(view: DriftView) -> str:
    """All of it as plain text, a line a row with tabs."""
    rows = [HEAD, *map(cells, view.rows)] if view.rows else []
    figures = [RATES_HEAD, *rates(view)]
    lines = (
        sentence(view),
        *sides(view),
        *("\t".join(row) for row in rows),
        *("\t".join(row) for row in figures),
        *notes(view),
        *probe_lines(view),
        *unseen_lines(view),
        *basis(view),
    )
    return "\n".join(lines) + "\n"
