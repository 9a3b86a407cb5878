"""Where did a person object to what a run did: by stepping in, or in the next message?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

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
    for span in case.trace.spans:
        signals = span.extra.get("signals") if isinstance(span, AgentSpan) else None
        for signal in signals if isinstance(signals, list) else ():
            kind = signal.get("kind") if isinstance(signal, dict) else None
            step = _step_at(case.reading, signal) if kind in _STEPPED_IN else None
            if step is not None:
                yield step, f"a person stepped in: {kind}"
    for turns in case.reading.threads.values():
        for before, turn in pairwise(turns):
            for heard in turn.heard:
                if heard.role == "user" and _OBJECTS.search(heard.text[:600]):
                    yield before.index, f"the user objected: “{cut(heard.text, 50)}”"


def _step_at(reading: Reading, signal: dict[str, Json]) -> int | None:
    """The last step at or before the line that a signal names."""
    line = signal.get("line")
    if not isinstance(line, int):
        return None
    before = [turn.index for turn in reading.turns if 0 < (turn.ask.place.line or 0) <= line]
    return before[-1] if before else None
