"""The tables of recorded runs, as one named set of migrations; and what such a set is.

Sums over many traces are kept as traces come and go; one of them says which recording of a run
lists show. The engine's own results stand beside: supplements, answers, edits, replays, stubs.

A file may have several sets of migrations, which brought its tables to what they are. sqlite-utils
applies them and keeps the book of those it did. The book is read here: hardly any database that is
opened has a migration pending, and sqlite-utils takes longer to import than a list of runs takes to
read.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from replay.store.text_index import INDEX
from replay.trace import Level

if TYPE_CHECKING:
    from sqlite_utils import Database

BOOK = "_sqlite_migrations"
"""The table of sqlite-utils that says which migrations were applied."""

Migration: TypeAlias = Callable[[sqlite3.Connection], None]


class Migrations:
    """A set of migrations in the order they are applied: functions under names."""

    def __init__(self, name: str, before: tuple[str, ...] = ()) -> None:
        """`before` are the names of those that an earlier arc had in place of these: a database
        that they made cannot be brought up to date."""
        self.name = name
        self.before = before
        self._known: dict[str, Migration] = {}

    def __call__(self, name: str) -> Callable[[Migration], Migration]:
        """Add a function under that name."""

        def known(migration: Migration) -> Migration:
            self._known[name] = migration
            return migration

        return known

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def first(self, count: int) -> Migrations:
        """The set as it was when it had so many."""
        older = Migrations(self.name, self.before)
        older._known = dict(list(self._known.items())[:count])
        return older

    def applied(self, db: sqlite3.Connection) -> list[str]:
        """The names of those that were applied to a database, in that order."""
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (BOOK,)).fetchone():
            return []
        wanted = f"SELECT name FROM {BOOK} WHERE migration_set = ? ORDER BY rowid"
        return [name for (name,) in db.execute(wanted, (self.name,))]

    def pending(self, db: sqlite3.Connection) -> bool:
        """Is there one to apply?"""
        return not self._known.keys() <= set(self.applied(db))

    def apply(self, db: sqlite3.Connection) -> None:
        """Apply those that are pending, each with its line in the book or not at all."""
        with _hide(*_TABLE_LIBRARIES):
            from sqlite_utils import Database, migrations

        book = migrations.Migrations(self.name)
        for name, migration in self._known.items():
            book(name=name)(_on_connection(migration))
        book.apply(Database(db))


def _on_connection(migration: Migration) -> Callable[[Database], None]:
    def apply(db: Database) -> None:
        migration(db.conn)

    return apply


_TABLE_LIBRARIES = ("pandas", "numpy")
"""sqlite-utils imports them where they are installed, to store their values; a migration has none.
They take 70 MB and a third of a second."""


@contextmanager
def _hide(*names: str) -> Iterator[None]:
    """Modules that an import within is told are not installed; one that is loaded stays."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not installed
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


# --- the tables

_LEVELS = " ".join(f"WHEN '{level.value}' THEN {level.rank}" for level in Level)

_MOST_STEPS = f"steps DESC, CASE fidelity {_LEVELS} ELSE {len(Level)} END, key"
_OF_STEPS = "(SELECT {} FROM step s JOIN model_call m ON m.span = s.ask WHERE s.trace = o.id)"

FULLEST = f"""
    {_OF_STEPS.format("count(*) FILTER (WHERE m.fidelity <> 'none')")} DESC, steps DESC,
    CASE fidelity {_LEVELS} ELSE {len(Level)} END, start_ns IS NULL,
    {_OF_STEPS.format("count(m.stop) + count(m.input_tokens)")} DESC, key"""
"""Of several recordings of a run the one with most steps whose request is known comes first, then
the one with most steps, whose weakest step is known best, which knows its time, with most stop
reasons and token counts, of the least key: nothing that depends on which was imported first, or how
often, or whether an import was killed in between."""

