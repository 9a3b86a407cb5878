"""Which runs does a question mean? Its tree as one condition in SQL, a function a kind of field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import reduce
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import structs

from replay.store.handle import Store
from replay.store.search import traces_saying
from replay.store.text_index import word_query
from replay.trace import Status
from taxonomy.query import values
from taxonomy.query.fields import (
    BY_NAME,
    MODELS,
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
from taxonomy.query.filter import (
    ALL,
    FEW,
    PREFERRED,
    Filter,
    among,
    few,
    found_in,
    of_values,
    without_tasks,
)
from taxonomy.query.language import And, Asks, BadQuery, Node, Not, Or, Says, Word, parse
from taxonomy.query.values import MOST_STARS, Moment, Pattern, moment, number, pattern

if TYPE_CHECKING:
    from taxonomy.owners import Owners


Named: TypeAlias = "Callable[[], Owners]"
"""Reads the owners that the settings name, where a question asks for one."""

SEARCHED = ("title", "task", "trial", "variant", "agent", "models", "outcome", "why", "source_id",
            "format", "path", "shape")  # fmt: skip
"""The columns of a run that a plain word is looked for in. `said` of its trace and `said` of its
diagnosis are the same columns as two texts: a word without a star, which may stand anywhere in one,
is looked for in these."""

_CALLED = "SELECT id FROM trace INDEXED BY trace_said WHERE complete AND ({})"
_WHY = (
    "SELECT r.id FROM diagnosis d INDEXED BY diagnosis_said"
    " CROSS JOIN trace r ON r.key = d.trace AND r.complete WHERE {}"
)
_IS_CALLED = "EXISTS (SELECT 1 FROM (SELECT id, said FROM trace) WHERE id = row AND {})"
_IS_WHY = (
    "EXISTS (SELECT 1 FROM (SELECT trace AS its, said FROM diagnosis) WHERE its = trace AND {})"
)


def runs_meant(
    store: Store, query: str, owners: Named | None = None, *, page: bool = False
) -> Filter:
    """A condition on the view `runs`. Raises BadQuery with the place of what cannot be read.

    The same runs are meant either way: for a `page` of the list each run is asked in turn what many
    of them say, else that is looked up once for all.
    """
    return _meant(store, query, owners, "run", page=page)


def words_meant(store: Store, query: str, owners: Named | None = None) -> Filter:
    """The same on the view `failures`: what a question says of failures, and its plain words, are
    asked of each thing said, all else of its run."""
    return _meant(store, query, owners, "word")


def _meant(
    store: Store,
    query: str,
    owners: Named | None,
    row: Literal["run", "word"],
    *,
    page: bool = False,
) -> Filter:
    tree = parse(query)
    if tree is None:
        return ALL
    store.db.create_function("folded", 1, _folded, deterministic=True)
    return _Meaning(store, owners, row, page=page).of(tree)


def _folded(text: str | None) -> str | None:
    """SQLite knows the case of ASCII letters alone."""
    return None if text is None else text.lower()


class _Meaning:
    """What a tree means on a database."""

    def __init__(
        self, store: Store, owners: Named | None, row: Literal["run", "word"], *, page: bool
    ) -> None:
        self._store = store
        self._owners = owners
        self._row = row
        self._page = page

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
                return self._of_run(saying(self._store, text, page=self._page))
            case Asks():
                return self._field_filter(node)

    def _word(self, word: Word) -> Filter:
        check_stars(word.text, word.at)
        wanted = pattern(word.text)
        if self._row == "word":
            found = _any(like(column, wanted) for column in values.SEARCHED_WORDS)
        elif wanted.whole:
            found = _any(like(column, wanted) for column in SEARCHED)
        else:
            return _with_text(self._store, wanted, word.text, page=self._page)
        return _any([found, _begun(word.text)])

    def _of_run(self, found: Filter) -> Filter:
        """A condition on a run, on whatever row is asked."""
        if self._row == "run":
            return found
        return Filter(f"trace IN (SELECT trace FROM runs WHERE {found.sql})", found.values)

    def _of_word(self, found: Filter, who: values.Who) -> Filter:
        if self._row == "run":
            return values.on_runs(self._store, found, who, page=self._page)
        return values.on_words(found, who)

    def _field_filter(self, asked: Asks) -> Filter:
        field = known_field(asked)
        match field:
            case Worded():
                return self._class(field, asked)
            case Blamed():
                attributions = chosen(field.of, asked)
                return self._of_word(one_of("fault", attributions), "said")
            case _:
                found = self._own(asked) if isinstance(field, Own) else self._plain(field, asked)
                return self._of_run(structs.replace(found, recorded=not field.judged))

    def _class(self, field: Worded, asked: Asks) -> Filter:
        compares(asked, ":", "=")
        name = asked.value if asked.quoted else asked.value.replace("_", " ").replace("-", " ")
        if name.strip().lower() == "untagged":
            who: values.Who = "people" if field.who == "people" else "said"
            anything = values.on_runs(self._store, Filter(), who, page=self._page)
            return Filter(f"NOT ({anything.sql})", anything.values, anything.recorded)
        found = values.of_class(self._store, name)
        if found is None:
            hint = near(name, values.class_names())
            raise BadQuery(f"unknown class {asked.value!r}", asked.at, hint)
        return self._of_word(found, field.who)

    def _own(self, asked: Asks) -> Filter:
        """The fields that no other one is like."""
        compares(asked, ":", "=")
        match asked.field:
            case "id":
                return _begun(asked.value)
            case "label":
                return labelled(asked)
            case "says":
                return saying(self._store, asked.value, page=self._page)
            case "held-out":
                return self._held_out(yes(asked))
            case _:
                return self._owned(asked)

    def _plain(self, field: Field, asked: Asks) -> Filter:
        """A field that is a column, or a row that a run has."""
        match field:
            case Text():
                return text(field, asked)
            case Choice():
                return one_of(field.column, chosen(field.of, asked))
            case Switch():
                return Filter(field.holds if yes(asked) else f"NOT ({field.holds})")
            case Number():
                return quantity(field, asked)
            case Time():
                return time(field, asked)
            case Inside():
                return inside(self._store, field, asked, page=self._page)
            case _:
                raise AssertionError(field)

    def _held_out(self, wanted: bool) -> Filter:
        from taxonomy.held_out import hidden

        tasks = hidden(self._store)
        if wanted:
            return Filter("task IN (SELECT value FROM json_each(?))", (among(tasks),))
        return without_tasks(tasks)

    def _owned(self, asked: Asks) -> Filter:
        """The failed runs whose first word, as the Pareto counts it, belongs to somebody."""
        from taxonomy.owners import NOBODY, owners_of
        from taxonomy.query.failures import first_words

        rows = first_words(self._store)
        owners = owners_of(self._store, rows, self._owners() if self._owners else NOBODY)
        fits = fitting(asked)
        return _of_traces(row.trace for row, name in zip(rows, owners, strict=True) if fits(name))


def _any(parts: Iterable[Filter]) -> Filter:
    every: Sequence[Filter] = tuple(parts)
    return Filter(
        " OR ".join(f"({part.sql})" for part in every),
        tuple(value for part in every for value in part.values),
        all(part.recorded for part in every),
    )


def _with_text(store: Store, wanted: Pattern, text: str, *, page: bool) -> Filter:
    """The runs that have a text somewhere in one of the columns `SEARCHED`, or whose id begins
    so."""
    said, why, begun = like("said", wanted), like("d.said", wanted), _begun(text)
    selects = (
        Filter(_CALLED.format(said.sql), said.values),
        Filter(_WHY.format(why.sql), why.values),
        Filter(f"SELECT row FROM trace_summary WHERE {begun.sql}", begun.values),
    )
    is_called, is_why = (
        Filter(each.format(said.sql), said.values, recorded=True) for each in (_IS_CALLED, _IS_WHY)
    )
    of_each = _any([is_called, is_why, begun]) if page else None
    return found_in(store, "row", selects, of_each=of_each)


_LISTED = "SELECT r.run FROM trace r INDEXED BY trace_by_import WHERE r.preferred"
_IN_MESSAGES, _IN_SPANS = (
    f"(SELECT rowid FROM {index} WHERE {index} MATCH ?)"
    for index in ("message_words", "span_words")
)
_SAY = (
    "SELECT e.trace FROM message_words w CROSS JOIN message_step e ON e.message = w.rowid"
    " WHERE w.message_words MATCH ?",
    "SELECT s.trace FROM span_words w CROSS JOIN span s ON s.id = w.rowid"
    " WHERE w.span_words MATCH ?",
)
_SAYS = (
    f"EXISTS (SELECT 1 FROM message_step e WHERE e.trace = {{0}} AND +e.message IN {_IN_MESSAGES})"
    f" OR EXISTS (SELECT 1 FROM span s WHERE s.trace = {{0}} AND +s.id IN {_IN_SPANS})"
)


def saying(store: Store, text: str, *, page: bool = False) -> Filter:
    """The runs whose preferred recording says a text. Of one word the index knows by itself which
    do; of more it knows where to look, and they are read."""
    word = word_query(text)
    if word is None:
        return _of_traces(traces_saying(store, text))
    found = few(store, (Filter(select, (word,)) for select in _SAY))
    if found is not None:
        said = f"{_LISTED} AND r.id IN (SELECT value FROM json_each(?))"
        return Filter(f"run IN ({said})", of_values("id", found).values, recorded=True, few=True)
    if page:
        return Filter(_SAYS.format(PREFERRED.format("id")), (word, word), recorded=True)
    return Filter(f"+run IN ({_LISTED} AND ({_SAYS.format('r.id')}))", (word, word), recorded=True)


def _begun(text: str) -> Filter:
    """The runs whose id begins so."""
    least = text.lower()
    return Filter("trace >= ? AND trace < ?", (least, least + "\U0010ffff"), recorded=True)


def _of_traces(traces: Iterable[str]) -> Filter:
    """The runs with these recordings, by whichever recording is asked."""
    recorded = "SELECT run FROM trace WHERE key IN (SELECT value FROM json_each(?))"
    return Filter(f"run IN ({recorded})", (among(traces),), recorded=True)


UNKNOWN = "unknown"
_ESCAPED = "LIKE ? ESCAPE '\\'"
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_FIRST = Moment(*(moment("2000") or (0, 0)))
"""A clock that shows less counts from the run's own beginning: no agent ran before."""


