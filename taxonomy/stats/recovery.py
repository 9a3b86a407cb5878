"""Errors put into runs on purpose: one line each, what became of them, and the recovery rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from replay import digests
from replay.error_injection.run import PLACES, Outcome
from replay.error_injection.values import Wrong
from replay.errors import ArcError
from replay.statistics import Rate, rate
from replay.store import answers
from replay.store.handle import Store, now_ns
from taxonomy.metrics import grounding
from taxonomy.shapes import Scores

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


_NOTE = "injected:"


class Tried(Struct, frozen=True, kw_only=True):
    """What one sample did about the error; `after` counts answers, None for no correction."""

    sample: int
    outcome: Outcome
    because: str
    after: int | None = None


class Injected(Struct, frozen=True, kw_only=True):
    """An error put into a run, and what became of it.

    `own` tells whether the model that went on is the recorded one.
    """

    trace: str
    task: str | None
    model: str
    own: bool
    wrong: Wrong
    tried: tuple[Tried, ...]
    at_ns: int = 0

    @property
    def decided(self) -> tuple[Tried, ...]:
        """Those of which it can be told."""
        return tuple(each for each in self.tried if each.outcome != "unknown")

    @property
    def corrected(self) -> int:
        return sum(each.outcome == "corrected" for each in self.tried)


def keep(store: Store, found: Injected) -> Injected:
    """Keep what became of an error, in place of what the same model did about it before."""
    about = digests.digest(
        "injected", found.model, digests.canonical(msgspec.to_builtins(found.wrong))
    )
    whole = structs.replace(found, at_ns=now_ns())
    answers.keep(store, f"{_NOTE}{found.trace}:{about.rpartition(':')[2][:16]}", whole)
    return whole


def kept(store: Store) -> list[Injected]:
    """Everything that was found, by trace."""
    return answers.found(store, _NOTE, Injected)


def recovery_of(found: Iterable[Injected]) -> Recovery:
    """The recovery rate over errors after which the recorded model was asked.

    `unknown` counts those of which no sample can be told.
    """
    own = [each for each in found if each.own]
    told = [each for each in own if each.decided]
    return Recovery(
        rate=rate(sum(each.corrected / len(each.decided) for each in told), len(told)),
        unknown=len(own) - len(told),
        elsewhere=sum(each.wrong.step not in PLACES for each in own),
    )


def lines(found: Iterable[Injected]) -> Iterator[Injection]:
    """A line for `arc stats --injections` of each sample that can be told."""
    for each in found:
        for tried in each.decided:
            yield Injection(run=each.trace, step=each.wrong.step, corrected_after=tried.after)
