"""Which tasks does which variant with which model pass? Runs as a matrix, as a gate compares them.

A row is a task, a column a variant with the models that answered, a cell its trials. Counted by the
database in one pass, so that it costs as much as there are cells, not runs. A run of unknown
outcome is counted as that and is in no rate and no cost per resolved task.

Agents ask a small model beside their own, in some runs: a run stands in the column of the models
that it shares with all runs there (`_bases`), and what else answered is `also`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from replay.statistics import Rate
from replay.store.handle import Store
from taxonomy.metrics import cost, reliability
from taxonomy.metrics.cost import Money
from taxonomy.metrics.reliability import Trials
from taxonomy.query.filter import ALL, Filter
from taxonomy.query.language import quote
from taxonomy.query.listing import natural, task_trials

Order: TypeAlias = Literal["changed", "task", "passed"]
_Name: TypeAlias = tuple[str | None, str | None]
_Models: TypeAlias = tuple[str | None, frozenset[str]]

ORDERS: tuple[Order, ...] = get_args(Order)
"""By how far columns differ, the most first; by name; by the share passed, the least first."""


class Column(Struct, frozen=True, kw_only=True):
    """A variant with the models that answered, and what its runs come to over all tasks.

    `variant` and `models` are None where no source says; `also` are models that answered in some of
    its runs only. `pass_one` is a mean over the tasks of
    known outcome, `pass_hat` over those of at least `k` trials; `short` are the others of these.
    """

    variant: str | None
    models: str | None
    also: tuple[str, ...]
    runs: int
    unknown: int
    pass_one: Rate
    pass_hat: Rate
    short: int
    per_resolved: Money


class Row(Struct, frozen=True, kw_only=True):
    """A task. `cells` stand under the columns, None where there is no run. `change` is the greatest
    difference between the shares of two columns, None where fewer than two are known."""

    task: str
    cells: tuple[Trials | None, ...]
    change: float | None

    @property
    def share(self) -> float | None:
        """The share of all its runs of known outcome that passed."""
        known = [cell for cell in self.cells if cell is not None]
        decided = sum(cell.n for cell in known)
        return sum(cell.passed for cell in known) / decided if decided else None

    @property
    def decided(self) -> int:
        return sum(cell.n for cell in self.cells if cell is not None)


class Matrix(Struct, frozen=True, kw_only=True):
    """Tasks by columns. `k` is that of pass^k; `taskless` runs name no task and are in no row.

    `golden` are the versions of golden sets that runs name, "" for those that name none: runs of
    several of them measure different things.
    """

    k: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    taskless: int
    golden: tuple[str, ...] = ()

    def cell_query(self, at: int, task: str) -> str:
        """The query that means the runs of a task in a column, and no others."""
        column = self.columns[at]
        own = split_models(column.models)
        beside = {
            split_models(each.models) - own
            for each in self.columns
            if own and each.variant == column.variant
        }
        return " ".join(
            (
                f"task={quote(task)}",
                f"variant={quote(column.variant or '')}",
                *_with(own or {""}),
                *(f"not ({' '.join(_with(each))})" for each in sorted(map(sorted, beside)) if each),
            )
        )


def _with(models: Iterable[str]) -> Iterator[str]:
    return (f"model={quote(model)}" for model in sorted(models))


EMPTY = Matrix(k=1, columns=(), rows=(), taskless=0)


def matrix(store: Store, chosen: Filter = ALL, *, k: int | None = None) -> Matrix:
    """The matrix of the runs that a filter chooses; rows by the order `changed`.

    `k` is the largest that at least half of the cells have trials for, unless given.
    """
    found = tuple(task_trials(store, chosen))
    bases = _bases((each.variant, split_models(each.models)) for each in found)
    cells: dict[tuple[str, _Name], Trials] = {}
    also: dict[_Name, set[str]] = {}
    taskless = 0
    golden: set[str] = set()
    for each in found:
        if each.task is None:
            taskless += each.trials.runs
            continue
        golden.update(each.golden)
        answered = split_models(each.models)
        base = bases[each.variant, answered]
        name: _Name = each.variant, ",".join(sorted(base)) or None
        also.setdefault(name, set()).update(answered - base)
        place = each.task, name
        cells[place] = _sum([cells[place], each.trials]) if place in cells else each.trials
    names = sorted(also, key=_in_order)
    asked = largest_k(cells.values()) if k is None else k
    rows = [
        _row(task, [cells.get((task, name)) for name in names])
        for task in dict.fromkeys(task for task, _ in cells)
    ]
    return Matrix(
        k=asked,
        columns=tuple(
            _column(name, also[name], [row.cells[at] for row in rows], asked)
            for at, name in enumerate(names)
        ),
        rows=sort_rows(rows, "changed"),
        taskless=taskless,
        golden=tuple(sorted(golden)),
    )


def largest_k(cells: Iterable[Trials]) -> int:
    """The largest k for which at least half of the cells of known outcome have k trials."""
    counts = sorted((cell.n for cell in cells if cell.n), reverse=True)
    return counts[(len(counts) - 1) // 2] if counts else 1


def sort_rows(rows: Iterable[Row], by: Order, *, reverse: bool = False) -> tuple[Row, ...]:
    """Rows in an order, or the other way round; what is unknown is last in both."""
    named = sorted(rows, key=lambda row: natural(row.task), reverse=reverse and by == "task")
    if by == "task":
        return tuple(named)
    sign = -1.0 if reverse else 1.0

    def rank(row: Row) -> tuple[bool, float, int]:
        value = row.change if by == "changed" else row.share
        most_first = -1.0 if by == "changed" else 1.0
        return value is None, sign * most_first * (value or 0.0), -row.decided

    return tuple(sorted(named, key=rank))


def _row(task: str, cells: Sequence[Trials | None]) -> Row:
    shares = [cell.share for cell in cells if cell is not None and cell.share is not None]
    change = max(shares) - min(shares) if len(shares) > 1 else None
    return Row(task=task, cells=tuple(cells), change=change)


def _column(name: _Name, also: Iterable[str], cells: Sequence[Trials | None], k: int) -> Column:
    known = [cell for cell in cells if cell is not None]
    counts = [(cell.n, cell.passed) for cell in known if cell.n]
    over = reliability.over_tasks(counts, k)
    decided = _sum([cell for cell in known if cell.n])
    return Column(
        variant=name[0],
        models=name[1],
        also=tuple(sorted(also)),
        runs=sum(cell.runs for cell in known),
        unknown=sum(cell.unknown for cell in known),
        pass_one=reliability.mean_rate([passed / n for n, passed in counts]),
        pass_hat=over.pass_hat,
        short=over.left_out,
        per_resolved=cost.per(decided.cost, decided.passed),
    )


def _sum(cells: Sequence[Trials]) -> Trials:
    return Trials(
        n=sum(cell.n for cell in cells),
        passed=sum(cell.passed for cell in cells),
        unknown=sum(cell.unknown for cell in cells),
        cost=cost.total(cell.cost for cell in cells if cell.n),
    )


def _in_order(name: _Name) -> list[tuple[bool, list[tuple[int, str]]]]:
    """v9 before v10; what has no name last."""
    return [(part is None, natural(part)) for part in name]


def split_models(models: str | None) -> frozenset[str]:
    """The models of a run: in which order they answered is no difference."""
    return frozenset(models.split(",")) if models else frozenset()


def _bases(runs: Iterable[_Models]) -> dict[_Models, frozenset[str]]:
    """The models by which a run is known, by its variant and all of its models.

    Those of another run of its variant that had no others, where they are in one such run only:
    who asked a large model and a small one for chores is compared with who asked the large one.
    """
    known = set(runs)
    sets: dict[str | None, set[frozenset[str]]] = {}
    for variant, models in known:
        sets.setdefault(variant, set()).add(models)
    least = {
        variant: [each for each in own if each and not any(other and other < each for other in own)]
        for variant, own in sets.items()
    }
    found = {}
    for variant, models in known:
        inside = [each for each in least[variant] if each <= models]
        found[variant, models] = inside[0] if len(inside) == 1 else models
    return found
