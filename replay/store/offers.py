"""What the database holds that a source did not record: system prompts and tools of other runs,
each offered with the evidence that it fits, and what speaks against it.

An offer is what was recorded, or attached by hand, in a run that is alike: another recording of it,
the same system prompt, the same client and version, the same agent and task, the same agent, or at
least the tools it calls. A tool that a run calls and an offer lacks lowers it; where that is half
of them, it is none. Tools inferred from calls are the last offer, and say that they are.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import Struct, structs

from replay.digests import digest
from replay.messages import text
from replay.store.edits import Supplement
from replay.store.gaps import (
    SHORTEST_PROMPT,
    Calls,
    Fit,
    Inference,
    Inferred,
    Lack,
    Run,
    Shape,
    calls_of,
    few,
    first_tokens,
    fit_of,
    json_list,
    lacks,
    named_tools,
    runs,
    several,
    shape_of,
)
from replay.store.handle import Store
from replay.trace import Message, Tool

Match: TypeAlias = Literal["run", "prompt", "client", "task", "agent", "tools", "inferred"]
"""By what an offer is found, the surest first: another recording of the run, its own system prompt,
client and version, agent and task, agent, nothing but the tools that are called; or inferred."""

_ORDER: tuple[Match, ...] = get_args(Match)

_FEWEST_TOOLS = 2
"""Different tools a run has to call before these alone are evidence."""

_SAME_IDS = 2
"""Responses or tool calls, by their ids, that make two traces recordings of one run."""

_SHORTEST_ID = 12
"""Characters of an id that no two runs share by chance: `call_1` is no such id."""

_CHARACTERS_A_TOKEN = 8
"""More than any text has: what is longer than its tokens by that was not among them."""


class RequestParts(NamedTuple):
    """A system prompt and tools that stood in one request: rows of `message` and `toolset`, or the
    digest of the supplement that holds them."""

    system: int | str | None
    tools: int | str | None


class Offer(Struct, frozen=True, kw_only=True):
    """A system prompt of so many characters, so many tools, or both (None: none that the run
    lacks), why it fits, and what speaks against it.

    `source` is the trace it was recorded in or attached to, `title` what that is called; None where
    the tools are inferred. `runs` counts the traces that hold the same.
    """

    match: Match
    source: str | None
    title: str | None
    system_characters: int | None
    tools: int | None
    runs: int
    evidence: tuple[str, ...]
    against: tuple[str, ...] = ()
    parts: RequestParts = RequestParts(None, None)
    inference: Inferred | None = None

    @property
    def is_inferred(self) -> bool:
        return self.match == "inferred"


def offers(store: Store, traces: Collection[str]) -> dict[str, tuple[Offer, ...]]:
    """What may be attached to each of these traces that lacks something, the best first; () where
    nothing is found."""
    with store.reading():
        lacking = lacks(store, traces)
        return _Finder(store.db).offers(lacking) if lacking else {}


def fitting(store: Store, trace: str, source: str) -> Supplement | None:
    """Of what stands in another trace that which fits this one best, None where there is nothing.
    Who names the trace knows that it is alike: only the tools that are called decide."""
    with store.reading():
        finder = _Finder(store.db)
        parts = finder.best_parts(trace, source, lacks(store, [trace]).get(trace))
        return None if parts is None else _content(store.db, parts, source)


def content(store: Store, offer: Offer) -> Supplement:
    """What an offer attaches."""
    if offer.inference is not None:
        return to_supplement(offer.inference)
    assert offer.source is not None
    return _content(store.db, offer.parts, offer.source)


def to_supplement(found: Inferred) -> Supplement:
    """Tools that calls show, to be attached."""
    return Supplement(name=f"calls of {found.basis}", tools=found.tools or None, sketched=True)


def contradictions(store: Store, trace: str, tools: Sequence[Tool]) -> tuple[int, tuple[str, ...]]:
    """How many different tools a trace calls, and which of them are not among these."""
    called = calls_of(store.db, [trace]).get(trace, {})
    return len(called), tuple(sorted(called.keys() - {tool.name for tool in tools}))


# --- the walk


class _Case(NamedTuple):
    """A run that lacks something, what it shows of that, and other recordings of it, each with how
    that is known. `fits` keeps how sets of tools fit it."""

    lack: Lack
    run: Run
    called: Calls
    named: Set[str]
    others: Mapping[int, str]
    tokens: int | None
    fits: dict[int | str | None, Fit]


class _Held(NamedTuple):
    """What a trace holds, in so many steps. `sketched`: its tools were inferred."""

    row: int
    parts: RequestParts
    sketched: bool
    steps: int


class _Finder:
    """Reads once what all runs that lack something are compared with."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._runs = {run.row: run for run in runs(db)}
        self._rows = {run.key: run.row for run in self._runs.values()}
        self._held = [
            _Held(row, RequestParts(system, tools), bool(sketched), steps)
            for row, system, tools, sketched, steps in db.execute(_HELD)
        ]
        self._systems: dict[int, set[int]] = defaultdict(set)
        for row, system in db.execute(_SYSTEMS):
            self._systems[row].add(system)
        self._sets: dict[int | str, tuple[Shape, str]] = {}
        self._texts: dict[int | str, tuple[int, str]] = {}
        self._inference = Inference(db, self._runs)

    def offers(self, lacking: Mapping[str, Lack]) -> dict[str, tuple[Offer, ...]]:
        """Those of every trace."""
        called, named = calls_of(self._db, lacking), named_tools(self._db, lacking)
        others, tokens = self._other_recordings(lacking), first_tokens(self._db, lacking)
        made = {}
        for key, lack in lacking.items():
            case = _Case(
                lack=lack,
                run=self._runs[self._rows[key]],
                called=called.get(key, {}),
                named=named.get(key, frozenset()),
                others=others.get(key, {}),
                tokens=tokens.get(key),
                fits={},
            )
            made[key] = (*self._of_others(case), *self._of_calls(case))
        return made

    def _of_others(self, case: _Case) -> list[Offer]:
        """What stands in other runs; what says the same is one offer."""
        alike: dict[tuple[str | None, str | None], list[Offer]] = defaultdict(list)
        for held in self._held:
            offer = self._offer(case, held)
            if offer is not None:
                alike[self._identity(offer.parts)].append(offer)
        found = [
            structs.replace(min(same, key=_rank), runs=len({each.source for each in same}))
            for same in alike.values()
        ]
        rivals = Counter(
            each.match for each in found if each.system_characters is not None and not each.against
        )
        return sorted((_one_of(each, rivals[each.match]) for each in found), key=_rank)

    def _offer(self, case: _Case, held: _Held) -> Offer | None:
        """What another run holds of what one lacks, None where nothing says that it is alike."""
        lack, parts, other = case.lack, held.parts, self._runs[held.row]
        shape = None if parts.tools is None or held.sketched else self._set(parts.tools)[0]
        if shape == {} and case.called:
            return None  # a request without tools
        offered = RequestParts(
            parts.system if lack.system else None, parts.tools if lack.tools and shape else None
        )
        if offered == (None, None):
            return None
        match = self._match(case, other, parts, shape or {})
        if match is None:
            return None
        how, said = match
        if how != "run" and offered.system is not None and self._is_own(case, offered.system):
            offered = RequestParts(None, offered.tools)  # another agent of its own was told that
            if offered.tools is None:
                return None
        fit = case.fits.get(parts.tools)
        if fit is None:
            fit = fit_of(case.called, case.named, shape) if shape else Fit()
            case.fits[parts.tools] = fit
        if not fit.is_possible:
            return None
        if _ORDER.index(how) >= _ORDER.index("agent") and not (case.called and shape):
            return None  # a name alone tells too little
        against = (*fit.against, *self._against(case, other, how, offered))
        return Offer(
            match=how,
            source=other.key,
            title=other.title,
            system_characters=None if offered.system is None else self._text(offered.system)[0],
            tools=None if offered.tools is None else len(self._set(offered.tools)[0]),
            runs=1,
            evidence=(said, *fit.evidence),
            against=against,
            parts=offered,
        )

    def _is_own(self, case: _Case, system: int | str) -> bool:
        """Does the run itself hold that text, at other steps?"""
        said = self._text(system)[1]
        return any(self._text(each)[1] == said for each in self._systems[case.run.row])

    def _match(
        self, case: _Case, other: Run, parts: RequestParts, shape: Shape
    ) -> tuple[Match, str] | None:
        """How surely another run is of the same agent, and by what."""
        run = case.run
        if other.row in case.others:
            return "run", case.others[other.row]
        if not case.lack.system and parts.system is not None:
            characters, said = self._text(parts.system)
            own = {self._text(each)[1] for each in self._systems[run.row]}
            if said in own and characters >= SHORTEST_PROMPT:
                return "prompt", f"same system prompt, {characters} characters"
        if run.row == other.row:
            return None  # what another agent of its own was told is no evidence
        if run.agent is not None and run.agent == other.agent:
            if run.version is not None and run.version == other.version:
                return "client", f"same client and version: {run.client}"
            if run.task is not None and run.task == other.task:
                return "task", f"same agent and task: {run.agent}, {run.task}"
            return "agent", f"same agent: {run.agent}"
        if len(case.called) >= _FEWEST_TOOLS and case.called.keys() <= shape.keys():
            return "tools", "found by the tools it calls alone"
        return None

    def _against(self, case: _Case, other: Run, how: Match, offered: RequestParts) -> Iterator[str]:
        """What tells two runs apart, as far as their kind of match leaves it open."""
        run, order = case.run, _ORDER.index(how)
        if how == "tools":
            known = run.agent is not None and other.agent is not None
            yield f"another agent: {other.agent}, here {run.agent}" if known else "agent unknown"
        if order > _ORDER.index("client") and _differ(run.version, other.version):
            yield f"another version: {other.version}, here {run.version}"
        if order > _ORDER.index("prompt") and _differ(run.variant, other.variant):
            yield f"another variant: {other.variant}, here {run.variant}"
        own, theirs = run.families, other.families
        if order > _ORDER.index("client") and own and theirs and not own & theirs:
            yield (
                f"another model family: {', '.join(sorted(theirs))}, here {', '.join(sorted(own))}"
            )
        size = 0 if offered.system is None else self._text(offered.system)[0]
        size += 0 if offered.tools is None else len(self._set(offered.tools)[1])
        if case.tokens is not None and size > case.tokens * _CHARACTERS_A_TOKEN:
            yield f"{size} characters, but the first request had {case.tokens} tokens in all"

    def _of_calls(self, case: _Case) -> Iterator[Offer]:
        """Tools inferred from calls, where any are called."""
        lack, run = case.lack, case.run
        if not lack.tools or lack.inferred:
            return
        found = self._inference.of(run.key)
        if found.calls:
            untold = sorted(case.named - found.calls.keys())
            yield Offer(
                inference=found,
                match="inferred",
                source=None,
                title=None,
                system_characters=None,
                tools=len(found.calls),
                runs=found.runs,
                evidence=(
                    f"inferred from {several(found.times, 'call')} of {found.basis}",
                    "names of tools and arguments only, no descriptions",
                ),
                against=(f"not there, but named by its source: {few(untold)}",) if untold else (),
            )

    def _other_recordings(self, lacking: Collection[str]) -> dict[str, dict[int, str]]:
        """By trace the other recordings of its run."""
        found: dict[str, dict[int, str]] = defaultdict(dict)
        values = {"traces": json_list(lacking), "least": _SAME_IDS, "length": _SHORTEST_ID}
        for query, what in ((_SAME_CALLS, "tool calls"), (_SAME_RESPONSES, "responses")):
            for key, row, same in self._db.execute(query, values):
                found[key][row] = f"another recording of this run: {same} {what} have the same ids"
        recordings = defaultdict(list)
        for run in self._runs.values():
            recordings[run.run].append(run.row)
        for key in lacking:
            row = self._rows[key]
            for other in recordings[self._runs[row].run]:
                if other != row:
                    found[key][other] = "another recording of this run"
        return found

    # --- what requests held

    def best_parts(self, trace: str, source: str, lack: Lack | None) -> RequestParts | None:
        """Of the requests of a trace that which has most tools a run calls, then most of what it
        lacks, then most steps."""
        called = calls_of(self._db, [trace]).get(trace, {})

        def rank(held: _Held) -> tuple[int, int, int]:
            system, tools = held.parts
            shape = {} if tools is None else self._set(tools)[0]
            halves = (system is not None and (lack is None or lack.system)) + (
                tools is not None and (lack is None or lack.tools)
            )
            return len(called.keys() & shape.keys()), halves, held.steps

        own = [held for held in self._held if held.row == self._rows.get(source)]
        return max(own, key=rank).parts if own else None

    def _identity(self, parts: RequestParts) -> tuple[str | None, str | None]:
        """What the parts of two requests have in common that say the same."""
        system = None if parts.system is None else self._text(parts.system)[1]
        return system, None if parts.tools is None else self._set(parts.tools)[1]

    def _text(self, system: int | str) -> tuple[int, str]:
        """How long a system prompt is, and what tells it from others."""
        if system not in self._texts:
            said = _prompt(self._db, system)
            self._texts[system] = len(said), digest("prompt", said)
        return self._texts[system]

    def _set(self, tools: int | str) -> tuple[Shape, str]:
        """Tools by name with their arguments, and as they are written."""
        if tools not in self._sets:
            body, _ = _tools_row(self._db, tools)
            self._sets[tools] = shape_of(_tools(body)), body
        return self._sets[tools]