RECORDINGS = """
CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE message (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  dialect TEXT NOT NULL,
  role TEXT NOT NULL,
  body TEXT NOT NULL,
  masked INTEGER NOT NULL
) STRICT;

CREATE TABLE context (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,
  parent INTEGER REFERENCES context(id),
  message INTEGER NOT NULL REFERENCES message(id),
  depth INTEGER NOT NULL,
  masked INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX context_place ON context(message, parent);

CREATE TABLE toolset (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE trace (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  run TEXT NOT NULL,
  complete INTEGER NOT NULL,
  format TEXT NOT NULL,
  source_id TEXT NOT NULL,
  item TEXT,
  path TEXT,
  title TEXT,
  task TEXT,
  trial TEXT,
  variant TEXT,
  agent TEXT,
  outcome TEXT NOT NULL,
  outcome_value TEXT,
  outcome_by TEXT,
  labels TEXT NOT NULL,
  reference TEXT,
  reported_cost_usd REAL,
  content TEXT,
  prompt TEXT,
  models TEXT,
  problems TEXT NOT NULL DEFAULT '[]',
  imported_ns INTEGER NOT NULL,
  start_ns INTEGER,
  end_ns INTEGER,
  spans INTEGER,
  steps INTEGER,
  calls INTEGER,
  errors INTEGER,
  input_tokens INTEGER,
  output_tokens INTEGER,
  tokens_complete INTEGER,
  cost_usd REAL,
  cost_complete INTEGER,
  fidelity TEXT,
  masked INTEGER,
  preferred INTEGER NOT NULL DEFAULT 0,
  live_until_ns INTEGER,
  said TEXT GENERATED ALWAYS AS (
    substr(coalesce(title, ''), 1) || char(10) || substr(coalesce(task, ''), 1) || char(10)
    || substr(coalesce(trial, ''), 1) || char(10) || substr(coalesce(variant, ''), 1) || char(10)
    || substr(coalesce(agent, ''), 1) || char(10) || substr(coalesce(models, ''), 1) || char(10)
    || outcome || char(10) || substr(source_id, 1) || char(10) || substr(format, 1) || char(10)
    || substr(coalesce(path, ''), 1)) VIRTUAL
) STRICT;

CREATE UNIQUE INDEX trace_key ON trace(key) WHERE complete;

CREATE INDEX trace_run ON trace(run);

CREATE INDEX trace_start ON trace(start_ns);

CREATE INDEX trace_task ON trace(task, trial);

CREATE INDEX trace_live ON trace(live_until_ns) WHERE live_until_ns IS NOT NULL;

CREATE INDEX trace_said ON trace(said);

CREATE TABLE span (
  id INTEGER PRIMARY KEY,
  trace INTEGER NOT NULL REFERENCES trace(id) ON DELETE CASCADE,
  span_id TEXT NOT NULL,
  parent TEXT,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  start_ns INTEGER,
  end_ns INTEGER,
  time_quality TEXT NOT NULL,
  status TEXT NOT NULL,
  error TEXT,
  step INTEGER,
  place_span TEXT,
  place_message INTEGER,
  place_line INTEGER,
  brief TEXT,
  detail TEXT,
  digest TEXT NOT NULL,
  source_status TEXT,
  said_error TEXT,
  UNIQUE (trace, span_id)
) STRICT;

CREATE INDEX span_order ON span(trace, seq);

CREATE INDEX span_step ON span(trace, step) WHERE step IS NOT NULL;

CREATE TABLE model_call (
  span INTEGER PRIMARY KEY REFERENCES span(id) ON DELETE CASCADE,
  model TEXT,
  system INTEGER REFERENCES message(id),
  toolset INTEGER REFERENCES toolset(id),
  params TEXT,
  context INTEGER REFERENCES context(id),
  response INTEGER REFERENCES message(id),
  response_id TEXT,
  response_model TEXT,
  stop TEXT,
  stop_raw TEXT,
  input_tokens INTEGER,
  output_tokens INTEGER,
  reasoning_tokens INTEGER,
  cache_read_tokens INTEGER,
  cache_write_tokens INTEGER,
  cache_write_1h_tokens INTEGER,
  cost_usd REAL,
  cost_source TEXT,
  prices TEXT,
  fidelity TEXT NOT NULL,
  fidelity_reasons TEXT,
  masked INTEGER NOT NULL,
  agent TEXT
) STRICT;

CREATE TABLE tool_call (
  span INTEGER PRIMARY KEY REFERENCES span(id) ON DELETE CASCADE,
  call_id TEXT,
  asked_by TEXT,
  arguments TEXT,
  arguments_raw TEXT,
  observation INTEGER REFERENCES message(id),
  observation_block INTEGER,
  effect TEXT NOT NULL
) STRICT;

CREATE TABLE step (
  trace INTEGER NOT NULL REFERENCES trace(id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  thread TEXT NOT NULL,
  ask INTEGER NOT NULL REFERENCES span(id) ON DELETE CASCADE,
  calls INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  end_ns INTEGER,
  PRIMARY KEY (trace, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE source_score (
  trace INTEGER NOT NULL REFERENCES trace(id) ON DELETE CASCADE,
  span_id TEXT,
  name TEXT NOT NULL,
  source TEXT NOT NULL,
  value REAL,
  label TEXT,
  explanation TEXT
) STRICT;

CREATE INDEX source_score_trace ON source_score(trace);

CREATE VIEW steps AS
SELECT t.key AS trace, s.step, s.thread, a.span_id AS span, a.start_ns, a.end_ns,
  CASE WHEN a.end_ns > a.start_ns THEN a.end_ns - a.start_ns END AS latency_ns,
  a.time_quality, coalesce(m.response_model, m.model) AS model, m.stop,
  s.calls, s.errors, m.input_tokens, m.output_tokens, m.reasoning_tokens,
  m.cache_read_tokens, m.cache_write_tokens, m.cost_usd, m.cost_source,
  m.fidelity, m.fidelity_reasons, m.masked, a.status, a.error,
  a.place_span, a.place_message, a.place_line
FROM step s
JOIN trace t ON t.id = s.trace AND t.complete
JOIN span a ON a.id = s.ask
JOIN model_call m ON m.span = a.id
"""
"""A node of a context is known by its message and its parent: an index of their ids is a fifth of
one of digests. A live trace is one that more is expected of; the word of whoever writes it holds
for a while only, so that a trace is live no longer soon after its writer was killed. `said` is what
a trace is called, all of it as one text that stands in the index alone: one comparison for ten, and
no row is read. SQL compares a text up to a NUL, and up to there `substr` gives it, so that none
hides what comes after it."""

