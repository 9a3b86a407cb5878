"""How is an error made of a recording? By rule, the same each time, in JSON and in prose."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import NamedTuple

from replay import messages
from replay.digests import bare_text
from replay.error_injection import values
from replay.error_injection.values import (
    MONTHS,
    STATUSES,
    Path,
    RunTexts,
    Sort,
    Wrong,
    about,
    decoded,
    forms,
    sort_of,
)
from replay.tool_errors import is_error
from replay.trace import Json, Step, ToolCall, Trace

_OF_A_CALL: tuple[Sort, ...] = ("id", "amount", "date", "status", "number")
"""Which argument of a call is changed before others: what it is about."""

TOOL_ERROR = "Error: the tool did not answer in time."
"""What stands in place of an observation that an error takes the place of."""


# --- a wrong observation


def wrong_observation(trace: Trace, step: Step) -> Wrong | None:
    """The step's observation with one fact changed, None where none can be made wrong.

    Of several calls the first whose result says one that the agent goes by, else that says one.
    """
    known = RunTexts(trace, step)
    for going_by in (True, False):
        for place, call in enumerate(step.acts):
            if call.observation is None or not isinstance(call.arguments, dict):
                continue
            text = messages.observed(call.observation).text
            changed = _changed(known, call, text, going_by=going_by)
            if changed is not None:
                fact, false = changed
                return Wrong(
                    kind="observation",
                    step=step.index,
                    call=place,
                    tool=call.name,
                    arguments=call.arguments,
                    text=_rewritten(text, decoded(text), fact.value, false),
                    path=values.shown_path(fact.path),
                    false=(false,),
                    true=(fact.value,),
                    about=about(call.arguments, decoded(text)),
                )
    return None


class _Fact(NamedTuple):
    """A value of an observation that could be made wrong: a leaf of it, or a word in `prose`."""

    path: Path
    value: Json
    sort: Sort
    prose: bool


def _changed(
    known: RunTexts, call: ToolCall, text: str, *, going_by: bool
) -> tuple[_Fact, Json] | None:
    """A fact that the agent goes by later, or any, and what it becomes; None where there is none
    that can be made wrong."""
    found = [fact for fact in _facts(decoded(text)) if _may_change(known, call, fact)]
    found.sort(key=lambda fact: values.SORTS.index(fact.sort))
    for fact in found:
        if going_by and not known.used(fact.value):
            continue
        word = f"{known.trace.id} {known.step.index}"
        for false in values.wrong_values(fact.value, fact.sort, word):
            if known.fresh(false, fact.sort):
                return fact, false
    return None


def _facts(whole: Json) -> Iterator[_Fact]:
    """The values an observation says: its leaves, and what stands in those that are prose."""
    for path, leaf in values.leaves(whole):
        sort = values.sort_of(path, leaf)
        if sort is not None:
            yield _Fact(path, leaf, sort, prose=False)
        elif isinstance(leaf, str):
            for fact in sorted(facts(leaf), key=lambda fact: fact.at):
                yield _Fact(path, fact.value, fact.sort, prose=True)


def _may_change(known: RunTexts, call: ToolCall, fact: _Fact) -> bool:
    """Is it a value, and would a wrong one not be seen at once? What was asked for by an id has
    that id; a common word in prose is a value where the agent goes by it."""
    if fact.prose and fact.sort in ("status", "name"):
        return known.used(fact.value)
    by = fact.sort == "id" or (fact.prose and fact.sort == "number")
    return not (by and values.held_by(fact.value, call.arguments))


def _rewritten(text: str, whole: Json, value: Json, false: Json) -> str:
    """The text with the fact changed wherever it stands, otherwise as it was written."""
    if isinstance(whole, str):
        return said_instead(text, value, false)
    made = whole
    for path, each in values.leaves(whole):
        other = values.in_its_place(each, value, false)
        if other is None and isinstance(each, str) and values.sort_of(path, each) is None:
            other = said_instead(each, value, false)
        if other is not None:
            made = values.with_leaf(made, path, other)
    if not isinstance(whole, (dict, list)):
        return bare_text(made)
    wide = '": ' in text
    return json.dumps(
        made,
        ensure_ascii=False,
        indent=2 if text.startswith(("{\n", "[\n")) else None,
        separators=(", ", ": ") if wide else (",", ":"),
    )


# --- an error in its place


def tool_error(step: Step) -> Wrong | None:
    """The step's first result replaced by an error, None where it has none that worked."""
    for place, call in enumerate(step.acts):
        if call.observation is None or not isinstance(call.arguments, dict):
            continue
        if is_error(call):
            continue
        result = messages.observed(call.observation)
        return Wrong(
            kind="tool-error",
            step=step.index,
            call=place,
            tool=call.name,
            arguments=call.arguments,
            text=TOOL_ERROR,
            is_error=True,
            about=about(call.arguments, decoded(result.text)),
        )
    return None


