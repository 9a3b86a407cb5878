"""A trace into the database: in batches, then finished.

`Writer.write` appends what a format yields; `Writer.finish` numbers the steps, sums what lists show
and makes the trace visible, in one transaction; `Writer.take` does both for many traces in one.
Until then their rows are invisible, so an interrupted import leaves nothing half-read behind. A
trace that is already there is compared: equal content, or a part of it, changes nothing, more of
the same run takes its place (tags hang on ids that stay), anything else is refused. A trace that is
still going on is finished again and again, each time as much of it as is known: until its last time
it is live, and gives way to whatever comes next.

Secrets in ids and names of a recording are masked before anything refers to them, so that
references still hold; the key of a trace is made before. Texts and values are masked where they are
stored, in `content`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from replay.digests import digest, run_id, trace_id
from replay.errors import BadTrace
from replay.steps import Node, Plan, plan
from replay.store import environments, spans, text_index
from replay.store.content import Content
from replay.store.handle import Store, now_ns
from replay.trace import AnySpan, Batch, Header, Level, ModelCall, SourceScore, ToolCall

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
    """A trace being written: its row, its latest header, the ids of its spans so far."""

    row: int
    header: Header
    ids: set[str] = field(default_factory=set)


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


def group_batches(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Batches in groups for `Writer.take`. Where the source breaks, what came before comes first.

    A group is put together while nothing is locked.
    """
    group: list[Batch] = []
    spans = 0
    try:
        for batch in batches:
            group.append(batch)
            spans += len(batch.spans)
            if spans >= SPANS_TOGETHER:
                yield group
                group, spans = [], 0
    except BadTrace:
        yield group
        raise
    yield group