SUMMARY = """
CREATE VIEW trace_summary AS
SELECT t.key AS trace, t.run, t.title, t.task, t.trial, t.variant, t.agent, t.models,
  t.outcome, t.outcome_value, t.outcome_by, t.steps, t.spans, t.calls, t.errors,
  t.start_ns, t.end_ns,
  CASE WHEN t.end_ns > t.start_ns THEN t.end_ns - t.start_ns END AS duration_ns,
  t.input_tokens, t.output_tokens, t.tokens_complete, t.cost_usd, t.cost_complete,
  t.reported_cost_usd, t.fidelity, t.masked, t.prompt, t.format, t.source_id, t.item, t.path,
  t.labels, t.problems, t.imported_ns, t.preferred,
  coalesce(t.live_until_ns > strftime('%s', 'now') * 1000000000, 0) AS live,
  t.id AS row{more}
FROM trace t
WHERE t.complete
"""
"""`row` is the number by which spans name their trace: what asks for spans need not look up the key
of each."""

_STEP_MAXIMA = ("max_step_tokens", "max_step_cost_usd", "max_step_ns")

STEP_MAXIMA = f"""
({", ".join(_STEP_MAXIMA)}) = (
  SELECT max(m.input_tokens), max(m.cost_usd),
    max(CASE WHEN a.end_ns > a.start_ns THEN a.end_ns - a.start_ns END)
  FROM step s JOIN span a ON a.id = s.ask JOIN model_call m ON m.span = a.id
  WHERE s.trace = trace.id)
"""
"""What sets the largest values that the steps of a trace have in the view `steps`; NULL where none
has one."""

