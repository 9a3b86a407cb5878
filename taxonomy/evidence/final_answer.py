"""What does a run answer at its end, and does that hold what gold wants said? By the words alone.

A text counts as said where its words stand in the run's, letter case, white space and the commas
of long numbers aside. That is no verdict: other words may say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.trace import Json
from taxonomy.evidence.endings import closes
from taxonomy.evidence.reading import Act, Reading
from taxonomy.metrics.gold import GoldAnswer

LONGEST = 300
"""A longer text is no answer but a description of one, which words do not decide."""

_CLOSED = re.compile(r"\W*(?:terminate|done|finished|task complete(?:d)?|stop)\W*", re.I)
"""A last word that ends a run and answers nothing."""

_NAMES = ("answer", "final_answer", "result", "output", "response", "content", "text")


def is_closing_word(text: str) -> bool:
    """Is a text only a word that ends a run?"""
    return _CLOSED.fullmatch(text) is not None


def final_answer(reading: Reading) -> tuple[str, int] | None:
    """The last words of the run, or the answer its last call hands in, and the step; None where a
    run ends without either."""
    for turn in reversed(reading.main):
        if turn.observer:
            continue
        for act in reversed(turn.acts):
            given = _handed_in(act)
            if given is not None:
                return given, turn.index
        if turn.said and not is_closing_word(turn.said):
            return turn.said, turn.index
    return None


def _handed_in(act: Act) -> str | None:
    """The answer of a call that ends the run."""
    given = act.span.arguments
    if not closes(act) or not isinstance(given, dict):
        return None
    found: Json = next((given[name] for name in _NAMES if name in given), None)
    if found is None and len(given) == 1:
        found = next(iter(given.values()))
    return str(found) if isinstance(found, str | int | float) else None


def answer_problems(
    reading: Reading, wanted: GoldAnswer
) -> Iterator[tuple[str, str | None, int | None]]:
    """(gold's text, the answer instead, its step) of each text of gold that is not there.

    Without an answer instead: a text that was to be said somewhere in the run. A run that has no
    answer, and gold too long to be one, decide nothing.
    """
    final = final_answer(reading)
    short = all(len(each) <= LONGEST for each in wanted.answers)
    if wanted.answers and final is not None and short:
        held = [contains(final[0], each) for each in wanted.answers]
        if not any(each is not False for each in held):
            yield " or ".join(wanted.answers), *final
    words = "\n".join(turn.said for turn in reading.turns if not turn.observer)
    for each in wanted.said:
        if contains(words, each) is False:
            yield each, None, None


def contains(answer: str, gold: str) -> bool | None:
    """Do the words of gold stand in an answer, each of its lines somewhere? A letter alone, as of
    multiple choice, is compared with the last such letter; None where there is none."""
    if len(gold) == 1 and gold.isalpha():
        letters = re.findall(r"(?<!\w)[A-Z](?!\w)", answer.strip())
        return letters[-1] == gold.upper() if letters else None
    plain = _plain(answer)
    return all(_stands_in(plain, _plain(line)) for line in gold.splitlines() if line.strip())


def _stands_in(text: str, words: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


def _plain(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(text.casefold().split()))
