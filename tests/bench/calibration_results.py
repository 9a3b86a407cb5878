"""How right arc was when it was last measured: figures that ship with it, and their tables.

The label sets are not part of the project; what was measured on them is kept in
`fixtures/calibration.json` with the day and the versions it holds for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from arc_tui.features.calibration.tables import (
    ALL_RUNS,
    EVERY_CLASS,
    IN_HINDSIGHT,
    class_table,
    localisation_table,
)
from arc_tui.places import fixtures
from arc_tui.ui.tables import Table
from taxonomy.calibration.labels import By
from taxonomy.calibration.report import Calibration

FILE = "calibration.json"

_KIND: dict[By, str] = {"people": "people's", "rule": "a rule's (conformance)"}
_GENERAL = frozenset({IN_HINDSIGHT, ALL_RUNS, EVERY_CLASS})


class ResultSet(Struct, frozen=True, kw_only=True):
    """One label set: its name, how many labels it holds, and the figures of each kind of them."""

    name: str
    labels: int
    figures: tuple[Calibration, ...]


class Results(Struct, frozen=True, kw_only=True):
    """Everything measured on one day. `engine` is the version of what wrote the diagnoses."""

    date: str
    version: str
    engine: str
    sets: tuple[ResultSet, ...]


def shipped() -> Results | None:
    """The figures that came with this arc, None where none did."""
    path = fixtures() / FILE
    if not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=Results)


def markdown(results: Results) -> str:
    """The figures of every set as Markdown: where runs broke, and which class they show."""
    measured = [(known.name, figures) for known in results.sets for figures in known.figures]
    where = [(name, localisation_table(each)) for name, each in measured if each.decisive]
    which = [
        (f"{name}, {_KIND[each.made_by]}", class_table(found))
        for name, each in measured
        for found in each.classes
        if found.per == "run"
    ]
    said = (
        f"Measured on {results.date} with arc {results.version}, {results.engine}. In brackets"
        " stands the 95 % interval: where runs are few it is wide."
    )
    return "\n".join([said, *_joined("guess", where), *_joined("class, per run", which)])


def _joined(what: str, found: Sequence[tuple[str, Table]]) -> Iterator[str]:
    """Tables of one kind as one, the name of the label set before each row."""
    if not found:
        return
    head = ("labels", what, *found[0][1].columns[1:])
    rows = [(name, *row) for name, table in found for row in table.rows]
    yield ""
    for cells in (head, tuple("---" for _ in head), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""
    for note in dict.fromkeys(note for _, table in found for note in table.notes):
        if note in _GENERAL:
            yield f"{note[0].upper()}{note[1:]}."
    for name, table in found:
        yield from (f"{name}: {note}." for note in table.notes if note.startswith("macro"))