RESULTS = """
CREATE TABLE supplement (
  digest TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  system TEXT,
  tools TEXT,
  sketched INTEGER NOT NULL,
  added_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE trace_supplement (
  trace_key TEXT PRIMARY KEY,
  supplement TEXT NOT NULL REFERENCES supplement(digest)
) STRICT;

CREATE TABLE answer (
  server TEXT NOT NULL,
  key TEXT NOT NULL,
  model TEXT NOT NULL,
  sample INTEGER NOT NULL,
  body TEXT NOT NULL,
  source TEXT NOT NULL,
  cost_usd REAL,
  prices TEXT,
  added_ns INTEGER NOT NULL,
  PRIMARY KEY (server, key)
) STRICT;

CREATE INDEX answer_key ON answer(key);

CREATE TABLE claim (
  server TEXT NOT NULL,
  key TEXT NOT NULL,
  owner TEXT NOT NULL,
  until_ns INTEGER NOT NULL,
  PRIMARY KEY (server, key)
) STRICT;

CREATE TABLE batch (
  server TEXT NOT NULL,
  id TEXT NOT NULL,
  model TEXT NOT NULL,
  asks TEXT NOT NULL,
  fetched INTEGER NOT NULL,
  sent_ns INTEGER NOT NULL,
  PRIMARY KEY (server, id)
) STRICT;

CREATE TABLE stub (
  trace_key TEXT NOT NULL,
  tool TEXT NOT NULL,
  arguments TEXT NOT NULL,
  result TEXT NOT NULL,
  is_error INTEGER NOT NULL,
  source TEXT NOT NULL,
  added_ns INTEGER NOT NULL,
  PRIMARY KEY (trace_key, tool, arguments)
) STRICT;

CREATE TABLE edit (
  digest TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  body TEXT NOT NULL,
  added_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE replay (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,
  trace_key TEXT NOT NULL,
  edit TEXT REFERENCES edit(digest),
  model TEXT NOT NULL,
  core TEXT NOT NULL,
  ran_ns INTEGER NOT NULL,
  kind TEXT NOT NULL DEFAULT 'locked',
  sample_range INTEGER NOT NULL DEFAULT 0,
  UNIQUE (digest, trace_key)
) STRICT
"""
"""A claim says which answers are being asked for, by whom, and until when that counts."""


def _preferring(order: str) -> list[str]:
    """The triggers that mark the first recording of each run, in this order."""
    best = f"SELECT id FROM trace o WHERE o.run = {{}} AND o.complete\n    ORDER BY {order} LIMIT 1"
    of_new, of_old = best.format("new.run"), best.format("old.run")
    return [
        f"""
CREATE TRIGGER trace_finished AFTER UPDATE OF complete ON trace WHEN new.complete
BEGIN
  UPDATE trace SET preferred = 0 WHERE run = new.run AND preferred AND id <> (
    {of_new});
  UPDATE trace SET preferred = 1 WHERE NOT preferred AND id = (
    {of_new});
END""",
        f"""
CREATE TRIGGER trace_removed AFTER DELETE ON trace WHEN old.preferred
BEGIN
  UPDATE trace SET preferred = 1 WHERE id = (
    {of_old});
END""",
    ]


LATENCIES = """
CREATE TABLE latency (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  latency_ns INTEGER NOT NULL,
  spans INTEGER NOT NULL,
  PRIMARY KEY (kind, name, latency_ns)
) STRICT, WITHOUT ROWID;

CREATE VIEW span_latency AS
SELECT s.trace, s.kind,
  CASE s.kind WHEN 'model' THEN coalesce(m.response_model, m.model, '') ELSE s.name END AS name,
  CAST(substr(s.end_ns - s.start_ns, 1, 2)
    || substr('00000000000000000', 1, length(s.end_ns - s.start_ns) - 2) AS INTEGER) AS latency_ns
FROM span s LEFT JOIN model_call m ON m.span = s.id
WHERE s.end_ns > s.start_ns AND typeof(s.end_ns - s.start_ns) = 'integer';

CREATE TRIGGER latency_added AFTER UPDATE OF preferred ON trace
  WHEN new.preferred AND NOT old.preferred
BEGIN
  INSERT INTO latency SELECT kind, name, latency_ns, count(*) FROM span_latency
    WHERE trace = new.id GROUP BY kind, name, latency_ns
    ON CONFLICT DO UPDATE SET spans = spans + excluded.spans;
END;

CREATE TRIGGER latency_taken AFTER UPDATE OF preferred ON trace
  WHEN old.preferred AND NOT new.preferred
BEGIN
  INSERT INTO latency SELECT kind, name, latency_ns, -count(*) FROM span_latency
    WHERE trace = old.id GROUP BY kind, name, latency_ns
    ON CONFLICT DO UPDATE SET spans = spans + excluded.spans;
  DELETE FROM latency WHERE spans = 0;
END;

CREATE TRIGGER latency_removed BEFORE DELETE ON trace WHEN old.preferred
BEGIN
  INSERT INTO latency SELECT kind, name, latency_ns, -count(*) FROM span_latency
    WHERE trace = old.id GROUP BY kind, name, latency_ns
    ON CONFLICT DO UPDATE SET spans = spans + excluded.spans;
  DELETE FROM latency WHERE spans = 0;
END
"""
"""A histogram whose classes are latencies cut to their first two digits: ninety a decade, each at
most a tenth of its value wide. Cut as text, which rounds alike on every machine. A model call goes
by the model that answered ('' where unknown), any other span by its name."""

