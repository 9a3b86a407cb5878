"""Of the recorded calls of the real runs, how many does a free replay still answer at another time?

Each call that has a result is asked again one turn before it was made and one turn after, in the
run as it was recorded otherwise: a read that nothing wrote around is answered, a write is not. Both
rules of what a tool does are asked: version 1, the first verb of the name and nothing else, and
those of today.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from arc_tui import importing
from replay.effects import takes_program, words_of
from replay.free.recorded_results import Found, RecordedResults, Terms
from replay.store import read
from replay.store.rows import trace_rows
from replay.trace import Effect, Trace
from taxonomy.judgements.schema import open_ledger
from tests.bench.measure import Row
from tests.shared import DATA

_WRITES = re.compile(
    "add|append|approve|assign|book|cancel|change|charge|close|commit|create|delete|deploy|drop"
    "|edit|exchange|insert|install|kill|merge|modify|move|overwrite|patch|pay|post|publish|push"
    "|put|refund|register|remove|rename|replace|reset|resolve|return|schedule|send|set|submit"
    "|transfer|update|upgrade|upload|write"
)
_READS = re.compile(
    "calculate|cat|check|count|describe|fetch|find|get|glob|grep|head|inspect|list|load|lookup"
    "|look|open|peek|query|read|retrieve|search|show|stat|tail|think|todo|verify|view"
)

TIMES = ("early", "late")
ANSWERED = ("exact", "guessed", "reused", "reused, guessed")


def rows(folder: Path) -> Iterator[Row]:
    """The share that is answered, by each version of the rules and at each time."""
    asked: Counter[str] = Counter()
    before: Counter[tuple[str, str]] = Counter()
    now: Counter[tuple[str, str]] = Counter()
    with open_ledger(folder / "served.db") as store:
        for _ in importing.import_paths(store, [DATA]):
            pass
        for row in trace_rows(store):
            trace = read.load(store, row.trace)
            for thread in dict.fromkeys(step.thread for step in trace.steps if step.acts):
                table = Terms(effects=_first_verbs(trace))
                for at, rank in _ranks(RecordedResults(trace, thread, table)):
                    asked[at] += 1
                    before[at, rank] += 1
                now.update(_ranks(RecordedResults(trace, thread)))
    for at in TIMES:
        yield Row(
            f"{asked[at]} recorded calls asked a turn {at}: answered",
            _share(now, at, asked[at]),
            f"by the first verb: {_share(before, at, asked[at])}",
        )


def _ranks(tape: RecordedResults) -> Iterator[tuple[str, str]]:
    """The time at which each call is asked, and the rank of what it gets."""
    steps = list(dict.fromkeys(each.step for each in tape.recorded))
    for each in tape.recorded:
        if each.text is None:
            continue
        offered = {each.call.tool} if each.offered else set()
        place = steps.index(each.step)
        if place:
            [got] = tape.find(tape.at(steps[place - 1]), [each.call], offered)
            yield "early", _told(got)
        turn = [other.call for other in tape.recorded if other.step == each.step]
        [got] = tape.find(tape.after(tape.at(each.step), turn), [each.call], offered)
        yield "late", _told(got)


def _told(found: Found) -> str:
    """The rank, with a word where one that is not `guessed` rests on a guess."""
    return f"{found.rank}, guessed" if found.guesses and found.rank != "guessed" else found.rank


def _first_verbs(trace: Trace) -> dict[str, Effect]:
    """What version 1 held of the tools of a run."""
    calls = [call for step in trace.steps for call in step.acts]
    programs = {call.name for call in calls if takes_program(call.arguments)}
    names = {call.name for call in calls}
    return {name: "unknown" if name in programs else _first_verb(name) for name in names}


def _first_verb(name: str) -> Effect:
    promised: list[Effect] = []
    waiting = True
    for word in words_of(name):
        if word in {"and", "or"}:
            waiting = True
        elif waiting and (_READS.fullmatch(word) or _WRITES.fullmatch(word)):
            promised.append("read" if _READS.fullmatch(word) else "write")
            waiting = False
    return "unknown" if not promised else "write" if "write" in promised else "read"


def _share(found: Counter[tuple[str, str]], at: str, asked: int) -> str:
    """`61 % (exact 40 %, guessed 21 %)`."""
    answered = {rank: found[at, rank] for rank in ANSWERED if found[at, rank]}
    parts = ", ".join(f"{rank} {100 * n / asked:.0f} %" for rank, n in answered.items())
    if not asked:
        return "no real runs beside the checkout"
    return f"{100 * sum(answered.values()) / asked:.0f} % ({parts})"