def _key(batch: Batch) -> str:
    header = batch.header
    return trace_id(header.format, header.source_id, header.item)


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
        self._refused: set[str] = set()
        self._content = Content(store.redactor)
        for setting in _MANY_ROWS:
            store.db.execute(setting)

    def take(self, batches: Iterable[Batch]) -> list[Finished | BadTrace]:
        """Write batches and finish the traces that end in them, in one transaction.

        Returns what became of each trace. One that is refused is dropped and harms no other.
        """
        done: list[Finished | BadTrace] = []
        with self._store.writing():
            for batch in batches:
                key = _key(batch)
                try:
                    if key not in self._refused:
                        self.write(batch)
                        if batch.last:
                            done.append(self.finish(key))
                except BadTrace as refused:
                    done.append(refused)
                    self.drop(key)
                    self._refused.add(key)
                if batch.last:  # the same trace may stand in another file
                    self._refused.discard(key)
        return done

    def write(self, batch: Batch) -> str:
        """Append a batch; returns the trace's id. Nothing shows until `finish`.

        Raises BadTrace where a span id stands twice.
        """
        key, header = _key(batch), of_header(self._content, batch.header)
        with self._store.writing() as db, self._content.pending(db) as rows:
            open_ = self._open.get(key) or self._begin(db, key, header)
            open_.header = header
            for each in batch.spans:
                span = of_span(self._content, each)
                if span.id in open_.ids:
                    raise BadTrace(header.path or "-", f"span {span.id}", "occurs twice")
                spans.put(rows, self._content, open_.row, len(open_.ids), span)
                open_.ids.add(span.id)
            for score in batch.scores:
                row = msgspec.structs.asdict(of_score(self._content, score))
                row["span_id"], row["source"] = row.pop("span"), row.pop("by")
                rows.add("source_score", {"trace": open_.row, **row})
        return key

    def finish(self, key: str) -> Finished:
        """Number, sum and show the trace.

        Raises BadTrace where it says otherwise than a recording of the same id that is stored.
        """
        open_ = self._open.pop(key)
        self._content.forget()
        with self._store.writing() as db:
            made = plan(_nodes(db, open_.row))
            problems = tuple(
                f"span {name}: its parent is not in the trace" for name in made.orphans
            )
            _number(db, open_.row, made)
            self._describe(db, open_, problems)
            _sum(db, open_.row)
            environments.fill(db, (open_.row,))
            verdict = _settle(db, key, open_.row, replace=self._replace)
            fuller, outdone = _others(db, key, verdict)
        if verdict is None:
            self.drop_row(open_.row)
            raise BadTrace(
                open_.header.path or "-",
                f"trace {key}",
                "differs from the stored recording of the same run",
                "Try: --replace, to store the new one",
            )
        return Finished(
            id=key,
            verdict=verdict,
            spans=len(open_.ids),
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
        self._content.forget()
        if open_ is not None:
            self.drop_row(open_.row)

    def drop_row(self, row: int) -> None:
        with self._store.writing() as db:
            db.execute("DELETE FROM trace WHERE id = ?", (row,))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Ids of traces that were begun and neither finished nor dropped."""
        return tuple(self._open)

    def _begin(self, db: sqlite3.Connection, key: str, header: Header) -> _Open:
        db.execute("DELETE FROM trace WHERE key = ? AND NOT complete", (key,))
        row = {
            "key": key,
            "run": run_id(header.run or header.source_id, header.item),
            "complete": 0,
            "format": header.format,
            "source_id": header.source_id,
            "outcome": "unknown",
            "labels": "{}",
            "imported_ns": now_ns(),
        }
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        made = db.execute(f"INSERT INTO trace ({names}) VALUES ({marks})", list(row.values()))
        self._open[key] = _Open(row=made.lastrowid or 0, header=header)
        return self._open[key]

    def _describe(self, db: sqlite3.Connection, open_: _Open, problems: tuple[str, ...]) -> None:
        header, content = open_.header, self._content
        value = header.outcome.value
        _update(
            db,
            open_.row,
            {
                "item": header.item,
                "path": _absolute(header.path),
                "title": content.text(header.title),
                "task": header.task,
                "trial": header.trial,
                "variant": header.variant,
                "agent": header.agent,
                "outcome": header.outcome.status,
                "outcome_value": None if value is None else str(value),
                "outcome_by": header.outcome.by,
                "labels": content.json(header.labels) or "{}",
                "reference": content.json(header.reference),
                "reported_cost_usd": header.reported_cost_usd,
                "problems": content.json(list(problems)) or "[]",
                "start_ns": header.start_ns,
                "end_ns": header.end_ns,
                "live_until_ns": self._live_until_ns,
            },
        )


def _update(db: sqlite3.Connection, row: int, values: dict[str, Any]) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE trace SET {names} WHERE id = ?", [*values.values(), row])


def _nodes(db: sqlite3.Connection, row: int) -> list[Node]:
    found = db.execute(
        "SELECT s.span_id, s.parent, s.kind, s.seq, s.start_ns, t.asked_by"
        " FROM span s LEFT JOIN tool_call t ON t.span = s.id WHERE s.trace = ?",
        (row,),
    )
    return [Node(*each) for each in found]


def _number(db: sqlite3.Connection, row: int, made: Plan) -> None:
    """Keep the plan: the step of every span, and a row per step with what its calls add up to."""
    db.executemany(
        "UPDATE span SET step = ? WHERE trace = ? AND span_id = ?",
        ((step, row, name) for name, step in made.of.items()),
    )
    db.executemany(
        "INSERT INTO step (trace, step, thread, ask, calls, errors)"
        " SELECT ?, ?, ?, id, 0, 0 FROM span WHERE trace = ? AND span_id = ?",
        (
            (row, index, thread, row, ask)
            for index, (ask, thread) in enumerate(zip(made.asks, made.threads, strict=True))
        ),
    )
    sums = db.execute(
        "SELECT count(*) FILTER (WHERE kind = 'tool'), count(*) FILTER (WHERE status = 'error'),"
        " max(end_ns), trace, step FROM span"
        " WHERE trace = ? AND step IS NOT NULL AND kind IN ('tool', 'model') GROUP BY step",
        (row,),
    ).fetchall()
    db.executemany(
        "UPDATE step SET (calls, errors, end_ns) = (?, ?, ?) WHERE trace = ? AND step = ?", sums
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
            WHERE s.trace = trace.id ORDER BY s.step LIMIT 1)
        WHERE id = ?""",
        (row,),
    )
    digests = db.execute("SELECT digest FROM span WHERE trace = ? ORDER BY span_id", (row,))
    content = digest("trace", *(each[0] for each in digests))
    db.execute("UPDATE trace SET content = ? WHERE id = ?", (content, row))