FILL_LATENCIES = """
INSERT INTO latency SELECT kind, name, latency_ns, count(*) FROM span_latency
WHERE trace IN (SELECT id FROM trace WHERE preferred) GROUP BY kind, name, latency_ns
"""
"""For traces that are there already."""

migrations = Migrations(
    "replay",
    before=(
        "0001_tape",
        "0002_replays",
        "0003_sums",
        "0004_words",
        "0005_live",
        "0006_context",
        "0007_said",
        "0008_step",
        "0009_preferred",
        "0010_claims",
        "0011_said_errors",
    ),
)


@migrations("0001_recordings")
def _recordings(db: sqlite3.Connection) -> None:
    parts = [RECORDINGS, SUMMARY.format(more=""), RESULTS, INDEX, LATENCIES]
    for part in (*parts, *_preferring(_MOST_STEPS)):
        for statement in part.split(";\n\n"):
            db.execute(statement)


@migrations("0002_fullest")
def _fullest(db: sqlite3.Connection) -> None:
    """What is known of the steps counts before how many there are."""
    for name in ("trace_finished", "trace_removed"):
        db.execute(f"DROP TRIGGER {name}")
    for statement in _preferring(FULLEST):
        db.execute(statement)
    several = "SELECT run FROM trace GROUP BY run HAVING count(*) > 1"
    db.execute(f"UPDATE trace SET complete = 1 WHERE complete AND run IN ({several})")


@migrations("0003_environments")
def _environments(db: sqlite3.Connection) -> None:
    """Each run has its environment; versions of agents that stood beside it become labels."""
    from replay.store import environments  # what only lists runs need not load it

    db.execute(environments.TABLE)
    db.execute(environments.COLUMN)
    db.execute(
        "UPDATE trace SET labels = json_set(labels, '$.version', v.version) FROM ("
        f"  SELECT trace, {_EXTRA_VERSION} AS version FROM span s JOIN trace t ON t.id = s.trace"
        "  WHERE kind = 'agent' AND instr(detail, 'version') > 0 ORDER BY seq DESC) v"
        " WHERE v.trace = trace.id AND v.version IS NOT NULL"
        "  AND json_type(labels, '$.version') IS NULL"
    )
    environments.fill(db, [row for (row,) in db.execute("SELECT id FROM trace WHERE complete")])


@migrations("0004_step_maxima")
def _step_maxima(db: sqlite3.Connection) -> None:
    """Each run has the largest values of its steps, so that who asks for one need not read them."""
    for name in _STEP_MAXIMA:
        # The difference of two times may be too large for an INTEGER: it is a REAL then.
        db.execute(f"ALTER TABLE trace ADD COLUMN {name} ANY")
    db.execute("DROP VIEW trace_summary")
    more = "".join(f", t.{name}" for name in _STEP_MAXIMA)
    db.execute(SUMMARY.format(more=more))
    db.execute(f"UPDATE trace SET {STEP_MAXIMA} WHERE complete")


_EXTRA_VERSION = """CASE format
    WHEN 'atif' THEN json_extract(detail, '$.extra.agent.version')
    WHEN 'mini-swe-agent' THEN json_extract(detail, '$.extra.mini_version') END"""
"""Where importers kept the version of an agent before there was a label for it."""
