"""What the last fit measured: figures that ship with arc, and their tables for the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from arc_tui.features.calibration.sources import COLUMNS, source_rows, sources_tables
from arc_tui.places import fixtures
from arc_tui.ui.tables import Table
from taxonomy.calibration.sources import OURS, SourceFigures

FILE = "localiser.json"

WITHOUT_STRENGTH = "–"


class SignWorth(Struct, frozen=True, kw_only=True):
    """What one feature is worth: exact and top 3 of each label file without it, all else fitted
    anew, and in how many runs with a decisive step it speaks."""

    name: str
    meaning: str
    guess: float
    weight: float
    is_pointer: bool
    runs: Mapping[str, int]
    exact: Mapping[str, int]
    top_3: Mapping[str, int]


class FitResults(Struct, frozen=True, kw_only=True):
    """One fit. `folds` hide the outcome from the rules, `with_outcome` do not."""

    measured: str
    engine: str
    ridges: Mapping[str, float]
    folds: tuple[SourceFigures, ...]
    with_outcome: tuple[SourceFigures, ...]
    exact: Mapping[str, int]
    top_3: Mapping[str, int]
    signs: tuple[SignWorth, ...]


def shipped_fit() -> FitResults:
    """The results that came with this arc."""
    return msgspec.json.decode((fixtures() / FILE).read_bytes(), type=FitResults)


def folds_markdown(results: FitResults) -> str:
    """Every fold, the gains, and what is stated."""
    parts = [
        f"Measured on {results.measured} with {results.engine}; worst source first. In"
        " brackets stands the 95 % interval."
    ]
    rows = [
        (f"{each.name} ({each.runs})", *row) for each in results.folds for row in source_rows(each)
    ]
    parts.append(_joined(("source (n)", "guess", *COLUMNS), rows))
    parts += _summaries(results)
    parts += ["**With the outcome shown to the rules**", _outcomes(results.with_outcome)]
    return "\n\n".join(parts)


def gains_markdown(results: FitResults) -> str:
    """The gain over the best naive guess, false candidates, and what is stated."""
    return "\n\n".join((f"Measured on {results.measured}.", *_summaries(results)))


def _summaries(results: FitResults) -> Iterator[str]:
    """The tables that have a row a source."""
    for table in sources_tables(results.folds):
        if table.columns[0] == "source":
            yield f"**{table.title[0].upper()}{table.title[1:]}**"
            yield _of(table)


def signs_markdown(results: FitResults) -> str:
    """What each sign is worth: the folds with it, and without."""
    names = list(results.exact)
    head = ("sign", "weight (guess)", *(f"{name}: exact / top 3" for name in names))
    rows = [("**all signs**", "", *(_pair(results.exact, results.top_3, name) for name in names))]
    for sign in results.signs:
        cells = (
            f"{_pair(sign.exact, sign.top_3, name)} in {sign.runs[name]}"
            if sign.runs[name]
            else WITHOUT_STRENGTH
            for name in names
        )
        kind = " (pointer)" if sign.is_pointer else ""
        rows.append(
            (
                f"without {sign.name}{kind}: {sign.meaning}",
                f"{sign.weight:.2f} ({sign.guess:.2f})",
                *cells,
            )
        )
    return _joined(head, rows)


def _pair(exact: Mapping[str, int], top_3: Mapping[str, int], name: str) -> str:
    return f"{exact[name]} / {top_3[name]}"


def _outcomes(folds: Sequence[SourceFigures]) -> str:
    rows = [(each.name, *row) for each in folds for row in source_rows(each) if row[0] == OURS]
    return _joined(("source", "guess", *COLUMNS), rows)


def _of(table: Table) -> str:
    return "\n".join((_joined(table.columns, table.rows), "", *(f"{n}." for n in table.notes)))


def _joined(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (head, tuple("---" for _ in head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
