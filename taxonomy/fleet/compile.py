"""What does a question about runs mean in a trace store? Its tree as one condition in ClickHouse's
SQL over the id of a trace, for any dialect.

The language is that of `taxonomy.query`. A field that a store cannot tell is refused in words:
nothing that was asked is ever left out. Where a store tells something else than the database here
would, a note says what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from replay.fleet.dialect import Dialect, RunFact
from taxonomy.query.compile import (
    UNKNOWN,
    bounds,
    check_stars,
    chosen,
    compares,
    known_field,
    limit_of,
    named_moment,
)
from taxonomy.query.fields import Choice, Number, Time
from taxonomy.query.language import And, Asks, BadQuery, Node, Not, Or, Says, Word, parse
from taxonomy.query.values import Pattern, pattern


class Window(Struct, frozen=True):
    """Runs that began in this stretch of time, in ns since the epoch."""

    from_ns: int
    until_ns: int


class Compiled(Struct, frozen=True):
    """A condition on `trace`, the values of its parameters, and what the answer is not."""

    sql: str
    values: dict[str, Any]
    notes: tuple[str, ...]


def compile_text(
    text: str, dialect: Dialect, window: Window, has_outcomes: Callable[[], bool]
) -> Compiled:
    """What a question means in a store. `has_outcomes` is asked where the question is about
    outcomes: where nothing in the window has one, failed means a failed call, and a note says so.

    Raises BadQuery with the place of what cannot be read, or cannot be asked of a store.
    """
    tree = parse(text)
    meaning = _Meaning(dialect, window, has_outcomes)
    meaning.notes += dialect.notes
    sql = "1" if tree is None else meaning.of(tree)
    if dialect.services:
        sql = f"({sql}) AND {meaning.of_services()}"
    return Compiled(sql, meaning.values, tuple(dict.fromkeys(meaning.notes)))


_SUMS = {
    "tokens": ("sumIf({d.input_tokens}, {d.kind} = 'model')", "model"),
    "output": ("sumIf({d.output_tokens}, {d.kind} = 'model')", "model"),
    "duration": (
        "toUnixTimestamp64Nano(max({d.end})) - toUnixTimestamp64Nano(min({d.start}))",
        "",
    ),
    "steps": ("countIf({d.kind} = 'model')", ""),
    "calls": ("countIf({d.kind} = 'tool')", ""),
    "errors": ("countIf({d.kind} IN ('model', 'tool') AND {d.failed})", ""),
}
"""Quantities of a run, as sums over its spans."""

_ON_SPANS = {
    "step.tokens": "{d.input_tokens}",
    "step.duration": "(toUnixTimestamp64Nano({d.end}) - toUnixTimestamp64Nano({d.start}))",
}
"""Quantities of a step, of its model call."""

_BY_RULES = "it is what rules and people say of a run here"
LACKS = {
    "task": "spans name no task", "trial": "spans name no trial",
    "title": "a title is made of messages", "format": "a store has one format",
    "path": "a store has no files", "id": "the id of a run is made when it is pulled",
    "prompt": "the digest of a prompt is made when a run is pulled",
    "fidelity": "it is known once a run is pulled",
    "cost": "prices are known here alone; tokens can be asked",
    "step.cost": "prices are known here alone; step.tokens can be asked",
    "imported": "it is not imported", "score": "scores are read when a run is pulled",
    "live": "a store does not tell which runs go on", "held-out": "it is decided here",
    "shape": _BY_RULES, "why": _BY_RULES, "tag": _BY_RULES, "tagged": _BY_RULES,
    "class": _BY_RULES, "attribution": _BY_RULES, "owner": _BY_RULES, "warned": _BY_RULES,
}  # fmt: skip

PULL = "Try: arc fleet pull NAME QUERY, with what can be asked, then arc ls"

NO_OUTCOME = (
    "no run in this time has an outcome, by arc.outcome or by an evaluation of the whole run:"
    " outcome:failed is taken as errors>0"
)
ERRORS = "errors are spans with a failed status; a result that is an error by its words is not one"
_COUNTED = "steps, calls and tokens are counted by span; a call that two spans tell of counts twice"


class _Meaning:
    """What a tree means in a dialect."""

    def __init__(self, dialect: Dialect, window: Window, has_outcomes: Callable[[], bool]) -> None:
        self._d = dialect
        self._agent = f"if({dialect.kind} = 'agent', {dialect.agent}, '')"
        self._window = window
        self._has_outcomes = has_outcomes
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []

    def of(self, node: Node) -> str:
        match node:
            case And(parts):
                return " AND ".join(f"({self.of(part)})" for part in parts)
            case Or(parts):
                return " OR ".join(f"({self.of(part)})" for part in parts)
            case Not(part):
                return f"NOT ({self.of(part)})"
            case Word():
                return self._word(node)
            case Says(text):
                return self._says(text)
            case Asks():
                return self._field(node)

    # --- conditions on traces

    def _spans(self, condition: str) -> str:
        """The traces with a span of which it is true. Spans are read to the end of the store: a
        run goes on after the window."""
        d = self._d
        seen = d.since(self._window.from_ns)
        return f"trace IN (SELECT {d.trace} FROM {d.spans} WHERE {seen} AND ({condition}))"

    def _rows_say(self, fact: RunFact, condition: str) -> str:
        """The traces of which a row says so."""
        table = fact.table
        return (
            f"trace IN (SELECT {table.trace} FROM {table.rows}"
            f" WHERE {table.since(self._window.from_ns)} AND {fact.condition} AND {condition})"
        )

    def of_services(self) -> str:
        """The traces with a span of one of the services that are asked."""
        names = self._value(list(self._d.services), "Array(String)")
        return self._spans(f"{self._d.service} IN {names}")

    def _sums(self, condition: str) -> str:
        """The traces of whose spans together it is true."""
        d = self._d
        seen = d.since(self._window.from_ns)
        return (
            f"trace IN (SELECT {d.trace} FROM {d.spans} WHERE {seen}"
            f" GROUP BY {d.trace} HAVING {condition})"
        )

    def _value(self, value: Any, type_: str) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f"{{{name}:{type_}}}"

    def _like(self, column: str, wanted: Pattern) -> str:
        text = self._value(wanted.like, "String")
        return f"lowerUTF8({column}) LIKE {text}"

    # --- terms

    def _word(self, word: Word) -> str:
        """A word in what a list shows of a run: root, service, agent, models, the trace's id."""
        check_stars(word.text, word.at)
        d, wanted = self._d, pattern(word.text)
        columns = (d.service, d.model, self._agent)
        inside = [self._like(column, wanted) for column in columns]
        inside.append(f"{d.parent} = '' AND {self._like(d.span_name, wanted)}")
        begins = self._value(word.text.lower(), "String")
        found = self._spans(" OR ".join(f"({each})" for each in inside))
        return f"{found} OR startsWith(lower(toString(trace)), {begins})"

    def _says(self, text: str) -> str:
        """A text in an attribute of a span, at the beginning of a word, letter case aside."""
        self.notes.append("a quoted text is looked for in the attributes of spans")
        value = self._value(_at_word(text), "String")
        return self._spans(f"arrayExists(t -> match(t, {value}), {self._d.texts})")

    def _field(self, asked: Asks) -> str:
        field = known_field(asked)
        name = field.name
        if name in LACKS:
            raise BadQuery(f"{name} cannot be asked of this store: {LACKS[name]}", asked.at, PULL)
        if name in _SUMS or name in _ON_SPANS:
            assert isinstance(field, Number)
            return self._quantity(field, asked)
        if isinstance(field, Time):
            return self._time(field, asked)
        by_name: dict[str, Callable[[Asks], str]] = {
            "outcome": self._outcome,
            "model": lambda asked: self._text(self._d.model, asked),
            "agent": lambda asked: self._text(self._agent, asked),
            "variant": lambda asked: self._text(self._d.variant, asked),
            "source": self._source,
            "label": self._label,
            "says": lambda asked: self._says(_value_of(asked)),
            "tool": lambda asked: self._tool(asked, ""),
            "tool.error": lambda asked: self._tool(asked, self._d.failed),
            "step.error": self._step_error,
        }
        return by_name[name](asked)

    def _outcome(self, asked: Asks) -> str:
        field = known_field(asked)
        assert isinstance(field, Choice)
        d, wanted = self._d, chosen(field.of, asked)
        if not self._has_outcomes():
            self.notes += [NO_OUTCOME, ERRORS]
            failed = self._sums(_SUMS["errors"][0].format(d=d) + " > 0")
            parts = [failed if each == "failed" else f"NOT ({failed})" for each in wanted]
            if "passed" in wanted:
                raise BadQuery("no run in this time has an outcome", asked.at, "Try: errors=0")
            return " OR ".join(f"({each})" for each in parts)
        parts = []
        failed = self._rows_say(d.outcome, f"{d.outcome.value} = 'failed'")
        passed = self._rows_say(d.outcome, f"{d.outcome.value} = 'passed'")
        for each in wanted:
            match each:
                case "failed":
                    parts.append(failed)
                case "passed":
                    parts.append(f"{passed} AND NOT ({failed})")
                case _:
                    parts.append(f"NOT ({passed}) AND NOT ({failed})")
        return " OR ".join(f"({each})" for each in parts)

    def _text(self, column: str, asked: Asks) -> str:
        """A text that any span has; an empty value asks for none."""
        compares(asked, ":", "=")
        if not asked.value:
            told = self._spans(f"{column} <> ''")
            return f"NOT ({told})"
        if asked.operator == "=":
            return self._spans(f"{column} = {self._value(asked.value, 'String')}")
        return self._spans(f"{column} <> '' AND {self._like(column, self._pattern(asked))}")

    def _source(self, asked: Asks) -> str:
        compares(asked, ":", "=")
        if asked.operator == "=":
            return f"trace = {self._value(asked.value, 'String')}"
        return self._like("toString(trace)", self._pattern(asked))

    def _label(self, asked: Asks) -> str:
        compares(asked, ":", "=")
        name, equals, value = asked.value.partition("=")
        if not equals or name not in self._d.labels:
            known = ", ".join(f"label:{each}=…" for each in self._d.labels)
            raise BadQuery(
                f"label:{asked.value} cannot be asked of this store", asked.at, f"known: {known}"
            )
        fact = self._d.labels[name]
        return self._rows_say(fact, self._like(fact.value, pattern(value, whole=True)))

    def _tool(self, asked: Asks, also: str) -> str:
        d = self._d
        called = f"{d.kind} = 'tool'" + (f" AND {also}" if also else "")
        if also:
            self.notes.append(ERRORS)
        if asked.operator:
            compares(asked, ":", "=")
            called += f" AND {self._like(d.tool, pattern(_value_of(asked), whole=True))}"
        return " OR ".join(self._spans(f"({each}) AND {called}") for each in d.tools)

    def _step_error(self, asked: Asks) -> str:
        d = self._d
        self.notes.append(ERRORS)
        erred = f"{d.kind} IN ('tool', 'model') AND {d.failed}"
        if not asked.operator:
            return self._spans(erred)
        compares(asked, ":", "=")
        return self._spans(f"{erred} AND {self._like(d.message, pattern(_value_of(asked)))}")

    def _pattern(self, asked: Asks) -> Pattern:
        if not asked.quoted:
            check_stars(asked.value, asked.at)
        return pattern(asked.value, quoted=asked.quoted)

    def _quantity(self, field: Number, asked: Asks) -> str:
        operator, limit = limit_of(field, asked)
        self.notes.append(ERRORS if field.name == "errors" else _COUNTED)
        if field.name in _SUMS:
            template, needs = _SUMS[field.name]
            sql = template.format(d=self._d)
            known = f"countIf({self._d.kind} = '{needs}') > 0" if needs else "1"
            if limit is None:
                return self._sums(f"NOT ({known})")
            return self._sums(f"{known} AND {sql} {operator} {self._value(limit, 'Float64')}")
        column = f"if({self._d.kind} = 'model', {_ON_SPANS[field.name].format(d=self._d)}, NULL)"
        if limit is None:
            return self._spans(f"{self._d.kind} = 'model' AND {column} IS NULL")
        return self._spans(f"{column} {operator} {self._value(limit, 'Float64')}")

    def _time(self, field: Time, asked: Asks) -> str:
        """A condition on when a run began, which every question has beside its trace."""
        if asked.value.lower() == UNKNOWN:
            raise BadQuery("every run of a store has a start", asked.at)
        least, end = bounds(field.always or asked.operator, named_moment(field, asked))
        return f"start_ns >= {least} AND start_ns < {end}"


def _value_of(asked: Asks) -> str:
    if not asked.value:
        raise BadQuery(f"missing value after {asked.field}{asked.operator}", asked.at)
    return asked.value


def _at_word(text: str) -> str:
    """An expression of RE2 for a text where a word begins. Attributes hold messages as JSON, so
    what JSON may escape is found either way."""
    words = r"(?:\s|\\+[nrt])+".join("".join(map(_character, word)) for word in text.split())
    return rf"(?i)(?:^|[^\pL\pN_]|\\+[nrt]){words}"


def _character(each: str) -> str:
    plain = each if each.isascii() and each.isalnum() else f"\\x{{{ord(each):x}}}"
    if each.isascii():
        return rf"\\*{plain}" if each in '"\\/' else plain
    escaped = each.encode("utf-16-be").hex()
    units = "".join(rf"\\+u{escaped[at : at + 4]}" for at in range(0, len(escaped), 4))
    return f"(?:{plain}|{units})"
