"""What a source did not record of a run, and what the run itself shows of it: the tools it calls
with the names of their arguments, the tools its source names, the tokens of its first request. And
tools inferred from such calls.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from replay.providers import family
from replay.store.handle import Store
from replay.trace import NO_SYSTEM, NO_TOOLS, Tool

SHORTEST_PROMPT = 100
"""Characters of a system prompt that two agents hardly share by chance."""


class Lack(Struct, frozen=True, kw_only=True):
    """What a trace lacks, in `steps` of its steps. `inferred` tells that inferred tools were
    attached: recorded ones are still wanted."""

    trace: str
    system: bool
    tools: bool
    steps: int
    of: int
    agent: str | None
    format: str
    inferred: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of its steps that an attachment would lift."""
        return (NO_SYSTEM,) * self.system + (NO_TOOLS,) * self.tools


class Run(Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a trace as a whole; `run` is shared by its recordings."""

    row: int
    key: str
    run: str
    title: str | None
    format: str
    agent: str | None
    task: str | None
    variant: str | None
    version: str | None
    models: str | None

    @property
    def families(self) -> set[str]:
        """Those of its models, as far as their names tell."""
        return {each for each in map(family, (self.models or "").split(",")) if each}

    @property
    def client(self) -> str:
        return f"{self.agent} {self.version}" if self.version else str(self.agent)


class Called(NamedTuple):
    """A tool that is called: the names of the arguments it was given, and how often."""

    arguments: set[str]
    times: int


Calls = Mapping[str, Called]
"""What is called, by the name of the tool."""


class Inferred(NamedTuple):
    """Tools that so many calls of so many runs show; `basis` says what these have in common."""

    calls: Calls
    runs: int
    basis: str

    @property
    def times(self) -> int:
        return sum(each.times for each in self.calls.values())

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Names, and the keys of arguments."""
        return tuple(
            Tool(
                name=name,
                schema={"type": "object", "properties": {key: {} for key in sorted(arguments)}},
            )
            for name, (arguments, _) in sorted(self.calls.items())
        )


_SILENT_SYSTEM = "(m.system IS NULL AND instr(m.fidelity_reasons, :no_system) > 0)"
_SILENT_TOOLS = "(m.toolset IS NULL AND instr(m.fidelity_reasons, :no_tools) > 0)"


def lacks(store: Store, traces: Collection[str]) -> dict[str, Lack]:
    """What these traces lack, by their keys; without those that lack nothing."""
    found = store.db.execute(
        "SELECT t.key, t.agent, t.format, t.steps, u.system IS NOT NULL, u.tools IS NOT NULL,"
        f"  u.sketched, sum({_SILENT_SYSTEM}), sum({_SILENT_TOOLS}),"
        f"  sum({_SILENT_SYSTEM} OR {_SILENT_TOOLS})"
        " FROM trace t JOIN step s ON s.trace = t.id JOIN model_call m ON m.span = s.ask"
        " LEFT JOIN trace_supplement b ON b.trace_key = t.key"
        " LEFT JOIN supplement u ON u.digest = b.supplement"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(:traces))"
        "  AND m.fidelity_reasons IS NOT NULL GROUP BY t.id",
        {"no_system": NO_SYSTEM, "no_tools": NO_TOOLS, "traces": json_list(traces)},
    )
    made = {}
    for key, agent, format_, steps, has_system, has_tools, inferred, system, tools, silent in found:
        lack = Lack(
            trace=key,
            system=bool(system) and not has_system,
            tools=bool(tools) and (not has_tools or bool(inferred)),
            steps=silent,
            of=steps,
            agent=agent,
            format=format_,
            inferred=bool(has_tools and inferred),
        )
        if lack.system or lack.tools:
            made[key] = lack
    return made


def infer_tools(store: Store, trace: str) -> Inferred:
    """Tools as far as calls show them: those of a trace, and of all runs with its system prompt or
    with its client and version."""
    with store.reading():
        return Inference(store.db, {run.row: run for run in runs(store.db)}).of(trace)


