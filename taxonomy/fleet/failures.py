"""Failed runs of a trace store by class, counted by the store itself: the runs are not copied.

SQL tells a part of some classes, by the words and the figures of the rules of those classes: what
it counts a rule finds too, but a rule finds more. `tests/fleet/test_failures.py` holds the two
against each other, run by run. At which step a run failed, and the evidence, SQL does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from replay.effects import PROGRAM_KEYS
from replay.fleet.connection import Connection
from replay.fleet.dialect import Dialect, literal, literals
from replay.formats.common import STOP_WORDS
from replay.statistics import Rate, rate
from taxonomy.classes import SUB_LABELS, FailureClass, class_label
from taxonomy.evidence import results
from taxonomy.evidence.endings import NOTHING
from taxonomy.evidence.results import Kind
from taxonomy.fleet.compile import ERRORS, Window, compile_text
from taxonomy.fleet.listing import has_outcomes, starts
from taxonomy.query.language import parse
from taxonomy.rules import bad_args, cap_hit, loop


class SqlClass(Struct, frozen=True, kw_only=True):
    """A class of which SQL counts a part: what it counts, what only the rule finds, and which
    columns of a dialect it needs. `by_outcome` where it says so only of runs known as failed."""

    failure: FailureClass
    sub: str | None
    counts: str
    beside: str
    needs: tuple[str, ...]
    condition: str
    by_outcome: bool = False

    @property
    def label(self) -> str:
        return class_label(self.failure, self.sub)


class ClassCount(Struct, frozen=True, kw_only=True):
    """A class, its share of the failed runs, and the traces that show it, the newest first."""

    label: str
    failure: FailureClass
    sub: str | None
    counts: str
    beside: str
    share: Rate
    traces: tuple[str, ...]


class FleetFailures(Struct, frozen=True, kw_only=True):
    """Failed runs by class, most first. A run may show several classes; `unexplained` show none.

    `by_outcome` is False where no run has an outcome, and failed means a failed call. `left_out`
    are the classes that this store does not tell at all, of `classes` that a rule can find.
    """

    failed: int
    by_outcome: bool
    rows: tuple[ClassCount, ...]
    unexplained: tuple[str, ...]
    left_out: tuple[str, ...]
    classes: int
    notes: tuple[str, ...]

    @property
    def unexplained_share(self) -> Rate:
        return rate(len(self.unexplained), self.failed)


ALL_CLASSES = len(FailureClass) - 1 + len(SUB_LABELS)
"""The named classes, and `other` by each of its sub-labels."""

FAILED = "outcome:failed"

NOTES = (
    "a rule finds what SQL counts, and more: the step, the evidence and the rest of each class come"
    " with arc fleet pull",
    ERRORS,
    "calls that two spans tell of count twice, and calls of several agents are read as one"
    " sequence",
)


def count_failures(
    connection: Connection, dialect: Dialect, text: str, window: Window
) -> FleetFailures:
    """The failed runs among those that a question means, by class. Raises BadQuery, FleetError."""
    by_outcome = has_outcomes(connection, dialect, window)
    asked = compile_text(text, dialect, window, lambda: by_outcome)
    if parse(text) is not None:
        failed = f"({text}) {FAILED}"
        asked = compile_text(failed, dialect, window, lambda: by_outcome)
    else:
        asked = compile_text(FAILED, dialect, window, lambda: by_outcome)
    told = [each for each in CLASSES if by_outcome or not each.by_outcome]
    told = [each for each in told if all(getattr(dialect, name) for name in each.needs)]
    sql = _sql(dialect, window, asked.sql, told)
    shown: dict[str, list[str]] = {each.label: [] for each in told}
    unexplained: list[str] = []
    found = connection.rows(sql, asked.values)
    for trace, flags in found:
        labels = {each.label for each, flag in zip(told, flags, strict=True) if flag}
        for label in labels:
            shown[label].append(trace)
        if not labels:
            unexplained.append(trace)
    return FleetFailures(
        failed=len(found),
        by_outcome=by_outcome,
        rows=tuple(_counts(told, shown, len(found))),
        unexplained=tuple(unexplained),
        left_out=tuple(sorted({each.label for each in CLASSES} - shown.keys())),
        classes=ALL_CLASSES,
        notes=tuple(dict.fromkeys((*asked.notes, *NOTES))),
    )


def _counts(told: list[SqlClass], shown: dict[str, list[str]], failed: int) -> Iterator[ClassCount]:
    """The classes, most first, those of two conditions once."""
    for label, traces in sorted(shown.items(), key=lambda each: (-len(each[1]), each[0])):
        parts = [each for each in told if each.label == label]
        yield ClassCount(
            label=label,
            failure=parts[0].failure,
            sub=parts[0].sub,
            counts="; ".join(each.counts for each in parts),
            beside="; ".join(each.beside for each in parts),
            share=rate(len(traces), failed),
            traces=tuple(traces),
        )


# --- conditions on the calls of a run: `calls` are tuples of what `_CALL` says, `steps` their steps


def _match(text: str, words: re.Pattern[str]) -> str:
    """Does a pattern occur? In RE2, where a dot means what it means in Python."""
    flags = "".join(
        sign for sign, flag in (("i", re.I), ("m", re.M), ("s", re.S)) if words.flags & flag
    )
    without = "" if "s" in flags else "-s"
    return f"match({text}, {literal(f'(?{flags}{without}){words.pattern}')})"


def _has_any(text: str, words: re.Pattern[str]) -> str:
    """The same of a pattern that is a choice of plain words, much faster in long texts."""
    plain = words.pattern.split("|")
    if any(re.escape(word).replace("\\ ", " ") != word for word in plain):
        return _match(text, words)
    return f"multiSearchAnyCaseInsensitive({text}, [{literals(plain)}])"


_SHOWN = (
    f"if(NOT (bad AND kind = 'tool'), '', if(lengthUTF8(reply) > {results.HEAD + results.TAIL},"
    f" concat(substringUTF8(reply, 1, {results.HEAD}), '\\n', substringUTF8(reply,"
    f" -{results.TAIL})), reply))"
)
"""The part of an error that is read, "" of what is none."""


def _why() -> str:
    """The kind of failure that the reply of a failed call describes: `results.kind_of`."""
    named = dict(results.KIND_WORDS)
    shell = [
        (results.SHELL_SYNTAX, Kind.SYNTAX), (results.SHELL_OPTION, Kind.ARGUMENTS),
        (results.ENVIRONMENT, Kind.OTHER), (named[Kind.TRANSIENT], Kind.TRANSIENT),
        (named[Kind.TIMEOUT], Kind.TIMEOUT),
    ]  # fmt: skip
    in_shell = ", ".join(f"{_match('shown', words)}, {literal(kind)}" for words, kind in shell)
    others = ", ".join(
        f"{_match('shown', words)}, {literal(kind)}" for kind, words in results.KIND_WORDS
    )
    other = literal(Kind.OTHER)
    return (
        f"multiIf(NOT (bad AND kind = 'tool'), '', program, multiIf({in_shell}, {other}),"
        f" {others}, {other})"
    )


_SPANS = """
SELECT *, why IN ({refusals}) AND NOT hasAny(
    arrayMap(word -> lower(word), extractAll(tool_name, '[A-Z]?[a-z]+|[A-Z]+')), [{interpreters}]
  ) AS refused,
  why = {transient} OR (why = {timeout} AND NOT program) AS passing
