"""Other, malformed calls: the run's calls came out garbled, so no prompt was ever put to the test.

A model served with the wrong template, a parser that drops arguments, tokens of the serving layer
in the text: calls are empty, a lone brace, a no-op, or the same stray sign opens argument after
argument. Where that is so from the start and for much of the run, the environment is at fault, and
no edit of a prompt can answer it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from replay.effects import PROGRAM_KEYS
from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.reading import Act, Turn, called, leaves
from taxonomy.evidence.results import Kind, cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "malformed calls"

SHARE = 0.4
"""Of all calls that must be malformed, in the first half of the run as in the whole."""

FEWEST = 2
_READ = 500

_LEAKED = re.compile(
    r"<[|｜]\w[\w▁ ]*[|｜]>|<tool_call>|</?function(?:_calls?|=\w+)?>|\[TOOL_CALLS\]|function<[|｜]"
    r"|<\|?(?:im_start|im_end|python_tag|tool▁\w+)\|?>"
)
"""Marks of the serving layer that a parsed message must not hold."""

_SIGNS = " \t\r\n:;,.{}()[]\"'`\\|&<>/-"
_NOTHING = {"", "none", "null", "undefined"}
_STRAY = re.compile(r"\s*[:;,}\])]\s*\S|.*[{}:]\s*(?:true|false|null|\d+)\}", re.S)
_STRAY_START = re.compile(r"\s*(?:[:,]\s|\}(?!\}))")
_OPENS = re.compile(r"\s*([>:;,|)}\]=])")
"""A sign that a value of any sort hardly begins with."""

SORTS = 2
"""Arguments of so many names must open with one sign: in one argument it may be its syntax."""


def find(case: RuleContext) -> Iterator[Finding]:
    """One finding, at the first malformed call of a run that is full of them."""
    if case.reading.passed:
        return
    turns = [turn for turn in case.reading.turns if not turn.observer]
    acts = [act for turn in turns for act in turn.acts]
    bad = garbled(acts)
    if bad:
        yield _finding(bad, len(acts))
    elif not acts:
        yield from _leaks(turns)


def garbled(acts: Sequence[Act]) -> list[Act]:
    """The malformed calls of a run full of them from the start, none of any other."""
    prefixed = _prefixed(acts)
    bad = [act for act in acts if malformed(act) or act.span.id in prefixed]
    half = {act.span.id for act in acts[: (len(acts) + 1) // 2]}
    early = sum(act.span.id in half for act in bad)
    many = len(bad) >= max(FEWEST, SHARE * len(acts)) and early >= SHARE * len(half)
    return bad if many else []


def _prefixed(acts: Sequence[Act]) -> set[str]:
    """The calls in which an argument opens with the stray sign that opens most of the run's."""
    opened: dict[str, dict[str, set[str]]] = {}
    for act in acts:
        for path, value in leaves(act.span.arguments):
            sign = _OPENS.match(value) if isinstance(value, str) and not act.cut else None
            if sign is not None:
                opened.setdefault(sign[1], {}).setdefault(path, set()).add(act.span.id)
    found: set[str] = set()
    for by_path in opened.values():
        calls = set().union(*by_path.values())
        if len(by_path) >= SORTS and len(calls) >= max(FEWEST + 1, SHARE * len(acts)):
            found |= calls
    return found


def malformed(act: Act) -> bool:
    """Is a call empty of sense: unparsed, without a name, or a stub where its value belongs?"""
    if act.cut:
        return False
    if not act.name or (act.span.arguments is None and act.span.arguments_raw):
        return True
    texts = ((path, value) for path, value in leaves(act.span.arguments) if isinstance(value, str))
    path, value = next(texts, ("", ""))
    if not path:
        return False
    if value.strip(_SIGNS).lower() in _NOTHING or _STRAY_START.match(value):
        return True
    syntax = path in PROGRAM_KEYS and act.reply.kind is Kind.SYNTAX
    return syntax and bool(_STRAY.match(value[:_READ]))


def _finding(bad: Sequence[Act], total: int) -> Finding:
    return Finding(
        failure=FailureClass.OTHER,
        sub=NAME,
        attribution=Attribution.ENVIRONMENT,
        step=bad[0].step,
        span=bad[0].span.id,
        why=f"{len(bad)} of {total} calls are empty or garbled",
        rule=NAME,
        evidence=tuple(called(act) for act in bad[:3]),
    )


def _leaks(turns: Sequence[Turn]) -> Iterator[Finding]:
    """A run without a call whose text holds what looks like one: nobody parsed it."""
    for turn in turns:
        match = _LEAKED.search(turn.said)
        if match is not None:
            quote = turn.said[match.start() : match.start() + 120]
            yield Finding(
                failure=FailureClass.OTHER,
                sub=NAME,
                attribution=Attribution.ENVIRONMENT,
                step=turn.index,
                span=turn.ask.id,
                why=f"unparsed tool call in the text: {cut(quote, 40)}",
                rule=NAME,
                evidence=(
                    Evidence(role="says", text=cut(quote), step=turn.index, span=turn.ask.id),
                ),
            )
            return


RULE = Rule(name=NAME, find=find, shown="answer", denies="fits", counts_as=FailureClass.BAD_ARGS)
