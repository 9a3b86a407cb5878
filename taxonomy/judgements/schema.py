"""The tables of judgements, a migration set of their own in the file of the recordings.

The views `failures` and `runs`, and the indices for questions over both sets, are made here too;
`taxonomy.query` asks them.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from replay.store.handle import Store
from replay.store.schema import Migrations

TAG_TRUST = "CASE source WHEN 'human' THEN 0 WHEN 'judge' THEN 1 ELSE 2 END"

SUGGESTION_TRUST = (
    "CASE WHEN source = 'agent' THEN 6 WHEN source <> 'judge' THEN 4"
    " WHEN approved THEN 3 ELSE 5 END"
)
"""A judge is trusted less than the rules until its classes are approved, then more; an agent is
trusted least."""

_TRUST_WITHOUT_AGENTS = "CASE WHEN source <> 'judge' THEN 4 WHEN approved THEN 3 ELSE 5 END"
"""The same in databases before agents could suggest anything."""

_TRUST_OF_ANY_JUDGE = "CASE source WHEN 'judge' THEN 3 ELSE 4 END"
"""The same in databases before there was an approval of classes."""

NOT_A_HINT = "(confidence IS NULL OR confidence >= 0.5)"
"""Below that a suggestion is a hint, and counts nowhere."""

TABLES = """
CREATE TABLE tag (
  id INTEGER PRIMARY KEY,
  trace TEXT NOT NULL,
  span TEXT NOT NULL,
  step INTEGER NOT NULL,
  class TEXT NOT NULL,
  sub TEXT,
  fault TEXT,
  note TEXT,
  by TEXT NOT NULL,
  source TEXT NOT NULL,
  evidence TEXT NOT NULL,
  tagged_ns INTEGER NOT NULL,
  blind INTEGER NOT NULL DEFAULT 0,
  UNIQUE (trace, span, class, by)
) STRICT;

CREATE TABLE suggestion (
  trace TEXT NOT NULL,
  place INTEGER NOT NULL,
  span TEXT NOT NULL,
  step INTEGER NOT NULL,
  class TEXT NOT NULL,
  sub TEXT,
  fault TEXT,
  why TEXT NOT NULL,
  by TEXT NOT NULL,
  source TEXT NOT NULL,
  confidence REAL,
  evidence TEXT NOT NULL,
  PRIMARY KEY (trace, source, place)
) STRICT;

CREATE TABLE score (
  trace TEXT NOT NULL,
  span TEXT NOT NULL,
  step INTEGER NOT NULL,
  value REAL,
  source TEXT NOT NULL,
  by TEXT NOT NULL,
  items TEXT NOT NULL,
  PRIMARY KEY (trace, step, source, by)
) STRICT;

CREATE TABLE diagnosis (
  trace TEXT PRIMARY KEY,
  content TEXT NOT NULL,
  engine TEXT NOT NULL,
  shape TEXT,
  why TEXT,
  why_step INTEGER,
  warnings TEXT NOT NULL,
  body TEXT NOT NULL,
  until_ns INTEGER,
  said TEXT GENERATED ALWAYS AS (
    substr(coalesce(why, ''), 1) || char(10) || coalesce(shape, '')) VIRTUAL
) STRICT;

CREATE TABLE clearance (
  trace TEXT NOT NULL,
  by TEXT NOT NULL,
  note TEXT,
  blind INTEGER NOT NULL,
  cleared_ns INTEGER NOT NULL,
  PRIMARY KEY (trace, by)
) STRICT;

CREATE INDEX tag_class ON tag(class);

CREATE INDEX suggestion_class ON suggestion(class)
"""
"""`said` of a diagnosis is what a plain word is looked for in, made as that of a trace is."""

_FAILURES = f"""
CREATE VIEW failures AS
WITH said AS (
  SELECT trace, span, step, class, sub, fault, source, by, note AS why, 1 AS accepted,
    {TAG_TRUST} AS trust
  FROM tag
  UNION ALL
  SELECT trace, span, step, class, sub, fault, source, by, why, 0, %s
  FROM suggestion
  WHERE {NOT_A_HINT})
SELECT p.trace, p.run, p.task, p.trial, p.variant, p.models, p.outcome,
  said.class, said.sub, said.fault, r.key AS recording, said.step, said.span, said.source,
  said.by, said.why, said.accepted,
  row_number() OVER (PARTITION BY p.trace ORDER BY said.trust, said.step, said.class) AS place
FROM trace_summary p
JOIN trace r ON r.run = p.run AND r.complete
JOIN said ON said.trace = r.key AND (said.accepted OR r.key = p.trace)
WHERE p.preferred
"""

RUNS = """
CREATE VIEW runs AS
SELECT r.*, d.shape, d.why, d.why_step, d.warnings
FROM trace_summary r LEFT JOIN diagnosis d ON d.trace = r.trace
"""

_FIRST = f"""
CREATE INDEX suggestion_first ON suggestion(
  trace, %s, step, class, sub, fault, source, confidence%s
) WHERE {NOT_A_HINT}
"""

INDICES = """
CREATE INDEX trace_recordings ON trace(run, complete, steps);

