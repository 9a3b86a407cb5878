"""Hallucinated state: acts on an id, a file or an amount not found in context.

A value counts where it needs an origin and has none (`value_origins`); a reply that says "not
found" makes it stronger, one that was refused and then put right is no failure. So does a model
that acts in text and writes the observation itself, one that patches a file by lines that it never
read, and one that says what it never looked at (`unobserved`): it makes up its data, runs a program
with a placeholder, claims to have looked something up, answers without the look-up that it planned,
or states many facts from memory, before anything was shown. Where a run passed, the value was a
lucky guess: a warning, not a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from replay.effects import words_of
from taxonomy.classes import FailureClass
from taxonomy.evidence.claims import Claimed, claimed
from taxonomy.evidence.endings import closes
from taxonomy.evidence.reading import Act, Turn, called_and_answered, leaves, quote_turn
from taxonomy.evidence.results import Kind, cut
from taxonomy.evidence.unobserved import (
    FACTS,
    NAMES,
    NUMBERS,
    SeenTexts,
    find_invention,
    find_look_up,
    find_plan,
    first_observation,
    is_plan,
    placeholder,
)
from taxonomy.evidence.value_origins import Value
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext, statements

NAME = "hallucinated state"

FEWEST = 3
MADE_UP = 0.8
"""So many lines of a patch, and this share of them, must not be found in context."""

_CITED = 3
_ACTION = re.compile(r"^(?:action|code)\s*:", re.I | re.M)
_REPLY = re.compile(r"^(?:observation|tool (?:result|output|response))\s*:", re.I | re.M)
_PLAIN = {"id", "ids", "is", "the", "path", "file"}


def find(case: RuleContext) -> Iterator[Finding]:
    """A finding an argument of a tool, at its first value from nowhere; refused ones first."""
    if case.reading.passed:
        return
    named: dict[tuple[str, str], dict[str, Value]] = {}
    for values in case.grounding.values():
        for value in values:
            if value.origin is None and not _put_right(case, value):
                same = named.setdefault((value.act.name, value.path), {})
                same.setdefault(str(value.value), value)
    found = [list(same.values()) for same in named.values()]
    found.sort(key=lambda values: (not missed(values[0]), values[0].act.step))
    yield from (_finding(case, values) for values in found)
    yield from _invented(case)
    yield from _unread(case)
    yield from _says_unobserved(case)


def _put_right(case: RuleContext, value: Value) -> bool:
    """Was a value refused, and the tool later called with success, or a file only looked for in a
    known folder?"""
    if not value.act.reply.failed:
        return False
    looks = value.sort == "path" and _in_known_folder(case, value)
    return looks or case.reading.last_worked.get(value.act.name, -1) > value.act.step


def _in_known_folder(case: RuleContext, value: Value) -> bool:
    """Was a file's folder shown? What a run looks for in its first step stood in the system prompt,
    where that was not recorded."""
    folder = str(value.value).rpartition("/")[0]
    step = value.act.step
    if not folder or case.index.origin(step, folder) is not None:
        return bool(folder)
    return step == 0 and case.reading.turns[step].ask.request.system is None


def _invented(case: RuleContext) -> Iterator[Finding]:
    """The first turn that goes on after its own action and writes what came of it."""
    for turn in case.reading.turns:
        action = None if turn.observer or turn.acts else _ACTION.search(turn.said)
        reply = _REPLY.search(turn.said, action.end()) if action is not None else None
        if reply is not None:
            yield Finding(
                failure=FailureClass.HALLUCINATED_STATE,
                step=turn.index,
                span=turn.ask.id,
                why="fabricates a tool result",
                rule=NAME,
                evidence=(quote_turn(turn, turn.said[reply.start() :]),),
            )
            return


def _unread(case: RuleContext) -> Iterator[Finding]:
    """The first patch of lines that the run had not read, as far as all it read is known."""
    if not case.index.knows_task:
        return
    for turn in case.reading.turns:
        if case.index.cut_from is not None and case.index.cut_from <= turn.index:
            return
        patch = None if turn.observer else _patch(turn)
        made_up = case.index.unseen(turn.index, patch.lines) if patch is not None else []
        if patch and len(made_up) >= max(FEWEST, MADE_UP * len(patch.lines)):
            what = patch.path.rpartition("/")[2] or "a file"
            yield Finding(
                failure=FailureClass.HALLUCINATED_STATE,
                step=turn.index,
                span=turn.ask.id,
                why=f"patches {what} with {len(made_up)} lines not found in context",
                rule=NAME,
                evidence=tuple(quote_turn(turn, line) for line in made_up[:_CITED]),
            )
            return


def _says_unobserved(case: RuleContext) -> Iterator[Finding]:
    """The first turn that says what it never looked at. What opens a group chat is its prompt."""
    reading = case.reading
    turns = [turn for turn in reading.turns if not turn.observer]
    if len({turn.ask.agent for turn in turns}) > 1:
        turns = turns[1:]
    shown = first_observation(reading)
    told = SeenTexts(reading.trace.header.task or "")
    last = next((turn for turn in reversed(reading.main) if not turn.observer), None)
    planned = None
    others = (place for place, turn in enumerate(turns) if turn.thread != turns[-1].thread)
    alone = max(others, default=-1)
    for place, turn in enumerate(turns):
        told.add(each.text for each in (*turn.heard, *turn.overheard))
        found = _made_up(case, turn, told)
        if found is None and (shown is None or turn.index < shown) and case.index.knows_task:
            claim = find_look_up(turn, last=turn is last)
            hands_in = place > alone and any(map(closes, turn.acts))
            answers = turn is last or hands_in
            if claim is not None:
                found = "claims a look-up; nothing was looked up", [claim]
            elif planned is not None and answers and reading.has_tools:
                found = (
                    "answers without the look-up it planned",
                    [turn.said or turn.acts[-1].key, planned],
                )
            elif place:
                found = _from_memory(case, turn)
            planned = planned or find_plan(turn)
        if found is not None:
            why, words = found
            yield Finding(
                failure=FailureClass.HALLUCINATED_STATE,
                step=turn.index,
                span=turn.ask.id,
                why=why,
                rule=NAME,
                evidence=tuple(quote_turn(turn, each) for each in words),
            )
            return


def _made_up(case: RuleContext, turn: Turn, told: SeenTexts) -> tuple[str, list[str]] | None:
    """Data that a turn makes up: in its words, or in a program that it runs."""
    acts = case.reading.calls(turn)
    texts = [leaf for act in acts for _, leaf in leaves(act.span.arguments)]
    for text in (*statements(turn), *(text for text in texts if isinstance(text, str))):
        words = find_invention(text, told)
        if words is not None:
            return "makes up data instead of reading it", [words]
    used = next(filter(None, map(placeholder, acts)), None)
    return None if used is None else (f"runs a program with a placeholder: {cut(used, 40)}", [used])


def _from_memory(case: RuleContext, turn: Turn) -> tuple[str, list[str]] | None:
    """Many facts of a turn that nothing before it holds; a plan may guess at them."""
    facts = () if is_plan(turn) else case.new_facts.get(turn.index, ())
    numbers = sum(fact[0].isdecimal() for fact in facts)
    if len(facts) - numbers < NAMES or numbers < NUMBERS or len(facts) < FACTS:
        return None
    why = f"states {len(facts)} values not found in context; nothing was looked up"
    return why, [", ".join(facts)]


def _patch(turn: Turn) -> Claimed | None:
    """The longest patch that a turn writes, into its words or its calls."""
    texts = [leaf for act in turn.acts for _, leaf in leaves(act.span.arguments)]
    patches = (claimed(text) for text in (turn.said, *texts) if isinstance(text, str))
    return max(filter(None, patches), key=lambda patch: len(patch.lines), default=None)


def missed(value: Value) -> bool:
    """Did the call come back saying that there is no such thing?"""
    return value.act.reply.kind is Kind.MISSING


def phrase(value: Value) -> str:
    """`order 1099 not found in context`."""
    name = value.path.rpartition(".")[2]
    words = [word for word in words_of(name) if word not in _PLAIN]
    what = "path" if value.sort == "path" else words[-1] if words else value.sort
    return f"{what} {cut(str(value.value), 40)} not found in context"


def _finding(case: RuleContext, values: Sequence[Value]) -> Finding:
    first = values[0]
    more = f" · {len(values) - 1} more" if len(values) > 1 else ""
    return Finding(
        failure=FailureClass.HALLUCINATED_STATE,
        step=first.act.step,
        span=first.act.span.id,
        why=f"{phrase(first)}{more}",
        rule=NAME,
        evidence=(
            *(evidence for value in values[:_CITED] for evidence in called_and_answered(value.act)),
            *_derived(case, first.act),
        ),
    )


def _derived(case: RuleContext, act: Act) -> Iterator[Evidence]:
    """Other values of the call that may have been worked out of shown ones: no failure of it."""
    for value in case.grounding.get(act.step, ()):
        if value.act is act and value.origin is not None and value.origin.how == "derived":
            yield Evidence(
                role="derived?",
                text=f"{value.path} {value.value} = {value.origin.text}",
                step=value.origin.step,
                span=value.origin.span,
                place=value.origin.place,
            )


RULE = Rule(name=NAME, find=find, shown="answer", against="context", denies="grounded")
