"""Which runs does a question mean? Its tree as one condition in SQL.

Every value a person typed is bound, never written into the condition. What is not known fulfils no
comparison; `not` chooses all the runs that its part does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Literal, TypeAlias

from replay.store import Store
from replay.store.search import traces_saying
from taxonomy.query import asking, said
from taxonomy.query.fields import (
    BY_NAME,
    Blamed,
    Choice,
    Field,
    Inside,
    Number,
    Own,
    Switch,
    Text,
    Time,
    Worded,
)
from taxonomy.query.filter import ALL, Filter, among, without_tasks
from taxonomy.query.language import And, Asks, BadQuery, Node, Not, Or, Says, Word, parse
from taxonomy.query.values import Pattern, pattern

if TYPE_CHECKING:
    from taxonomy.owners import Owners

Named: TypeAlias = "Callable[[], Owners]"
"""Reads the owners that the settings name, where a question asks for one."""

SEARCHED = ("title", "task", "trial", "variant", "agent", "models", "outcome", "why", "source_id",
            "format", "path", "shape")  # fmt: skip
"""The columns of a run that a plain word is looked for in. `said` of its trace and `said` of its
diagnosis are the same columns as two texts: a word without a star, which may stand anywhere in one,
is looked for in these."""

_CALLED = "+row IN (SELECT id FROM trace INDEXED BY trace_said WHERE {})"
_WHY = "+trace IN (SELECT trace FROM diagnosis INDEXED BY diagnosis_said WHERE {})"


def runs_meant(store: Store, query: str, owners: Named | None = None) -> Filter:
    """A condition on the view `runs`. Raises BadQuery with the place of what cannot be read."""
    return _meant(store, query, owners, "run")


def words_meant(store: Store, query: str, owners: Named | None = None) -> Filter:
    """The same on the view `failures`: what a question says of failures, and its plain words, are
    asked of each thing said, all else of its run."""
    return _meant(store, query, owners, "word")


def _meant(store: Store, query: str, owners: Named | None, row: Literal["run", "word"]) -> Filter:
    tree = parse(query)
    if tree is None:
        return ALL
    store.db.create_function("folded", 1, _folded, deterministic=True)
    return _Meaning(store, owners, row).of(tree)


def _folded(text: str | None) -> str | None:
    """SQLite knows the case of ASCII letters alone."""
    return None if text is None else text.lower()


class _Meaning:
    """What a tree means on a database."""

    def __init__(self, store: Store, owners: Named | None, row: Literal["run", "word"]) -> None:
        self._store = store
        self._owners = owners
        self._row = row

    def of(self, node: Node) -> Filter:
        match node:
            case And(parts):
                return reduce(Filter.__and__, map(self.of, parts))
            case Or(parts):
                return _any(map(self.of, parts))
            case Not(part):
                one = self.of(part)
                return Filter(f"NOT coalesce(({one.sql}), 0)", one.values, one.recorded)
            case Word():
                return self._word(node)
            case Says(text):
                return self._of_run(_of_traces(traces_saying(self._store, text)))
            case Asks():
                return self._asked(node)

    def _word(self, word: Word) -> Filter:
        asking.check_stars(word.text, word.at)
        wanted = pattern(word.text)
        if self._row == "word":
            found = _any(asking.like(column, wanted) for column in said.SEARCHED)
        elif wanted.whole:
            found = _any(asking.like(column, wanted) for column in SEARCHED)
        else:
            found = _said(wanted)
        return _any([found, _begun(word.text)])

    def _of_run(self, found: Filter) -> Filter:
        """A condition on a run, on whatever row is asked."""
        if self._row == "run":
            return found
        return Filter(f"trace IN (SELECT trace FROM runs WHERE {found.sql})", found.values)

    def _of_word(self, found: Filter, who: said.Who) -> Filter:
        return (said.on_runs if self._row == "run" else said.on_words)(found, who)

    def _asked(self, asked: Asks) -> Filter:
        field = BY_NAME.get(asked.field)
        if field is None:
            hint = asking.near(asked.field, BY_NAME)
            quote = "To look for it in what the runs say, put it in quotes."
            raise BadQuery(f"there is no field {asked.field!r}", asked.at, f"{hint} {quote}")
        match field:
            case Worded():
                return self._class(field, asked)
            case Blamed():
                faults = asking.chosen(field.of, asked)
                return self._of_word(asking.one_of("fault", faults), "said")
            case _:
                found = self._own(asked) if isinstance(field, Own) else _plain(field, asked)
                return self._of_run(Filter(found.sql, found.values, not field.judged))

    def _class(self, field: Worded, asked: Asks) -> Filter:
        asking.compares(asked, ":", "=")
        name = asked.value if asked.quoted else asked.value.replace("_", " ").replace("-", " ")
        if name.strip().lower() == "untagged":
            anything = said.on_runs(Filter(), "people" if field.who == "people" else "said")
            return Filter(f"NOT ({anything.sql})", anything.values, anything.recorded)
        found = said.of_class(self._store, name)
        if found is None:
            hint = asking.near(name, said.class_names())
            raise BadQuery(f"there is no class {asked.value!r}", asked.at, hint)
        return self._of_word(found, field.who)

    def _own(self, asked: Asks) -> Filter:
        """The fields that no other one is like."""
        asking.compares(asked, ":", "=")
        match asked.field:
            case "id":
                return _begun(asked.value)
            case "label":
                return asking.labelled(asked)
            case "says":
                return _of_traces(traces_saying(self._store, asked.value))
            case "held-out":
                return self._held_out(asking.yes(asked))
            case _:
                return self._owned(asked)

    def _held_out(self, wanted: bool) -> Filter:
        from taxonomy.stats.holding import hidden  # it asks this package in turn

        tasks = hidden(self._store)
        if wanted:
            return Filter("task IN (SELECT value FROM json_each(?))", (among(tasks),))
        return without_tasks(tasks)

    def _owned(self, asked: Asks) -> Filter:
        """The failed runs whose first word, as the Pareto counts it, belongs to somebody."""
        from taxonomy.owners import NOBODY, owners_of
        from taxonomy.query.failures import first_words

        rows = first_words(self._store)
        named = owners_of(self._store, rows, self._owners() if self._owners else NOBODY)
        fits = asking.fitting(asked)
        return _of_traces(row.trace for row, name in zip(rows, named, strict=True) if fits(name))


def _plain(field: Field, asked: Asks) -> Filter:
    """A field that is a column, or a row that a run has."""
    match field:
        case Text():
            return asking.text(field, asked)
        case Choice():
            return asking.one_of(field.column, asking.chosen(field.of, asked))
        case Switch():
            return Filter(field.holds if asking.yes(asked) else f"NOT ({field.holds})")
        case Number():
            return asking.quantity(field, asked)
        case Time():
            return asking.time(field, asked)
        case Inside():
            return asking.inside(field, asked)
        case _:
            raise AssertionError(field)


def _any(parts: Iterable[Filter]) -> Filter:
    every: Sequence[Filter] = tuple(parts)
    return Filter(
        " OR ".join(f"({part.sql})" for part in every),
        tuple(value for part in every for value in part.values),
        all(part.recorded for part in every),
    )


def _said(wanted: Pattern) -> Filter:
    """The runs that have a text somewhere in one of the columns `SEARCHED`."""
    called = asking.like("trace.said", wanted)
    why = asking.like("diagnosis.said", wanted)
    return Filter(
        f"{_CALLED.format(called.sql)} OR {_WHY.format(why.sql)}",
        (*called.values, *why.values),
        recorded=True,
    )


def _begun(text: str) -> Filter:
    """The runs whose id begins so."""
    least = text.lower()
    return Filter("trace >= ? AND trace < ?", (least, least + "\U0010ffff"), recorded=True)


def _of_traces(traces: Iterable[str]) -> Filter:
    """The runs with these recordings, by whichever recording is asked."""
    recorded = "SELECT run FROM trace WHERE key IN (SELECT value FROM json_each(?))"
    return Filter(f"run IN ({recorded})", (among(traces),), recorded=True)