CREATE INDEX diagnosis_warned ON diagnosis(trace) WHERE warnings <> '[]';

CREATE INDEX diagnosis_said ON diagnosis(said, trace)
"""
"""What lets the failed runs of a large database be counted, with their first words and those that
are warned of, without reading their rows or their diagnoses, which are long."""

ORDERS = """
CREATE INDEX trace_ending ON trace(
  outcome, key, run, task, cost_usd, cost_complete, imported_ns, steps, start_ns, end_ns,
  complete, preferred
) WHERE preferred;

CREATE INDEX trace_by_import ON trace(imported_ns, key, run, task, outcome, complete, preferred)
  WHERE preferred;

CREATE INDEX trace_by_outcome ON trace(
  CASE outcome WHEN 'failed' THEN 0 WHEN 'unknown' THEN 1 ELSE 2 END,
  imported_ns, key, run, task, outcome, complete, preferred
) WHERE preferred;

CREATE INDEX trace_by_task ON trace(
  task IS NULL, coalesce(nullif(task, ''), title, ''), coalesce(trial, ''),
  imported_ns, key, run, task, outcome, complete, preferred
) WHERE preferred;

CREATE INDEX trace_by_steps ON trace(
  -steps, imported_ns, key, run, task, outcome, complete, preferred
) WHERE preferred;

CREATE INDEX trace_by_cost ON trace(
  coalesce(-cost_usd, 9e999), imported_ns, key, run, task, outcome, complete, preferred
) WHERE preferred;

CREATE INDEX trace_by_time ON trace(
  coalesce(-(CASE WHEN end_ns > start_ns THEN end_ns - start_ns END), 9e999),
  imported_ns, key, run, task, outcome, complete, preferred
) WHERE preferred
"""
"""What lets a page of a sorted list be read without sorting the rest. The expressions are those
that lists are sorted by, to the letter: SQLite takes an index for no other. Every order holds what
most questions and the held-out tasks ask for, and the runs that ended alike what they are sorted
by: no row of a trace is read to tell whether it is listed, or where."""

CALLS = """
CREATE INDEX span_tool ON span(name COLLATE NOCASE, status, trace, kind) WHERE kind = 'tool';

CREATE INDEX span_error ON span(kind, trace, step, status) WHERE status = 'error'
"""
"""What lets the runs that called a tool, or where a call failed, be found without reading their
spans. What an index is limited to stands in it too: SQLite looks at it once more."""

migrations = Migrations(
    "taxonomy",
    before=(
        "0001_ledger",
        "0002_hints",
        "0003_clearances",
        "0004_until",
        "0005_recordings",
        "0006_runs",
        "0007_tools",
        "0008_warned",
        "0009_covering",
    ),
)


def open_ledger(path: Path | str, *, before: bool = False, to_read: bool = False) -> Store:
    """A store with both migration sets applied; `before` and `to_read` as of `Store.open`."""
    return Store.open(path, migrations, before=before, to_read=to_read)


@migrations("0001_judgements")
def _judgements(db: sqlite3.Connection) -> None:
    first = _FIRST % (_TRUST_OF_ANY_JUDGE, "")
    for part in (TABLES, _FAILURES % _TRUST_OF_ANY_JUDGE, RUNS, first, INDICES, ORDERS, CALLS):
        for statement in part.split(";\n\n"):
            db.execute(statement)


@migrations("0002_attributions")
def _attributions(db: sqlite3.Connection) -> None:
    for table in ("tag", "suggestion"):
        db.execute(
            f"UPDATE {table} SET fault = CASE fault WHEN 'harness' THEN 'environment'"
            " WHEN 'check' THEN 'grader' ELSE fault END"
        )


@migrations("0003_gold")
def _gold(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE gold (task TEXT PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL,"
        " name TEXT NOT NULL, first_seen_ns INTEGER NOT NULL) STRICT"
    )


@migrations("0004_approved_classes")
def _approved_classes(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE suggestion ADD COLUMN approved INTEGER NOT NULL DEFAULT 0")
    _trust(db, _TRUST_WITHOUT_AGENTS)


@migrations("0005_agents")
def _agents(db: sqlite3.Connection) -> None:
    _trust(db, SUGGESTION_TRUST)


BESIDE_RULES = "CREATE INDEX suggestion_beside_rules ON suggestion(trace) WHERE source <> 'rule'"
"""What lets the few words that are not those of rules be found among these."""


@migrations("0006_beside_rules")
def _beside_rules(db: sqlite3.Connection) -> None:
    db.execute(BESIDE_RULES)


@migrations("0007_audits")
def _audits(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE audit (trace TEXT PRIMARY KEY, content TEXT NOT NULL, version TEXT NOT NULL,"
        " audited_ns INTEGER NOT NULL, body TEXT NOT NULL) STRICT"
    )


SCANS = """
CREATE TABLE scan (
  id INTEGER PRIMARY KEY,
  fleet TEXT NOT NULL,
  query TEXT NOT NULL,
  since TEXT NOT NULL,
  until TEXT,
  engine TEXT NOT NULL,
  from_ns INTEGER NOT NULL,
  until_ns INTEGER NOT NULL,
  has_outcomes INTEGER NOT NULL,
  started_ns INTEGER NOT NULL,
  finished_ns INTEGER
) STRICT;

