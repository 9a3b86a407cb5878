"""The log of probes: `date | task_id | symptom | probe | result | classification | intervention`.

A line is known by the replay behind it, so the same probe over the same answers keeps the line and
the date it has; with more samples, or another model, it is another line.
"""

from __future__ import annotations

import datetime

from msgspec import Struct, structs

from replay.store import Store, notes
from replay.store.handle import now_ns
from taxonomy.probes.result import Result

_NOTE = "probe:"
_NONE = "–"


class LogLine(Struct, frozen=True, kw_only=True):
    """One probe that was run. `classification` and `intervention` are None where it is undecided.

    `assumed` where the user chose the probe though its symptom was not seen. `digest` is that of
    the replay it rests on, `control` and `edited` are (shows the failure, of so many answers).
    """

    trace: str
    task: str | None
    step: int
    symptom: str
    assumed: bool
    probe: str
    result: Result
    classification: str | None
    intervention: str | None
    model: str
    oracle: str
    control: tuple[int, int]
    edited: tuple[int, int]
    digest: str
    at_ns: int = 0

    @property
    def date(self) -> str:
        """The day it was run, UTC."""
        return datetime.datetime.fromtimestamp(self.at_ns // 10**9, datetime.UTC).date().isoformat()

    @property
    def columns(self) -> tuple[str, ...]:
        """The seven columns of the log."""
        return (
            self.date,
            self.task or self.trace[:8],
            f"{self.symptom} (assumed)" if self.assumed else self.symptom,
            self.probe,
            self.result,
            self.classification or _NONE,
            self.intervention or _NONE,
        )

    @property
    def line(self) -> str:
        """The columns with bars between them; a bar within one is written `/`."""
        return " | ".join(" ".join(each.replace("|", "/").split()) for each in self.columns)


COLUMNS = ("date", "task_id", "symptom", "probe", "result", "classification", "intervention")


def keep(store: Store, line: LogLine) -> LogLine:
    """Keep a line, with the date it was first run on."""
    name = f"{_NOTE}{line.digest.rpartition(':')[2]}:{line.step}:{line.probe}"
    known = notes.found(store, name, LogLine)
    dated = structs.replace(line, at_ns=known[0].at_ns if known else now_ns())
    notes.keep(store, name, dated)
    return dated


def kept(store: Store) -> list[LogLine]:
    """Every line, oldest first."""
    return sorted(notes.found(store, _NOTE, LogLine), key=lambda each: (each.at_ns, each.digest))
