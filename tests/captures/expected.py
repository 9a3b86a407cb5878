"""What is true of a capture: the contents of its `expected.json`.

It says what the model server served and what the tools returned, never what a reader makes of the
file. `not_in_the_file` are sentences about what the client does not record; a reader says unknown
there.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.trace import Json


class ExpectedCall(Struct, frozen=True, kw_only=True):
    """A call that the model asked for. `result` is what the tool returned, `error` what it raised;
    `id` None where the wire has none or the client makes up its own."""

    name: str
    arguments: Json
    id: str | None = None
    result: Json = None
    error: str | None = None


class ExpectedStep(Struct, frozen=True, kw_only=True):
    """An answer of the model. `stop` is the wire's word, None where the client does not record it;
    `cache_read_tokens` are part of `input_tokens`."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    stop: str | None
    text: str | None
    calls: tuple[ExpectedCall, ...] = ()
    reasoning_tokens: int | None = None


class ExpectedRun(Struct, frozen=True, kw_only=True):
    """A run and its sums. `outcome` None: no source says how it ended."""

    task: str | None
    system: str | None
    model: str
    model_steps: int
    tool_calls: int
    tool_errors: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cost_usd: float | None
    final_answer: str | None
    outcome: str | None
    steps: tuple[ExpectedStep, ...]


class Expected(Struct, frozen=True, kw_only=True):
    """A capture: who made it, in which files, and the runs in them."""

    client: str
    files: tuple[str, ...]
    truth: str
    not_in_the_file: tuple[str, ...]
    note: str = ""
    runs: tuple[ExpectedRun, ...]

    def absent(self, path: str | None) -> frozenset[str]:
        """The fields that one of the files does not hold, by their names in this module.

        A sentence that names a file is of that file alone.
        """
        names = {Path(file).name for file in self.files}
        found: set[str] = set()
        for sentence in self.not_in_the_file:
            named = {name for name in names if name in sentence}
            if not named or (path is not None and Path(path).name in named):
                found.update(*(fields for word, fields in ABSENCES if re.search(word, sentence)))
        return frozenset(found)


_USAGE = frozenset({"input_tokens", "output_tokens", "cache_read_tokens", "cost_usd"})

ABSENCES: tuple[tuple[str, frozenset[str]], ...] = (
    ("system prompt", frozenset({"system"})),
    ("stop reason", frozenset({"stop"})),
    (r"\bcost\b", frozenset({"cost_usd"})),
    (r"^tokens", _USAGE),
    ("model name", frozenset({"model"})),
    ("cache_read_tokens", frozenset({"cache_read_tokens"})),
    ("arguments", frozenset({"arguments"})),
    ("tool calls", frozenset({"calls"})),
    ("tool results", frozenset({"result"})),
    ("words of errors", frozenset({"error"})),
    ("which answer asked for a call", frozenset({"asked_by"})),
    ("call ids", frozenset({"id"})),
    ("user's prompt", frozenset({"task"})),
    (
        "messages",
        frozenset({"system", "task", "text", "final_answer", "arguments", "result", "id"}),
    ),
    ("per-call usage|model calls", _USAGE | {"steps"}),
    ("model calls", frozenset({"system", "text", "final_answer", "id"})),
)
"""What the words of `not_in_the_file` mean."""


def expected_of(folder: Path) -> Expected:
    """What is true of the capture in a folder."""
    return msgspec.json.decode((folder / "expected.json").read_bytes(), type=Expected)