# --- a wrong step


def wrong_step(trace: Trace, step: Step, reads: Callable[[ToolCall], bool]) -> Wrong | None:
    """The step's first call with one argument changed, None where none can be.

    Of a read, another call of the recording that differs in one argument is taken first: the tape
    answers it. `reads` tells of a call whether it changes nothing.
    """
    call = next((each for each in step.acts if isinstance(each.arguments, dict)), None)
    if call is None:
        return None
    if reads(call):
        for other in _calls(trace):
            path = _one_apart(call, other)
            if path is not None and other.observation is not None:
                result = messages.observed(other.observation)
                return _wrong_call(step, call, path, other.arguments, result.text, result.is_error)
    known = RunTexts(trace, step)
    for sort in _OF_A_CALL:
        for path, leaf in values.leaves(call.arguments):
            if values.sort_of(path, leaf) != sort:
                continue
            for false in values.wrong_values(leaf, sort, f"{trace.id} {step.index}"):
                if known.fresh(false, sort):
                    made = values.with_leaf(call.arguments, path, false)
                    name = values.shown_path(path)
                    refusal = f"Error: {name} {bare_text(false)} was not found."
                    return _wrong_call(step, call, path, made, refusal, True)
    return None


def _wrong_call(
    step: Step, call: ToolCall, path: Path, made: Json, text: str, is_error: bool | None
) -> Wrong:
    return Wrong(
        kind="step",
        step=step.index,
        call=step.acts.index(call),
        tool=call.name,
        arguments=call.arguments,
        wrong_arguments=made,
        text=text,
        is_error=is_error,
        path=values.shown_path(path),
        false=(_at(made, path),),
        true=(_at(call.arguments, path),),
        about=about(call.arguments, None),
    )


def _calls(trace: Trace) -> Iterator[ToolCall]:
    return (call for step in trace.steps for call in step.acts)


def _one_apart(call: ToolCall, other: ToolCall) -> Path | None:
    """The one leaf in which two calls of one tool differ, None where it is not one."""
    if other.name != call.name or not isinstance(other.arguments, dict):
        return None
    ours, theirs = dict(values.leaves(call.arguments)), dict(values.leaves(other.arguments))
    apart = [path for path in ours if ours[path] != theirs.get(path)]
    if ours.keys() != theirs.keys() or len(apart) != 1:
        return None
    return apart[0] if values.sort_of(apart[0], ours[apart[0]]) is not None else None


def _at(value: Json, path: Path) -> Json:
    for part in path:
        value = value[part]
    return value


# --- what the user says a tool returned


def replaced(step: Step, place: int, text: str, is_error: bool | None) -> Wrong:
    """The user's own result of a call. What it says falsely is where it differs from the recorded
    one: leaf by leaf where both are JSON of one shape, else by words that one of them lacks."""
    call = step.acts[place]
    recorded = messages.observed(call.observation).text if call.observation is not None else ""
    path, pairs = _apart(decoded(recorded), decoded(text))
    return Wrong(
        kind="yours",
        step=step.index,
        call=place,
        tool=call.name,
        arguments=call.arguments,
        text=text,
        is_error=is_error,
        path=path,
        false=tuple(dict.fromkeys(new for _, new in pairs if new is not None)),
        true=tuple(dict.fromkeys(old for old, _ in pairs if old is not None)),
        about=about(call.arguments, decoded(recorded)),
    )


def _apart(old: Json, new: Json) -> tuple[str, list[tuple[Json, Json]]]:
    """(the first place that differs, what it said and says there)."""
    ours, theirs = dict(values.leaves(old)), dict(values.leaves(new))
    if not isinstance(old, str) and ours.keys() == theirs.keys():
        apart = [path for path in ours if ours[path] != theirs[path]]
        first = values.shown_path(apart[0]) if apart else ""
        return first, [(ours[path], theirs[path]) for path in apart if _tells(ours[path])]
    words, others = _words(old), _words(new)
    lost = [(word, None) for word in words if word not in others]
    return "", [*lost, *((None, word) for word in others if word not in words)]


def _tells(leaf: Json) -> bool:
    return leaf is not None and not isinstance(leaf, bool)