# --- what may be asked


def compares(asked: Asks, *operators: str) -> None:
    """Raises BadQuery where a field is asked otherwise than it can be."""
    if asked.operator not in operators:
        known = " or ".join(f"{asked.field}{each}" for each in operators if each)
        raise BadQuery(
            f"{asked.field} does not support {asked.operator}", asked.at, f"write {known}"
        )


def known_field(asked: Asks) -> Field:
    """The field that is asked. Raises BadQuery with the one that may be meant."""
    field = BY_NAME.get(asked.field)
    if field is None:
        raise BadQuery(f"unknown field {asked.field!r}", asked.at, _no_field(asked.field))
    return field


def _no_field(name: str) -> str:
    """The hint for an unknown field: there are too many to list them."""
    close = get_close_matches(name, BY_NAME, n=1)
    search = "To search messages, put the text in quotes."
    return f"did you mean {close[0]!r}? {search}" if close else f"{search} Try: arc help query"


def near(word: str, known: Iterable[str]) -> str:
    """The hint for an unknown name."""
    names = list(known)
    found = get_close_matches(word, names, n=1)
    return f"did you mean {found[0]!r}?" if found else f"known: {', '.join(names)}"


def check_stars(text: str, at: int) -> None:
    """Raises BadQuery for a pattern that would take too long."""
    if text.count("*") > MOST_STARS:
        raise BadQuery(f"pattern of more than {MOST_STARS} stars", at)