FROM (SELECT *, {why} AS why
FROM (SELECT *, if(told, sipHash64(tool_name, asked, reply, bad), 0) AS same, {shown} AS shown,
  hasAny(keys, [{programs}]) AS program,
  arrayExists(key -> match(key, {file}), keys) AS names_file,
  if(kind = 'tool', {waits}, 0) AS waits
FROM (SELECT *, if(got = '', said, got) AS reply, asked <> '' AND (bad OR got <> '') AS told,
  if(bad, JSONExtractKeys(asked), []) AS keys
FROM (
  SELECT {d.trace} AS trace, {d.span} AS id, toUnixTimestamp64Nano({d.start}) AS at,
    {d.parent} = '' AS is_root, arc_bad AS bad,
    if(arc_kind IN ('tool', 'model') OR (arc_kind = 'agent' AND is_root), arc_kind, '') AS kind,
    if(arc_kind = 'tool', {d.tool}, '') AS tool_name,
    if(arc_kind = 'tool', {arguments}, '') AS asked, if(arc_kind = 'tool', {result}, '') AS got,
    if(arc_kind = 'model', {stop}, '') AS stop, if(arc_kind = 'model', {answer}, '') AS answer,
    arc_kind = 'model' AND {offers} <> '' AS offers, if(bad, {d.message}, '') AS said
  FROM (SELECT *, {d.kind} AS arc_kind, {d.failed} AS arc_bad FROM {d.spans}
    WHERE {d.trace} IN ({traces}) AND {since})
))))
"""
"""Of agents only a root is of that kind here. The long expressions stand once, under names that no
table has, and nothing is asked of them in a WHERE: the store would work them out a second time,
before it reads the rest of a span.
"""

_CALL = (
    "at, id, tool_name, same, bad, why, refused, names_file, passing, waits, NOT bad AND got <> ''"
)
"""A call as its tuple has it, by these numbers: 3 the name, 4 equal for equal calls with equal
replies and 0 where either is not told, 5 failed, 6 why, 7 arguments refused, 8 names a file, 9
failed for the moment only, 10 still running, 11 worked."""

_RUNS = """
SELECT *, arrayMap(call -> arrayCount(ask -> ask <= call.1, asks), calls) AS steps,
  arrayMap(call -> call.4, calls) AS same, arrayMap(call -> call.9, calls) AS passing,
  arrayMap(call -> call.10, calls) AS waits, length(calls) AS n
