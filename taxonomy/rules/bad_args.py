"""Bad args: the right tool with arguments that do not parse, do not fit, or are refused.

A refusal that the next calls put right is how agents learn a tool, and no failure: only the last
refusal of a tool that was never again called with success is one, or the first of several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taxonomy.classes import FailureClass
from taxonomy.findings import Evidence, Finding
from taxonomy.reading import Act, Turn
from taxonomy.replies import Kind, cut
from taxonomy.rules.case import Case, answered, called

NAME = "bad args"

REFUSED = frozenset({Kind.ARGUMENTS, Kind.SYNTAX})
STUBBORN = 3
"""So many refused calls of one tool are a failure even where one got through in the end."""


def find(case: Case) -> Iterator[Finding]:
    """At most one finding a tool, at its first refused call, where the refusals decided."""
    if case.reading.passed:
        return
    by_tool: dict[str, list[tuple[Act, str]]] = {}
    for turn in case.reading.turns:
        for act in turn.acts:
            why = refusal(case, turn, act)
            if why is not None:
                by_tool.setdefault(act.name, []).append((act, why))
    for refused in by_tool.values():
        if len(refused) >= STUBBORN or not _put_right(case, refused[-1][0]):
            yield _finding(refused)


def refusal(case: Case, turn: Turn, act: Act) -> str | None:
    """Why a call's arguments are bad, None where they are not known to be."""
    if act.span.arguments is None and act.span.arguments_raw:
        return f"arguments of {act.name} do not parse"
    if act.reply.failed and act.reply.kind in REFUSED:
        return f"{act.name}: {act.reply.gist}"
    if act.reply.failed is False:  # what the tool took, it took: its schema is stricter than it
        return None
    misfits = case.schemas.misfits(turn, act)
    return f"{act.name}: {misfits[0].why}" if misfits else None


def _put_right(case: Case, last: Act) -> bool:
    """Did a later call of the tool work?"""
    return case.reading.last_worked.get(last.name, -1) > last.step


def _finding(refused: Sequence[tuple[Act, str]]) -> Finding:
    act, why = refused[0]
    times = f" · {len(refused)} times" if len(refused) > 1 else ""
    return Finding(
        failure=FailureClass.BAD_ARGS,
        step=act.step,
        span=act.span.id,
        why=f"{cut(why, 80)}{times}",
        rule=NAME,
        evidence=(called(act), answered(act) if act.reply.text else _unparsed(act)),
    )


def _unparsed(act: Act) -> Evidence:
    raw = act.span.arguments_raw or ""
    return Evidence(role="asked", text=cut(raw, 240), step=act.step, span=act.span.id)
