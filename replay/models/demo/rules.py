"""Which sentences the demo model obeys, and what it does where a prompt lacks them.

Its only source of chance is a hash of what it was asked and which sample this is.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple


class Rule(NamedTuple):
    """`pattern` is looked for in one sentence in lower case."""

    habit: str
    pattern: str
    does: str
    otherwise: str


_LOOK = r"\b(look\w* up|verif\w*|check|read|open|fetch|search|consult)\b"
_ORDER = r"\b(orders?|records?)\b"
_PAGES = r"\b(policy|policies|rules|article|help pages?)\b"
_CHANGE = r"\b(chang|refund|cancel|writ)\w*"
_MAKE_UP = r"\b(never|not|don't)\b.*\b(guess|invent|make up)\b"
_ON = r"\b(escalate|hand\b.*\bover|pass\b.*\bon)\b"
_STUCK = r"\b(stuck|cannot|can't|unable)\b"

RULES: tuple[Rule, ...] = (
    Rule(
        "verify",
        rf"{_LOOK}.*{_ORDER}.*\b(before|first)\b|\bbefore\b.*{_CHANGE}.*{_LOOK}.*{_ORDER}",
        "reads an order before it changes it",
        "changes orders it has never looked at",
    ),
    Rule(
        "ids",
        rf"{_MAKE_UP}(?!.*\b(amounts?|prices?|sums?)\b)|{_MAKE_UP}.*\b(ids?|numbers?)\b"
        r"|\bonly use\b.*\b(ids?|numbers?)\b",
        "searches or asks for an order number it was not given",
        "takes an order number that sounds right",
    ),
    Rule(
        "amounts",
        rf"{_MAKE_UP}[^a-z]*$|{_MAKE_UP}.*\b(amounts?|prices?|sums?|anything)\b"
        r"|\bonly use\b.*\b(amounts?|prices?|sums?)\b",
        "reads what an order cost before it refunds it",
        "refunds a round sum that sounds right",
    ),
    Rule(
        "vary",
        r"\b(if|when|whenever|after)\b.*\b(fail\w*|errors?|finds? nothing|no results?)\b"
        r".*\b(differently|different|another|correct\w*|change|vary|other)\b",
        "reads an error and tries something else",
        "repeats the failed call, or takes one error as final",
    ),
    Rule(
        "no_repeat",
        r"\b(never|not|don't)\b.*\b(repeat|twice|same call|same arguments)\b",
        "never makes the same call again after it failed",
        "may make the same failing call three times and more",
    ),
    Rule(
        "cents",
        r"\bcents\b",
        "gives amounts as integer cents",
        "gives amounts in dollars, as people write them",
    ),
    Rule(
        "iso",
        r"\biso\b|yyyy-mm-dd",
        "gives dates as 2026-03-01",
        "gives dates as the customer wrote them",
    ),
    Rule(
        "limit",
        r"\brefund\w*\b.*\b(above|over|more than|exceed\w*)\b\D*\d",
        "hands refunds above the sum named in the sentence to a colleague",
        "refunds any sum",
    ),
    Rule(
        "escalate",
        rf"{_ON}.*{_STUCK}|{_STUCK}.*{_ON}",
        "hands over to a colleague when it is stuck",
        "tells the customer that it cannot help",
    ),
    Rule(
        "delegate",
        r"\b(ask|delegate|leave|give|hand|send)\b.*\bresearcher\b",
        "has products compared by the researcher",
        "compares products itself",
    ),
    Rule(
        "parallel",
        r"\b(one turn|same turn|at once|in parallel|same time)\b",
        "makes look-ups that do not depend on each other in one turn",
        "makes one call a turn",
    ),
    Rule(
        "confirm",
        rf"\bafter\b.*{_CHANGE}.*{_LOOK}|{_LOOK}.*\bafter\b.*{_CHANGE}",
        "reads an order again after changing it",
        "takes a change as done",
    ),
    Rule(
        "policy",
        rf"{_LOOK}.*{_PAGES}.*\b(before|first)\b|\bbefore\b.*{_LOOK}.*{_PAGES}",
        "reads the refund policy before a refund, and keeps to it",
        "refunds whatever is asked for",
    ),
    Rule(
        "own",
        r"\border\b.*\b(belongs?|is theirs|their own)\b",
        "changes an order only for the customer who placed it",
        "changes an order for anyone who has its number",
    ),
    Rule(
        "reread",
        r"\b(re-?read|(read|look\w*|check|fetch)\b.*\bagain)\b.*\bbefore\b",
        "reads an order again when it was read long before the change",
        "mixes up orders that it read many calls ago",
    ),
    Rule(
        "honest",
        r"\b(tell|promise|say|state|claim)\b.*\b(only|unless|nothing)\b"
        r".*\b(tools?|confirmed|results?|records?)\b",
        "promises nothing that no tool has said",
        "now and then promises a date that it made up",
    ),
)

_HEDGE = re.compile(
    r"\b(usually|normally|generally|try to|try not|if you can|where possible|when possible|ideally"
    r"|preferably|when in doubt|where it helps)\b"
)
_LIFTED = re.compile(
    r"\b(no need|need not|needn't|not necessary|not needed|unnecessary|(do|does) not (have|need) to"
    r"|don't (have|need) to|rarely (need|worth)|instead of (looking|checking|reading)"
    r"|without (looking|checking|reading))"
)
_BLOCK_START = re.compile(r"\s*([-*#>]|\d+[.)])")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
_COMPILED = tuple((rule.habit, re.compile(rule.pattern)) for rule in RULES)


@lru_cache(maxsize=256)
def habits(text: str) -> dict[str, float]:
    """How firmly each habit is asked for: 1 plainly, .5 with a hedge, absent not at all."""
    found: dict[str, float] = {}
    for sentence in sentences(text):
        lower = sentence.lower()
        if _LIFTED.search(lower):
            continue
        firm = 0.5 if _HEDGE.search(lower) else 1.0
        for habit, pattern in _COMPILED:
            if pattern.search(lower):
                found[habit] = max(firm, found.get(habit, 0.0))
    return found


@lru_cache(maxsize=256)
def limit_cents(text: str) -> int | None:
    """The sum above which refunds are not the agent's, None where no sentence names one."""
    pattern = dict(_COMPILED)["limit"]
    for sentence in sentences(text):
        found = pattern.search(sentence.lower())
        if found:
            digits = re.search(r"\d[\d,]*(\.\d\d)?", sentence[found.end() - 1 :])
            assert digits is not None
            return round(float(digits[0].replace(",", "")) * 100)
    return None


