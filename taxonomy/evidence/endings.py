"""How did a run stop short: by a surrender, a step that never came, a question, a refusal?

Reads how the first thread ends, and no outcome. Which calls close a run, hand it over or do
something for the task is said here too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from replay.effects import words_of
from taxonomy.evidence.reading import (
    Act,
    Reading,
    Turn,
    called,
    leaves,
    mutates,
    program,
    quote_turn,
)
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence

_ENDS = re.compile(r"finish|submit|done|terminate|complete|end|stop|exit|final|answer|respond")


_SURRENDER = re.compile(
    r"giv(?:e|ing)[ _-]?up|gave[ _-]?up|abandon|cannot (?:complete|finish|solve)|impossible", re.I
)


_SURRENDERS = re.compile(
    r"\b(?:i|we) (?:(?:must|have to|will) )?(?:give|am giving|are giving|gave|have given) up\b"
    r"|\b(?:i|we) (?:cannot|can(?:'|’)t|could not|am unable to|was unable to|were unable to)"
    r" (?:complete|finish|solve) (?:this|the|your) (?:task|problem|request)",
    re.I,
)


_WORD_LENGTH = 60
"""An argument up to this long is a word for how the run ended; a longer one is prose."""


_HANDS_OVER = re.compile(r"transfer|escalate|handoff|handover|hand")


_TO_PERSON = re.compile(r"human|agents?|operator|support|representative|person|supervisor")


_ANNOUNCES = re.compile(
    r"\b(?:let me(?! know)|let(?:'|’)s|i(?:'|’)?(?:ll| will| shall| am going to|m going to)"
    r"(?! be (?:happy|glad|here|able)| need you| assist| let you| wait| also)"
    r"|now i(?:'|’)?(?:ll| will| need to| can)|(?:next|first),? (?:i|we)(?:'|’)?(?:ll| will| need)?"
    r"|i(?:'|’)?(?:m| am) (?:now )?(?:proceeding|starting|going))\b",
    re.I,
)


_REFUSES = re.compile(
    r"\b(?:i|we)(?:'|’)?(?:m| am| are|ve| have)? ?(?:still )?(?:cannot|can(?:'|’)t|could not"
    r"|couldn(?:'|’)t|unable|not able|won(?:'|’)t be able)|^[\W_]*unable to\b"
    r"|\bunfortunately\b(?!,? (?:the|this|that|my|our|its?) (?:\w+ )?(?:script|code|output|result"
    r"|search|tool|execution|page|file|command|test|website|query|call))"
    r"|\bnot possible (?:to|for me)|\bbeyond my\b|\boutside (?:of )?my\b|\bexhausted\b",
    re.I,
)


_CANNOT = re.compile(
    r"\b(?:i|we) (?:cannot|can(?:'|’)t|am unable to|are unable to|am not able to) "
    r"(?:help|assist|complete|proceed|continue|do|process|fulfil|perform|retrieve|access|find)",
    re.I,
)


_ASKS = re.compile(
    r"would you like|do you want|\b(?:shall|should|may) i\b|can you (?:confirm|provide|share)"
    r"|could you|please (?:confirm|provide|share|specify)|which (?:one|option)|how would you like"
    r"|let me know (?:which|how|what|when|whether)|once you (?:share|provide|confirm|send|grant)"
    r"|grant (?:me )?permission",
    re.I,
)


_MORE = re.compile(r"would you like|do you want", re.I)
"""How a run asks that may only offer more than it was asked for."""


_OFFERS = re.compile(r"\bif (?:you|so|there|any|it|this)\b|\bfeel free\b|\bwant me to\b", re.I)


_PROSE = re.compile(r"^[\s>*\-\d.#]*[A-Za-z“\"'][^{}<>=;|$]*$")


NOTHING = {"", "(no content)", "none", "null", "..."}


_LAST_LINES = 6


_LAST_TURNS = 3


_LONG_TURN = 1_200


_TURN_END = 500
"""Of a long turn only the end can refuse: what stands before is what it says instead."""


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended short: `certain` where that is a bad end whatever the outcome."""

    turn: Turn
    why: str
    evidence: Evidence
    certain: bool