def _content(db: sqlite3.Connection, parts: RequestParts, source: str) -> Supplement:
    """What these parts say. Tools that were inferred where they were attached stay so."""
    made = Supplement(name=f"trace {source[:8]}")
    if parts.system is not None:
        made = structs.replace(made, system=_prompt(db, parts.system))
    if parts.tools is not None:
        body, sketched = _tools_row(db, parts.tools)
        made = structs.replace(made, tools=_tools(body), sketched=sketched)
    return made


def _prompt(db: sqlite3.Connection, system: int | str) -> str:
    if isinstance(system, str):
        (said,) = _one(db, "SELECT system FROM supplement WHERE digest = ?", system)
        return str(said)
    dialect, body = _one(db, "SELECT dialect, body FROM message WHERE id = ?", system)
    return text(Message(dialect=dialect, body=msgspec.json.decode(body)))


def _tools_row(db: sqlite3.Connection, tools: int | str) -> tuple[str, bool]:
    """Tools as they are written, and were they inferred?"""
    if isinstance(tools, str):
        body, sketched = _one(db, "SELECT tools, sketched FROM supplement WHERE digest = ?", tools)
        return str(body), bool(sketched)
    (body,) = _one(db, "SELECT body FROM toolset WHERE id = ?", tools)
    return str(body), False


