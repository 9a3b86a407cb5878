"""How is an error made of a recording? By rule, the same each time.

A wrong observation is the recorded one with one fact changed, wherever it says that fact; a fact
that the recorded agent went on to use is taken before others, for an error that nobody needs tells
nothing of recovery. A wrong step is the recorded call with one argument changed; it gets what the
tape holds for that call, else an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from replay import messages
from replay.injection import values
from replay.injection.said import Said
from replay.injection.values import Path, Sort
from replay.injection.wrong import Wrong, about, decoded, shown
from replay.trace import Json, Step, ToolCall, Trace

_OF_A_CALL: tuple[Sort, ...] = ("id", "amount", "date", "status", "number")
"""Which argument of a call is changed before others: what it is about."""

TOOL_ERROR = "Error: the tool did not answer in time."
"""What stands in place of an observation that an error takes the place of."""


# --- a wrong observation


def wrong_observation(trace: Trace, step: Step) -> Wrong | None:
    """The step's observation with one fact changed, None where none can be made wrong.

    Of several calls the first whose result has one.
    """
    known = Said(trace, step)
    for place, call in enumerate(step.acts):
        if call.observation is not None and isinstance(call.arguments, dict):
            text = messages.observed(call.observation).text
            found = _changed(known, call, text)
            if found is not None:
                path, true, false, made = found
                return Wrong(
                    kind="observation",
                    step=step.index,
                    call=place,
                    tool=call.name,
                    arguments=call.arguments,
                    text=made,
                    path=path,
                    false=(false,),
                    true=(true,),
                    about=about(call.arguments, decoded(text)),
                )
    return None


def _changed(known: Said, call: ToolCall, text: str) -> tuple[str, Json, Json, str] | None:
    """(path, what it said, what it says now, the whole text), None where nothing can be."""
    whole = decoded(text)
    facts = [
        (values.SORTS.index(sort), at, path, leaf, sort)
        for at, (path, leaf) in enumerate(values.leaves(whole))
        if (sort := values.sort_of(path, leaf)) is not None
        and not (sort == "id" and values.held_by(leaf, call.arguments))
    ]
    facts.sort(key=lambda fact: (not known.used(fact[3]), fact[0], fact[1]))
    for _, _, path, leaf, sort in facts:
        for false in values.wrong_values(leaf, sort, f"{known.trace.id} {known.step.index}"):
            if known.fresh(false, sort):
                shown = values.shown_path(path)
                return shown, leaf, false, _rewritten(text, whole, leaf, false)
    return None


def _rewritten(text: str, whole: Json, leaf: Json, false: Json) -> str:
    """The text with the fact changed wherever it stands, otherwise as it was written."""
    made = whole
    for path, each in values.leaves(whole):
        other = values.in_its_place(each, leaf, false)
        if other is not None:
            made = values.with_leaf(made, path, other)
    if not isinstance(whole, (dict, list)):
        return shown(made)
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
        result = messages.observed(call.observation)
        if result.is_error:
            continue
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


def wrong_step(trace: Trace, step: Step, reads: Callable[[str], bool]) -> Wrong | None:
    """The step's first call with one argument changed, None where none can be.

    Of a read, another call of the recording that differs in one argument is taken first: the tape
    answers it. `reads` tells of a tool whether it changes nothing.
    """
    call = next((each for each in step.acts if isinstance(each.arguments, dict)), None)
    if call is None:
        return None
    if reads(call.name):
        for other in _calls(trace):
            path = _one_apart(call, other)
            if path is not None and other.observation is not None:
                result = messages.observed(other.observation)
                return _wrong_call(step, call, path, other.arguments, result.text, result.is_error)
    known = Said(trace, step)
    for sort in _OF_A_CALL:
        for path, leaf in values.leaves(call.arguments):
            if values.sort_of(path, leaf) != sort:
                continue
            for false in values.wrong_values(leaf, sort, f"{trace.id} {step.index}"):
                if known.fresh(false, sort):
                    made = values.with_leaf(call.arguments, path, false)
                    name = values.shown_path(path)
                    refusal = f"Error: {name} {shown(false)} was not found."
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
    texts = [leaf if isinstance(leaf, str) else shown(leaf) for _, leaf in values.leaves(value)]
    words = [word.strip(".,:;!?()\"'$€£") for text in texts for word in text.split()]
    return list(dict.fromkeys(w for w in words if len(w) > 1 and any(map(str.isdigit, w))))