FROM (
SELECT trace, minIf(at, kind <> '' OR is_root) AS began, countIf(kind <> '') AS known,
  groupArrayIf(at, kind = 'model') AS asks,
  arraySort(call -> (call.1, call.2), groupArrayIf(({call}), kind = 'tool')) AS every,
  arrayFilter((call, nth) -> nth = 1, every, arrayEnumerateUniq(arrayMap(call -> call.2, every)))
    AS calls,
  argMaxIf((bad, said, stop, answer), (at, id), kind = 'model') AS last,
  argMinIf((bad, said), (at, id), kind = 'agent') AS agent,
  countIf(kind = 'model' AND (answer = '' OR match(answer, {called}))) AS calling,
  countIf(offers) > 0 AS has_offers
FROM ({spans}) GROUP BY trace)
"""
"""A call that was sent again counts once, the earliest of its id: only its calls are counted of a
run, and to find the same span among all of them would take one thread of the store.
"""
_CALLED = r'"(tool_calls?|tool_use|tool-call|function_?[cC]alls?)"'
"""How a message says that it calls a tool."""

_AGAIN = "same[i] <> 0 AND same[i] = same[toInt64(i) - toInt64(p)]"
_FROM = "range(toUInt32(i[1] - p), toUInt32(i[-1] + 1)"
_LOOP = f"""if(n - arrayUniq(same) < {loop.TIMES - 1}, 0, arrayExists(p -> arrayExists(i ->
  length(i) >= {loop.TIMES - 1} * p
  AND arrayUniq(arrayMap(at -> steps[at], {_FROM}, toUInt32(p)))) >= {loop.TIMES}
  AND NOT if(arrayAll(at -> passing[at], {_FROM})), length(i) + p <= {loop.RETRIES + 1},
    arrayAll(at -> waits[at], {_FROM})) AND length(i) + p < {loop.POLLS}),
  arrayMap(part -> arrayFilter(i -> {_AGAIN}, part), arraySplit((i, again) -> NOT again,
    range(toUInt32(p + 1), toUInt32(n + 1)),
    arrayMap(i -> {_AGAIN}, range(toUInt32(p + 1), toUInt32(n + 1)))))),
  range(1, {loop.LONGEST_CYCLE + 1})))"""
"""`i` are the places of calls, one after another, that repeat the call a cycle of `p` before."""

_REFUSED = f"""if(NOT arrayExists(call -> call.7, calls), 0, arrayExists(tool ->
  arrayCount(call -> call.7 AND call.3 = tool, calls) >= {bad_args.STUBBORN}
  OR (NOT arrayExists(call -> call.7 AND call.3 = tool AND call.8, calls)
    AND arrayMax((call, step) -> if(call.3 = tool AND call.11, toInt64(step), -1), calls, steps)
      <= arrayMax((call, step) -> if(call.3 = tool AND call.7, toInt64(step), -1), calls, steps)),
  arrayDistinct(arrayMap(call -> call.3, arrayFilter(call -> call.7, calls)))))"""

_NO_TOOL = f"""if(NOT arrayExists(call -> call.6 = {literal(Kind.NO_TOOL)}, calls), 0,
  arrayExists((call, step, i) -> call.6 = {literal(Kind.NO_TOOL)} AND (
    i = n OR calls[i + 1].6 = {literal(Kind.NO_TOOL)}
    OR arrayExists((other, later) -> other.3 = call.3 AND later > step, calls, steps)),
  calls, steps, arrayEnumerate(calls)))"""

_STOP = (
    "replaceOne(replaceAll(lower(replaceRegexpAll(extract(last.3,"
    r" '^[\\[\'\"<\\s]*(?:\\w+\\.)*(\\w[\\w-]*)'), '([a-z])([A-Z])', '\\1_\\2')),"
    " '-', '_'), 'finish_reason_', '')"
)
"""The stop reason of the last model call, as `formats.common.stop` reads it."""


def _stops(*meant: str) -> str:
    return literals(sorted(word for word, stop in STOP_WORDS.items() if stop in meant))


_SERVED = (
    f"((last.1 AND {_match('last.2', cap_hit.SERVING_WORDS)})"
    f" OR (agent.1 AND {_match('agent.2', cap_hit.SERVING_WORDS)}))"
)
_CAPPED = (
    f"NOT {_SERVED} AND ((last.1 AND {_match('last.2', cap_hit.CAP_WORDS)})"
    f" OR (agent.1 AND {_match('agent.2', cap_hit.CAP_WORDS)})"
    f" OR {_STOP} IN ({_stops(*cap_hit.STOPS)}))"
)
_SILENT = f"""n > 0 AND NOT last.1 AND ({_STOP} IN ({_stops("end")}) OR last.3 = '')
  AND JSONLength(last.4) > 0 AND NOT match(last.4, {literal(_CALLED)})
  AND arrayAll(message -> JSONHas(message, 'parts') AND arrayAll(part ->
    JSONExtractString(part, 'type') IN ('reasoning', 'thinking')
    OR (JSONExtractString(part, 'type') = 'text'
      AND lower(trimBoth(JSONExtractString(part, 'content'))) IN ({literals(sorted(NOTHING))})),
    JSONExtractArrayRaw(message, 'parts')), JSONExtractArrayRaw(last.4))"""
_IDLE = "n = 0 AND has_offers AND calling = 0 AND length(asks) > 0"

CLASSES: tuple[SqlClass, ...] = (
    SqlClass(
        failure=FailureClass.LOOP, sub=None, needs=("arguments", "result"), condition=_LOOP,
        counts=f"{loop.TIMES} or more rounds of up to {loop.LONGEST_CYCLE} calls one after another"
        " with the same arguments and results",
        beside="repeats with other calls between, nearly equal calls, repeated messages",
    ),
    SqlClass(
        failure=FailureClass.BAD_ARGS, sub=None, needs=("arguments", "result"), condition=_REFUSED,
        counts="arguments refused in a failed call's words, and no later good call of the tool;"
        f" or refused {bad_args.STUBBORN} times",
        beside="calls that do not fit their schema, and calls on files",
    ),
    SqlClass(
        failure=FailureClass.WRONG_TOOL, sub=None, needs=("result",), condition=_NO_TOOL,
        counts="a failed call of a tool that does not exist, and not another tool next",
        beside="tools that were not offered, or that another tool's success shows to be wrong",
    ),
    SqlClass(
        failure=FailureClass.GAVE_UP, sub=None, needs=("answer", "stop"), condition=_SILENT,
        counts="ended with an empty message",
        beside="surrenders, hand-overs, questions and announcements, by their words",
    ),
    SqlClass(
        failure=FailureClass.GAVE_UP, sub=None, needs=("answer", "offers"), condition=_IDLE,
        by_outcome=True,
        counts="had tools and called none",
        beside="the same where messages or tools were not recorded",
    ),
    SqlClass(
        failure=FailureClass.OTHER, sub=cap_hit.NAME, needs=("stop",), condition=_CAPPED,
        counts="the last model call ended at its token limit or with a full context, or failed by a"
        " limit",
        beside="limits that the runner names elsewhere",
    ),
    SqlClass(
        failure=FailureClass.OTHER, sub=cap_hit.SERVING, needs=("message",), condition=_SERVED,
        counts="the last model call, or the run, failed by an error of the model's service",
        beside="service errors that a runner wrote into an answer",
    ),
)  # fmt: skip
"""What SQL counts, in the order of the rules."""


def _sql(dialect: Dialect, window: Window, asked: str, told: list[SqlClass]) -> str:
    """(trace, whether each class shows), a row a run that failed, the newest first."""
    known = {name: getattr(dialect, name) or "''" for name in
             ("arguments", "result", "stop", "answer", "offers")}  # fmt: skip
    spans = _SPANS.format(
        d=dialect,
        traces=f"SELECT trace FROM ({starts(dialect, window)}) WHERE {asked}",
        since=dialect.since(window.from_ns),
        shown=_SHOWN,
        programs=literals(sorted(PROGRAM_KEYS)),
        why=_why(),
        refusals=literals(sorted(bad_args.REFUSED)),
        interpreters=literals(sorted(bad_args.INTERPRETERS)),
        file=literal(f"(?i)^(?:{bad_args.FILE.pattern})$"),
        transient=literal(Kind.TRANSIENT),
        timeout=literal(Kind.TIMEOUT),
        waits=_has_any("reply", loop.WAITING),
        **known,
    )
    runs = _RUNS.format(spans=spans, call=_CALL, called=literal(_CALLED))
    flags = ", ".join(f"({each.condition})" for each in told)
    return (
        f"SELECT trace, [{flags}] AS flags FROM ({runs}) WHERE known > 0"
        f" AND began >= {window.from_ns} AND began < {window.until_ns} ORDER BY began DESC, trace"
    )