def yes(asked: Asks) -> bool:
    """`yes` or `no`, or how they begin."""
    compares(asked, ":", "=")
    for word in ("yes", "no"):
        if asked.value and word.startswith(asked.value.lower()):
            return word == "yes"
    raise BadQuery(f"{asked.field} is yes or no, not {asked.value!r}", asked.at)


def chosen(of: Mapping[str, str | int], asked: Asks) -> tuple[str | int, ...]:
    """What the names stand for that begin so, or have a word that does."""
    compares(asked, ":", "=")
    wanted = " ".join(asked.value.lower().replace("_", " ").replace("-", " ").split())
    found = [value for name, value in of.items() if wanted and f" {wanted}" in f" {name}"]
    if not found:
        raise BadQuery(f"unknown {asked.field} {asked.value!r}", asked.at, near(wanted, of))
    return tuple(found)


# --- texts


def like(column: str, wanted: Pattern) -> Filter:
    """A column that has the text."""
    compared = f"folded({column})" if wanted.folds else column
    return Filter(f"{compared} {_ESCAPED}", (wanted.like,))


def one_of(column: str, values: tuple[str | int, ...]) -> Filter:
    return Filter(f"{column} IN ({', '.join('?' * len(values))})", values)


def text(field: Text, asked: Asks) -> Filter:
    """A column of text: has it, is it, or has none."""
    compares(asked, ":", "=")
    if not asked.value:
        return Filter(f"coalesce({field.column}, '') = ''")
    if asked.operator == "=":
        found = Filter(f"{'value' if field.several else field.column} = ?", (asked.value,))
    else:
        wanted = _pattern(asked)
        found = like("value" if field.several else field.column, wanted)
    if not field.several:
        return found
    return Filter(MODELS.format(found.sql), found.values)


