"""Asserts of single completions, which a user wrote: layer L0 of the eval pyramid.

```toml
[[assert]]
name = "says the amount"
task = "refund *"              # runs of these tasks; every run without it
steps = "last"                 # 4, 0-4, 3- or last; every step without it
tool = "refund_*"              # steps that call such a tool
contains = ["USD", "refund"]   # each of these texts, upper and lower case alike

[[assert]]
name = "arguments fit"
tool = "refund_order"
of = "arguments"               # each call's arguments, in place of what the model said
schema = { type = "object", required = ["id"] }
```

In place of `contains` there is one of `regex` (found somewhere), `parses` (json or python),
`schema` (the text is JSON that fits it) and `classifies`: a list of labels of which the text is
one, and the one that is `expected`, where that is given: a label, or `label:NAME` for that of the
run. A text that is one fenced block stands for what is in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from replay.errors import ArcError
from replay.patterns import FOREIGN_STEPS, Pattern, TooLong, Unusable
from replay.trace import Json, Trace
from replay.written import toml_problem
from taxonomy.evidence.reading import Reading, Turn, program, schema_validator
from taxonomy.goals import is_like, is_within, range_problem

if TYPE_CHECKING:
    from jsonschema_rs import Validator

NAME = "asserts.toml"

Language: TypeAlias = Literal["json", "python"]
KINDS = ("contains", "regex", "schema", "parses", "classifies")
LAST = "last"
_LABEL = "label:"


class BadAsserts(ArcError):
    """A file of asserts that cannot be used; the message names the file and the place in it."""


class Assert(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold of each completion that it is about."""

    name: str
    task: str | None = None
    steps: str | None = None
    tool: str | None = None
    of: Literal["text", "arguments"] = "text"
    contains: str | tuple[str, ...] | None = None
    regex: str | None = None
    schema: dict[str, Any] | None = None
    parses: str | None = None
    classifies: tuple[str, ...] | None = None
    expected: str | None = None


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    asserts: tuple[Assert, ...] = msgspec.field(name="assert")


class Checked(Struct, frozen=True, kw_only=True):
    """One assert of one completion: `held` None where that cannot be told, for the answer is not
    recorded, the label of the run is missing, or the text is too long for the pattern."""

    name: str
    step: int
    held: bool | None


class Asserts:
    """A file of asserts, ready to be held against runs."""

    def __init__(self, given: tuple[Assert, ...], file: Path) -> None:
        self.file = file
        self.all = given
        self._patterns = {each.name: Pattern(each.regex) for each in given if each.regex}
        self._validators = {
            each.name: schema_validator(each.schema) for each in given if each.schema is not None
        }

    def check(self, trace: Trace, labels: Mapping[str, str]) -> list[Checked]:
        """Every assert of every completion of a run that it is about; a terminal or a person among
        the speakers completes nothing."""
        task = trace.header.task or ""
        own = [each for each in self.all if each.task is None or is_like(task, each.task)]
        turns = [turn for turn in Reading(trace).turns if not turn.observer] if own else []
        return [
            Checked(name=each.name, step=turn.index, held=self._holds(each, text, labels))
            for each in own
            for turn in turns
            if _covers(each, turn, turns[-1])
            for text in _texts(each, turn)
        ]

    def _holds(self, given: Assert, text: str | None, labels: Mapping[str, str]) -> bool | None:
        if text is None:
            return None
        if given.contains is not None:
            wanted = (given.contains,) if isinstance(given.contains, str) else given.contains
            return all(each.casefold() in text.casefold() for each in wanted)
        if given.regex is not None:
            try:
                return self._patterns[given.name].search(text, FOREIGN_STEPS) is not None
            except TooLong:
                return None
        if given.parses is not None:
            return _parses(_strip_fence(text), given.parses)
        if given.schema is not None:
            return _fits(_strip_fence(text), self._validators[given.name])
        return _classifies(given, text, labels)


