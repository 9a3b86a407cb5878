"""What a trace store's tables say of runs, as SQL: the form that every question is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from replay.fleet.connection import Connection
    from replay.formats.source import Tally
    from replay.trace import Batch

BUCKET_SECONDS = 1800

Tables = Mapping[str, Mapping[str, str]]
"""The types of columns, by table and column."""


class Table(Struct, frozen=True, kw_only=True):
    """Rows that belong to traces. `rows` is a table, or a query in parentheses, in which each row
    stands as it is now; `trace`, `id` and `start` (a DateTime64) are SQL over one of them.

    Where rows are replaced by later ones, `versions` has all of them, `version` tells which is the
    latest, and `deleted` whether the row is gone with it. `bucket` is a column with the second that
    the half hour of a row began, by which a table is sorted. A row may be `early_ns` older than
    what it tells of.
    """

    rows: str
    trace: str
    id: str
    start: str
    versions: str | None = None
    version: str = "event_ts"
    deleted: str = "is_deleted"
    bucket: str | None = None
    early_ns: int = 0

    def since(self, ns: int | str) -> str:
        """The condition of rows of then or later; a parameter stands as `{name:Int64}`."""
        least = f"toInt64({ns})" + (f" - {self.early_ns}" if self.early_ns else "")
        found = f"{self.start} >= fromUnixTimestamp64Nano({least})"
        if self.bucket is not None:
            found += f" AND {self.bucket} >= intDiv(toInt64({ns}), 1000000000) - {BUCKET_SECONDS}"
        return found

    def of_traces(self, ids: str, since: int | str) -> str:
        """The rows of these traces (a parameter), of then or later, each once: exporters that had
        no answer send a span again, and of several versions the latest counts."""
        wanted = f"WHERE {self.trace} IN {ids} AND {self.since(since)}"
        once = f"LIMIT 1 BY {self.trace}, {self.id}"
        if self.versions is None:
            return f"(SELECT * FROM {self.rows} {wanted} {once})"
        latest = f"SELECT * FROM {self.versions} {wanted} ORDER BY {self.version} DESC {once}"
        return f"(SELECT * FROM ({latest}) WHERE NOT {self.deleted})"


class RunFact(Struct, frozen=True, kw_only=True):
    """Something that rows of a table say of a whole run: `value` is SQL over a row of which
    `condition` is true, "" where it does not say."""

    table: Table
    value: str
    condition: str = "1"


Began = tuple[str, int]
"""A trace and when its first span began, in ns."""


class Dialect(Struct, frozen=True, kw_only=True):
    """What a table of spans says, each as SQL over one of its rows; texts are "" where it does not
    say, numbers NULL, and moments of type DateTime64. Texts of the messages are an array, `texts`.

    `tool` and `agent` name spans of that kind, and say nothing of others. `outcome` is 'passed' or
    'failed'. `lookup` is a table (TraceId, Start, End) of when each trace was seen. `read` copies
    traces, which come in the format of that name. `services` are the only ones whose runs are asked
    for, () for all; `notes` say what no answer of the store tells.

    What a call asked and got (`arguments`, `result`), how a model call ended (`stop`), its `answer`
    and the tools it had (`offers`) are "" where the table has no such column. Each span of a tool
    fulfils one of `tools`, which indices decide where the table has such.
    """

    title: str
    format: str
    table: Table
    read: Callable[[Connection, Dialect, Sequence[Began], Tally], Iterator[Batch]]
    end: str
    parent: str
    span_name: str
    service: str
    failed: str
    message: str
    kind: str
    tool: str
    model: str
    agent: str
    input_tokens: str
    output_tokens: str
    outcome: RunFact
    variant: str
    labels: Mapping[str, RunFact]
    texts: str
    lookup: str | None = None
    services: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    arguments: str = ""
    result: str = ""
    stop: str = ""
    answer: str = ""
    offers: str = ""
    tools: tuple[str, ...] = ("1",)

    @property
    def spans(self) -> str:
        return self.table.rows

    @property
    def trace(self) -> str:
        return self.table.trace

    @property
    def span(self) -> str:
        return self.table.id

    @property
    def start(self) -> str:
        return self.table.start

    def since(self, ns: int | str) -> str:
        """The condition of spans that began then or later."""
        return self.table.since(ns)


# --- values of attributes as SQL

Attribute = Callable[[str], str]
"""The SQL of one attribute as text, "" where there is none."""


def literal(value: str) -> str:
    """A text as SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literals(values: Iterable[str]) -> str:
    """Texts as SQL, with commas between them."""
    return ", ".join(map(literal, values))


def meaning(text: str, words: Mapping[str, str]) -> str:
    """What a text stands for among these words, 'other' where it is none of them."""
    return f"transform({text}, [{literals(words)}], [{literals(words.values())}], 'other')"


def first_of(of: Attribute, names: Sequence[str]) -> str:
    """The first of these attributes that is there. A later one is looked up only in rows that lack
    the earlier ones."""
    parts = [f"{of(name)} <> '', {of(name)}" for name in names]
    return f"multiIf({', '.join(parts)}, '')"


def first_count(of: Attribute, names: Sequence[str]) -> str:
    """The first of these attributes that is a number."""
    parts = [f"toInt64OrNull({of(name)})" for name in names]
    return f"coalesce({', '.join(parts)})"