def _pattern(asked: Asks, *, whole: bool = False) -> Pattern:
    if not asked.quoted:
        check_stars(asked.value, asked.at)
    return pattern(asked.value, quoted=asked.quoted, whole=whole)


def inside(store: Store, field: Inside, asked: Asks, *, page: bool) -> Filter:
    """A row that the run has."""
    if not asked.operator:
        return Filter(field.within.format("1"))
    compares(asked, ":", "=")
    if not asked.value:
        raise BadQuery(f"missing value after {asked.field}{asked.operator}", asked.at)
    wanted = _pattern(asked, whole=field.whole)
    if wanted.whole and not wanted.stars and not wanted.folds:
        if field.calls:
            callers = few(store, _callers(asked.value, field.calls))
            if callers is not None:
                return of_values("row", callers)
            if page:
                return _calls(asked.value, field.calls)
        return Filter(field.within.format(f"{field.column} = ? COLLATE NOCASE"), (asked.value,))
    found = like(field.column, wanted)
    return Filter(field.within.format(found.sql), found.values)


_CALL = (
    "SELECT trace FROM span INDEXED BY span_tool"
    " WHERE kind = 'tool' AND name = ?1 COLLATE NOCASE AND status = ?2"
)
_CALLERS = f"""
WITH RECURSIVE caller(its) AS (
  SELECT ({_CALL} ORDER BY trace LIMIT 1)
  UNION ALL
  SELECT ({_CALL} AND trace > its ORDER BY trace LIMIT 1) FROM caller WHERE its IS NOT NULL
  LIMIT {FEW + 2})
SELECT its FROM caller WHERE its IS NOT NULL
"""
"""The traces that called a tool with this end, each found by a step in the index: a tool may be
called thousands of times in one."""


def _callers(tool: str, statuses: Iterable[Status]) -> Iterator[Filter]:
    return (Filter(_CALLERS, (tool, status)) for status in statuses)


def _calls(tool: str, statuses: Sequence[Status]) -> Filter:
    """Did a run call a tool with one of these ends?"""
    call = (
        "EXISTS (SELECT 1 FROM span INDEXED BY span_tool WHERE kind = 'tool' AND trace = row"
        " AND name = ? COLLATE NOCASE AND status = ?)"
    )
    ends = " OR ".join(call for _ in statuses)
    return Filter(ends, tuple(value for status in statuses for value in (tool, status)))


