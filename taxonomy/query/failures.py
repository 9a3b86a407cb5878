"""Which runs failed, and what is said of each? The view `failures`, and counts over it.

The view and its indices are made by `taxonomy.judgements.schema`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from replay.store.handle import Store
from replay.store.rows import rows
from taxonomy.classes import Attribution, FailureClass, Shape
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import FIRST, NOT_A_HINT, TAG_TRUST
from taxonomy.judgements.tags import TagRow
from taxonomy.query.filter import ALL, Filter, among, without_tasks

NONE: frozenset[str] = frozenset()
"""No task is left out."""


_ROW = ", ".join(
    "fault AS attribution" if name == "attribution" else name
    for name in TagRow.__struct_encode_fields__
)
"""The columns of the view `failures` as a row names them."""


def tag_rows(
    store: Store,
    where: str = "1",
    values: tuple[object, ...] = (),
    *,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> list[TagRow]:
    """Rows of the view `failures`, by run and place: of the `chosen` runs, those of the tasks
    `without` left out."""
    known, more = _but(without, chosen)
    cursor = store.db.execute(
        f"SELECT {_ROW} FROM failures WHERE ({where}) AND {known} ORDER BY trace, place",
        [*values, *more],
    )
    return list(rows(cursor, TagRow))


_BESIDE_RULES = """
run IN (
  SELECT r.run FROM tag g JOIN trace r ON r.key = g.trace
  UNION ALL
  SELECT r.run FROM suggestion s INDEXED BY suggestion_beside_rules
  JOIN trace r ON r.key = s.trace WHERE s.source <> 'rule')
"""
"""Of its own accord SQLite reads the key of all suggestions for the few that are not of rules."""


def rows_beside_rules(
    store: Store, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> list[TagRow]:
    """`tag_rows` of the runs of which a person or a judge says something: where they are few, the
    words of rules on all the others are not read."""
    (any_,) = store.db.execute(
        "SELECT EXISTS (SELECT 1 FROM tag)"
        " OR EXISTS (SELECT 1 FROM suggestion INDEXED BY suggestion_beside_rules"
        "   WHERE source <> 'rule')"
    ).fetchone()
    return tag_rows(store, _BESIDE_RULES, without=without, chosen=chosen) if any_ else []


def tags_of(store: Store, recording: str) -> list[TagRow]:
    """The tags people gave a recording; those of another one of its run name that one's steps."""
    found = store.db.execute(
        "SELECT p.key FROM trace r JOIN trace p ON p.run = r.run AND p.preferred"
        " WHERE r.key = ? AND r.complete",
        (recording,),
    ).fetchone()
    if found is None:
        return []
    # Of the view SQLite reads one run alone only where that stands in the question as it is.
    return tag_rows(store, "trace = ? AND recording = ? AND accepted", (found[0], recording))


def break_and_notice(store: Store, key: str) -> tuple[int | None, str | None]:
    """The step where a trace broke, as far as is known, and what speaks against a prompt edit.

    A person's tag says more than the first candidate of the rules.
    """
    said = diagnosis(store, key)
    tagged = tags_of(store, key)
    candidate = said.candidates[0].step if said and said.candidates else None
    at = min(tag.step for tag in tagged) if tagged else candidate
    findings = said.findings if said else ()
    found = [each for each in findings if each.attribution is Attribution.ENVIRONMENT]
    notice = (
        f"attribution: environment ({found[0].why}); a prompt edit cannot fix it" if found else None
    )
    return at, notice


class Verdict(Struct, frozen=True, kw_only=True):
    """What a list says of a trace's diagnosis: the first candidate's phrase and step."""

    trace: str
    shape: Shape | None
    why: str | None
    why_step: int | None
    warnings: tuple[str, ...]


def verdicts(store: Store, where: str = "1", values: tuple[str, ...] = ()) -> dict[str, Verdict]:
    """The diagnoses of all traces, by trace, as far as a list shows them."""
    found = store.db.execute(
        f"SELECT trace, shape, why, why_step, warnings FROM diagnosis WHERE {where}", values
    )
    return {
        row[0]: Verdict(
            trace=row[0],
            shape=Shape(row[1]) if row[1] else None,
            why=row[2],
            why_step=row[3],
            warnings=msgspec.json.decode(row[4], type=tuple[str, ...]),
        )
        for row in found
    }


