"""Wrong tool, as a hint: another tool that was offered fits the words of the request better.

The request is what a person last said and what the model said as it called. A tool fits by the
words of its name, and less by those of its description; a word counts the more, the fewer of the
offered tools it belongs to. Words only: the hint is for a person to judge.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from replay.effects import words_of
from replay.trace import Tool
from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import Act, Turn, mutates
from taxonomy.evidence.replies import cut
from taxonomy.evidence.schemas import offered
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.case import Case, called

NAME = "better tool"
CONFIDENCE = 0.3

_WORD = re.compile(r"[a-z]{4,}")
_COMMON = frozenset(
    "this that with from have will would could should about your their them they there then than "
    "what when where which while please need want like help here into also just only some more "
    "make does been were using used tool function call given information details data value "
    "result results return returns the and for user customer search find list look show read query "
    "fetch lookup check open".split()
)
_NAME_WEIGHT = 2.0
_CLEAR = 2.0
"""How much better another tool must fit, and by how much at least."""


def find(case: Case) -> Iterator[Finding]:
    """The first call of a failed run that another tool, never called, would have fitted better."""
    if not case.reading.failed:
        return
    asked = ""
    for turn in case.reading.turns:
        heard = [each.text for each in turn.heard if each.role == "user"]
        asked = heard[-1] if heard else asked
        wanted = _words(f"{asked} {turn.said} {turn.thought}")
        for act in turn.acts:
            better = _better(case, turn, act, wanted)
            if better is not None:
                yield _finding(act, *better)
                return


def _better(case: Case, turn: Turn, act: Act, wanted: set[str]) -> tuple[Tool, set[str]] | None:
    """The offered tool that fits clearly better and was never called, with the words it fits."""
    tools = turn.ask.request.tools or ()
    chosen = offered(turn, act.name)
    if chosen is None or len(tools) < 2:
        return None
    known = Counter(word for tool in tools for word in _named(tool) | _described(tool))
    rest = [
        tool
        for tool in tools
        if tool.name not in case.reading.last_called and _alike_in_effect(case, act, tool)
    ]
    best = max(rest, key=lambda tool: _fit(tool, wanted, known), default=None)
    if best is None or not _named(best) & wanted - _named(chosen):
        return None
    fit, has = _fit(best, wanted, known), _fit(chosen, wanted, known)
    return (best, _named(best) & wanted) if fit >= _CLEAR * max(has, 1.0) else None


def _fit(tool: Tool, wanted: set[str], known: Mapping[str, int]) -> float:
    named = _named(tool) & wanted
    described = (_described(tool) & wanted) - named
    shares = [_NAME_WEIGHT / known[word] for word in named]
    return math.fsum([*shares, *(1.0 / known[word] for word in described)])


def _alike_in_effect(case: Case, act: Act, tool: Tool) -> bool:
    """Do both read, as far as their names tell? What writes is not to be suggested lightly."""
    return mutates(act.span) is False and case.effects.of(tool.name).effect == "read"


def _named(tool: Tool) -> set[str]:
    return {_stem(word) for word in words_of(tool.name)} - _COMMON


def _described(tool: Tool) -> set[str]:
    return _words(tool.description or "")


def _words(text: str) -> set[str]:
    return {_stem(word) for word in _WORD.findall(text.lower()) if word not in _COMMON}


def _stem(word: str) -> str:
    return word.removesuffix("s")


def _finding(act: Act, tool: Tool, words: set[str]) -> Finding:
    return Finding(
        failure=FailureClass.WRONG_TOOL,
        step=act.step,
        span=act.span.id,
        why=f"{tool.name} may fit better than {act.name}: {', '.join(sorted(words))}",
        rule=NAME,
        confidence=CONFIDENCE,
        evidence=(
            called(act),
            Evidence(
                role="offered",
                text=cut(f"{tool.name}: {tool.description or ''}", 160),
                place="tool definitions",
            ),
        ),
    )
