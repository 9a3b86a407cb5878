"""Contradiction, of results: something is said to have worked, or to stand so, that did
not.

Success is denied where the sentence speaks of the very call that failed just before, or where
nothing had worked in the run at all; a status where the last observation of the one thing the
sentence names shows another. Policies, conditions, questions and plans are no claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.effects import words_of
from replay.tool_errors import decoded
from taxonomy.classes import FailureClass
from taxonomy.evidence.claims import STATUS_GROUPS, sentences, statuses, success
from taxonomy.evidence.reading import Act, Turn, answered, mutates, quote_turn
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "contradiction"

_IDENTIFIER = re.compile(r"[\w-]+")
_IS_STATUS = re.compile(r"(?:\w+_)?(?:status|state)", re.I)


def find(case: RuleContext) -> Iterator[Finding]:
    yield from _successes(case)
    yield from _standings(case)


def _successes(case: RuleContext) -> Iterator[Finding]:
    """The first claim, straight after a failure, of the very thing that failed."""
    for turns in case.reading.threads.values():
        latest: tuple[Act, ...] = ()
        worked = False
        for turn in turns:
            denied = [act for act in latest if act.reply.failed and mutates(act.span)]
            speaks = not turn.acts and not turn.observer
            after_failure = speaks and denied and len(denied) == len(latest)
            stem, claim = _claimed(turn) if after_failure else ("", "")
            if stem:
                about = any(word.startswith(stem) for word in words_of(denied[0].name))
                if about or not worked:
                    yield _success_finding(turn, claim, denied[0])
                    return
            worked = worked or any(
                mutates(act.span) and act.reply.failed is False for act in turn.acts
            )
            latest = turn.acts or latest


def _claimed(turn: Turn) -> tuple[str, str]:
    """(what, sentence) of the first claim of success in a turn's words."""
    for sentence in sentences(turn.said):
        stem = success(sentence)
        if stem:
            return stem, sentence
    return "", ""


def _success_finding(turn: Turn, claim: str, failed: Act) -> Finding:
    return Finding(
        failure=FailureClass.HALLUCINATED_STATE,
        step=turn.index,
        span=turn.ask.id,
        why=f"claims success after {failed.name} failed",
        rule=NAME,
        evidence=(quote_turn(turn, claim), answered(failed)),
    )


def _standings(case: RuleContext) -> Iterator[Finding]:
    """The first status given to a named thing that its last observation denies."""
    seen: dict[str, tuple[str, Act]] = {}
    for turn in case.reading.turns:
        for sentence in sentences(turn.said) if seen and not turn.observer else ():
            for group, word in statuses(sentence):
                found = _standing(seen, sentence)
                if found is not None and STATUS_GROUPS.get(found[0].lower(), group) != group:
                    status, act = found
                    yield Finding(
                        failure=FailureClass.HALLUCINATED_STATE,
                        step=turn.index,
                        span=turn.ask.id,
                        why=f"says {word}; {act.name} returned {status}",
                        rule=NAME,
                        evidence=(quote_turn(turn, sentence), _status_seen(status, act)),
                    )
                    return
        for act in turn.acts:
            _observe(seen, act)


def _standing(seen: dict[str, tuple[str, Act]], sentence: str) -> tuple[str, Act] | None:
    """The last status seen of the one thing a sentence names by its identifier."""
    named = {word for word in _IDENTIFIER.findall(sentence) if word in seen}
    return seen[named.pop()] if len(named) == 1 else None


def _observe(seen: dict[str, tuple[str, Act]], act: Act) -> None:
    """Keep the status of the thing a result describes, by every identifier in its top level."""
    value = decoded(act.reply.text) if act.reply.failed is False else None
    if not isinstance(value, dict):
        return
    status = next((v for k, v in value.items() if _IS_STATUS.fullmatch(k)), None)
    if isinstance(status, str):
        for name, entry in value.items():
            if name.endswith("id") and isinstance(entry, (str, int)):
                seen[str(entry).lstrip("#")] = (status, act)


def _status_seen(status: str, act: Act) -> Evidence:
    return Evidence(
        role="observed", text=f"status {status}", step=act.step, span=act.span.id, place=act.name
    )


RULE = Rule(
    name=NAME,
    find=find,
    shown="answer",
    against="sources",
    denies="read",
    counts_as=FailureClass.HALLUCINATED_STATE,
)
