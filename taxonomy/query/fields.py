"""What can be asked of a run? One table of fields: help, docs and `compile` read it.

A condition is on a row of the view `runs`; `{}` in one stands for what the value is held against.
What the metrics of some traces are counted from is read here too, by trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import Struct

from replay import digests
from replay.action import Act
from replay.store.handle import Store
from replay.trace import CITED, Effect, Json, Level, Status, Tool
from taxonomy.classes import Attribution, Shape
from taxonomy.findings import TRUST, Source
from taxonomy.metrics.gold import OWN
from taxonomy.query.filter import among
from taxonomy.query.values import COUNTS, DOLLARS, SPANS_NS, Who


class _Named(Struct, frozen=True, kw_only=True):
    """What every field has. `means` ends a sentence that begins with the runs; `judged` is what
    stands in a diagnosis, and not in the recording."""

    name: str
    means: str
    example: str
    aliases: tuple[str, ...] = ()
    judged: bool = False


class Text(_Named, frozen=True, kw_only=True):
    """A column of text; with `several`, of names with commas between."""

    column: str
    several: bool = False


class Choice(_Named, frozen=True, kw_only=True):
    """A column that is one of a few words; what each stands for in it."""

    column: str
    of: Mapping[str, str | int]


class Switch(_Named, frozen=True, kw_only=True):
    """Something that holds or does not: `yes` or `no`."""

    holds: str


class Number(_Named, frozen=True, kw_only=True):
    """A quantity in a unit.

    `falling` is what an index has in place of the column: its negative, infinite where it is
    unknown. `whole` tells whether all of it is known; a part is the least it can be. A quantity of
    steps is asked `within` them, and holds where one of them shows it; `largest` is the column of
    the run with the largest one, which answers whether any is larger than a limit.
    """

    column: str
    units: Mapping[str, float]
    falling: str | None = None
    whole: str | None = None
    within: str = "{}"
    largest: str | None = None


class Time(_Named, frozen=True, kw_only=True):
    """A column of moments. `always` is the one comparison that the field itself stands for."""

    column: str
    always: str | None = None


class Inside(_Named, frozen=True, kw_only=True):
    """Runs that have a row `within` some rows whose `column` is what is asked; with `whole` all of
    it, else somewhere in it. Asked nothing, any row will do.

    `calls` are the statuses of the calls that are asked for: by the name of its tool and its status
    the index knows whether a run has one.
    """

    column: str
    within: str
    whole: bool
    calls: tuple[Status, ...] = ()


class Worded(_Named, frozen=True, kw_only=True):
    """A class said of a failure: `who` says which words count."""

    who: Who


class Blamed(_Named, frozen=True, kw_only=True):
    """What a failure is attributed to."""

    of: Mapping[str, str]


class Own(_Named, frozen=True, kw_only=True):
    """A field with a way of its own; `compile` knows it by its name."""


Field: TypeAlias = Text | Choice | Switch | Number | Time | Inside | Worded | Blamed | Own

_OF_SPANS = "+row IN ({})"
"""A list is walked in its order, and each run looked up among those found: to find the runs first
and sort them takes ever longer with how many there are, and a page ends early."""

_CALLED = _OF_SPANS.format("SELECT trace FROM span WHERE kind = 'tool' AND {}")
_CALLED_BADLY = _OF_SPANS.format(
    "SELECT trace FROM span WHERE kind = 'tool' AND status = 'error' AND {}"
)
_ERRED = _OF_SPANS.format(
    "SELECT trace FROM span WHERE status = 'error' AND kind IN ('tool', 'model')"
    " AND step IS NOT NULL AND {}"
)
_STEPS = "trace IN (SELECT trace FROM steps WHERE {})"
TRUSTED = "CASE o.source {} END".format(
    " ".join(f"WHEN '{source}' THEN {place}" for place, source in enumerate(TRUST))
)
"""How much a score `o` is trusted, the most first."""

_SCORES = (
    "trace IN (SELECT g.trace FROM score g WHERE {} AND g.rowid = (SELECT rowid FROM score o"
    "   WHERE o.trace = g.trace AND o.step = g.step AND o.value IS NOT NULL"
    f"   ORDER BY {TRUSTED}, o.by LIMIT 1))"
)
_TOOK = "CASE WHEN end_ns > start_ns THEN end_ns - start_ns END"
_SPLIT = """'[' || replace(json_quote(models), ',', '","') || ']'"""

MODELS = f"EXISTS (SELECT 1 FROM json_each({_SPLIT}) WHERE {{}})"
"""One of the models of a run."""

FIELDS: tuple[Field, ...] = (
    Choice(name="outcome", column="+outcome", example="outcome:failed",
           of={each: each for each in ("passed", "failed", "unknown")},
           means="whose outcome is passed, failed or unknown"),
    Text(name="task", column="task", example="task:26", means="whose task contains it"),
    Text(name="trial", column="trial", example="trial=0", means="whose trial contains it"),
    Text(name="variant", column="variant", example="variant:v3",
         means="whose variant contains it"),
    Text(name="model", aliases=("models",), column="models", several=True, example="model:claude*",
         means="with a model whose name contains it"),
    Text(name="agent", column="agent", example="agent:coder",
         means="whose agent's name contains it"),
    Text(name="title", column="title", example='title:"flaky test"',
         means="whose title contains it"),
    Text(name="format", column="format", example="format:inspect",
         means="imported from that format"),
    Text(name="path", column="path", example="path:*/eval/*",
         means="imported from a file whose path contains it"),
    Text(name="source", aliases=("source_id",), column="source_id", example="source:run-17",
         means="whose id in the source contains it"),
    Own(name="id", example="id:d4870", means="whose id starts with it"),
    Text(name="prompt", column="prompt", example="prompt:4f9a",
         means="whose system prompt's digest contains it"),
    Choice(name="fidelity", column="fidelity", of={each.value: each.value for each in Level},
           example="fidelity:exact", means="whose weakest step has that fidelity"),
    Own(name="label", example="label:difficulty=hard",
        means="with that label, or one that contains it"),
    Number(name="cost", column="cost_usd", units=DOLLARS, example="cost>0.5",
           falling="coalesce(-cost_usd, 9e999)", whole="cost_complete",
           means="with that cost (USD; c for cents)"),
    Number(name="tokens", column="input_tokens", units=COUNTS, whole="tokens_complete",
           example="tokens>100k", means="with that many input tokens"),
    Number(name="output", column="output_tokens", units=COUNTS, whole="tokens_complete",
           example="output>5k", means="with that many output tokens"),
    Number(name="duration", aliases=("time",), column="duration_ns", units=SPANS_NS,
           falling=f"coalesce(-({_TOOK}), 9e999)", example="duration>2m",
           means="that took that long (ms s m h d; seconds without a unit)"),
    Number(name="steps", column="steps", units=COUNTS, falling="-steps", example="steps>=20",
           means="with that many steps"),
    Number(name="calls", column="calls", units=COUNTS, example="calls<3",
           means="with that many tool calls"),
    Number(name="errors", column="errors", units=COUNTS, example="errors>2",
           means="with that many failed calls of tools and models"),
    Time(name="start", aliases=("week",), column="start_ns", example="week:2026-W47",
         means="that started in, before or after a year, month, week, day or minute (UTC)"),
    Time(name="since", column="start_ns", always=">=", example="since:2026-11-01",
         means="that started then or later"),
    Time(name="before", column="start_ns", always="<", example="before:2026-11",
         means="that started earlier"),
    Time(name="imported", column="imported_ns", example="imported>=2026-11-20",
         means="imported then"),
    Inside(name="tool", column="name", within=_CALLED, whole=True, calls=get_args(Status),
           example="tool:Bash", means="that called the tool"),
    Inside(name="tool.error", column="name", within=_CALLED_BADLY, whole=True, calls=("error",),
           example="tool.error:Bash",
           means="with a failed call of the tool; alone: of any tool"),
    Inside(name="step.error", column="coalesce(error, said_error)", within=_ERRED, whole=False,
           example="step.error:timeout",
           means="with a failed call or request whose error contains it; alone: any error"),
    Number(name="step.tokens", column="input_tokens", units=COUNTS, within=_STEPS,
           largest="max_step_tokens", example="step.tokens>50k",
           means="with a step of that many input tokens"),
    Number(name="step.cost", column="cost_usd", units=DOLLARS, within=_STEPS,
           largest="max_step_cost_usd", example="step.cost>10c", means="with a step of that cost"),
    Number(name="step.duration", column="latency_ns", units=SPANS_NS, within=_STEPS,
           largest="max_step_ns", example="step.duration>30s",
           means="with a step whose response took that long"),
    Number(name="score", column="g.value", units={"": 1}, within=_SCORES, example="score<0.5",
           means="with a step of that score (by its most trusted source)"),
    Choice(name="shape", column="shape", judged=True, of={each.value: each.value for each in Shape},
           example="shape:recovery", means="whose step scores have that shape"),
    Text(name="why", column="why", judged=True, example="why:never",
         means="whose first break candidate contains it"),
    Worded(name="tag", who="said", example="tag:loop",
           means="with that tag, or suggested tag of a rule or judge (no hints); tag:untagged"),
    Worded(name="tagged", who="people", example="tagged:loop",
           means="with that tag by a person"),
    Worded(name="class", who="first", example='class:"bad args"',
           means="counted under that failure class; class:untagged"),
    Blamed(name="attribution", of={each.value: each.value for each in Attribution},
           example="attribution:environment",
           means="with a failure attributed to it by a person, rule or judge"),
    Own(name="owner", example="owner:ann", means="whose failure is counted for that owner"),
    Own(name="says", example='says:"no such order"',
        means="with the text in a message, call or result; same as the text in quotes"),
    Switch(name="warned", judged=True, holds="coalesce(warnings, '[]') <> '[]'",
           example="warned:yes", means="with a warning of a rule (`✓!` where they passed)"),
    Switch(name="live", holds="live", example="live:yes", means="still in progress"),
    Own(name="held-out", example="held-out:yes",
        means="of held-out tasks, hidden by default"),
)  # fmt: skip

BY_NAME: dict[str, Field] = {name: each for each in FIELDS for name in (each.name, *each.aliases)}


def described() -> Iterator[tuple[str, str, str]]:
    """(its names, an example, which runs it means) of each field."""
    for each in FIELDS:
        yield " ".join((each.name, *each.aliases)), each.example, each.means


RULES: tuple[tuple[str, str], ...] = (
    ("a b", "both match, as `a and b`"),
    ("a or b, not a, (…)", "precedence: `not`, `and`, `or`"),
    ("refund", "the word is in title, task, trial, variant, agent, model, outcome, why, source,"
     " format, path or shape, or the run's id starts with it"),
    ('"no such order"', "the text is in a message, call or result, starting at a word"),
    ("task:26", "task contains it; with *, the whole value must match: model:claude*"),
    ("task=26", "task is exactly that, including case"),
    ('variant:""', "no variant"),
    ('tag:"wrong tool"', "quote a value with spaces; tag:wrong-tool is the same"),
    ("cost>0.5", "an unknown value matches no comparison; cost:unknown matches it"),
    ("not cost>0.5", "all other runs, including those of unknown cost"),
)  # fmt: skip
"""How terms are written and joined."""


def references(store: Store, traces: Iterable[str]) -> dict[str, dict[str, Json]]:
    """The gold actions and the like of those traces whose source, or for whose task a user, has
    some."""
    found = store.db.execute(
        "SELECT key, reference, task FROM trace WHERE complete"
        " AND (reference IS NOT NULL OR task IN (SELECT task FROM gold))"
        " AND key IN (SELECT value FROM json_each(?))",
        (among(traces),),
    ).fetchall()
    from taxonomy.judgements.golds import own_gold  # with all that compares calls

    mine = own_gold(store, (task for _, _, task in found if task is not None))
    return {
        key: ({} if text is None else msgspec.json.decode(text))
        | ({OWN: mine[task]} if task in mine else {})
        for key, text, task in found
    }


class CallMade(NamedTuple):
    """A call as it was made, and at which step; `effect` as recorded, `failed` where it ended in
    an error."""

    act: Act
    effect: Effect
    step: int | None = None
    failed: bool = False


def calls_made(store: Store, traces: Iterable[str]) -> dict[str, list[CallMade]]:
    """The tool calls of each trace, in the order of their steps."""
    found = store.db.execute(
        "SELECT t.key, s.name, c.arguments, c.arguments_raw, c.effect, s.step, s.status"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN tool_call c ON c.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        " ORDER BY t.id, s.step, s.seq",
        (among(traces),),
    )
    made: dict[str, list[CallMade]] = {}
    for key, name, arguments, raw, effect, step, status in found:
        given = None if arguments is None else msgspec.json.decode(arguments)
        act = Act(tool=name, arguments=given, raw=raw)
        made.setdefault(key, []).append(CallMade(act, effect, step, status == "error"))
    return made


class StepSign(NamedTuple):
    """What is known of how a step went: calls that ended in an error, its most trusted score.

    `source` says whose score it is.
    """

    errors: int
    score: float | None
    source: Source | None


def step_signs(store: Store, traces: Iterable[str]) -> dict[str, list[StepSign]]:
    """A sign a step of each trace, in order."""
    found = store.db.execute(
        "SELECT t.key, s.errors, g.value, g.source FROM trace t JOIN step s ON s.trace = t.id"
        " LEFT JOIN score g ON g.rowid = (SELECT rowid FROM score o"
        "   WHERE o.trace = t.key AND o.step = s.step AND o.value IS NOT NULL"
        f"   ORDER BY {TRUSTED}, o.by LIMIT 1)"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?)) ORDER BY t.id, s.step",
        (among(traces),),
    )
    signs: dict[str, list[StepSign]] = {}
    for key, errors, score, source in found:
        signs.setdefault(key, []).append(StepSign(errors, score, source))
    return signs


def cited_steps(store: Store, traces: Iterable[str]) -> dict[str, list[int]]:
    """The steps of each trace that the judge of its source cites, in order."""
    found = store.db.execute(
        "SELECT DISTINCT t.key, s.step FROM trace t JOIN source_score c ON c.trace = t.id"
        " JOIN span s ON s.trace = t.id AND s.span_id = c.span_id"
        " WHERE t.complete AND c.name = ? AND s.step IS NOT NULL"
        " AND t.key IN (SELECT value FROM json_each(?)) ORDER BY t.key, s.step",
        (CITED, among(traces)),
    )
    cited: dict[str, list[int]] = {}
    for key, step in found:
        cited.setdefault(key, []).append(step)
    return cited


def agent_extras(store: Store, traces: Iterable[str]) -> dict[str, list[dict[str, Json]]]:
    """What the source keeps of each agent of a trace that has no field of its own."""
    found = store.db.execute(
        "SELECT t.key, json_extract(s.detail, '$.extra') FROM trace t JOIN span s ON s.trace = t.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?)) AND s.kind = 'agent'"
        "   AND json_type(s.detail, '$.extra') = 'object' ORDER BY t.id, s.seq",
        (among(traces),),
    )
    kept: dict[str, list[dict[str, Json]]] = {}
    for key, extra in found:
        kept.setdefault(key, []).append(msgspec.json.decode(extra, type=dict[str, Json]))
    return kept


class CacheShare(NamedTuple):
    """Input tokens of the calls whose cache figures are known, and how many came from the cache."""

    input_tokens: int
    cache_read_tokens: int


def cache_shares(store: Store, traces: Iterable[str]) -> dict[str, CacheShare]:
    """By trace, of those with a call that says what it read from the cache."""
    found = store.db.execute(
        "SELECT t.key, sum(m.input_tokens), sum(m.cache_read_tokens)"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN model_call m ON m.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        "   AND m.input_tokens IS NOT NULL AND m.cache_read_tokens IS NOT NULL GROUP BY t.key",
        (among(traces),),
    )
    return {key: CacheShare(given, read) for key, given, read in found}


def temperatures(store: Store, traces: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """The sampling temperatures each trace was recorded with, where it says."""
    found = store.db.execute(
        "SELECT DISTINCT t.key, json_extract(m.params, '$.temperature') AS temperature"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN model_call m ON m.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        "   AND json_type(m.params, '$.temperature') IN ('integer', 'real')"
        " ORDER BY t.key, temperature",
        (among(traces),),
    )
    known: dict[str, tuple[float, ...]] = {}
    for key, temperature in found:
        known[key] = (*known.get(key, ()), float(temperature))
    return known


def tool_definitions(store: Store, traces: Iterable[str]) -> dict[str, dict[str, frozenset[str]]]:
    """By trace and tool the digests of its definitions (name, description, schema) that were
    offered; traces without a recorded list of tools are left out."""
    found = store.db.execute(
        "SELECT DISTINCT t.key, m.toolset FROM trace t JOIN span s ON s.trace = t.id"
        " JOIN model_call m ON m.span = s.id WHERE t.complete AND m.toolset IS NOT NULL"
        " AND t.key IN (SELECT value FROM json_each(?))",
        (among(traces),),
    ).fetchall()
    bodies = store.db.execute(
        "SELECT id, body FROM toolset WHERE id IN (SELECT value FROM json_each(?))",
        (among(str(toolset) for _, toolset in found),),
    )
    digests_of = {
        toolset: {
            tool.name: digests.digest("tool", digests.encode_seen(digests.tool_value(tool)))
            for tool in msgspec.json.decode(body, type=tuple[Tool, ...])
        }
        for toolset, body in bodies
    }
    offered: dict[str, dict[str, frozenset[str]]] = {}
    for key, toolset in found:
        own = offered.setdefault(key, {})
        for name, digest in digests_of[toolset].items():
            own[name] = own.get(name, frozenset()) | {digest}
    return offered