def ending(reading: Reading) -> Ending | None:
    """How the run stopped short, None where it did not or nothing tells. Reads no outcome."""
    thread = [turn for turn in reading.main if not turn.observer]
    if not thread:
        return None
    last = thread[-1]
    for act in reversed(last.acts):
        if declares(act):
            return _by_call(last, act, "declared giving up", certain=True)
    for turn in thread[:-3:-1]:
        for act in turn.acts:
            if hands_over(act) and _unfinished(thread):
                return _by_call(turn, act, "handed over to a person", certain=False)
    why = None if _acts(reading, last) else _stopped_short(reading, thread)
    if why is not None:
        return _by_words(last, why, certain=True)
    undone = None if _acts(reading, last) else _left_undone(reading, thread)
    if undone is not None:
        return undone
    refused = _after_failure(reading, thread)
    if refused is None:
        return None
    return _by_words(refused, "refused after a failed call", certain=False)


def _by_call(turn: Turn, act: Act, why: str, *, certain: bool) -> Ending:
    return Ending(turn=turn, why=why, evidence=called(act, "says"), certain=certain)


def _by_words(turn: Turn, why: str, *, certain: bool) -> Ending:
    words = quote_turn(turn, turn.said[-_QUOTED:] or "(nothing)")
    return Ending(turn=turn, why=why, evidence=words, certain=certain)


_QUOTED = 230


def closes(act: Act) -> bool:
    """Is it a call that ends the run: an answer handed in, a word that it is done?"""
    return any(map(_ENDS.fullmatch, words_of(act.name)))


def declares(act: Act) -> bool:
    """Does a closing call say that the run gives up?"""
    values = [value for _, value in leaves(act.span.arguments) if isinstance(value, str)]
    if act.span.arguments is None and act.span.arguments_raw:
        values = [act.span.arguments_raw]
    return closes(act) and any(map(_surrenders, values))


def _surrenders(words: str) -> bool:
    return bool((_SURRENDER if len(words) <= _WORD_LENGTH else _SURRENDERS).search(words))


def hands_over(act: Act) -> bool:
    """Is it a call that leaves the task to a person?"""
    return is_hand_over(act.name)


def is_hand_over(tool: str) -> bool:
    """Does the name of a tool say that it leaves the task to a person?"""
    words = words_of(tool)
    return any(map(_HANDS_OVER.fullmatch, words)) and any(map(_TO_PERSON.fullmatch, words))


def works(act: Act) -> bool:
    """Does a call do something for the task, rather than keep a list or think aloud?"""
    return not {"todo", "think", "thought", "plan"} & set(words_of(act.name))


def _acts(reading: Reading, turn: Turn) -> bool:
    """Does a turn act: by a call, or by a program where programs are what the run acts by?"""
    if turn.acts or not program(turn.said):
        return bool(turn.acts)
    acting = [each for each in reading.main if reading.calls(each)]
    return not reading.has_tools or any(program(each.said) for each in acting)


def _stopped_short(reading: Reading, thread: Sequence[Turn]) -> str | None:
    """Why a last turn without calls is a bad end, None where it is not."""
    last = thread[-1]
    if not reading.has_tools:
        return None
    if _says_nothing(thread):
        return "ended with an empty message" if _stopped_itself(last) else None
    attended = _attended(thread)
    closing = [each for each in _closing(last.said) if not _OFFERS.search(each)]
    questions = () if attended else [each for each in closing if _ASKS.search(each)]
    if any(not _MORE.search(each) or _idle(reading, thread) for each in questions):
        return "asked a question; no user present"
    for sentence in closing[-1:] if attended else closing:
        if _announces(sentence):
            return f"announced a step and stopped: “{cut(sentence, 50)}”"
    return None