def labelled(asked: Asks) -> Filter:
    """`label:difficulty=hard`, or a text that a label or its value has."""
    name, equals, value = asked.value.partition("=")
    if equals and not asked.quoted:
        check_stars(value, asked.at)
        found = like("value", pattern(value, whole=True))
        sql, values = f"key = ? AND {found.sql}", (name, *found.values)
    else:
        wanted = _pattern(asked)
        sql = f"{like('key', wanted).sql} OR {like('value', wanted).sql}"
        values = (wanted.like, wanted.like)
    return Filter(f"EXISTS (SELECT 1 FROM json_each(labels) WHERE {sql})", values)


def fitting(asked: Asks) -> Callable[[str | None], bool]:
    """The same of a text in hand; an empty value fits where there is none."""
    if not asked.value:
        return lambda name: name is None
    wanted = _pattern(asked, whole=asked.operator == "=")
    return lambda name: name is not None and wanted.fits(name)


# --- quantities and moments


def limit_of(field: Number, asked: Asks) -> tuple[str, float | None]:
    """(the comparison, the number compared with; None where the unknown ones are asked for)."""
    compares(asked, ":", "=", "<", "<=", ">", ">=")
    operator = "=" if asked.operator == ":" else asked.operator
    if operator == "=" and asked.value.lower() == UNKNOWN:
        return operator, None
    limit = number(asked.value, field.units)
    if limit is None:
        units = " ".join(filter(None, field.units))
        example = f"{field.example} (units: {units})" if units else field.example
        hint = f"write {example}, or {field.name}:{UNKNOWN}"
        raise BadQuery(f"{asked.value!r} is not a number", asked.at, hint)
    return operator, limit


def quantity(field: Number, asked: Asks) -> Filter:
    """A number that compares so, as far as it is known."""
    operator, limit = limit_of(field, asked)
    if limit is None:
        part = f" OR NOT {field.whole}" if field.whole else ""
        return Filter(field.within.format(f"{field.column} IS NULL{part}"))
    if field.largest is not None and operator in (">", ">="):
        return Filter(f"{field.largest} {operator} ?", (limit,))
    sql = f"{field.column} {operator} ?"
    if field.falling is not None:
        sql, limit = f"{field.falling} {_TURNED[operator]} ?", -limit
        sql += "" if operator in (">", ">=") else f" AND {field.column} IS NOT NULL"
    if field.whole is not None and operator not in (">", ">="):
        sql += f" AND {field.whole}"
    return Filter(field.within.format(sql), (limit,))


def time(field: Time, asked: Asks) -> Filter:
    """A moment before, in or after a stretch of time."""
    asks_for_none = asked.operator in (":", "=") and asked.value.lower() == UNKNOWN
    if field.always is None and asks_for_none:
        return Filter(f"{field.column} IS NULL OR {field.column} < ?", (_FIRST.from_ns,))
    least, end = bounds(field.always or asked.operator, named_moment(field, asked))
    return Filter(f"{field.column} >= ? AND {field.column} < ?", (least, end))


def named_moment(field: Time, asked: Asks) -> Moment:
    """The stretch of time that is compared with. Raises BadQuery."""
    compares(asked, *((":", "=") if field.always is not None else (":", "=", "<", "<=", ">", ">=")))
    named = moment(asked.value)
    if named is None:
        hint = "write 2026, 2026-11, 2026-W47, 2026-11-20 or 2026-11-20T09:30"
        raise BadQuery(f"{asked.value!r} is not a day, week or month", asked.at, hint)
    return named


def bounds(operator: str, named: Moment) -> tuple[int, int]:
    """(the least moment, the one that is too late)."""
    never = 2**63 - 1
    least, end = {
        ">=": (named.from_ns, never),
        ">": (named.until_ns, never),
        "<": (0, named.from_ns),
        "<=": (0, named.until_ns),
    }.get(operator, named)
    return max(least, _FIRST.from_ns), end