def _one(db: sqlite3.Connection, query: str, value: int | str) -> tuple[Any, ...]:
    row = db.execute(query, (value,)).fetchone()
    if row is None:
        raise sqlite3.DatabaseError("malformed: a row that is referred to is not there")
    return tuple(row)


def _differ(one: str | None, other: str | None) -> bool:
    """Are both known, and not the same?"""
    return None not in (one, other) and one != other


def _tools(body: str) -> tuple[Tool, ...]:
    return msgspec.json.decode(body, type=tuple[Tool, ...])


def _rank(offer: Offer) -> tuple[Any, ...]:
    """What nothing speaks against before the rest, the surest first, then what has both parts."""
    halves = (offer.system_characters is not None) + (offer.tools is not None)
    sureness = _ORDER.index(offer.match), -halves, len(offer.against), -offer.runs
    return bool(offer.against), *sureness, offer.source


def _one_of(offer: Offer, rivals: int) -> Offer:
    """With what speaks against a system prompt that is one of several found alike."""
    if rivals < 2 or offer.system_characters is None or offer.against:
        return offer
    return structs.replace(offer, against=(f"one of {rivals} that are found alike and differ",))


_HELD = """
SELECT trace, system, tools, sketched, count(*) FROM (
  SELECT t.id AS trace,
    coalesce(m.system, CASE WHEN u.system IS NOT NULL THEN u.digest END) AS system,
    coalesce(m.toolset, CASE WHEN u.tools IS NOT NULL THEN u.digest END) AS tools,
    m.toolset IS NULL AND u.tools IS NOT NULL AND u.sketched AS sketched
  FROM trace t JOIN step s ON s.trace = t.id JOIN model_call m ON m.span = s.ask
  LEFT JOIN trace_supplement b ON b.trace_key = t.key
  LEFT JOIN supplement u ON u.digest = b.supplement
  WHERE t.complete)
WHERE system IS NOT NULL OR tools IS NOT NULL
GROUP BY trace, system, tools, sketched"""

