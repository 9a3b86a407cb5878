"""Wrong tool, as a hint: another tool that was offered fits the words of the request better.

The request is what a person last said and what the model said as it called. A tool fits by the
words of its name, and less by those of its description; a word counts the more, the fewer of the
offered tools it belongs to. Words only: the hint is for a person to judge.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from replay.effects import words_of
from replay.trace import Tool
from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import Act, Turn, called, mutates
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

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


class _Offered(Struct, frozen=True, eq=False):
    """A tool as it is offered: the words of its name, and those of its description."""

    tool: Tool
    named: frozenset[str]
    described: frozenset[str]

    def fit(self, wanted: AbstractSet[str], known: Mapping[str, int]) -> float:
        """How well it fits what is wanted; `known` are the tools that each word belongs to."""
        named = self.named & wanted
        described = (self.described & wanted) - named
        shares = [_NAME_WEIGHT / known[word] for word in named]
        return math.fsum([*shares, *(1.0 / known[word] for word in described)])


class _Choice(Struct, frozen=True, eq=False):
    """Tools that are offered together: all by name, those never called that only read, and how
    many tools each word belongs to."""

    by_name: Mapping[str, _Offered]
    others: Sequence[_Offered]
    known: Mapping[str, int]


def find(case: RuleContext) -> Iterator[Finding]:
    """The first call of a failed run that another tool, never called, would have fitted better."""
    if not case.reading.failed:
        return
    choices: dict[int, _Choice] = {}
    asked = ""
    for turn in case.reading.turns:
        heard = [each.text for each in turn.heard if each.role == "user"]
        asked = heard[-1] if heard else asked
        acts = [act for act in turn.acts if mutates(act.span) is False]
        choice = _choice(case, turn, choices) if acts else None
        if choice is None or not choice.others:
            continue
        wanted = _words(f"{asked} {turn.said} {turn.thought}")
        for act in acts:
            better = _better(choice, act, wanted)
            if better is not None:
                yield _finding(act, *better)
                return


def _choice(case: RuleContext, turn: Turn, kept: dict[int, _Choice]) -> _Choice | None:
    """The tools offered at a turn, None where they are fewer than two; made once a list."""
    tools = turn.ask.request.tools or ()
    if len(tools) < 2:
        return None
    if id(tools) not in kept:  # the requests of the run keep their lists
        offers = [
            _Offered(tool, _named(tool), frozenset(_words(tool.description or "")))
            for tool in tools
        ]
        kept[id(tools)] = _Choice(
            by_name={offer.tool.name: offer for offer in reversed(offers)},
            others=[offer for offer in offers if _untried(case, offer.tool)],
            known=Counter(word for offer in offers for word in offer.named | offer.described),
        )
    return kept[id(tools)]


def _untried(case: RuleContext, tool: Tool) -> bool:
    """A tool never called that reads, as far as its name tells: what writes is not to be suggested
    lightly."""
    return tool.name not in case.reading.last_called and case.effects.of(tool.name).effect == "read"


def _better(
    choice: _Choice, act: Act, wanted: AbstractSet[str]
) -> tuple[Tool, AbstractSet[str]] | None:
    """The offered tool that fits clearly better than one that reads, with the words it fits."""
    chosen = choice.by_name.get(act.name)
    if chosen is None:
        return None
    best = max(choice.others, key=lambda offer: offer.fit(wanted, choice.known))
    if not best.named & wanted - chosen.named:
        return None
    fit, has = best.fit(wanted, choice.known), chosen.fit(wanted, choice.known)
    return (best.tool, best.named & wanted) if fit >= _CLEAR * max(has, 1.0) else None


def _named(tool: Tool) -> frozenset[str]:
    return frozenset(_stem(word) for word in words_of(tool.name)) - _COMMON


def _words(text: str) -> set[str]:
    return {_stem(word) for word in _WORD.findall(text.lower()) if word not in _COMMON}


def _stem(word: str) -> str:
    return word.removesuffix("s")


def _finding(act: Act, tool: Tool, words: AbstractSet[str]) -> Finding:
    return Finding(
        failure=FailureClass.WRONG_TOOL,
        step=act.step,
        span=act.span.id,
        why=f"{act.name} may be the wrong tool; {tool.name} matches '{', '.join(sorted(words))}'",
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


RULE = Rule(name=NAME, find=find)
