"""A trace into the database: in batches, then finished.

`Writer.write` appends what a format yields; `Writer.finish` numbers the steps, sums what lists show
and makes the trace visible, in one transaction; `Writer.take` does both for many traces in one.
Until then their rows are invisible, so an interrupted import leaves nothing half-read behind. A
trace that is already there is compared: equal content, or a part of it, changes nothing, more of
the same run takes its place (tags hang on ids that stay), anything else is refused. A trace that is
still going on is finished again and again, each time as much of it as is known: until its last time
it is live, and gives way to whatever comes next.

What is written was masked and digested by `prepare`, in this process or in another. Whoever writes
holds the write lock, so the next id of a table is known: rows are given their ids at once, and
thousands of them can refer to each other before the first is in the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from replay.digests import digest
from replay.errors import BadTrace
from replay.steps import Node, Plan, plan
from replay.store import environments, text_index
from replay.store.connection import Row
from replay.store.content import Masks
from replay.store.handle import Store, now_ns
from replay.store.insert import NextIds, TraceIds, insert
from replay.store.prepare import Prepared, Preparer, Refused
from replay.store.schema import STEP_MAXIMA
from replay.trace import Batch, Level

Verdict = Literal["new", "duplicate", "grown", "lesser", "replaced"]


class Finished(Struct, frozen=True, kw_only=True):
    """What became of a trace: its id and how it compared with what was there.

    `lesser` is a part of what was stored under that id, which stays. `fuller` is another recording
    of the same run that holds more: lists show that one; None where they show this, and `outdone`
    are the recordings of the run that it outdoes.
    """

    id: str
    verdict: Verdict
    spans: int
    steps: int
    problems: tuple[str, ...] = ()
    fuller: str | None = None
    outdone: tuple[str, ...] = ()


class _Open(Struct):
    """A trace being written, and what its latest batch says of it."""

    ids: TraceIds
    about: Row
    path: str | None

    @property
    def row(self) -> int:
        return self.ids.trace


_MANY_ROWS = (
    "PRAGMA cache_size = -32000",
    "PRAGMA wal_autocheckpoint = 8000",
    "PRAGMA synchronous = NORMAL",
)
"""The pages that new rows touch stay in memory (32 MB), and the log goes into the file in large
pieces, each of which waits for the disk. What a power cut takes of the last transactions still
stands in the source."""


SPANS_TOGETHER = 256
"""So many spans are worth a transaction. One a trace writes the same pages again and again, many
more would keep other writers waiting."""


class Writer:
    """Writes traces into one store. `replace` takes the new side of a conflict.

    With `live_until_ns` what it finishes is live until then: more of it is expected.
    """

    def __init__(
        self, store: Store, *, replace: bool = False, live_until_ns: int | None = None
    ) -> None:
        self._store = store
        self._replace = replace
        self._live_until_ns = live_until_ns
        self._open: dict[str, _Open] = {}
        self._masks = Masks(store.redactor)
        self._preparer = Preparer(self._masks)
        self._next = NextIds()
        self._words = text_index.Pending()
        self._depth = 0
        self._left: set[str] | None = None
        """Keys of traces that a writer before this one left unfinished."""
        for setting in _MANY_ROWS:
            store.db.execute(setting)

    def take(self, batches: Iterable[Batch]) -> list[Finished | BadTrace]:
        """Write batches and finish the traces that end in them, in one transaction.

        Returns what became of each trace. One that is refused is dropped and harms no other.
        """
        return self.keep(self.prepare(batches))

    def prepare(self, batches: Iterable[Batch]) -> Iterator[Prepared | Refused]:
        """Batches as `keep` takes them. Nothing is locked or written."""
        return self._preparer.prepare(batches)

    def keep(self, prepared: Iterable[Prepared | Refused]) -> list[Finished | BadTrace]:
        """As `take`, of batches that were prepared before."""
        done: list[Finished | BadTrace] = []
        with self._writing():
            for each in prepared:
                if isinstance(each, Refused):
                    done.append(each.error)
                    self.drop(each.key)
                    continue
                self._put(each)
                if each.last:
                    try:
                        done.append(self.finish(each.key))
                    except BadTrace as refused:
                        done.append(refused)
        return done

    def write(self, batch: Batch) -> str:
        """Append a batch; returns the trace's id. Nothing shows until `finish`.

        Raises BadTrace where a span id stands twice.
        """
        made = self._preparer.batch(batch)
        self._put(made)
        return made.key

    def _put(self, made: Prepared) -> None:
        with self._writing() as db:
            open_ = self._open.get(made.key) or self._begin(db, made)
            open_.about, open_.path = made.about, made.path
            self._words.add(db, "message_words", insert(db, made.tables, open_.ids, self._next))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction. The next ids of tables are known up to its end: nobody else can write.
        At its end words are put into their indexes."""
        if not self._store.db.in_transaction:
            self._next.forget()
        with self._store.writing() as db:
            self._depth += 1
            try:
                yield db
                if self._depth == 1:
                    self._words.put(db)
            finally:
                self._depth -= 1
                if not self._depth:  # where it failed, what they are of was taken back
                    self._words.forget()

    def finish(self, key: str) -> Finished:
        """Number, sum and show the trace.

        Raises BadTrace where it says otherwise than a recording of the same id that is stored.
        """
        open_ = self._open.pop(key)
        self._preparer.forget(key)
        with self._writing() as db:
            nodes, rows = _nodes(db, open_.row)
            made = plan(nodes)
            problems = tuple(
                f"span {name}: its parent is not in the trace" for name in made.orphans
            )
            _number(db, open_.row, made, nodes, rows)
            self._describe(db, open_, problems)
            _sum(db, open_.row)
            environments.fill(db, (open_.row,))
            verdict = _settle(db, key, open_.row, self._words, replace=self._replace)
            fuller, outdone = _others(db, key, verdict)
            if verdict != "new":  # rows were taken away, and their ids are free again
                self._next.forget()
        if verdict is None:
            self.drop_row(open_.row)
            raise BadTrace(
                open_.path or "-",
                f"trace {key}",
                "differs from the stored recording of the same run",
                "Try: --replace, to store the new one",
            )
        return Finished(
            id=key,
            verdict=verdict,
            spans=open_.ids.spans,
            steps=len(made.asks),
            problems=problems,
            fuller=fuller,
            outdone=outdone,
        )

    def restore(self, trace: Batch, key: str, run: str, imported_ns: int) -> str:
        """Write a whole trace that a database held before, under the names and with the time that
        it had there; returns the digest of its content. Raises BadTrace as `finish`."""
        written = self.write(trace)
        with self._store.writing() as db:
            db.execute(
                "UPDATE trace SET (key, run, imported_ns) = (?, ?, ?)"
                " WHERE key = ? AND NOT complete",
                (key, run, imported_ns, written),
            )
        self.finish(written)
        with self._store.reading():
            found = self._store.db.execute("SELECT content FROM trace WHERE key = ?", (key,))
            return str(found.fetchone()[0])

    def drop(self, key: str) -> None:
        """Forget a trace whose source turned out bad before its end."""
        open_ = self._open.pop(key, None)
        self._preparer.forget(key)
        if open_ is not None:
            self.drop_row(open_.row)

    def drop_row(self, row: int) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM trace WHERE id = ?", (row,))
            self._next.forget()

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Ids of traces that were begun and neither finished nor dropped."""
        return tuple(self._open)

    def _begin(self, db: sqlite3.Connection, made: Prepared) -> _Open:
        if self._left is None:  # looked for once: no index has them
            left = db.execute("SELECT key FROM trace WHERE NOT complete").fetchall()
            self._left = {key for (key,) in left} - self._open.keys()
        if made.key in self._left:
            db.execute("DELETE FROM trace WHERE key = ? AND NOT complete", (made.key,))
            self._left.discard(made.key)
        row = {
            **made.begin,
            "complete": 0,
            "outcome": "unknown",
            "labels": "{}",
            "imported_ns": now_ns(),
        }
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        new = db.execute(f"INSERT INTO trace ({names}) VALUES ({marks})", list(row.values()))
        ids = TraceIds(trace=new.lastrowid or 0)
        open_ = _Open(ids=ids, about=made.about, path=made.path)
        self._open[made.key] = open_
        return open_

    def _describe(self, db: sqlite3.Connection, open_: _Open, problems: tuple[str, ...]) -> None:
        found = self._masks.json(list(problems)) or "[]"
        values = {**open_.about, "problems": found, "live_until_ns": self._live_until_ns}
        _update(db, open_.row, values)


def _update(db: sqlite3.Connection, row: int, values: dict[str, Any]) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE trace SET {names} WHERE id = ?", [*values.values(), row])


class _Row(NamedTuple):
    """What of a span is summed for its step: its row, and whether and when it ended."""

    id: int
    status: str
    end_ns: int | None


def _nodes(db: sqlite3.Connection, trace: int) -> tuple[list[Node], dict[str, _Row]]:
    """The spans of a trace, as its steps are planned by, and their rows by their ids."""
    nodes: list[Node] = []
    rows: dict[str, _Row] = {}
    for *node, row, status, end_ns in db.execute(
        "SELECT s.span_id, s.parent, s.kind, s.seq, s.start_ns, t.asked_by, s.id, s.status,"
        " s.end_ns FROM span s LEFT JOIN tool_call t ON t.span = s.id WHERE s.trace = ?",
        (trace,),
    ):
        nodes.append(Node(*node))
        rows[node[0]] = _Row(row, status, end_ns)
    return nodes, rows


def _number(
    db: sqlite3.Connection, trace: int, made: Plan, nodes: list[Node], rows: dict[str, _Row]
) -> None:
    """Keep the plan: the step of every span, and a row per step with what its calls add up to."""
    db.executemany(
        "UPDATE span SET step = ? WHERE id = ?",
        ((step, rows[name].id) for name, step in made.of.items() if step is not None),
    )
    calls, errors = [0] * len(made.asks), [0] * len(made.asks)
    ends: list[int | None] = [None] * len(made.asks)
    for node in nodes:
        step = made.of.get(node.id)
        if step is None or node.kind not in ("tool", "model"):
            continue
        _, status, end_ns = rows[node.id]
        calls[step] += node.kind == "tool"
        errors[step] += status == "error"
        latest = ends[step]
        if end_ns is not None:
            ends[step] = end_ns if latest is None else max(latest, end_ns)
    asks = (rows[ask].id for ask in made.asks)
    db.executemany(
        "INSERT INTO step (trace, step, thread, ask, calls, errors, end_ns)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (trace, index, *each)
            for index, each in enumerate(zip(made.threads, asks, calls, errors, ends, strict=True))
        ),
    )


_ALL_CALLS = """count(*) > 0 AND coalesce((
  SELECT min(x.start_ns) FROM tool_call c JOIN span x ON x.id = c.span
  WHERE x.trace = trace.id AND c.asked_by IS NULL) >= (
  SELECT min(coalesce(end_ns, 0)) FROM span WHERE trace = trace.id AND kind = 'model'), true)"""
"""There are model calls, and none is missing: no tool ran that none of them asked for before any of
them had ended."""


def _sum(db: sqlite3.Connection, row: int) -> None:
    """What a list shows of a trace. Unknown parts are left out and said to be (`*_complete`)."""
    weakest = " ".join(f"WHEN '{level.value}' THEN {level.rank}" for level in Level)
    db.execute(
        f"""UPDATE trace SET
          (steps, input_tokens, output_tokens, tokens_complete, cost_usd, cost_complete, masked,
           models, fidelity) = (
            SELECT count(*), sum(m.input_tokens), sum(m.output_tokens),
              count(*) = count(m.input_tokens) AND count(*) = count(m.output_tokens)
                AND {_ALL_CALLS},
              sum(m.cost_usd), count(*) = count(m.cost_usd) AND {_ALL_CALLS},
              coalesce(max(m.masked), 0),
              group_concat(DISTINCT coalesce(m.response_model, m.model)),
              (SELECT w.fidelity FROM step x JOIN model_call w ON w.span = x.ask
               WHERE x.trace = trace.id
               ORDER BY CASE w.fidelity {weakest} END DESC LIMIT 1)
            FROM step s JOIN model_call m ON m.span = s.ask WHERE s.trace = trace.id),
          (spans, calls, errors) = (
            SELECT count(*), count(*) FILTER (WHERE kind = 'tool'),
              count(*) FILTER (WHERE status = 'error' AND kind IN ('tool', 'model'))
            FROM span WHERE span.trace = trace.id),
          start_ns = coalesce(start_ns, (SELECT min(start_ns) FROM span WHERE trace = trace.id)),
          end_ns = coalesce(end_ns, (SELECT max(end_ns) FROM span WHERE trace = trace.id)),
          prompt = (
            SELECT g.digest FROM step s JOIN model_call m ON m.span = s.ask
              JOIN message g ON g.id = m.system
            WHERE s.trace = trace.id ORDER BY s.step LIMIT 1),
          {STEP_MAXIMA}
        WHERE id = ?""",
        (row,),
    )
    digests = db.execute("SELECT digest FROM span WHERE trace = ? ORDER BY span_id", (row,))
    content = digest("trace", *(each[0] for each in digests))
    db.execute("UPDATE trace SET content = ? WHERE id = ?", (content, row))


def _settle(
    db: sqlite3.Connection, key: str, row: int, words: text_index.Pending, *, replace: bool
) -> Verdict | None:
    """Show the new rows, keep the old ones, or neither: None says that they contradict."""
    old = db.execute(
        "SELECT id, content, live_until_ns IS NOT NULL FROM trace WHERE key = ? AND complete",
        (key,),
    ).fetchone()
    if old is None:
        _show(db, row, words)
        return "new"
    before, said, live = old
    new = db.execute("SELECT content FROM trace WHERE id = ?", (row,)).fetchone()
    if said == new[0]:
        _fill(db, before, row)
        db.execute("DELETE FROM trace WHERE id = ?", (row,))
        return "duplicate"
    grown = live or not _contradicts(db, before, row)
    if not grown and not replace:
        if _contradicts(db, row, before):
            return None
        db.execute("DELETE FROM trace WHERE id = ?", (row,))
        return "lesser"
    if live:
        _take_place(db, before, row)
    words.put(db)  # which may be those of what goes
    remove(db, before)
    _show(db, row, words)
    return "grown" if grown else "replaced"


def _others(
    db: sqlite3.Connection, key: str, verdict: Verdict | None
) -> tuple[str | None, tuple[str, ...]]:
    """(the recording of the same run that lists show in place of this one, those that this one is
    shown in place of, where it is new there)."""
    found = db.execute(
        "SELECT o.key, o.preferred, t.preferred FROM trace t JOIN trace o ON o.run = t.run"
        " WHERE t.key = ? AND t.complete AND o.complete AND o.key <> t.key ORDER BY o.key",
        (key,),
    ).fetchall()
    fuller = next((other for other, shown, _ in found if shown), None)
    told = verdict in ("new", "grown", "replaced")
    return fuller, tuple(other for other, _, shown in found if shown and told)


def _take_place(db: sqlite3.Connection, old: int, new: int) -> None:
    """In the order of import a live trace stays where it was when it was first seen."""
    place = "SELECT imported_ns FROM trace o WHERE o.id = ?"
    db.execute(f"UPDATE trace SET imported_ns = ({place}) WHERE id = ?", (old, new))


def _show(db: sqlite3.Connection, row: int, words: text_index.Pending) -> None:
    """The trace is whole: lists show it, sums count it, a search finds it."""
    db.execute("UPDATE trace SET complete = 1 WHERE id = ?", (row,))
    text_index.add_places(db, row)
    words.add(db, "span_words", text_index.span_words(db, row))


def remove(db: sqlite3.Connection, row: int) -> None:
    """The one way a finished trace leaves: the index of words cannot be told by a trigger."""
    text_index.take_trace(db, row)
    db.execute("DELETE FROM trace WHERE id = ?", (row,))


def _fill(db: sqlite3.Connection, old: int, new: int) -> None:
    """A duplicate may bring what its first import did not know (a sidecar written later)."""
    for name in ("task", "trial", "variant", "agent", "title", "reference"):
        db.execute(
            f"UPDATE trace SET {name} = (SELECT {name} FROM trace n WHERE n.id = ?)"
            f" WHERE id = ? AND {name} IS NULL",
            (new, old),
        )
    db.execute(
        "UPDATE trace SET (outcome, outcome_value, outcome_by) ="
        " (SELECT outcome, outcome_value, outcome_by FROM trace n WHERE n.id = ?)"
        " WHERE id = ? AND outcome = 'unknown'",
        (new, old),
    )
    db.execute(  # what it said first stands
        "UPDATE trace SET labels = json_patch((SELECT labels FROM trace n WHERE n.id = ?), labels)"
        " WHERE id = ?",
        (new, old),
    )
    db.execute(
        "UPDATE source_score SET trace = ?1 WHERE trace = ?2"
        " AND NOT EXISTS (SELECT 1 FROM source_score WHERE trace = ?1)",
        (old, new),
    )
    db.execute(
        "UPDATE trace SET live_until_ns = (SELECT live_until_ns FROM trace n WHERE n.id = ?)"
        " WHERE id = ? AND live_until_ns IS NOT NULL",
        (new, old),
    )


def _contradicts(db: sqlite3.Connection, old: int, new: int) -> bool:
    """Does the new recording deny anything the old one says?

    A session that grew may have more spans, results for calls that were open, a longer last
    answer, later ends; what was asked, with which context, and what tools returned may not change.
    """
    found = db.execute(
        """SELECT 1 FROM span o
        LEFT JOIN model_call om ON om.span = o.id LEFT JOIN tool_call ot ON ot.span = o.id
        LEFT JOIN span n ON n.trace = ? AND n.span_id = o.span_id
        LEFT JOIN model_call nm ON nm.span = n.id LEFT JOIN tool_call nt ON nt.span = n.id
        WHERE o.trace = ? AND (
          n.id IS NULL OR n.kind <> o.kind
          OR om.context IS NOT nm.context OR om.system IS NOT nm.system
          OR om.toolset IS NOT nm.toolset
          OR ot.arguments IS NOT nt.arguments OR ot.arguments_raw IS NOT nt.arguments_raw
          OR (ot.observation IS NOT NULL AND ot.observation IS NOT nt.observation)
          OR (om.stop IS NOT NULL AND om.response IS NOT nm.response))
        LIMIT 1""",
        (new, old),
    ).fetchone()
    return found is not None