def verdict(store: Store, trace: str) -> Verdict | None:
    """The same of one trace, None where it has no diagnosis."""
    return verdicts(store, "trace = ?", (trace,)).get(trace)


# --- failed runs that are `chosen`; those of the tasks `without` are left out


def _but(
    without: Collection[str], chosen: Filter, trace: str = "trace"
) -> tuple[str, tuple[object, ...]]:
    """A condition on the column `task` and the one that `trace` names, and its values."""
    known = without_tasks(without)
    if chosen != ALL:
        named = f"{trace} IN (SELECT trace FROM runs WHERE preferred AND ({chosen.sql}))"
        known &= Filter(named, chosen.values)
    return f"({known.sql})", known.values


class Word(NamedTuple):
    """A class of failure and its sub-label."""

    failure: FailureClass
    sub: str | None


def first_words(
    store: Store,
    *,
    every: bool = False,
    of: Word | None = None,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> list[TagRow]:
    """What the Pareto counts of each failed run: one word on it, or `every` one; those `of` one
    class alone, where it is given."""
    values: tuple[object, ...]
    named, values = ("1", ()) if of is None else ("class = ? AND sub IS ?", of)
    if every:
        where = f"outcome = 'failed' AND {named}"
        return tag_rows(store, where, values, without=without, chosen=chosen)
    known, more = _but(without, chosen, "p.trace")
    tagged, suggested = (
        each.format(f"{named} AND {known}") for each in (_TAGGED_FIRST, _SAID_FIRST)
    )
    cursor = store.db.execute(
        f"WITH {_TAGGED} {tagged} UNION ALL {suggested} ORDER BY 1", (*values, *more) * 2
    )
    return list(rows(cursor, TagRow))


def page_of_first_words(
    store: Store,
    of: Word,
    attribution: Attribution | None,
    limit: int,
    *,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> list[TagRow]:
    """The rows of `first_words` of one class, attributed so, of the runs that a list by task has
    first: at most `limit`, those with tags before all others."""
    known, more = _but(without, chosen, "p.trace")
    named = f"class = ? AND sub IS ? AND coalesce(fault, 'agent') = ? AND {known}"
    values = (*of, attribution or Attribution.AGENT, *more)
    found: list[TagRow] = []
    for each in (_TAGGED_FIRST, _SAID_FIRST):
        cursor = store.db.execute(
            f"WITH {_TAGGED} {each.format(named)} ORDER BY {_BY_TASK} LIMIT {limit - len(found)}",
            values,
        )
        found += rows(cursor, TagRow)
    return found


_BY_TASK = (
    "p.task IS NULL, coalesce(nullif(p.task, ''), p.title, ''), coalesce(p.trial, ''),"
    " p.imported_ns, p.trace"
)
_TAGGED_FIRST = """
SELECT p.trace, p.run, p.task, p.trial, p.variant, p.models, p.outcome, t.class, t.sub,
  t.fault AS attribution, t.recording, t.step, t.span, t.source, t.by,
  t.note AS why, 1 AS accepted, 1 AS place
FROM trace_summary p JOIN tagged t ON t.run = p.run AND t.place = 1
WHERE p.preferred AND +p.outcome = 'failed' AND {}"""


TAGS = f"""
  SELECT r.run, r.key AS recording, g.*, row_number() OVER (
    PARTITION BY r.run ORDER BY {TAG_TRUST}, g.step, g.class) AS place
  FROM tag g JOIN trace r ON r.key = g.trace AND r.complete"""
"""Tags are few; of each run the first one that counts has place 1."""

_TAGGED = f"tagged AS ({TAGS})"

_SAID_FIRST = f"""
SELECT p.trace, p.run, p.task, p.trial, p.variant, p.models, p.outcome, s.class, s.sub,
  s.fault AS attribution, p.trace AS recording, s.step, s.span, s.source, s.by, s.why,
  0 AS accepted, 1 AS place
FROM trace_summary p JOIN suggestion s ON s.rowid = ({FIRST.format("rowid", "p.trace")})
WHERE p.preferred AND +p.outcome = 'failed' AND {{}}
  AND p.run NOT IN (SELECT run FROM tagged)"""


class WordCount(NamedTuple):
    """Failed runs of which the same is said, in the same part. Of `accepted` ones a person, a judge
    or a rule was agreed with."""

    failure: FailureClass
    sub: str | None
    attribution: Attribution | None
    part: str | int | None
    accepted: bool
    runs: int


Part: TypeAlias = Literal["tool", "model", "variant", "task", "day"]
"""What failed runs are counted by: the first tool called at the step, or what stands in the run;
days are those since 1970 in which runs began, UTC."""

_DAY_NS = 86_400 * 10**9
_PARTS: dict[Part, str] = {
    "model": "p.models",
    "variant": "p.variant",
    "task": "p.task",
    "day": f"p.start_ns / {_DAY_NS}",
}
_FIRST_TOOL = """(
  SELECT x.name FROM span x WHERE x.trace = {row} AND x.step = {step} AND x.kind = 'tool'
  ORDER BY x.seq LIMIT 1)"""
_OF_RECORDING = "(SELECT id FROM trace WHERE key = {} AND complete)"


def count_first_words(
    store: Store,
    *,
    by: Part | None = None,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> list[WordCount]:
    """The rows of `first_words` counted, those of each part apart.

    What is suggested first is counted in the order of its index: of the runs nothing is read.
    """
    tagged_but, of_tagged = _but(without, chosen, "p.trace")
    said_but, of_said = _but(without, chosen)
    groups = "1, 2, 3, 4" if by else "1, 2, 3"  # with a part that is none they would be sorted
    of_tag = of_suggestion = _PARTS.get(by, "NULL") if by else "NULL"
    if by == "tool":
        of_tag = _FIRST_TOOL.format(row=_OF_RECORDING.format("w.recording"), step="w.step")
        of_suggestion = _FIRST_TOOL.format(row=_OF_RECORDING.format("f.trace"), step="f.step")
    elif by:
        of_suggestion = f"(SELECT {of_tag} FROM trace p WHERE p.key = f.trace AND p.complete)"
    found = store.db.execute(
        f"WITH {_TAGGED}"
        f" SELECT class, sub, fault, {of_suggestion} AS part, 0, count(*) FROM first_word f"
        f" WHERE failed = 1 AND run NOT IN (SELECT run FROM tagged) AND {said_but}"
        f" GROUP BY {groups}"
        " UNION ALL"
        f" SELECT w.class, w.sub, w.fault, {of_tag} AS part, 1, count(*)"
        " FROM tagged w JOIN trace_summary p ON p.run = w.run AND p.preferred"
        f" WHERE w.place = 1 AND +p.outcome = 'failed' AND {tagged_but} GROUP BY {groups}",
        (*of_said, *of_tagged),
    )
    return sorted(_counts(found), key=lambda each: [str(part or "") for part in each[:4]])


def count_every_word(
    store: Store,
    *,
    by: Part | None = None,
    without: Collection[str] = NONE,
    chosen: Filter = ALL,
) -> list[WordCount]:
    """The same of all that is said: a run counts once for each class and part. The runs of which
    nobody says anything are not among them."""
    known, values = _but(without, chosen, "p.trace")
    failed = f"p.preferred AND p.outcome = 'failed' AND {known}"
    part = _PARTS.get(by, "NULL") if by else "NULL"
    of_tag = of_suggestion = part
    if by == "tool":
        of_tag = _FIRST_TOOL.format(row="r.id", step="w.step")
        of_suggestion = _FIRST_TOOL.format(row="p.row", step="w.step")
    found = store.db.execute(
        "SELECT class, sub, fault, part, accepted, count(*) FROM ("
        " SELECT run, class, sub, fault, part, max(accepted) AS accepted FROM ("
        "   SELECT p.run, w.class, w.sub, nullif(w.fault, 'agent') AS fault, 1 AS accepted,"
        f"    {of_tag} AS part"
        "   FROM tag w JOIN (SELECT id, key, run FROM trace WHERE complete) r ON r.key = w.trace"
        f"  JOIN trace_summary p ON p.run = r.run WHERE {failed}"
        "   UNION ALL"
        "   SELECT p.run, w.class, w.sub, nullif(w.fault, 'agent'), 0,"
        f"    {of_suggestion}"
        f"  FROM trace_summary p JOIN suggestion w ON w.trace = p.trace AND {NOT_A_HINT}"
        f"  WHERE {failed})"
        " GROUP BY 1, 2, 3, 4, 5) GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5",
        (*values, *values),
    )
    return list(_counts(found))


def _counts(found: Iterable[Sequence[Any]]) -> Iterator[WordCount]:
    for failure, sub, fault, part, yes, runs in found:
        attribution = Attribution(fault) if fault else None
        yield WordCount(FailureClass(failure), sub, attribution, part, bool(yes), runs)


def titles_of(store: Store, traces: Iterable[str]) -> dict[str, str]:
    """The titles of those of some runs that name no task."""
    found = store.db.execute(
        "SELECT trace, title FROM trace_summary WHERE task IS NULL AND title <> ''"
        " AND trace IN (SELECT value FROM json_each(?))",
        (among(traces),),
    )
    return dict(found.fetchall())


def count_runs(store: Store, tasks: Collection[str]) -> int:
    """How many runs some tasks have, each run once."""
    (count,) = store.db.execute(
        "SELECT count(*) FROM trace_summary WHERE preferred"
        " AND task IN (SELECT value FROM json_each(?))",
        (among(tasks),),
    ).fetchone()
    return int(count)


def outcome_count(
    store: Store, outcome: str, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> int:
    """How many runs ended so, each run once."""
    known, values = _but(without, chosen)
    (count,) = store.db.execute(
        f"SELECT count(*) FROM trace_summary WHERE preferred AND outcome = ? AND {known}",
        (outcome, *values),
    ).fetchone()
    return int(count)


class RunHead(NamedTuple):
    """What a run is called, how it ended and when it began; its preferred recording."""

    trace: str
    run: str
    title: str | None
    task: str | None
    trial: str | None
    outcome: str
    start_ns: int | None


def run_heads(
    store: Store, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> list[RunHead]:
    """Every run once, in the order of their traces' ids."""
    known, values = _but(without, chosen)
    found = store.db.execute(
        "SELECT trace, run, title, task, trial, outcome, start_ns FROM trace_summary"
        f" WHERE preferred AND {known} ORDER BY trace",
        values,
    )
    return [RunHead(*row) for row in found]


def unsaid_runs(
    store: Store, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> list[RunHead]:
    """The failed runs that are in no row of `first_words`, in the order of their traces' ids."""
    known, values = _but(without, chosen)
    found = store.db.execute(
        "SELECT trace, run, title, task, trial, outcome, start_ns FROM trace_summary p"
        f" WHERE preferred AND outcome = 'failed' AND {known}"
        f" AND NOT EXISTS (SELECT 1 FROM suggestion s WHERE s.trace = p.trace AND {NOT_A_HINT})"
        " AND run NOT IN (SELECT r.run FROM tag g JOIN trace r ON r.key = g.trace AND r.complete)"
        " ORDER BY trace",
        values,
    )
    return [RunHead(*row) for row in found]


def first_tools(store: Store, steps: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """The first tool called at each of some steps, by (trace, step)."""
    found = store.db.execute(
        "SELECT a.value ->> 0 AS trace, a.value ->> 1 AS step,"
        f" {_FIRST_TOOL.format(row=_OF_RECORDING.format('a.value ->> 0'), step='a.value ->> 1')}"
        " FROM json_each(?) a",
        (msgspec.json.encode(sorted(set(steps))).decode(),),
    )
    return {(trace, step): name for trace, step, name in found if name is not None}


def starts_of(store: Store, traces: Iterable[str]) -> dict[str, int | None]:
    """When some runs began."""
    found = store.db.execute(
        "SELECT trace, start_ns FROM trace_summary WHERE trace IN (SELECT value FROM json_each(?))",
        (among(set(traces)),),
    )
    return dict(found.fetchall())
