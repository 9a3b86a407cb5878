"""What of a text would tell a judge how the run ended? That much is withheld.

Nothing a source keeps beside the run (outcome, reward, reference, labels, its own scores) is ever
put before a judge. Here is the rest: what a harness says of the outcome within the conversation.
Only flat statements in a harness's own words go, line by line or value by value; what a program
printed because the agent ran it stays, for the agent had to read it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from replay.trace import SourceScore, Trace

WITHHELD = "[withheld]"

_VERDICT = (
    r"(?:[-+]?\d+(?:\.\d+)?(?: ?%| ?/ ?\d+(?:\.\d+)?)?|true|false|yes|no|none|null"
    r"|(?:in)?correct|pass(?:ed)?|fail(?:ed|ure)?|success(?:ful)?|(?:un)?resolved)"
)
_SAID_OF = (
    r"(?:(?:final|total|episode|task|run|trial)[ _])?reward"
    r"|(?:task|run|trial|episode|final|overall)[ _](?:outcome|result|score|status|success|verdict)"
    r"|(?:verifier|grader|evaluator|scorer|judge|evaluation|verification|grading)"
    r"(?:[ _](?:outcome|output|result|score|status|verdict))?"
    r"|is[ _]correct(?:ed)?|ground[ _]truth|(?:gold|expected|reference|correct)[ _]answer"
)
_LINE = re.compile(rf"^[^\w\n]*(?:{_SAID_OF})[^\w\n]*[:=][^\w\n]*{_VERDICT}[^\w\n]*$", re.I | re.M)
_REST = r"\b[^.!\n]*[.!]?"
_SENTENCE = re.compile(
    r"\b(?:your|the) (?:submission|final answer|solution) (?:is|was) (?:judged |graded |marked )?"
    rf"(?:in)?correct{_REST}"
    r"|\bthe (?:task|run|trial|episode) (?:has |was |is )?(?:been )?(?:marked |judged |graded )?"
    r"(?:as )?(?:passed|failed|(?:un)?resolved|(?:un)?successful|a success|a failure)"
    rf"{_REST}",
    re.I,
)
_KEYS = (
    "reward|total_reward|is_correct|is_corrected|ground_truth|gold_answer|expected_answer"
    "|reference_answer|verifier_result|verifier_output|test_result|mistake_agent|mistake_step"
    "|mistake_reason|final_score"
)
_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[-+\w.]+)"
_FIELD = re.compile(rf"([\"'](?:{_KEYS})[\"']\s*:\s*){_VALUE}", re.I)
_QUOTED = re.compile(rf"([\"'](?:{_KEYS})[\"']\s*:\s*)(?=[\[{{])", re.I)

_LEAST_WORDS = 4
"""Of fewer words, an explanation may be a value that the run had to find and to read."""


class Blind:
    """Withholds from texts of one trace what they tell of its outcome; `count` says how often."""

    def __init__(self, trace: Trace, scores: Iterable[SourceScore] = ()) -> None:
        self.count = 0
        said = sorted({*_own_words(trace, scores)}, key=len, reverse=True)
        self._own = re.compile("|".join(map(re.escape, said))) if said else None

    def harness(self, text: str) -> str:
        """What a user, a system prompt or a tool said."""
        found = self._without(_LINE, text, WITHHELD)
        found = self._without(_SENTENCE, found, WITHHELD)
        found = self._without(_FIELD, found, rf"\g<1>{WITHHELD}")
        found = self._nested(found)
        return found if self._own is None else self._without(self._own, found, WITHHELD)

    def agent(self, text: str) -> str:
        """What the agent said or passed: its own words, but for a verdict it repeats."""
        return self._without(_FIELD, self._without(_LINE, text, WITHHELD), rf"\g<1>{WITHHELD}")

    def _without(self, pattern: re.Pattern[str], text: str, instead: str) -> str:
        found, times = pattern.subn(instead, text)
        self.count += times
        return found

    def _nested(self, text: str) -> str:
        """A value that is a list or an object goes to its closing bracket, or to the end."""
        parts: list[str] = []
        start = 0
        while (match := _QUOTED.search(text, start)) is not None:
            parts += [text[start : match.end()], WITHHELD]
            start = _closing(text, match.end())
            self.count += 1
        return "".join([*parts, text[start:]])


def _closing(text: str, at: int) -> int:
    """Behind the bracket that closes the one at a place; the end of the text where none does."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] in "[{") - (text[place] in "]}")
        if not depth:
            return place + 1
    return len(text)


def _own_words(trace: Trace, scores: Iterable[SourceScore]) -> Iterator[str]:
    """The sentences in which the source itself says how the run or a span was judged."""
    said = [trace.header.outcome.value, *(score.explanation for score in scores)]
    yield from (
        each for each in said if isinstance(each, str) and len(each.split()) >= _LEAST_WORDS
    )