_SYSTEMS = """
SELECT DISTINCT s.trace, m.system FROM step s JOIN model_call m ON m.span = s.ask
WHERE m.system IS NOT NULL"""

_SAME_RESPONSES = """
WITH own AS (
  SELECT DISTINCT t.key, t.id AS trace, m.response_id AS same FROM trace t
  JOIN span s ON s.trace = t.id JOIN model_call m ON m.span = s.id
  WHERE t.complete AND t.key IN (SELECT value FROM json_each(:traces))
    AND length(m.response_id) >= :length)
SELECT own.key, x.trace, count(DISTINCT own.same) FROM own
JOIN model_call m ON m.response_id = own.same JOIN span x ON x.id = m.span
JOIN trace o ON o.id = x.trace AND o.complete
WHERE x.trace <> own.trace GROUP BY own.key, x.trace HAVING count(DISTINCT own.same) >= :least"""

_SAME_CALLS = """
WITH own AS (
  SELECT DISTINCT t.key, t.id AS trace, s.name, c.call_id AS same, c.arguments FROM trace t
  JOIN span s ON s.trace = t.id JOIN tool_call c ON c.span = s.id
  WHERE t.complete AND t.key IN (SELECT value FROM json_each(:traces))
    AND length(c.call_id) >= :length)
SELECT own.key, x.trace, count(DISTINCT own.same) FROM own
JOIN tool_call c ON c.call_id = own.same AND c.arguments IS own.arguments
JOIN span x ON x.id = c.span AND x.name = own.name
JOIN trace o ON o.id = x.trace AND o.complete
WHERE x.trace <> own.trace GROUP BY own.key, x.trace HAVING count(DISTINCT own.same) >= :least"""
