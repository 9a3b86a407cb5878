"""How much of what a trace should hold did a reader find, and where may the rest be?

Each part of a call (messages, tokens, stop reasons, …) is counted over the calls of a file. What is
missing is either absent in the source, or stands there under a name that the reader does not
understand: such names are looked for among what it left over.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec import Struct

from replay.trace import AnySpan, Batch, Json, ModelCall, ToolCall

MOST_NAMES = 3
"""How many names are told that may hold what is missing."""

_MOST_DEPTH = 6
_EMPTY: tuple[Json, ...] = (None, "", [], {})


class Part(Struct, frozen=True, kw_only=True):
    """One part of the calls of a file: known of so many. `names` are fields of the source that may
    hold it where it is not known, and in how many calls: none where it is absent."""

    name: str
    known: int
    total: int
    names: dict[str, int] = {}


class Coverage:
    """The parts of a file's calls, counted as its batches come."""

    def __init__(self) -> None:
        self.traces = 0
        self.outcomes = 0
        self._totals: Counter[str] = Counter()
        self._known: Counter[str] = Counter()
        self._names: dict[str, Counter[str]] = {}

    def add(self, batch: Batch) -> None:
        if batch.last:
            self.traces += 1
            self.outcomes += batch.header.outcome is not None
        for span in batch.spans:
            self._add(span)

    def _add(self, span: AnySpan) -> None:
        if not isinstance(span, (ModelCall, ToolCall)):
            return
        self._totals[type(span).__name__] += 1
        left: list[str] | None = None
        for check in _CHECKS:
            if not isinstance(span, check.kind):
                continue
            if check.is_known(span):
                self._known[check.name] += 1
            elif check.pattern is not None:
                left = [*_names_in(span.extra)] if left is None else left
                found = {name for name in left if check.pattern.search(name)}
                outer = {name for name in found if not _is_below(name, found)}
                self._names.setdefault(check.name, Counter()).update(outer)

    @property
    def model_calls(self) -> int:
        return self._totals["ModelCall"]

    @property
    def tool_calls(self) -> int:
        return self._totals["ToolCall"]

    def parts(self) -> tuple[Part, ...]:
        """The parts of the calls there are, each model call's and each tool call's."""
        return tuple(
            Part(
                name=check.name,
                known=self._known[check.name],
                total=total,
                names=dict(self._names.get(check.name, Counter()).most_common(MOST_NAMES)),
            )
            for check in _CHECKS
            if (total := self._totals[check.kind.__name__])
        )


class _Check(Struct, frozen=True, kw_only=True):
    """A part: whether a call has it, and how a field is called that may hold it."""

    name: str
    kind: type[ModelCall] | type[ToolCall]
    is_known: Callable[[Any], bool]
    pattern: re.Pattern[str] | None = None


def _model(name: str, is_known: Callable[[ModelCall], bool], pattern: str | None) -> _Check:
    compiled = re.compile(pattern, re.I) if pattern is not None else None
    return _Check(name=name, kind=ModelCall, is_known=is_known, pattern=compiled)


def _tool(name: str, is_known: Callable[[ToolCall], bool], pattern: str | None) -> _Check:
    compiled = re.compile(pattern, re.I) if pattern is not None else None
    return _Check(name=name, kind=ToolCall, is_known=is_known, pattern=compiled)


_CONTENT = r"(^|[._])(messages?|prompts?|contents?|inputs?|request|text|chat_history)$"
_ANSWER = r"(^|[._])(completions?|outputs?|response|answer|choices|generations|content|text)$"
_TOKENS = r"usage|token_?count|(?<!max)_?tokens?(_?(in|out|input|output|used))?$"

_CHECKS = (
    _model("messages", lambda call: call.request.context is not None, _CONTENT),
    _model("system prompt", lambda call: call.request.system is not None, r"system|instructions"),
    _model("tool definitions", lambda call: call.request.tools is not None, r"tools$|functions$"),
    _model("answer", lambda call: call.response.message is not None, _ANSWER),
    _model("stop reason", lambda call: call.response.stop is not None, r"finish|stop_?reason"),
    _model(
        "model", lambda call: (call.request.model or call.response.model) is not None, r"model$"
    ),
    _model(
        "tokens",
        lambda call: (
            call.usage is not None
            and call.usage.input_tokens is not None
            and call.usage.output_tokens is not None
        ),
        _TOKENS,
    ),
    _model(
        "cached tokens",
        lambda call: call.usage is not None and call.usage.cache_read_tokens is not None,
        r"cache",
    ),
    _model("start and end", lambda call: None not in (call.start_ns, call.end_ns), None),
    _tool("model call that asked", lambda call: call.asked_by is not None, None),
    _tool(
        "arguments",
        lambda call: call.arguments is not None or call.arguments_raw is not None,
        r"arg(ument)?s|param|inputs?$",
    ),
    _tool(
        "result",
        lambda call: call.observation is not None or call.error is not None,
        r"results?$|outputs?$|response$|content$|observation",
    ),
)


def _is_below(name: str, others: Collection[str]) -> bool:
    return any(name.startswith(f"{other}.") for other in others)


def _names_in(value: Json, name: str = "", depth: int = 0) -> Iterator[str]:
    """Every name in what a reader left over; those of our own groups (attributes, events) are left
    out."""
    if depth > _MOST_DEPTH or value in _EMPTY:
        return
    if isinstance(value, dict):
        for key, each in value.items():
            bare = not name and key in ("attributes", "events")
            below = "" if bare else f"{name}.{key}".lstrip(".")
            yield from _names_in(each, below, depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for each in value:
            yield from _names_in(each, name, depth + 1)
    if name:
        yield name
