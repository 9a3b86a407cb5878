"""A judge for the local server: it reads the prompt it is sent, by rule, and answers from it alone.

It takes the mark from our first line, splits what is quoted by it, and looks: are the numbers of a
step to be found in what came before it, did a call fail that the next action takes for done? What
stands outside the quoted part it obeys, as a model would: a fence that leaks shows in its scores.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from tests.messages_api import Body, message, text

_MARK = re.compile(r"Lines that begin with (\S+) are ours")
_ORDER = re.compile(r"give (?:it|every step) (?:a|the) score (?:of )?(\d(?:\.\d+)?)", re.I)
_CLASS = re.compile(r"the class is (\w+)", re.I)
_STEP = re.compile(r"(?:next action: )?step (\d+)(?: by .*)?")
_CALL = re.compile(r"^calls (\w+) with (\{.*\})$", re.M)
_NUMBER = re.compile(r"\d+")
_CHANGES = ("refund", "cancel", "update")


class Quoted(Struct, frozen=True):
    """A piece of what was quoted."""

    label: str
    text: str


class Judge:
    """The policy. `moods` are added to the scores of a request's first, second, … answer."""

    def __init__(self, moods: Sequence[float] = (0.0,)) -> None:
        self.seen: list[Body] = []
        self._moods = moods
        self._asked: Counter[str] = Counter()

    def __call__(self, body: Body) -> Body:
        self.seen.append(body)
        said = prompt(body)
        mood = self._moods[self._asked[said] % len(self._moods)]
        self._asked[said] += 1
        given = _answer(body["output_config"]["format"]["schema"]["properties"], said, mood)
        return message(text(json.dumps(given)), model=body["model"])


def prompt(body: Body) -> str:
    """The words of the one message of a request."""
    content = body["messages"][0]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def quoted(said: str) -> list[Quoted]:
    """The pieces of a prompt."""
    mark = _mark(said)
    inside = said.split(f"\n{mark} ")[1:]
    assert inside[-1].startswith("end"), "the last line of ours says that it ends"
    pieces = [each.partition("\n") for each in inside[:-1]]
    return [Quoted(label, shown) for label, _, shown in pieces]


def _mark(said: str) -> str:
    found = _MARK.match(said)
    assert found is not None
    return found[1]


def _outside(said: str) -> str:
    mark = _mark(said)
    parts = said.split(f"\n{mark} ")
    return parts[0] + parts[-1]


def _answer(wanted: dict[str, Any], said: str, mood: float) -> Body:
    ordered = _ORDER.search(_outside(said))
    pieces = quoted(said)
    if "citations" in wanted:
        return _classified(pieces, _CLASS.search(_outside(said)))
    if "better" in wanted:
        return _compared(pieces)
    if "scored" in wanted:
        return _run(pieces, mood)
    if "score" in wanted:
        band = _band(pieces, mood)
        return {**band, "score": float(ordered[1])} if ordered else band
    return _window(pieces, mood)


def _classified(pieces: Sequence[Quoted], ordered: re.Match[str] | None) -> Body:
    """The first step with an invented number, and the line of its call; else no failure."""
    known = [piece for piece in pieces if not piece.label.startswith("gold")]
    for at, piece in enumerate(known):
        found = _STEP.fullmatch(piece.label)
        made_up = _made_up(piece, known[:at]) if found is not None else []
        if found is not None and made_up:
            line = next(line for line in piece.text.splitlines() if made_up[0] in line)
            return classified(
                int(found[1]),
                line,
                failure=ordered[1] if ordered else "bad args",
                reason=f"{made_up[0]} is not found in the context.",
            )
    return classified(0, "", failure="none", reason="All values are found in the context.")


def classified(step: int, *quotes: str, **beside: Any) -> Body:
    """An answer to the question of the class."""
    return {
        "class": beside.pop("failure", "bad args"),
        "sub_label": "",
        "step": step,
        "attribution": "agent",
        "reason": "The amount is invented.",
        "citations": [{"step": step, "quote": quote} for quote in quotes if quote],
        **beside,
    }


