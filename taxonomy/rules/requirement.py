"""Other, instruction broken: a run does not do what its task or its prompt flatly requires.

A requirement counts where it names what can be looked for: how many calls may be made, in a step or
for one request; the only tools that may be used; the tool that hands in the answer; the form of the
answer, JSON or one of a few words. What stands under a condition ("if", "unless", "except") and a
question are left to judgement. What is forbidden is for `instruction_broken` to say.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from replay.effects import words_of
from taxonomy.classes import FailureClass
from taxonomy.evidence.endings import closes, ending
from taxonomy.evidence.final_answer import final_answer
from taxonomy.evidence.instructions import Instruction, instructions
from taxonomy.evidence.reading import Act, Turn, called, quote_turn
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "requirement not met"
BROKEN = "instruction broken"

_CONDITION = re.compile(
    r"\b(?:if|unless|when|whenever|until|except|otherwise|while|where|for example|e\.g|prefer\w*"
    r"|usually|try|should you|as needed|optional\w*|about|around|roughly)\b",
    re.I,
)
_PARTS = re.compile(r"(; |, and )")
_COUNTS = {
    word: count
    for count, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
}
_COUNT = rf"(?:\d{{1,3}}|{'|'.join(_COUNTS)})"
_A_STEP = (
    r"(?:at a time|at once|(?:per|in (?:each|every|a|one)) (?:response|turn|message|step|reply))"
)
_IN_A_STEP = re.compile(
    r"\b(?:only|exactly|at most|no more than|just)\b(?: [a-z]+)? (?:one|1|a single)"
    rf" (?:tool|function)[ -]calls?(?:/function call)?,? {_A_STEP}",
    re.I,
)
_IN_ALL = re.compile(
    rf"\b(?:at most|no more than|not more than|a maximum of|maximum) (?P<count>{_COUNT})"
    r" (?:times )?(?P<what>`?[\w.-]+`? )?(?:(?:tool|function|api|web) )?"
    r"(?P<kind>calls?|search(?:es)?|quer(?:y|ies)|invocations?)\b"
    rf"(?! {_A_STEP}| (?:per|for each|each|in a row|before|without)\b)",
    re.I,
)
_ONLY = re.compile(
    r"(?:^|\b(?:you (?:may|must|can|should)|please) )(?:only use|use only|use nothing but)"
    r" (?:the )?(?P<what>[`'\"]?[\w.-]+[`'\"]?(?:(?:, | and | or |, and )[`'\"]?[\w.-]+[`'\"]?)*)"
    r"(?: tools?| functions?)\b",
    re.I,
)
_HAND_IN = re.compile(
    r"\b(?:always|must|only)\b[^.;]{0,30}\b(?:use|call|answer (?:with|by)|respond (?:with|by))"
    r"[^.;]{0,20}[`'\"](?P<tool>[\w.-]+)[`'\"][^.;]{0,50}"
    r"\bfinal (?:answer|response|result)\b",
    re.I,
)
_JSON = re.compile(
    r"(?:^|\b(?:please|always|must|only|then|and) )"
    r"(?:answer|respond|reply"
    r"|(?:return|output|provide|give)[^.;]{0,30}(?:answer|results?|response))"
    r"(?: only| just| always| strictly)* (?:in|as|with)"
    r" (?:a |an |only |just |valid |single |pure )*json\b(?! (?:file|blob|snippet)s?\b)"
    r"|\b(?:the|your)(?: final)? (?:answer|response|reply|output)"
    r" (?:must|should|has to|needs to) be (?:in |a |an |only |valid |single )*json\b",
    re.I,
)
_WORDS = re.compile(
    r"\b(?:only (?:respond|answer|reply) with(?: exactly)?"
    r"|(?:respond|answer|reply) (?:only )?with (?:only|exactly|just)|answer only)"
    r" (?P<words>[\"“][^\"”]{1,20}[\"”](?:(?:, or|,| or|/) ?[\"“][^\"”]{1,20}[\"”])+)",
    re.I,
)
_QUOTED = re.compile(r"[\"“]([^\"”]{1,20})[\"”]")
_HINTS = re.compile(r"calls?\b|only|json|final|search|quer|invocation", re.I)


def find(case: RuleContext) -> Iterator[Finding]:
    """One finding a requirement, at the first step that breaks it."""
    for told in requirements(case):
        for turn, act, why in _broken(case, _flat(told.sentence), told.step):
            yield Finding(
                failure=FailureClass.OTHER,
                sub=BROKEN,
                step=turn.index,
                span=act.span.id if act else turn.ask.id,
                why=f"{why}; told “{cut(told.sentence, 60)}”",
                rule=NAME,
                evidence=(
                    called(act) if act else quote_turn(turn, turn.said or turn.acts[-1].key),
                    Evidence(role="stated", text=cut(told.sentence, 240), place=told.place),
                ),
            )
            break


def requirements(case: RuleContext) -> Iterator[Instruction]:
    """What is required and can be looked for in this run, each sentence once."""
    for told in dict.fromkeys(instructions(case.reading)):
        if not _HINTS.search(told.sentence) or told.sentence.endswith("?"):
            continue
        said = _flat(told.sentence)
        if (
            _IN_A_STEP.search(said)
            or _IN_ALL.search(said)
            or _only_tools(case, said)
            or (_asked_form(case, said) and _given_answer(case, told.step))
        ):
            yield told


def _flat(sentence: str) -> str:
    """A sentence up to the first part that has a condition."""
    kept = itertools.takewhile(lambda part: not _CONDITION.search(part), _PARTS.split(sentence))
    return "".join(kept)


def _broken(case: RuleContext, said: str, since: int) -> Iterator[tuple[Turn, Act | None, str]]:
    """How a sentence was broken, each way at its first step."""
    turns = case.reading.turns
    if _IN_A_STEP.search(said):
        several = next((turn for turn in turns[since:] if len(turn.acts) > 1), None)
        if several is not None:
            yield several, several.acts[1], f"{len(several.acts)} calls in one step"
    in_all = _IN_ALL.search(said)
    if in_all is not None:
        most = _COUNTS.get(in_all["count"].lower()) or int(in_all["count"])
        for some in _by_request(case, since):
            counted = [act for act in some if _is_of(act, in_all)]
            if len(counted) > most:
                last = counted[most]
                yield turns[last.step], last, f"{len(counted)} calls of at most {most}"
    named = _only_tools(case, said)
    if named:
        other = next((act for act in _calls(case, since) if act.name not in named), None)
        if other is not None:
            yield turns[other.step], other, f"{other.name} was called"
    yield from _badly_answered(case, said, since)


def _only_tools(case: RuleContext, said: str) -> set[str]:
    """The only tools that may be used, none where a sentence does not name tools of the run."""
    only = _ONLY.search(said)
    if only is None:
        return set()
    named = {name.strip("`'\"") for name in re.split(r",? (?:and|or) |, ", only["what"])}
    return named if named <= {*case.reading.offers, *case.reading.last_called} else set()


def _calls(case: RuleContext, since: int) -> Iterator[Act]:
    """The calls after a sentence was heard, but those that end the run."""
    return (act for act in case.reading.acts if act.step >= since and not closes(act))


def _by_request(case: RuleContext, since: int) -> Iterator[list[Act]]:
    """The same calls, those before the user speaks again together: a limit may be of each time."""
    asked = {turn.index for turn in case.reading.main if any(h.role == "user" for h in turn.heard)}
    some: list[Act] = []
    for act in _calls(case, since):
        if act.step in asked and some and some[-1].step < act.step:
            yield some
            some = []
        some.append(act)
    yield some


def _is_of(act: Act, limit: re.Match[str]) -> bool:
    """Is a call one of those that a limit counts?"""
    what = (limit["what"] or "").strip(" `").lower()
    if what not in _ANY:
        return act.name.lower() == what
    kind = limit["kind"].lower()
    if kind.startswith(("search", "quer")):
        return not {"search", "query"}.isdisjoint(words_of(act.name))
    return True


_ANY = ("", "tool", "function", "api", "web", "total", "additional", "more")


def _badly_answered(
    case: RuleContext, said: str, since: int
) -> Iterator[tuple[Turn, Act | None, str]]:
    """How the answer at the end of a run is not given as it is to be."""
    form = _asked_form(case, said)
    given = _given_answer(case, since) if form else None
    if form is None or given is None:
        return
    answer, turn = given
    if form.tool and form.tool not in case.reading.last_called:
        yield turn, None, f"answers without {form.tool}"
    if form.is_json and not _holds_json(answer):
        yield turn, None, "the answer is not JSON"
    if form.words and answer.strip(" \n.*\"'`").lower() not in form.words:
        yield turn, None, f"the answer is “{cut(answer, 30)}”"


class _Form(NamedTuple):
    """How an answer is to be given: by a tool, as JSON, as one of a few words in small letters."""

    tool: str
    is_json: bool
    words: frozenset[str]


def _asked_form(case: RuleContext, said: str) -> _Form | None:
    """The form of the answer that a sentence requires, None where it requires none."""
    tool, words = _HAND_IN.search(said), _WORDS.search(said)
    form = _Form(
        tool=tool["tool"] if tool and tool["tool"] in case.reading.offers else "",
        is_json=bool(_JSON.search(said)),
        words=frozenset(
            each.strip(" .").lower() for each in _QUOTED.findall(words["words"] if words else "")
        ),
    )
    return form if any(form) else None


def _given_answer(case: RuleContext, since: int) -> tuple[str, Turn] | None:
    """The answer at the end of a run; None where it gave up or was cut off."""
    final = final_answer(case.reading)
    if final is None or final[1] < since or ending(case.reading) is not None:
        return None
    turn = case.reading.turns[final[1]]
    return None if turn.ask.response.stop in _CUT_OFF else (final[0], turn)


_CUT_OFF = {"length", "context", "filter", "error"}
_OPENS = re.compile(r"[{\[]")


def _holds_json(text: str) -> bool:
    """Is there an object or a list of JSON in a text?"""
    for match in _OPENS.finditer(text):
        try:
            json.JSONDecoder().raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        return True
    return False


RULE = Rule(name=NAME, find=find)
