"""The tables of the ledger: a migration set of their own, in the same file as the tape."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from replay.store.handle import Store
from replay.store.migrations import Migrations
from taxonomy.query.failures import FAILURES, INDICES
from taxonomy.query.fields import CALLS, TOOLS
from taxonomy.query.listing import COVERING, ENDINGS, RUNS, SAID, WARNED

migrations = Migrations("taxonomy")


def open_ledger(path: Path | str) -> Store:
    """A store with both migration sets applied."""
    return Store.open(path, migrations)


@migrations("0001_ledger")
def _ledger(db: sqlite3.Connection) -> None:
    for statement in (*_LEDGER.split(";\n\n"), FAILURES):
        db.execute(statement)


@migrations("0002_hints")
def _hints(db: sqlite3.Connection) -> None:
    db.execute("DROP VIEW failures")
    db.execute(FAILURES)


@migrations("0003_clearances")
def _clearances(db: sqlite3.Connection) -> None:
    for statement in _CLEARANCES.split(";\n\n"):
        db.execute(statement)


@migrations("0004_until")
def _until(db: sqlite3.Connection) -> None:
    db.execute(_UNTIL)


@migrations("0005_recordings")
def _recordings(db: sqlite3.Connection) -> None:
    db.execute("DROP VIEW failures")
    for statement in (FAILURES, *INDICES.split(";\n\n")):
        db.execute(statement)


@migrations("0006_runs")
def _runs(db: sqlite3.Connection) -> None:
    for statement in (RUNS, *ENDINGS.split(";\n\n")):
        db.execute(statement)


@migrations("0007_tools")
def _tools(db: sqlite3.Connection) -> None:
    db.execute(TOOLS)


@migrations("0008_warned")
def _warned(db: sqlite3.Connection) -> None:
    for statement in WARNED.split(";\n\n"):
        db.execute(statement)


@migrations("0009_covering")
def _covering(db: sqlite3.Connection) -> None:
    for part in (COVERING, CALLS, SAID):
        for statement in part.split(";\n\n"):
            db.execute(statement)


_LEDGER = """
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
  body TEXT NOT NULL
) STRICT;

CREATE INDEX tag_class ON tag(class);

CREATE INDEX suggestion_class ON suggestion(class)
"""

_CLEARANCES = """
CREATE TABLE clearance (
  trace TEXT NOT NULL,
  by TEXT NOT NULL,
  note TEXT,
  blind INTEGER NOT NULL,
  cleared_ns INTEGER NOT NULL,
  PRIMARY KEY (trace, by)
) STRICT;

ALTER TABLE tag ADD COLUMN blind INTEGER NOT NULL DEFAULT 0
"""

_UNTIL = "ALTER TABLE diagnosis ADD COLUMN until_ns INTEGER"
