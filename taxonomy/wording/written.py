"""Paraphrases that a person wrote down, by task or by trace.

```toml
[[task]]
match = "refund*"              # the task's name, upper and lower case alike
texts = [
    "I want order 1038 refunded.",
    "Order 1038: money back, please.",
]

[[task]]
trace = "3f09ab"               # the beginning of a trace's id
texts = ["..."]
```
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.errors import ArcError
from replay.trace import Trace

_HINT = "a [[task]] has `match` (a task's name) or `trace` (an id), and `texts`"


class BadParaphrases(ArcError):
    """A file of paraphrases that cannot be used; the message names the file and the place in it."""


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The paraphrases of the tasks that `match`, or of one trace."""

    texts: tuple[str, ...]
    match: str | None = None
    trace: str | None = None

    def means(self, trace: Trace) -> bool:
        if self.trace is not None:
            return trace.id.startswith(self.trace)
        name = (trace.header.task or "").lower()
        return self.match is not None and fnmatchcase(name, self.match.lower())


class Paraphrases(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of paraphrases."""

    task: tuple[Entry, ...]

    def of(self, trace: Trace) -> tuple[str, ...]:
        """Those of a trace, in the order of the file."""
        return tuple(text for entry in self.task if entry.means(trace) for text in entry.texts)


def read(file: Path) -> Paraphrases:
    """The paraphrases in a file. Raises BadParaphrases naming the file and the place."""
    try:
        found = msgspec.toml.decode(file.read_bytes(), type=Paraphrases)
    except OSError as error:
        raise BadParaphrases(f"{file}: cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadParaphrases(f"{file}: {error}", _HINT) from error
    for at, entry in enumerate(found.task, 1):
        if (entry.match is None) == (entry.trace is None):
            raise BadParaphrases(f"{file}: task {at}: give `match` or `trace`", _HINT)
        if not entry.texts:
            raise BadParaphrases(f"{file}: task {at}: `texts` is empty", _HINT)
    return found