def read(file: Path) -> Asserts:
    """The asserts in a file. Raises BadAsserts naming the file and the place."""
    try:
        found = msgspec.toml.decode(file.read_bytes(), type=_File).asserts
    except OSError as error:
        raise BadAsserts(f"{file}: cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAsserts(f"{file}: {toml_problem(error)}", _HINT) from error
    if not found:
        raise BadAsserts(f"{file}: has no [[assert]]", _HINT)
    names: set[str] = set()
    for at, each in enumerate(found, 1):
        wrong = next(_flaws(each), None)
        if wrong is None and each.name in names:
            wrong = "there are two of this name"
        if wrong is not None:
            raise BadAsserts(f"{file}: assert {at}, '{each.name}': {wrong}", _HINT)
        names.add(each.name)
    return Asserts(found, file)


_HINT = f"Try: [[assert]] tables with a name and one of {', '.join(KINDS)}"


def _flaws(given: Assert) -> Iterator[str]:
    kinds = [kind for kind in KINDS if getattr(given, kind) is not None]
    if not given.name.strip():
        yield "its name is empty"
    if len(kinds) != 1:
        both = " and ".join(kinds)
        yield f"has {both}: one of them is needed" if kinds else f"has none of {', '.join(KINDS)}"
    if given.of == "arguments" and given.tool is None:
        yield "is of arguments and names no `tool`"
    if given.steps not in (None, LAST):
        wrong = range_problem(given.steps or "")
        if wrong is not None:
            yield f"{wrong}, or last"
    contains = (given.contains,) if isinstance(given.contains, str) else given.contains
    if contains is not None and not all(contains or ("",)):
        yield "`contains` is empty: every text contains that"
    if given.parses is not None and given.parses not in get_args(Language):
        yield f"parses '{given.parses}' is none of {', '.join(get_args(Language))}"
    yield from _label_flaws(given)
    if given.regex is not None:
        try:
            Pattern(given.regex)
        except Unusable as error:
            yield f"regex '{given.regex}' {error}"
    if given.schema is not None and schema_validator(given.schema) is None:
        yield "its schema is not a valid JSON schema"


def _label_flaws(given: Assert) -> Iterator[str]:
    labels = given.classifies
    if labels is None:
        if given.expected is not None:
            yield "`expected` is for `classifies`"
        return
    if len({_word(label) for label in labels}) < max(len(labels), 2):
        yield "`classifies` needs two labels or more, each once"
    expected = given.expected
    if expected is not None and not expected.startswith(_LABEL) and expected not in labels:
        yield f"expected '{expected}' is none of its labels, and no label:NAME of the run"


# --- which completions, and what they say


def _covers(given: Assert, turn: Turn, last: Turn) -> bool:
    if given.steps == LAST and turn is not last:
        return False
    if given.steps not in (None, LAST) and not is_within(given.steps or "", turn.index):
        return False
    return given.tool is None or any(is_like(act.name, given.tool) for act in turn.acts)


def _texts(given: Assert, turn: Turn) -> Iterator[str | None]:
    """What is looked at, None where it was not recorded. A step that says nothing and calls a tool
    is no text."""
    if given.of == "text":
        if turn.ask.response.message is None:
            yield None
        elif turn.said or not turn.acts:
            yield turn.said
        return
    for act in turn.acts:
        if is_like(act.name, given.tool or "*"):
            span = act.span
            if act.cut:
                yield None
            elif span.arguments is None:
                yield span.arguments_raw
            else:
                yield msgspec.json.encode(span.arguments).decode()


def _strip_fence(text: str) -> str:
    """What is in the fence where the whole text is one fenced block, else the text."""
    whole = text.strip()
    fenced = whole.startswith("```") and whole.endswith("```") and whole.count("```") == 2
    return program(whole) if fenced else whole


def _parses(text: str, language: str) -> bool:
    try:
        if language == "python":
            ast.parse(text)
        else:
            msgspec.json.decode(text)
    except (msgspec.DecodeError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _fits(text: str, validator: Validator | None) -> bool:
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return validator is not None and bool(validator.is_valid(value))


def _classifies(given: Assert, text: str, labels: Mapping[str, str]) -> bool | None:
    said = _word(text)
    expected = given.expected
    if expected is not None and expected.startswith(_LABEL):
        expected = labels.get(expected.removeprefix(_LABEL))
        if expected is None:
            return None
    wanted = given.classifies or () if expected is None else (expected,)
    return said in {_word(each) for each in wanted}


def _word(text: str) -> str:
    """A label as it is compared: without case, quotes and a full stop."""
    return text.strip().strip("\"'`*.").strip().casefold()