def _compared(pieces: Sequence[Quoted]) -> Body:
    """Better is the run with fewer invented numbers."""
    count = {"first": 0, "second": 0}
    last = dict.fromkeys(count, 0)
    for name in count:
        own = [
            Quoted(piece.label.partition(" · ")[2], piece.text)
            for piece in pieces
            if piece.label.startswith(f"{name} run")
        ]
        for at, piece in enumerate(own):
            found = _STEP.fullmatch(piece.label)
            if found is not None:
                count[name] += bool(_made_up(piece, own[:at]))
                last[name] = int(found[1])
    better = min(count, key=lambda name: count[name])
    return {
        "better": "equal" if count["first"] == count["second"] else better,
        "reason": f"{count['first']} and {count['second']} values are invented.",
        "first_steps": [last["first"]],
        "second_steps": [last["second"]],
    }


def _cites(step: int, why: str) -> Body:
    return {"rationale": why, "steps": [step]}


def _of(pieces: Sequence[Quoted]) -> tuple[int, Quoted]:
    """The step that is judged and what it said."""
    for piece in pieces:
        found = _STEP.fullmatch(piece.label)
        if found is not None and not piece.label.startswith("next"):
            return int(found[1]), piece
    raise AssertionError("no step is shown")


def _made_up(piece: Quoted, before: Sequence[Quoted]) -> list[str]:
    known = {number for each in before for number in _NUMBER.findall(each.text)}
    return [number for number in _NUMBER.findall(piece.text) if number not in known]


def _score(piece: Quoted, before: Sequence[Quoted], mood: float) -> tuple[float, str]:
    invented = _made_up(piece, before)
    why = (
        f"{invented[0]} is not found in the context."
        if invented
        else "All values are found in the context."
    )
    return round((0.2 if invented else 0.8) + mood, 3), why


def _band(pieces: Sequence[Quoted], mood: float) -> Body:
    step, output = _of(pieces)
    score, why = _score(output, pieces[: pieces.index(output)], mood)
    return {"score": score, **_cites(step, why)}


def _run(pieces: Sequence[Quoted], mood: float) -> Body:
    scored: list[Body] = []
    for at, piece in enumerate(pieces):
        found = _STEP.fullmatch(piece.label)
        if found is not None:
            score, why = _score(piece, pieces[:at], mood)
            scored.append({"step": int(found[1]), "score": score, **_cites(int(found[1]), why)})
    mean = sum(each["score"] for each in scored) / len(scored)
    last = scored[-1]["step"]
    return {"scored": scored, "overall": {"score": mean, **_cites(last, "The mean of its steps.")}}


def _window(pieces: Sequence[Quoted], mood: float) -> Body:
    step, output = _of(pieces)
    verdicts = dict(_verdicts(pieces, step, output))
    if mood < 0:
        verdicts["tool_choice"] = "no"
    return {
        key: {"verdict": verdict, **_cites(step, f"It is so at step {step}.")}
        for key, verdict in verdicts.items()
    }


def _verdicts(pieces: Sequence[Quoted], step: int, output: Quoted) -> Iterator[tuple[str, str]]:
    before = pieces[: pieces.index(output)]
    after = next(piece for piece in pieces if piece.label.startswith("next action"))
    results = [p for p in pieces if p.label.startswith(f"step {step}: ")]
    calls = _CALL.findall(output.text)
    offered = next((p.text for p in before if p.label == "tools it could call"), None)
    failed = any("as an error" in result.label for result in results)
    claims = "done" in after.text.lower()
    changed = any(name.startswith(_CHANGES) for name, _ in calls)
    last = "last step" in after.text and after.label == "next action"
    fits = offered is None or all(f"- {name}" in offered for name, _ in calls)
    yield "tool_choice", "yes" if fits else "no"
    yield "arguments_grounded", "no" if _made_up(output, before) else "yes"
    yield "result_read", "not applicable" if last or not results else _yes(not (failed and claims))
    yield "state_reverified", _yes(not failed) if changed else "not applicable"
    yield "termination", _yes("cannot" not in output.text) if last else "not applicable"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