CREATE TABLE scan_partition (
  scan INTEGER NOT NULL,
  place INTEGER NOT NULL,
  from_ns INTEGER NOT NULL,
  until_ns INTEGER NOT NULL,
  low INTEGER NOT NULL,
  high INTEGER NOT NULL,
  traces INTEGER NOT NULL,
  done_ns INTEGER,
  cpu_ns INTEGER,
  PRIMARY KEY (scan, place)
) STRICT;

CREATE TABLE scan_run (
  scan INTEGER NOT NULL,
  part INTEGER NOT NULL,
  trace TEXT NOT NULL,
  key TEXT,
  title TEXT,
  task TEXT,
  trial TEXT,
  agent TEXT,
  models TEXT,
  variant TEXT,
  outcome TEXT NOT NULL,
  start_ns INTEGER,
  steps INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  input_tokens INTEGER,
  output_tokens INTEGER,
  cost_usd REAL,
  why TEXT,
  why_step INTEGER,
  problem TEXT,
  PRIMARY KEY (scan, trace)
) STRICT;

CREATE TABLE scan_finding (
  scan INTEGER NOT NULL,
  source TEXT NOT NULL,
  place INTEGER NOT NULL,
  step INTEGER NOT NULL,
  span TEXT NOT NULL,
  class TEXT NOT NULL,
  sub TEXT,
  fault TEXT,
  why TEXT NOT NULL,
  by TEXT NOT NULL,
  confidence REAL,
  evidence TEXT NOT NULL,
  tool TEXT,
  PRIMARY KEY (scan, source, place)
) STRICT
"""
"""Findings of runs that are not here. `source` of a finding is `trace` of its run: the id in the
store, no recording of this database."""


@migrations("0008_scans")
def _scans(db: sqlite3.Connection) -> None:
    for statement in SCANS.split(";\n\n"):
        db.execute(statement)


FIRST = (
    f"SELECT {{}} FROM suggestion WHERE trace = {{}} AND {NOT_A_HINT}"
    f" ORDER BY {SUGGESTION_TRUST}, step, class LIMIT 1"
)
"""What is suggested first of a trace, asked of each on its own, by index: the view `failures` would
first write down and sort all that is said of every run."""

FIRST_WORDS = f"""
INSERT INTO first_word (run, trace, task, failed, class, sub, fault, step)
SELECT p.run, p.key, p.task, p.outcome = 'failed', s.class, s.sub, s.fault, s.step
FROM trace p JOIN suggestion s ON s.rowid = ({FIRST.format("rowid", "p.key")})
WHERE p.complete AND p.preferred"""


def _first_words() -> list[str]:
    """The table of what is suggested first of each run, and the triggers that keep it."""
    dropped = "DELETE FROM first_word WHERE run = "
    of_suggestion = [
        f"""
CREATE TRIGGER first_word_{name} AFTER {event} ON suggestion
BEGIN
  {dropped}(SELECT run FROM trace WHERE key = {row}.trace AND complete AND preferred);{FIRST_WORDS}
    AND p.key = {row}.trace;
END"""
        for name, event, row in (
            ("added", "INSERT", "new"), ("changed", "UPDATE", "new"), ("taken", "DELETE", "old"),
        )
    ]  # fmt: skip
    return [
        """
CREATE TABLE first_word (
  run TEXT PRIMARY KEY,
  trace TEXT NOT NULL,
  task TEXT,
  failed INTEGER NOT NULL,
  class TEXT NOT NULL,
  sub TEXT,
  fault TEXT,
  step INTEGER NOT NULL
) STRICT""",
        "CREATE INDEX first_word_class ON first_word(failed, class, sub, fault, task, run, trace)",
        FIRST_WORDS,
        *of_suggestion,
        f"""
CREATE TRIGGER first_word_of_run AFTER UPDATE OF preferred, outcome, task ON trace
  WHEN (old.preferred OR new.preferred) AND (
    EXISTS (SELECT 1 FROM suggestion WHERE trace = new.key)
    OR EXISTS (SELECT 1 FROM first_word WHERE run = new.run))
BEGIN
  {dropped}new.run;{FIRST_WORDS}
    AND p.run = new.run;
END""",
        f"""
CREATE TRIGGER first_word_removed BEFORE DELETE ON trace WHEN old.preferred
BEGIN
  {dropped}old.run;
END""",
    ]


@migrations("0009_first_words")
def _kept_first_words(db: sqlite3.Connection) -> None:
    """What is suggested first of each run stands beside it: failed runs are counted by it."""
    for statement in _first_words():
        db.execute(statement)


def _trust(db: sqlite3.Connection, order: str) -> None:
    """Put suggestions in this order of trust from now on."""
    db.execute("DROP VIEW failures")
    db.execute("DROP INDEX suggestion_first")
    db.execute(_FAILURES % order)
    db.execute(_FIRST % (order, ", approved"))