def _settle(db: sqlite3.Connection, key: str, row: int, *, replace: bool) -> Verdict | None:
    """Show the new rows, keep the old ones, or neither: None says that they contradict."""
    old = db.execute(
        "SELECT id, content, live_until_ns IS NOT NULL FROM trace WHERE key = ? AND complete",
        (key,),
    ).fetchone()
    if old is None:
        _show(db, row)
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
    remove(db, before)
    _show(db, row)
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


def _show(db: sqlite3.Connection, row: int) -> None:
    """The trace is whole: lists show it, sums count it, a search finds it."""
    db.execute("UPDATE trace SET complete = 1 WHERE id = ?", (row,))
    text_index.add_trace(db, row)


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


def of_header(content: Content, header: Header) -> Header:
    """What a header says in names, masked."""
    known = (
        header.format, header.source_id, header.run, header.item, header.path, header.task,
        header.trial, header.variant, header.agent, header.outcome.by, str(header.outcome.value),
    )  # fmt: skip
    if content.harmless(known):
        return header
    said, value = header.outcome, header.outcome.value
    text = content.text
    return structs.replace(
        header,
        format=text(header.format) or "",
        source_id=text(header.source_id) or "",
        run=text(header.run),
        item=text(header.item),
        path=text(header.path),
        task=text(header.task),
        trial=text(header.trial),
        variant=text(header.variant),
        agent=text(header.agent),
        outcome=structs.replace(
            said, by=text(said.by), value=text(value) if isinstance(value, str) else value
        ),
    )


def _absolute(path: str | None) -> str | None:
    """Where a file lies, whatever folder it was named from; `-` is standard input."""
    return path if path is None or path == "-" else os.path.abspath(path)


def of_span(content: Content, span: AnySpan) -> AnySpan:
    """A span whose ids and names are masked."""
    known = [span.id, span.parent, span.place.span]
    if isinstance(span, ModelCall):
        asked, said = span.request, span.response
        known += [span.agent, asked.model, said.id, said.model, said.stop_raw]
    elif isinstance(span, ToolCall):
        known += [span.call_id, span.asked_by]
    return span if content.harmless(known) else _masked(content, span)


def _masked(content: Content, span: AnySpan) -> AnySpan:
    text = content.text
    span = structs.replace(
        span,
        id=text(span.id) or "",
        parent=text(span.parent),
        place=structs.replace(span.place, span=text(span.place.span)),
    )
    if isinstance(span, ModelCall):
        said = span.response
        return structs.replace(
            span,
            agent=text(span.agent),
            request=structs.replace(span.request, model=text(span.request.model)),
            response=structs.replace(
                said,
                id=text(said.id),
                model=text(said.model),
                stop_raw=text(said.stop_raw),
            ),
        )
    if isinstance(span, ToolCall):
        return structs.replace(span, call_id=text(span.call_id), asked_by=text(span.asked_by))
    return span


def of_score(content: Content, score: SourceScore) -> SourceScore:
    """A score of the source, all of its texts masked."""
    text = content.text
    return structs.replace(
        score,
        name=text(score.name) or "",
        by=text(score.by) or "",
        span=text(score.span),
        label=text(score.label),
        explanation=text(score.explanation),
    )