def _idle(reading: Reading, thread: Sequence[Turn]) -> bool:
    """Did a run call nothing, or fail in the last it called?"""
    acts = [act for turn in thread for act in reading.calls(turn) if works(act)]
    return not acts or bool(acts[-1].reply.failed)


def _left_undone(reading: Reading, thread: Sequence[Turn]) -> Ending | None:
    """How a run that ends without a call left the task undone, which it may have had to."""
    worked = any(works(act) for turn in thread for act in turn.acts)
    if reading.has_tools and not worked:
        why = "announced an action, called no tool"
        return _by_words(thread[-1], why, certain=False)
    refuses = (_attended(thread) or reading.has_tools) and _unfinished(thread)
    refusal = _refusal(reading, thread) if refuses else None
    if refusal is None:
        return None
    turn, sentence = refusal
    why = f"refused: “{cut(sentence, 50)}”"
    return Ending(turn=turn, why=why, evidence=quote_turn(turn, sentence), certain=False)


def _after_failure(reading: Reading, thread: Sequence[Turn]) -> Turn | None:
    """The first turn that refuses straight after calls that all failed, and never tried again."""
    for before, turn in pairwise(thread):
        failed = {act.name for act in before.acts if act.reply.failed}
        if turn.acts or not failed or len(failed) < len({act.name for act in before.acts}):
            continue
        again = any(reading.last_called[name] > turn.index for name in failed)
        if _CANNOT.search(turn.said) and not again:
            return turn
    return None


def _attended(thread: Sequence[Turn]) -> bool:
    """Did somebody speak to the run after its beginning, a person or another of its group?"""
    return any(
        turn.overheard or any(heard.role == "user" for heard in turn.heard) for turn in thread[1:]
    )


def _announces(sentence: str) -> bool:
    asks = sentence.endswith("?") or re.search(r"\bplease\b", sentence, re.I)
    return bool(_ANNOUNCES.search(sentence)) and not asks


def _says_nothing(thread: Sequence[Turn]) -> bool:
    """No words at the end, or a scrap of one straight after a failed call."""
    words = thread[-1].said
    if words.lower() in NOTHING:
        return True
    before = thread[-2].acts if len(thread) > 1 else ()
    scrap = len(words.split()) < 2 and words.isalpha()
    return scrap and any(act.reply.failed for act in before)


def _stopped_itself(turn: Turn) -> bool:
    response = turn.ask.response
    return response.message is not None and response.stop in (None, "end") and not turn.ask.error


def _unfinished(thread: Sequence[Turn]) -> bool:
    """Was nothing changed in the whole run, or did the last attempt to change something fail?

    Where the work was done, a refusal or a hand-over of what remained is mostly what was asked.
    """
    tried = [
        act for turn in thread for act in turn.acts if mutates(act.span) and not hands_over(act)
    ]
    return not tried or bool(tried[-1].reply.failed)


def _refusal(reading: Reading, thread: Sequence[Turn]) -> tuple[Turn, str] | None:
    """The last refusing sentence of the last few turns, before goodbyes, and its turn."""
    for turn in reversed(thread[-_LAST_TURNS:]):
        if _acts(reading, turn):
            break
        words = turn.said if len(turn.said) < _LONG_TURN else turn.said[-_TURN_END:]
        for sentence in _sentences(words):
            if _REFUSES.search(sentence):
                return turn, sentence
    return None


def refusal(turn: Turn) -> str | None:
    """The first sentence in which a turn refuses, None where it does not."""
    found = (each for each in _sentences(turn.said) if _REFUSES.search(each))
    return next(found, None)


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+|\n+", text)


def _closing(text: str) -> list[str]:
    """The last sentences of the prose: code, data and commands behind it left out."""
    lines = [line.strip() for line in text.splitlines()]
    prose = [line for line in lines if len(line.split()) >= 4 and _PROSE.match(line)]
    return re.split(r"(?<=[.!?:])\s+", " ".join(prose[-_LAST_LINES:])) if prose else []
