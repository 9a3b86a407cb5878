"""Bad args: the right tool with arguments that do not parse, do not fit, or are refused.

A refusal that the next calls put right is how agents learn a tool, and no failure: only the last
refusal of a tool that was never again called with success is one, or the first of several; nor is
one where another tool then changed the same file. Where
the call is a program, the functions it calls are the tools: one that refuses its arguments counts
unless the program defines it itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from replay.effects import words_of
from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import WRITTEN, Act, Turn, called_and_answered, leaves, mutates
from taxonomy.evidence.results import Kind, cut
from taxonomy.findings import Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "bad args"

_MISUSED = re.compile(
    r"TypeError: (?:\w+\.)*(\w+)\(\) (?:got (?:an unexpected keyword argument|multiple values for)"
    r"|missing \d+ required|takes (?:no|\d+|from \d+))"
)
"""How Python says that a function was called wrongly."""

INTERPRETERS = {"python", "interpreter", "ipython", "jupyter", "repl", "code"}
"""Words of tools that run a program: an error of the program's own is not the call's."""

FILE = re.compile(r"(?:file_?)?(?:path|name)|file", re.I)
"""Names of arguments that say which file is meant."""

REFUSED = frozenset({Kind.ARGUMENTS, Kind.SYNTAX})
STUBBORN = 3
"""So many refused calls of one tool are a failure even where one got through in the end."""


def find(case: RuleContext) -> Iterator[Finding]:
    """At most one finding a tool, at its first refused call, where the refusals decided."""
    if case.reading.passed:
        return
    by_tool: dict[str, list[tuple[Act, str]]] = {}
    for turn in case.reading.turns:
        for act in case.reading.calls(turn):
            why = refusal(case, turn, act)
            if why is not None:
                by_tool.setdefault(misused(act) or act.name, []).append((act, why))
    for tool, refused in by_tool.items():
        if len(refused) >= STUBBORN or not _put_right(case, tool, refused[-1][0]):
            yield _finding(refused)


def refusal(case: RuleContext, turn: Turn, act: Act) -> str | None:
    """Why a call's arguments are bad, None where they are not known to be.

    Arguments that the source cut are held to no syntax and no schema, only to their refusal.
    """
    if act.span.arguments is None and act.span.arguments_raw and not act.cut:
        return f"{act.name}: arguments do not parse"
    function = misused(act)
    if function:
        return f"{function}: {act.reply.gist}"
    interprets = act.name == WRITTEN or bool(INTERPRETERS & set(words_of(act.name)))
    if act.reply.failed and act.reply.kind in REFUSED and not interprets:
        return f"{act.name}: {act.reply.gist}"
    if act.reply.failed is False:  # what the tool took, it took: its schema is stricter than it
        return None
    misfits = case.schemas.misfits(turn, act)
    return f"{act.name}: {misfits[0].why}" if misfits else None


def misused(act: Act) -> str:
    """The function that a program calls wrongly, "" where none is known or it is its own."""
    error = _MISUSED.search(act.reply.text) if act.reply.failed else None
    if error is None:
        return ""
    called = re.compile(rf"(?<!\w)(def +)?{error[1]}\(")
    found = [match for code in _programs(act) for match in called.finditer(code)]
    return error[1] if found and not any(match[1] for match in found) else ""


def _programs(act: Act) -> Iterator[str]:
    """The texts among a call's arguments, any of which may be a program."""
    yield from (value for _, value in leaves(act.span.arguments) if isinstance(value, str))


def _put_right(case: RuleContext, tool: str, last: Act) -> bool:
    """Did a later call of the tool work, one that names the same file, or a later program that
    calls the function?"""
    if tool == last.name and case.reading.last_worked.get(tool, -1) > last.step:
        return True
    later = (
        act for turn in case.reading.turns[last.step + 1 :] for act in case.reading.calls(turn)
    )
    sought = _files(last) if tool == last.name else {f"{tool}("}
    return any(
        act.reply.failed is False
        and (mutates(act.span) is not False or tool != last.name)
        and any(each in text for each in sought for text in _programs(act))
        for act in later
    )


def _files(act: Act) -> set[str]:
    """The files that a call names."""
    found = leaves(act.span.arguments)
    return {value for path, value in found if isinstance(value, str) and FILE.fullmatch(path)}


def _finding(refused: Sequence[tuple[Act, str]]) -> Finding:
    act, why = refused[0]
    times = f" · {len(refused)}×" if len(refused) > 1 else ""
    return Finding(
        failure=FailureClass.BAD_ARGS,
        step=act.step,
        span=act.span.id,
        why=f"{cut(why, 80)}{times}",
        rule=NAME,
        evidence=tuple(called_and_answered(act)),
    )


RULE = Rule(name=NAME, find=find, denies="fits")