def _words(value: Json) -> list[str]:
    """The numbers and ids of a text: words that can be known again."""
    texts = [leaf if isinstance(leaf, str) else bare_text(leaf) for _, leaf in values.leaves(value)]
    words = [word.strip(".,:;!?()\"'$€£") for text in texts for word in text.split()]
    return list(dict.fromkeys(w for w in words if len(w) > 1 and any(map(str.isdigit, w))))


class Fact(NamedTuple):
    """A value a text says: `at` is where it first does, in characters."""

    at: int
    value: Json
    sort: Sort


_MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
_DAY = re.compile(r"(?<![\w-])\d{4}-\d\d-\d\d(?![\w-])")
_DAY_FIRST = re.compile(rf"(?<!\w)(?P<d>\d\d?) (?P<m>{_MONTH})\.? (?P<y>\d{{4}})(?!\w)")
_MONTH_FIRST = re.compile(rf"(?<!\w)(?P<m>{_MONTH})\.? (?P<d>\d\d?),? (?P<y>\d{{4}})(?!\w)")
_MONEY = re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d\d)?(?![\w]|[.,]\d)")
_ID = re.compile(
    r"(?<![\w@./:-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{2,}(?![\w@/:]|\.\w)"
)
_NUMBER = re.compile(r"(?<![\w.,:/$€£-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w:/%]|[.,]\d|-\d)"
                     r"|(?<![\w.,:/$€£-])\d+(?:\.\d+)?(?![\w:/%]|[.,]\d|-\d)")  # fmt: skip
_MEASURE = re.compile(r"\d+(?:st|nd|rd|th|am|pm|[a-z]{1,2}|min|sec|hrs?|days?)", re.I)
_STATUS = re.compile(rf"\b(?:{'|'.join(word for row in STATUSES for word in row)})\b", re.I)
_NAME = re.compile(r"\b(?:name|customer|user|passenger|guest|owner|author|assignee|contact|agent"
                   r"|mr|mrs|ms|dr|dear)\b\W{1,3}(?P<name>[A-Z][a-z]+(?: [A-Z][a-z]+)+)",
                   re.I)  # fmt: skip


def facts(text: str) -> Iterator[Fact]:
    """What a text says that could be made wrong, each value once and no part of another."""
    taken: list[tuple[int, int]] = []
    seen: set[str] = set()
    for found, value, sort in _found(text):
        begins, ends = found
        if any(begins < end and start < ends for start, end in taken):
            continue
        taken.append(found)
        if value is not None and repr(value) not in seen and _saying(value).search(text):
            seen.add(repr(value))
            yield Fact(begins, value, sort)


def _found(text: str) -> Iterator[tuple[tuple[int, int], Json, Sort]]:
    """(where, value, sort), what is surest first; a value of None only takes its place."""
    for each in _DAY.finditer(text):
        yield each.span(), each[0], "date"
    for pattern in (_DAY_FIRST, _MONTH_FIRST):
        for each in pattern.finditer(text):
            yield each.span(), _day(each), "date"
    for each in _MONEY.finditer(text):
        yield each.span(), each[0], "amount"
    for each in _ID.finditer(text):
        yield each.span(), None if _MEASURE.fullmatch(each[0]) else each[0], "id"
    for each in _NUMBER.finditer(text):
        value = _number(each[0])
        yield each.span(), value if sort_of((), value) else None, "number"
    for each in _STATUS.finditer(text):
        yield each.span(), each[0], "status"
    for each in _NAME.finditer(text):
        if each["name"][0].isupper() and all(part[0].isupper() for part in each["name"].split()):
            yield each.span("name"), each["name"], "name"


def _day(found: re.Match[str]) -> str | None:
    month = next(at for at, name in enumerate(MONTHS, 1) if name.startswith(found["m"]))
    try:
        return date(int(found["y"]), month, int(found["d"])).isoformat()
    except ValueError:
        return None


def _number(text: str) -> int | float:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def said_instead(text: str, value: Json, wrong: Json) -> str:
    """The text with `wrong` wherever it says `value`, each in the form it is written in there."""
    instead = {old.lower(): new for old, new in zip(forms(value), forms(wrong), strict=False)}
    return _saying(value).sub(lambda found: instead[found[0].lower()], text)


def _saying(value: Json) -> re.Pattern[str]:
    """Any form of the value, the longest first, where it is no part of something longer."""
    written = sorted((form for form in forms(value) if len(form) > 1), key=len, reverse=True)
    any_of = "|".join(map(re.escape, written)) or "(?!)"
    return re.compile(rf"(?<![\w.,-])(?:{any_of})(?![\w]|[.,]\d|-\w)", re.I)
