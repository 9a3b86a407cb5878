"""Where did a person object to what a run did: by stepping in, or in the next message?"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise

from replay.trace import AgentSpan, Json
from taxonomy.evidence.reading import Reading
from taxonomy.evidence.replies import cut
from taxonomy.rules.case import Case

_STEPPED_IN = {"denied", "rejected", "interrupt", "interrupted", "rewind", "abandoned"}
_OBJECTS = re.compile(
    r"\b(?:that(?:'|’)s (?:not (?:what|right|correct)|wrong|incorrect)|not what i (?:asked|meant"
    r"|wanted)|misunderst\w+|mis-?understanding|mix-?up|you(?:'|’)?(?:re| are) (?:wrong|mistaken)"
    r"|i (?:already|have already) (?:told|said|gave|provided)|(?:was|is) incorrect"
    r"|you didn(?:'|’)t|you did not|still (?:not|wrong|doesn(?:'|’)t))\b",
    re.I,
)


def objections(case: Case) -> Iterator[tuple[int, str]]:
    """(step, phrase) of the step before each."""
    lines = _Lines(case.reading)
    for span in case.trace.spans:
        signals = span.extra.get("signals") if isinstance(span, AgentSpan) else None
        for signal in signals if isinstance(signals, list) else ():
            kind = signal.get("kind") if isinstance(signal, dict) else None
            step = lines.step_at(signal) if kind in _STEPPED_IN else None
            if step is not None:
                yield step, f"a person stepped in: {kind}"
    for turns in case.reading.threads.values():
        for before, turn in pairwise(turns):
            for heard in turn.heard:
                if heard.role == "user" and _OBJECTS.search(heard.text[:600]):
                    yield before.index, f"the user objected: “{cut(heard.text, 50)}”"


class _Lines:
    """The lines of the source that the steps of a run stand in."""

    def __init__(self, reading: Reading) -> None:
        placed = sorted(
            (turn.ask.place.line, turn.index)
            for turn in reading.turns
            if turn.ask.place.line is not None and turn.ask.place.line > 0
        )
        self._lines = [line for line, _ in placed]
        self._latest = [*accumulate((index for _, index in placed), max)]

    def step_at(self, signal: dict[str, Json]) -> int | None:
        """The last step at or before the line that a signal names."""
        line = signal.get("line")
        before = bisect_right(self._lines, line) if isinstance(line, int) else 0
        return self._latest[before - 1] if before else None
