"""`arc calibrate --sources`: how right candidates are on agents they were not fitted on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from arc_tui.features.calibration.tables import NOTHING_STATED, STATED, STATED_NOTE, stated_cells
from arc_tui.ui import format
from arc_tui.ui.tables import Table, counted, share, short, signed
from replay.errors import ArcError
from replay.statistics import Rate
from replay.store.handle import Store
from taxonomy.calibration.localisation import Hits
from taxonomy.calibration.sources import (
    MEANT,
    OURS,
    Difference,
    SourceFigures,
    measure_files,
    read_file,
)

HELD_OUT = (
    "each source is held out: weights, bands, best step and best position saw the other sources"
    " only; the outcome is hidden from the rules"
)
ALL_SHOWN = (
    f"`{OURS}` counts positional guesses, `{MEANT}` takes them for an abstention; an abstention is"
    " a miss"
)
HINDSIGHT = "in hindsight: the best step and position of these very labels, each figure by itself"


class SourcesView(Struct, frozen=True, eq=False, kw_only=True):
    """The figures of each label file, that with the least gain over the naive baselines first;
    `empty` are files whose labels match no run of the database."""

    sources: tuple[SourceFigures, ...]
    empty: tuple[str, ...] = ()


def build_sources(store: Store, paths: Iterable[Path]) -> SourcesView:
    """Every label file, and those of every folder. Raises ArcError where there is none, or one
    holds no label."""
    files = [read_file(store, path) for path in dict.fromkeys(_files(paths))]
    return SourcesView(
        sources=measure_files([each for each in files if each.runs]),
        empty=tuple(each.name for each in files if not each.runs),
    )


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not found:
            raise ArcError(
                f"{path}: contains no label file", "Try: a folder of .jsonl files, one a source"
            )
        yield from found


def sources_tables(sources: Sequence[SourceFigures]) -> Iterator[Table]:
    """A table a source, then what is stated and shown of each."""
    broken = [each for each in sources if each.runs]
    for each in broken:
        yield _where(each, is_last=each is broken[-1])
    yield _gains(broken)
    yield _silence(sources)
    yield _bands(sources)


COLUMNS = ("exact", "±1", "±3", "±5", "top 3", "abstained")


def _where(each: SourceFigures, *, is_last: bool) -> Table:
    return Table(
        title=f"{_title(each)}: {format.count(each.runs, 'run')} with a decisive step",
        columns=("", *COLUMNS),
        rows=tuple(source_rows(each)),
        notes=(HELD_OUT, ALL_SHOWN, HINDSIGHT) if is_last else (),
    )


def _title(each: SourceFigures) -> str:
    return each.name if each.made_by == "people" else f"{each.name} (a rule's labels)"


def source_rows(each: SourceFigures) -> Iterator[tuple[str, ...]]:
    """A row a guesser of one source, hindsight last."""
    for found in each.localisation:
        yield (found.name, *_cells(found.over_all, share), share(found.abstained))
    if each.hindsight is not None:
        known = each.hindsight
        yield (f"in hindsight: step {known.step}", *_cells(known.constant, share), "")
        position = f"in hindsight: position {short(known.position)}"
        yield (position, *_cells(known.relative, share), "")


def _cells(hits: Hits, cell: Callable[[Rate], str]) -> tuple[str, ...]:
    rates = (hits.exact, hits.within_1, hits.within_3, hits.within_5, hits.top_3)
    return tuple(map(cell, rates))


def _gains(sources: Sequence[SourceFigures]) -> Table:
    rows = (
        (_title(each), str(each.runs), *_gain(each.exact), *_gain(each.top_3)) for each in sources
    )
    return Table(
        title="gain over the best naive baseline of each source",
        columns=("source", "n", "exact", "over", "top 3", "over"),
        rows=tuple(rows),
        notes=("95 % interval of a paired bootstrap over tasks",),
    )


def _gain(found: Difference | None) -> tuple[str, str]:
    if found is None:
        return format.UNKNOWN, format.UNKNOWN
    interval = f"{signed(found.value)} ({signed(found.low)} to {signed(found.high)})"
    return interval, found.baseline


def _silence(sources: Sequence[SourceFigures]) -> Table:
    rows = (
        (_title(each), counted(each.false_candidates), counted(each.named_error))
        for each in sources
    )
    return Table(
        title="runs without a decisive step, and any error named",
        columns=("source", "false candidates", "first names any error"),
        rows=tuple(rows),
        notes=(
            "false candidates: of the runs without a decisive step, those that get a candidate",
            "first names any error: of the runs with a step that a label calls wrong, those whose"
            " first shown step is one",
        ),
    )


def _bands(sources: Sequence[SourceFigures]) -> Table:
    rows = tuple((_title(each), *stated_cells(band)) for each in sources for band in each.stated)
    return Table(
        title="stated accuracy of first candidates",
        columns=("source", *STATED),
        rows=rows,
        notes=(STATED_NOTE,) if rows else (NOTHING_STATED,),
    )
