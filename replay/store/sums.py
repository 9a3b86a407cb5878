"""Sums over many traces that are kept as traces come and go: which recording of a run lists show,
how long calls took, and the orders of lists.

Triggers keep them, so that a trace counts whichever way it comes in and leaves.
"""

from __future__ import annotations

from replay.trace import Level

_LEVELS = " ".join(f"WHEN '{level.value}' THEN {level.rank}" for level in Level)

_BEST = f"""SELECT id FROM trace o WHERE o.run = {{run}} AND o.complete
    ORDER BY steps DESC, CASE fidelity {_LEVELS} ELSE {len(Level)} END, key LIMIT 1"""
"""Of several recordings of a run the one with most steps, of equals the one whose weakest step is
known best, then the least key: nothing that depends on which was imported first, or how often, or
whether an import was killed in between."""

PREFERRED = "ALTER TABLE trace ADD COLUMN preferred INTEGER NOT NULL DEFAULT 0"

PREFERRING = f"""
CREATE TRIGGER trace_finished AFTER UPDATE OF complete ON trace WHEN new.complete
BEGIN
  UPDATE trace SET preferred = 0 WHERE run = new.run AND preferred AND id <> (
    {_BEST.format(run="new.run")});
  UPDATE trace SET preferred = 1 WHERE NOT preferred AND id = (
    {_BEST.format(run="new.run")});
END;

CREATE TRIGGER trace_removed AFTER DELETE ON trace WHEN old.preferred
BEGIN
  UPDATE trace SET preferred = 1 WHERE id = (
    {_BEST.format(run="old.run")});
END
"""

UNPREFERRING = """
DROP TRIGGER trace_finished;

DROP TRIGGER trace_removed
"""

PREFER = f"""
UPDATE trace SET preferred = NOT preferred WHERE complete AND preferred <> (id = (
  {_BEST.format(run="trace.run")}))
"""
"""The same, said of all traces at once: for a database that has some already."""

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
END;

INSERT INTO latency SELECT kind, name, latency_ns, count(*) FROM span_latency
WHERE trace IN (SELECT id FROM trace WHERE preferred) GROUP BY kind, name, latency_ns
"""
"""A histogram whose classes are latencies cut to their first two digits: ninety a decade, each at
most a tenth of its value wide. Cut as text, which rounds alike on every machine. A model call goes
by the model that answered ('' where unknown), any other span by its name."""


ORDERS = """
CREATE INDEX trace_by_import ON trace(imported_ns, key, complete, preferred) WHERE preferred;

CREATE INDEX trace_by_outcome ON trace(
  CASE outcome WHEN 'failed' THEN 0 WHEN 'unknown' THEN 1 ELSE 2 END,
  imported_ns, key
) WHERE preferred;

CREATE INDEX trace_by_task ON trace(
  task IS NULL, coalesce(nullif(task, ''), title, ''), coalesce(trial, ''),
  imported_ns, key
) WHERE preferred;

CREATE INDEX trace_by_steps ON trace(-steps, imported_ns, key) WHERE preferred;

CREATE INDEX trace_by_cost ON trace(coalesce(-cost_usd, 9e999), imported_ns, key)
  WHERE preferred;

CREATE INDEX trace_by_time ON trace(
  coalesce(-(CASE WHEN end_ns > start_ns THEN end_ns - start_ns END), 9e999),
  imported_ns, key
) WHERE preferred
"""
"""What lets a page of a sorted list be read without sorting the rest. The expressions are those
that lists are sorted by, to the letter: SQLite takes an index for no other."""

ERRORS = """
UPDATE step SET errors = (
  SELECT count(*) FROM span s WHERE s.trace = step.trace AND s.step = step.step
    AND s.status = 'error' AND s.kind IN ('tool', 'model'))
WHERE trace = ?;

UPDATE trace SET errors = (
  SELECT count(*) FROM span s WHERE s.trace = trace.id
    AND s.status = 'error' AND s.kind IN ('tool', 'model'))
WHERE id = ?
"""
"""How many calls of each step, and of a trace, ended in an error: counted anew for a database that
was written by other rules."""
