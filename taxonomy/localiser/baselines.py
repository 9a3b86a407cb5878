"""Guesses that need no thought and no fitting: what a localiser has to beat to be worth its name.

Each names up to three steps of a run, best first, and none where the run has no such step. Turns
of a terminal or of a person are left out, as they are among the steps that may be candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.messages import text
from replay.trace import Context
from taxonomy.evidence.reading import Reading, Turn, mutates
from taxonomy.findings import Finding

MOST = 3

FIRST_ERROR = "first error"
FIRST_WRITE = "first write"
WRITE_OR_LAST = "first write, else last step"
LONGEST_PROMPT = "longest prompt"
LAST_STEP = "last step"
FIRST_STEP = "first step"
FIRST_FINDING = "first finding"
PUBLISHED = "published rule"

Guesses = Mapping[str, tuple[int, ...]]


def naive_guesses(
    reading: Reading, found: Sequence[Finding], published: int | None = None
) -> Guesses:
    """The steps that each of these guesses names, by its name."""
    steps = eligible(reading)
    latest = tuple(reversed(steps))
    writes = [act.step for act in reading.acts if mutates(act.span)]
    largest = sorted(steps, key=lambda step: (-prompt_sizes(reading)[step], step))
    named = {
        FIRST_ERROR: failed_steps(reading),
        FIRST_WRITE: writes,
        WRITE_OR_LAST: [*writes, *latest],
        LONGEST_PROMPT: largest,
        LAST_STEP: latest,
        FIRST_STEP: steps,
        FIRST_FINDING: [finding.step for finding in found],
        PUBLISHED: [] if published is None else [published],
    }
    allowed = set(steps)
    return {
        name: tuple(dict.fromkeys(step for step in guessed if step in allowed))[:MOST]
        for name, guessed in named.items()
    }


def eligible(reading: Reading) -> tuple[int, ...]:
    """The steps that a model took: neither a terminal nor a person decides anything."""
    return tuple(turn.index for turn in reading.turns if not turn.observer)


def failed_steps(reading: Reading) -> list[int]:
    """The steps whose call or code failed, in order."""
    failed = {act.step for act in reading.acts if act.reply.failed}
    failed |= {turn.index for turn, reply in reading.reports() if reply.failed}
    return sorted(failed)


def prompt_sizes(reading: Reading) -> list[int]:
    """How long the request of each step is: its tokens where the source counts those of all
    steps, else the characters of its context."""
    tokens = [_tokens(turn) for turn in reading.turns]
    known = [each for each in tokens if each is not None]
    if len(known) == len(tokens):
        return known
    lengths: dict[int, int] = {}
    return [_length(turn.ask.request.context, lengths) for turn in reading.turns]


def _tokens(turn: Turn) -> int | None:
    return None if turn.ask.usage is None else turn.ask.usage.input_tokens


def _length(context: Context | None, lengths: dict[int, int]) -> int:
    """The characters of a context; `lengths` has those of contexts that were measured before."""
    chain: list[Context] = []
    while context is not None and id(context) not in lengths:
        chain.append(context)
        context = context.parent
    whole = 0 if context is None else lengths[id(context)]
    for each in reversed(chain):
        whole += len(text(each.message))
        lengths[id(each)] = whole
    return whole
