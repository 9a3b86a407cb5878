"""Errors put into runs on purpose: one line each, from whoever put them in.

```json
{"run": "3f09ab12", "step": 3, "corrected_after": 2}
{"run": "refund/0", "step": 2, "corrected_after": null}
{"run": "refund/1", "step": 3}
```

`run` is a trace's id (or the beginning of one), `task/trial`, or a source's own id; `step` counts
from 0. `corrected_after` is in how many steps the run mended it, null where it never did. Left
out, the step scores say so: the first later step that scores .5 or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType

from replay.errors import ArcError
from replay.injection.choice import PLACES
from replay.statistics import Rate
from taxonomy.shapes import Scores
from taxonomy.stats import grounding

TASKS = range(5, 11)
"""So many tasks a run of the benchmark get an error, by the article."""


class BadInjections(ArcError):
    """A file of injections that cannot be used; the message names the file and the line."""


class Injection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error put into a run. `corrected_after` UNSET: the run's scores tell."""

    run: str
    step: int
    corrected_after: int | UnsetType | None = UNSET


class Recovery(Struct, frozen=True, kw_only=True):
    """How many errors were corrected within two steps. `unknown` ones have no scores to tell.

    `elsewhere` counts those put in at another place than the third or fourth step.
    """

    rate: Rate
    unknown: int = 0
    elsewhere: int = 0


def read(file: Path) -> tuple[Injection, ...]:
    """The injections of a JSON-lines file. Raises BadInjections naming file and line."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise BadInjections(f"{file}: cannot be read: {error}") from error
    return tuple(_line(file, at, line) for at, line in enumerate(lines, 1) if line.strip())


def _line(file: Path, at: int, line: bytes) -> Injection:
    try:
        found = msgspec.json.decode(line, type=Injection)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInjections(f"{file}, line {at}: {error}", _HINT) from error
    delay = found.corrected_after
    if found.step < 0 or (isinstance(delay, int) and delay < 1):
        raise BadInjections(f"{file}, line {at}: steps count from 0, a correction from 1", _HINT)
    return found


_HINT = 'a line is {"run": "…", "step": 3, "corrected_after": 2}'


def recovery(given: Iterable[Injection], scores: Mapping[str, Sequence[float | None]]) -> Recovery:
    """The recovery rate; `scores` are the step scores of a run by the name an injection gives it.

    An injection that leaves the correction out, into a run without a score after it, is unknown.
    """
    found = list(given)
    delays = list(_delays(found, scores))
    return Recovery(
        rate=grounding.recovery_rate(delays),
        unknown=len(found) - len(delays),
        elsewhere=sum(each.step not in PLACES for each in found),
    )


def _delays(
    given: Iterable[Injection], scores: Mapping[str, Sequence[float | None]]
) -> Iterator[int | None]:
    for each in given:
        if not isinstance(each.corrected_after, UnsetType):
            yield each.corrected_after
            continue
        after: Scores = scores.get(each.run, ())
        if any(score is not None for score in after[each.step + 1 :]):
            yield grounding.corrected_after(after, each.step)
