"""Wrong tool: a plausible call of an instrument that is not there, or not for this.

Four signs: a tool that was not offered, or that the runtime does not know; a function that a
program calls as a tool and nothing defines; a reply that names another tool to use, after which
this one is called again; a tool that kept failing on what another tool then did at once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import zip_longest

from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import Act, Turn, called_and_answered, leaves, mutates, unknown_tool
from taxonomy.evidence.results import Kind, cut
from taxonomy.findings import Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "wrong tool"

AT_ONCE = 6
TRIES = 2
"""Failures of one tool before another's success on the same value says it was the wrong one."""


def find(case: RuleContext) -> Iterator[Finding]:
    """At most one finding a tool, at its first wrong call; none where the run passed."""
    if case.reading.passed:
        return
    wrong: dict[str, tuple[Act, str]] = {}
    for act, after in zip_longest(case.reading.acts, case.reading.acts[1:]):
        gone = absent(case.reading.turns[act.step], act)
        why = gone if gone and not _corrected(case, act, after) else _sent_away(case, act)
        if why is not None:
            wrong.setdefault(act.name, (act, why))
    for name, act in _undefined_functions(case):
        wrong.setdefault(name, (act, f"called {name}, which is not defined"))
    for act, why in _outdone(case):
        wrong.setdefault(act.name, (act, why))
    yield from (_finding(act, why) for act, why in wrong.values())


def absent(turn: Turn, act: Act) -> str | None:
    """Why a called tool is none of those there are, None where it is or may be one."""
    if act.reply.failed and act.reply.kind is Kind.NO_TOOL:
        return f"called {act.name}, which does not exist"
    replied = act.reply.failed is False or act.span.observation is not None
    if act.name and (act.reply.failed or not replied) and unknown_tool(turn, act):
        return f"called {act.name}, which was not offered"
    return None


_UNDEFINED = re.compile(
    r"NameError: name '(\w+)' is not defined|Forbidden function evaluation: '(\w+)'"
)


def _undefined_functions(case: RuleContext) -> Iterator[tuple[str, Act]]:
    """(name, program) of each function that a program calls by itself, that nothing in it defines
    or imports, and that no later program called with success."""
    ran = [act for turn in case.reading.turns for act in case.reading.calls(turn)]
    for place, act in enumerate(ran):
        error = _UNDEFINED.search(act.reply.text) if act.reply.failed else None
        name = (error[1] or error[2]) if error is not None else ""
        if not name or not _calls(act, name) or _defines(act, name):
            continue
        if not any(later.reply.failed is False and _calls(later, name) for later in ran[place:]):
            yield name, act


def _calls(act: Act, name: str) -> bool:
    called = re.compile(rf"(?<![\w.]){name}\(")
    return any(
        called.search(text) for _, text in leaves(act.span.arguments) if isinstance(text, str)
    )


def _defines(act: Act, name: str) -> bool:
    made = re.compile(rf"\bdef {name}\b|\bimport (?:[\w, ]*\b)?{name}\b|^{name} *=", re.M)
    return any(made.search(text) for _, text in leaves(act.span.arguments) if isinstance(text, str))


def _corrected(case: RuleContext, act: Act, after: Act | None) -> bool:
    """Was the next call one of a tool there is, and this tool never called again?"""
    again = case.reading.last_called[act.name] > act.step
    return not again and after is not None and after.reply.kind is not Kind.NO_TOOL


def _sent_away(case: RuleContext, act: Act) -> str | None:
    """The reply names another tool, and this one was called again, but never worked."""
    never = act.name not in case.reading.last_worked
    again = case.reading.last_called[act.name] > act.step
    if act.reply.kind is not Kind.OTHER_TOOL or not never or not again:
        return None
    return f"{act.name}: {cut(act.reply.gist, 70)}"


def _outdone(case: RuleContext) -> Iterator[tuple[Act, str]]:
    """Tools that failed twice and never worked, where another of the kind then did it at once."""
    recent: deque[Act] = deque(maxlen=AT_ONCE)
    for act in case.reading.acts:
        if act.reply.failed:
            recent.append(act)
        elif act.reply.failed is False:
            tried: dict[str, list[Act]] = {}
            for failed in recent:
                if failed.name not in case.reading.last_worked and _same_errand(failed, act):
                    tried.setdefault(failed.name, []).append(failed)
            for name, acts in tried.items():
                if len(acts) >= TRIES:
                    yield acts[0], f"{name} failed {len(acts)}×; {act.name} then succeeded"


def _same_errand(failed: Act, worked: Act) -> bool:
    """Are most values of a failed call those of one that worked, and do both read or both write?"""
    wanted = _values(failed)
    shared = wanted & _values(worked)
    return (
        bool(wanted)
        and 2 * len(shared) > len(wanted)
        and mutates(failed.span) == mutates(worked.span)
    )


def _values(act: Act) -> set[str]:
    """The distinct values of a call's arguments."""
    return {str(value) for _, value in leaves(act.span.arguments) if value not in (None, "")}


def _finding(act: Act, why: str) -> Finding:
    return Finding(
        failure=FailureClass.WRONG_TOOL,
        step=act.step,
        span=act.span.id,
        why=why,
        rule=NAME,
        evidence=tuple(called_and_answered(act)),
    )


RULE = Rule(
    name=NAME,
    find=find,
    shown="answer",
    against="tools",
    denies="fits",
    advice="Call only tools that are offered.",
)
