"""What `exploits.toml` declares beside what runs show: found, read, and in tables."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from arc_tui.importing import Progress
from arc_tui.ui import format
from arc_tui.ui.tables import Table, counted
from replay.store.handle import Store
from taxonomy.audit.declared import ExploitRate, audit_declared
from taxonomy.audit.exploits import NAME, read_exploits
from taxonomy.audit.feedback import FeedbackLoop, FeedbackRate, ScoredAttempt, feedback_rate
from taxonomy.findings import AuditFinding
from taxonomy.query.failures import RunHead


class DeclaredView(Struct, frozen=True, eq=False, kw_only=True):
    """What was found of what a file declares. `is_scored`: does it declare a shown score?

    `findings` are of one run each, by trace. `feedback` is over all `loops`.
    """

    file: str
    exploits: tuple[ExploitRate, ...]
    loops: tuple[FeedbackLoop, ...]
    feedback: FeedbackRate
    is_scored: bool
    findings: tuple[tuple[str, AuditFinding], ...]


def exploits_file(store: Store, given: Path | None = None) -> Path | None:
    """The file that was named, else the one beside the database, None where there is none."""
    if given is not None or store.path is None:
        return given
    beside = store.path.parent / NAME
    return beside if beside.is_file() else None


def find_declared(
    store: Store, heads: Sequence[RunHead], file: Path
) -> Generator[Progress, None, DeclaredView]:
    """Hold runs against a file. Raises BadExploits, and BadQuery where a query cannot be read."""
    exploits = read_exploits(file)
    seen = audit_declared(store, heads, exploits)
    while True:
        try:
            done = next(seen)
        except StopIteration as ended:
            found = ended.value
            break
        yield Progress(done=done, total=len(heads), path=NAME, traces=done)
    return DeclaredView(
        file=file.name,
        exploits=found.exploits,
        loops=found.loops,
        feedback=feedback_rate(found.loops),
        is_scored=bool(exploits.shown_score),
        findings=found.findings,
    )


# --- in words


def declared_tables(view: DeclaredView) -> Iterator[Table]:
    """A row an exploit and a row each of its tasks; a row a feedback loop."""
    if view.exploits:
        yield Table(
            title=f"exploits declared in {format.one_line(view.file)}",
            columns=("exploit", "task", "gamed", "stopped"),
            rows=tuple(map(_exploit_cells, view.exploits)),
            notes=(STOPPED,),
        )
    if view.loops:
        yield Table(
            title="feedback loops: attempts at one task by the same models",
            columns=(
                "task", "attempts", "shown score", "held-out score", "shared", "shown only",
                "cannot be told",
            ),
            rows=tuple(map(_loop_cells, view.loops)),
            notes=tuple(_loop_notes(view)),
        )  # fmt: skip


STOPPED = "stopped: tried, and refused or undone before the end; not counted as gamed."
COARSE = (
    "A held-out score of pass or fail shows no progress in between: 'shown only' may be progress"
    " that was not yet enough to pass."
)
NO_LOOP = (
    "no feedback loop: no task has two attempts by the same models in a known order. Try: runs with"
    " a task, and a trial or a start"
)


def declared_lines(view: DeclaredView) -> Iterator[str]:
    """What has no table."""
    if not view.exploits and not view.is_scored:
        yield f"{format.one_line(view.file)}: no run is of what it declares"
    if view.is_scored and not view.loops:
        yield NO_LOOP


def declared_sentences(view: DeclaredView) -> Iterator[str]:
    """The same where there is no room for tables: a line an exploit, and one of all loops."""
    firsts = {each.exploit: each for each in reversed(view.exploits)}
    for name in dict.fromkeys(each.exploit for each in view.exploits):
        each = firsts[name]
        stopped = f", {each.stopped} stopped" if each.stopped else ""
        said = f"{counted(each.gamed)}{stopped}"
        yield f"declared exploit: {format.one_line(name)}: gamed {said}"
    if view.loops:
        yield from _loop_notes(view)
    yield from declared_lines(view)


def _exploit_cells(found: ExploitRate) -> tuple[str, ...]:
    task = "all" if found.task is None else format.one_line(found.task) or format.UNKNOWN
    return format.one_line(found.exploit), task, counted(found.gamed), str(found.stopped)


def _loop_cells(loop: FeedbackLoop) -> tuple[str, ...]:
    first, last = loop.attempts[0], loop.attempts[-1]
    return (
        format.one_line(loop.task),
        str(len(loop.attempts)),
        f"{_attempt_text(first)} → {_attempt_text(last)}",
        f"{_held_out(first)} → {_held_out(last)}",
        str(loop.count("shared")),
        str(loop.count("shown only")),
        str(loop.count("cannot be told")),
    )


def _attempt_text(attempt: ScoredAttempt) -> str:
    return format.one_line(attempt.shown_text) or format.UNKNOWN


def _held_out(attempt: ScoredAttempt) -> str:
    held = attempt.held_out
    return format.UNKNOWN if held is None else format.one_line(held.phrase)


def _loop_notes(view: DeclaredView) -> Iterator[str]:
    rate = view.feedback
    told = f"only the shown score rose in {counted(rate.shown_only)} of the rises that can be told"
    untold = f"; {format.count(rate.untold, 'rise')} cannot be told" if rate.untold else ""
    yield f"{told}{untold}. Rises of one task are alike: the interval minds that."
    if rate.is_coarse:
        yield COARSE
