"""The runs of an export, each with its trace, and the feedback that stands beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from replay.formats.fields import listed, obj, word
from replay.formats.intake import Source, Tally
from replay.formats.services.records import records, values


class Row(NamedTuple):
    trace: str
    run: dict[str, Any]


class Feedback:
    """What was said of runs, in records of its own."""

    def __init__(self) -> None:
        self._of: dict[str, list[dict[str, Any]]] = {}

    def add(self, run: str, said: dict[str, Any]) -> None:
        self._of.setdefault(run, []).append(said)

    def of(self, run: str | None) -> list[dict[str, Any]]:
        return self._of.get(run, []) if run is not None else []


def rows(source: Source, feedback: Feedback, tally: Tally) -> Iterator[Row]:
    """The runs; feedback is put aside."""
    for where, value in values(source, tally):
        for record in records(value, "runs", "data"):
            about = word(record.get("run_id"))
            if "run_type" not in record and "key" in record and about is not None:
                feedback.add(about, record)
                continue
            found = list(_nested(record))
            if not found:
                tally.problem(where, "is no run with an id")
            yield from found


def _nested(record: dict[str, Any]) -> Iterator[Row]:
    """A run and those within it, each once on its own."""
    waiting: list[tuple[dict[str, Any], str | None, str | None]] = [(record, None, None)]
    while waiting:
        run, above, trace = waiting.pop()
        name = word(run.get("id")) or word(run.get("run_id"))
        if name is None:
            continue
        parent = word(run.get("parent_run_id")) or above or _above(run)
        trace = word(run.get("trace_id")) or trace or _first(run) or name
        inner = listed(run.get("child_runs"))
        own = {key: value for key, value in run.items() if key != "child_runs"}
        yield Row(trace, {**own, "id": name, "parent_run_id": parent})
        waiting += [(obj(each), name, trace) for each in reversed(inner) if obj(each)]


def _order(run: dict[str, Any]) -> list[str]:
    """The ids on the way to a run: each place in its order is a time, Z, and an id."""
    order = word(run.get("dotted_order")) or ""
    return [each.partition("Z")[2] for each in order.split(".")]


def _above(run: dict[str, Any]) -> str | None:
    path = _order(run)
    return path[-2] or None if len(path) > 1 else None


def _first(run: dict[str, Any]) -> str | None:
    return _order(run)[0] or None
