"""Does a run meet the checks of its golden task? Needs nothing but Python, as exports carry a copy.

A check is an object with its `kind`; `rows` of a predicate were read by `arc`, which knows their
language. A run is an object: `calls` it made, each a `tool`, its `arguments` and whether it
`failed`, the `answer` it ended with, and all texts it `said`.

A verdict is True, False, or None where a check cannot be decided here: by a judge, by a rule.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Iterator
from typing import Any

_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def grade(checks: Iterable[dict[str, Any]], run: dict[str, Any]) -> list[dict[str, Any]]:
    """Each check with its verdict, and why where it is not met."""
    found = []
    for check in checks:
        passed, why = _verdict(check, run)
        found.append({"kind": check["kind"], "passed": passed, "why": why})
    return found


def overall(verdicts: Iterable[dict[str, Any]]) -> bool | None:
    """False where a check is not met, None where one is undecided or there is none, else True."""
    passed = [each["passed"] for each in verdicts]
    if False in passed:
        return False
    return None if None in passed or not passed else True


def _verdict(check: dict[str, Any], run: dict[str, Any]) -> tuple[bool | None, str]:
    if check["kind"] == "actions":
        wrong = next(_action_problems(check, run["calls"]), None)
        return (None if wrong == TOO_MANY else wrong is None), wrong or ""
    if check["kind"] == "predicate":
        met = _any(_all(_row(row, run)) for row in check["rows"])
        return met, "" if met else f"not met: {check['expect']}"
    if check["kind"] == "answer":
        text = run["answer"] if check.get("where", "answer") == "answer" else "\n".join(run["said"])
        met = _any(_holds(check["how"], text or "", each) for each in check["texts"])
        return met, "" if met else f"{check['how']} not met: {' or '.join(check['texts'])}"
    return None, f"{check['kind']}: not decided here"


# --- gold actions


def _action_problems(check: dict[str, Any], made: list[dict[str, Any]]) -> Iterator[str]:
    """A gold action that no call made, a call in the wrong order, a call that none asks for."""
    calls = [call for call in made if not call.get("failed")]
    wanted = check["actions"]
    pairs = _pair(calls, wanted)
    for place, action in enumerate(wanted):
        if place not in pairs:
            yield f"not made: {_phrase(action)}"
    if len(pairs) == len(wanted):
        yield from _order_problems(check, calls, wanted)
    taken = set(pairs.values())
    for row, call in enumerate(calls):
        if row not in taken and call["tool"] in check.get("only", ()):
            yield f"not asked for: {_phrase(call)}"


def _pair(calls: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> dict[int, int]:
    """The call of each gold action, as many as can have one: those with given arguments first."""
    found: dict[int, int] = {}
    exact_first = sorted(range(len(wanted)), key=lambda at: wanted[at].get("arguments") is None)
    for place in exact_first:
        taken = set(found.values())
        rows = (row for row in range(len(calls)) if row not in taken)
        row = next((row for row in rows if _is_made(calls[row], wanted[place])), None)
        if row is not None:
            found[place] = row
    return found


def _order_problems(
    check: dict[str, Any], calls: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> Iterator[str]:
    """Can the actions be made in their order?"""
    if check.get("order", "any") == "any":
        return
    pairs = check.get("after", ())
    if check["order"] == "sequence":
        pairs = [(place - 1, place) for place in range(1, len(wanted))]
    before: dict[int, set[int]] = {place: set() for place in range(len(wanted))}
    for earlier, later in pairs:
        before[later].add(earlier)
    possible = _can_be_made(calls, wanted, before)
    if possible is None:
        yield TOO_MANY
    elif not possible:
        yield f"not in the order of the task: {' → '.join(map(_phrase, wanted))}"


_MOST_TRIES = 50_000
TOO_MANY = "too many ways to give the calls to the actions: undecided"


def _can_be_made(
    calls: list[dict[str, Any]], wanted: list[dict[str, Any]], before: dict[int, set[int]]
) -> bool | None:
    """Is there a way to give the calls, one after the other, to the actions in their order? None
    where too many would have to be tried."""
    waiting = [(frozenset[int](), 0)]
    seen = set(waiting)
    while waiting:
        if len(seen) > _MOST_TRIES:
            return None
        held, at = waiting.pop()
        if len(held) == len(wanted):
            return True
        if at == len(calls):
            continue
        options = [held]
        options += [
            held | {place}
            for place in range(len(wanted))
            if place not in held and before[place] <= held and _is_made(calls[at], wanted[place])
        ]
        for option in options:
            if (option, at + 1) not in seen:
                seen.add((option, at + 1))
                waiting.append((option, at + 1))
    return False


def _is_made(call: dict[str, Any], action: dict[str, Any]) -> bool:
    given = action.get("arguments")
    same = given is None or _same(call.get("arguments"), given)
    return bool(call["tool"] == action["tool"]) and same


def _phrase(call: dict[str, Any]) -> str:
    given = call.get("arguments")
    return call["tool"] if given is None else f"{call['tool']}({json.dumps(given, sort_keys=True)})"


# --- predicates


def _row(row: list[dict[str, Any]], run: dict[str, Any]) -> Iterator[bool | None]:
    """What each part of a row comes to: conditions on arguments speak of the tool before them."""
    about: list[dict[str, Any]] = []
    for each in row:
        if each["field"] == "text":
            yield _turn(_matches(each, run["answer"] or ""), each)
        elif each["field"] == "calls":
            yield _turn(_matches(each, len(run["calls"])), each)
        elif each["none"]:
            yield _turn(not run["calls"], each)
        elif each["field"] == "tool" and not each["turned"]:
            if about:
                yield _of_calls(about, run["calls"])
            about = [each]
        elif each["field"] == "tool":
            yield _of_calls([each], run["calls"])
        else:
            about.append(each)
    if about:
        yield _of_calls(about, run["calls"])


def _of_calls(about: list[dict[str, Any]], calls: list[dict[str, Any]]) -> bool | None:
    """Of some call; where nothing is said but what is not, of all."""
    each_call = [_all(_turn(_of_call(each, call), each) for each in about) for call in calls]
    if all(each["turned"] for each in about):
        return _all([*each_call, True])
    return _any([*each_call, False])


def _of_call(each: dict[str, Any], call: dict[str, Any]) -> bool | None:
    if each["field"] == "tool":
        return _matches(each, call["tool"])
    return _any([_matches(each, value) for value in _values(call.get("arguments"), each["path"])])


def _matches(each: dict[str, Any], found: Any) -> bool:
    if each["how"] == "~":
        text = found if isinstance(found, str) else _json(found)
        return re.search(each["value"], text) is not None
    if each["how"] == "=":
        return bool(found == each["value"]) or any(_same(found, other) for other in each["also"])
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return number and bool(_COMPARED[each["how"]](found, float(each["value"])))


def _values(value: Any, path: list[Any]) -> Iterator[Any]:
    """The values at the places that a path names: keys, places, `*`, `[*]`, and `**` for any."""
    if not path:
        yield value
        return
    head, *rest = path
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    if head == {"any": "**"}:
        yield from _values(value, rest)
    for step, each in inner:
        if head == {"any": "**"}:
            yield from _values(each, path)
        elif head == {"any": "*"}:
            if isinstance(step, str):
                yield from _values(each, rest)
        elif head == {"any": "[*]"}:
            if isinstance(step, int):
                yield from _values(each, rest)
        elif head == step and isinstance(head, str) == isinstance(step, str):
            yield from _values(each, rest)


def _turn(holds: bool | None, each: dict[str, Any]) -> bool | None:
    return holds if holds is None else holds is not each["turned"]


def _all(parts: Iterable[bool | None]) -> bool | None:
    found = list(parts)
    return False if False in found else None if None in found else True


def _any(parts: Iterable[bool | None]) -> bool | None:
    found = list(parts)
    return True if True in found else None if None in found else False


# --- answers


def _holds(how: str, answer: str, text: str) -> bool | None:
    """None where a letter of multiple choice is wanted and the answer has none."""
    if how == "regex":
        return re.search(text, answer) is not None
    if how == "equals":
        return _plain(answer) == _plain(text)
    if len(text) == 1 and text.isalpha():
        letters = re.findall(r"(?<!\w)[A-Z](?!\w)", answer.strip())
        return letters[-1] == text.upper() if letters else None
    plain = _plain(answer)
    lines = [_plain(line) for line in text.splitlines() if line.strip()]
    return all(re.search(rf"(?<!\w){re.escape(line)}(?!\w)", plain) for line in lines)


def _plain(text: str) -> str:
    """Letter case, white space and the commas of long numbers do not count."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(text.casefold().split()))


# --- values


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _same(left: Any, right: Any) -> bool:
    """Key order is free, 1 equals 1.0, and true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return bool(left == right) and (numbers or type(left) is type(right))