class Inference:
    """Infers tools, reading what runs with something in common call but once."""

    def __init__(self, db: sqlite3.Connection, known: Mapping[int, Run]) -> None:
        self._db = db
        self._known = known
        self._keys = {run.key: run for run in known.values()}
        self._clients: dict[tuple[str, str], dict[str, Calls]] = {}
        self._by_prompt: dict[int, dict[str, Calls]] | None = None

    def of(self, trace: str) -> Inferred:
        """The tools of a trace, which may call none itself."""
        run = self._keys[trace]
        own: dict[str, Calls] = {trace: calls_of(self._db, [trace]).get(trace, {})}
        prompts = [row for (row,) in self._db.execute(_PROMPTS, (run.row, SHORTEST_PROMPT))]
        basis, found = "", {**own}
        if prompts:
            basis = "with the same system prompt"
            found = {**self._under(prompts), **own}
        elif run.agent is not None and run.version is not None:
            basis = f"of {run.client}"
            found = self._of_client(run.agent, run.version)
        count = len({self._keys[key].run for key, calls in found.items() if calls})
        among = trace in found and found[trace]
        words = f"{several(count, 'run')} {basis}" if count > 1 or not among else "this run"
        return Inferred(_join_calls(found.values()), count, words)

    def _under(self, prompts: Collection[int]) -> dict[str, Calls]:
        """What is called, by trace, in steps that have one of these system prompts."""
        if self._by_prompt is None:
            self._by_prompt = _calls_by_prompt(self._db)
        found: dict[str, list[Calls]] = {}
        for prompt in prompts:
            for key, calls in self._by_prompt.get(prompt, {}).items():
                found.setdefault(key, []).append(calls)
        return {key: _join_calls(each) for key, each in found.items()}

    def _of_client(self, agent: str, version: str) -> dict[str, Calls]:
        place = (agent, version)
        if place not in self._clients:
            alike = [run.key for run in self._known.values() if (run.agent, run.version) == place]
            self._clients[place] = {**calls_of(self._db, alike)}
        return self._clients[place]


def _join_calls(found: Iterable[Calls]) -> dict[str, Called]:
    every: dict[str, Called] = {}
    for calls in found:
        for name, (arguments, times) in calls.items():
            told = every.get(name, Called(set(), 0))
            every[name] = Called(told.arguments | arguments, told.times + times)
    return every


def json_list(keys: Collection[str]) -> str:
    """For `json_each`."""
    return msgspec.json.encode(sorted(keys)).decode()


# --- how tools fit what is called

Shape: TypeAlias = Mapping[str, Set[str] | None]
"""Tools by name with the names of their arguments, None where the schema does not tell."""


class Fit(Struct, frozen=True, kw_only=True):
    """How tools fit the calls of a run; not possible where half of what it calls is not there."""

    evidence: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    is_possible: bool = True


def shape_of(tools: Sequence[Tool]) -> Shape:
    """Names, and those of arguments."""
    return {tool.name: _arguments(tool) for tool in tools}


def fit_of(called: Calls, named: Set[str], shape: Shape) -> Fit:
    """How tools fit what a run calls, and the names that its source gives of the tools it had."""
    evidence, against = [], []
    missing, untold = sorted(called.keys() - shape.keys()), sorted(named - shape.keys())
    if called:
        there = len(called) - len(missing)
        evidence.append(f"tools it calls: {there} of {len(called)} are there")
    if missing:
        against.append(f"not there, but called: {few(missing)}")
    used = [
        (f"{name}({key})", key in known)
        for name in sorted(called.keys() & shape.keys())
        if (known := shape[name]) is not None
        for key in sorted(called[name].arguments)
    ]
    strange = [each for each, is_known in used if not is_known]
    if strange:
        against.append(f"arguments its schemas do not have: {few(strange)}")
    elif used:
        evidence.append(f"arguments it gives: {len(used)} of {len(used)} are in the schemas")
    if named and not untold:
        evidence.append(f"tools its source names: {len(named)} of {len(named)} are there")
    elif untold:
        against.append(f"not there, but named by its source: {few(untold)}")
    return Fit(
        evidence=tuple(evidence),
        against=tuple(against),
        is_possible=len(missing) * 2 < max(len(called), 1) and len(untold) * 2 <= len(named),
    )


def _arguments(tool: Tool) -> Set[str] | None:
    """The arguments a schema names, None where it names none."""
    schema = tool.schema if isinstance(tool.schema, dict) else {}
    named = schema.get("properties")
    return frozenset(named) if isinstance(named, dict) and named else None