@lru_cache(maxsize=256)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text in Markdown: a bullet or heading begins one, a line end does not."""
    return tuple(
        sentence
        for block in _blocks(text)
        for sentence in _SENTENCE_END.split(block)
        if sentence.strip()
    )


def _blocks(text: str) -> Iterator[str]:
    block = ""
    for line in text.splitlines():
        if not line.strip() or _BLOCK_START.match(line):
            yield block
            block = ""
        block = f"{block} {line.strip()}".strip()
    yield block


_RANGE = float(1 << 64)


class Chance:
    """Draws for one request. `fingerprint` identifies what was asked, `sample` which answer."""

    def __init__(self, fingerprint: str, sample: int) -> None:
        self._seed = f"{fingerprint}|{sample}"

    def hex(self, *about: str) -> str:
        """64 hex digits that stand for the decision `about`."""
        return hashlib.sha256("|".join((self._seed, *about)).encode()).hexdigest()

    def unit(self, *about: str) -> float:
        """A number in [0, 1)."""
        return int(self.hex(*about)[:16], 16) / _RANGE

    def happens(self, probability: float, *about: str) -> bool:
        return self.unit(*about) < probability

    def one_of(self, options: tuple[int, ...], *about: str) -> int:
        return options[int(self.unit(*about) * len(options))]

    def softmax(self, scores: Mapping[str, float], temperature: float, *about: str) -> str:
        """One of the names, the better its score the likelier; `scores` must not be empty.

        At the temperature the demo model uses, a lead of a few tenths is a certainty and a lead
        of a few hundredths is nearly a coin toss.
        """
        best = max(scores.values())
        weights = {name: math.exp((each - best) / temperature) for name, each in scores.items()}
        left = self.unit(*about) * sum(weights.values())
        for name, weight in weights.items():
            left -= weight
            if left < 0:
                return name
        return max(scores, key=lambda name: scores[name])