def few(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def several(count: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --- what is read of runs

_OF_TRACES = "(SELECT id FROM trace WHERE complete AND key IN (SELECT value FROM json_each(?)))"

_PROMPTS = """
SELECT DISTINCT m.system FROM step s JOIN model_call m ON m.span = s.ask
JOIN message g ON g.id = m.system WHERE s.trace = ? AND length(g.body) >= ?"""

_UNDER = f"""
FROM trace t JOIN step p ON p.trace = t.id JOIN model_call m ON m.span = p.ask
JOIN span a ON a.id = p.ask JOIN span s ON s.trace = t.id AND s.step = p.step AND s.kind = 'tool'
JOIN tool_call c ON c.span = s.id AND c.asked_by = a.span_id
JOIN message g ON g.id = m.system AND length(g.body) >= {SHORTEST_PROMPT}"""


def runs(db: sqlite3.Connection) -> Iterator[Run]:
    """Every trace."""
    found = db.execute(
        "SELECT id, key, run, coalesce(title, task, source_id), format, agent, task, variant,"
        "  json_extract(labels, '$.version'), models FROM trace WHERE complete"
    )
    for values in found:
        yield Run(**dict(zip(Run.__struct_fields__, values, strict=True)))


def calls_of(db: sqlite3.Connection, traces: Collection[str]) -> dict[str, dict[str, Called]]:
    """What models of these traces call."""
    found: dict[str, dict[str, Called]] = {}
    wanted = json_list(traces)
    times = db.execute(
        "SELECT t.key, s.name, count(*) FROM trace t JOIN span s ON s.trace = t.id"
        f" JOIN tool_call c ON c.span = s.id WHERE t.id IN {_OF_TRACES}"
        " AND s.kind = 'tool' AND c.asked_by IS NOT NULL GROUP BY t.key, s.name",
        (wanted,),
    )
    for key, name, count in times:
        found.setdefault(key, {})[name] = Called(set(), count)
    given = db.execute(
        "SELECT DISTINCT t.key, s.name, k.key FROM trace t JOIN span s ON s.trace = t.id"
        " JOIN tool_call c ON c.span = s.id, json_each(c.arguments) k"
        f" WHERE t.id IN {_OF_TRACES} AND s.kind = 'tool' AND c.asked_by IS NOT NULL"
        " AND json_type(c.arguments) = 'object'",
        (wanted,),
    )
    for key, name, argument in given:
        found[key][name].arguments.add(argument)
    return found


def _calls_by_prompt(db: sqlite3.Connection) -> dict[int, dict[str, Calls]]:
    """What is called by the system prompt of the step, and by trace."""
    found: dict[int, dict[str, dict[str, Called]]] = {}
    for system, key, name, times in db.execute(
        f"SELECT m.system, t.key, s.name, count(*) {_UNDER} WHERE t.complete GROUP BY 1, 2, 3"
    ):
        found.setdefault(system, {}).setdefault(key, {})[name] = Called(set(), times)
    for system, key, name, argument in db.execute(
        f"SELECT DISTINCT m.system, t.key, s.name, k.key {_UNDER}, json_each(c.arguments) k"
        " WHERE t.complete AND json_type(c.arguments) = 'object'"
    ):
        found[system][key][name].arguments.add(argument)
    return {system: {**by_trace} for system, by_trace in found.items()}


def named_tools(db: sqlite3.Connection, traces: Collection[str]) -> dict[str, Set[str]]:
    """The names of tools that the source of a trace gives without their definitions."""
    found = db.execute(
        "SELECT t.key, json_extract(s.detail, '$.extra.tool_names') FROM trace t"
        f" JOIN span s ON s.trace = t.id WHERE t.id IN {_OF_TRACES} AND s.kind = 'agent'"
        " AND instr(s.detail, '\"tool_names\"') > 0",
        (json_list(traces),),
    )
    return {key: frozenset(msgspec.json.decode(names)) for key, names in found if names}


def first_tokens(db: sqlite3.Connection, traces: Collection[str]) -> dict[str, int]:
    """The tokens that the first request of a trace had, where that is recorded."""
    found = db.execute(
        "SELECT t.key, m.input_tokens FROM trace t JOIN step s ON s.trace = t.id AND s.step = 0"
        f" JOIN model_call m ON m.span = s.ask WHERE t.id IN {_OF_TRACES} AND m.input_tokens > 0",
        (json_list(traces),),
    )
    return dict(found)
