"""What did the tool say? The recorded results of one thread, and the call each may answer.

A call that nothing answers is shown the nearest recorded ones, and how they differ from it. A stub
answers it instead: what the tool would have said, as the user knows or decides it. A stub is data,
never code: one call and the one result it gets, whenever it is made. A run that used one says so.

```toml
[[stub]]
tool = "get_order"
arguments = { order_id = "1039" }
result = '{"status": "delivered", "total": 12900}'
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import tomli_w
from msgspec import Struct, field, structs
from rapidfuzz.distance import JaroWinkler

from replay import digests, openai_requests, written
from replay.action import Act, Action
from replay.compare.actions import Difference, compare
from replay.compare.rules import PLAIN, Rules
from replay.convert import Sent
from replay.edit.files import refuse_unknown
from replay.effects import ToolEffect
from replay.errors import BadEdit
from replay.free.recorded import (
    Identities,
    Made,
    Moment,
    Recorded,
    Replaced,
    effect_of,
    effects_of,
    in_turn,
    made_by,
    turns,
)
from replay.trace import Effect, Json, Tool, Trace
from replay.turns import text_block, turn_after

_KEYS = ("tool", "arguments", "result", "is_error")


class Stub(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result a call gets: its text, and whether it is an error."""

    tool: str
    arguments: dict[str, Json]
    result: str
    is_error: bool = False

    @property
    def call(self) -> Act:
        return Act(tool=self.tool, arguments=self.arguments)

    @property
    def digest(self) -> str:
        """Identity of the call and what it gets."""
        return digests.digest(
            "stub", self.tool, digests.canonical(self.arguments), self.result, str(self.is_error)
        )

    def answers_same(self, other: Stub) -> bool:
        """Do both answer one call?"""
        return self.tool == other.tool and digests.same(self.arguments, other.arguments)


def stubs_from_file(file: Path) -> tuple[Stub, ...]:
    """The stubs of a TOML file. Raises BadEdit naming the file and the key."""
    return stubs_from_toml(written.from_file(file), str(file))


def stubs_from_toml(text: str, where: str) -> tuple[Stub, ...]:
    """The `[[stub]]` tables of a TOML text. Raises BadEdit naming `where` and the key."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadEdit(f"{where}: is not TOML: {error}") from error
    refuse_unknown(document, ("stub",), where)
    tables = document.get("stub")
    if not isinstance(tables, list) or not tables:
        raise BadEdit(f"{where}: no [[stub]] table")
    found: list[Stub] = []
    for at, table in enumerate(tables, 1):
        stub = _stub(table, f"{where}: stub {at}")
        for earlier, other in enumerate(found, 1):
            if stub.answers_same(other):
                raise BadEdit(f"{where}: stub {at}: same call as stub {earlier}")
        found.append(stub)
    return tuple(found)


def stubs_to_toml(stubs: Iterable[Stub]) -> str:
    """The file that `stubs_from_toml` reads back as these stubs.

    Each is a table of its own, so that one can be pasted below others. Its arguments are JSON text,
    as most results are: TOML has no null.
    """
    return "\n".join(map(_table, stubs))


def _stub(table: Json, where: str) -> Stub:
    if not isinstance(table, dict):
        raise BadEdit(f"{where}: is not a table")
    refuse_unknown(table, _KEYS, where)
    for key in ("tool", "result"):
        if key not in table:
            raise BadEdit(f"{where}: {key}: is missing")
    try:
        return msgspec.json.decode(digests.encode({"arguments": {}, **_parsed(table)}), type=Stub)
    except ValueError as error:
        raise BadEdit(
            f"{where}: {error}",
            "tool and result must be strings, arguments a table, is_error true or false",
        ) from error


def _parsed(table: dict[str, Json]) -> dict[str, Json]:
    """Arguments may be given as JSON text: TOML has no null."""
    given = table.get("arguments")
    return {**table, "arguments": written.from_json(given)} if isinstance(given, str) else table


def _table(stub: Stub) -> str:
    arguments = digests.encode(stub.arguments).decode()
    lines = [
        "[[stub]]",
        f"tool = {_quoted(stub.tool)}",
        f"arguments = {_quoted(arguments)}",
        f"result = {_quoted(stub.result)}",
    ]
    if stub.is_error:
        lines.append("is_error = true")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string, as it stands where TOML allows that: JSON is full of quotes."""
    if text.isprintable() and "'" not in text:
        return f"'{text}'"
    lines = text.split("\n")
    if len(lines) > 1 and all(map(str.isprintable, lines)) and "'''" not in f"{text}'":
        return f"'''\n{text}'''"
    return tomli_w.dumps({"text": text}).removeprefix("text = ").removesuffix("\n")


VERSION = 2
"""Of the rules above; part of every free replay's digest."""

Rank: TypeAlias = Literal["exact", "edited", "stub", "guessed", "reused", "stale", "miss"]
"""How well an observation fits its call, best first."""

NO_RESULT = "result not recorded"
NOT_OFFERED = "tool not offered"
ELSEWHERE = "recorded only after different writes"
UNLIKE = "recorded while the tool was not offered"


class Terms(Struct, frozen=True, eq=False, kw_only=True):
    """What the user adds to a tape, and allows.

    `effects` says of tools by name whether they read or write. Of `stubs` that answer one call,
    the last counts.
    """

    stubs: tuple[Stub, ...] = ()
    allow_stale: bool = False
    effects: Mapping[str, Effect] = field(default_factory=dict)


BARE = Terms()
"""The tape alone."""


class Found(Struct, frozen=True, eq=False, kw_only=True):
    """What there is for a call.

    `text` is the observation, `content` the same as it can be sent; None where there is none, and
    `why` then says so. `step` and `place` tell where it was recorded, `stub` is the digest of the
    stub it came from. `guesses` are the tools that it rests on a guess of that they read.
    """

    call: Act
    rank: Rank
    effect: ToolEffect
    text: str | None = None
    content: Json = None
    is_error: bool | None = None
    step: int | None = None
    place: int | None = None
    stub: str | None = None
    why: str | None = None
    guesses: tuple[str, ...] = ()


class Head(Struct, frozen=True, eq=False):
    """How far a run has come: the epoch it is in, those it was in before, the calls it made, by
    identity and moment, and the tools among them that are only guessed to read."""

    epoch: Moment
    past: tuple[str, ...] = ()
    made: Mapping[tuple[str, str], int] = {}
    guessed: frozenset[str] = frozenset()


class RecordedResults:
    """The tape of one thread under the user's terms; `replaced` are observations that an edit
    changes (`replay.edit.changes.observation_edits`)."""

    def __init__(
        self,
        trace: Trace,
        thread: str,
        terms: Terms = BARE,
        *,
        replaced: Replaced | None = None,
        rules: Rules = PLAIN,
    ) -> None:
        self.effects = effects_of(trace, terms.effects)
        self.tools: dict[str, Tool] = {
            tool.name: tool
            for step in trace.steps
            if step.thread == thread
            for tool in step.ask.request.tools or ()
        }
        self._terms = terms
        self._identities = Identities(self.tools, rules)
        self._turns, self._end = turns(
            trace, thread, self._identities, self.effects, replaced or {}
        )
        self.recorded: tuple[Recorded, ...] = tuple(
            call for turn in self._turns for call in turn.calls
        )
        self._places: dict[tuple[int | None, int | None], Recorded] = {
            (each.step, each.place): each for each in self.recorded
        }
        self._stubs = {self._identities.of(stub.call): stub for stub in terms.stubs}
        self._same: dict[str, list[Recorded]] = {}
        for each in self.recorded:
            self._same.setdefault(each.identity, []).append(each)

    # --- where a run stands

    def at(self, step: int) -> Head:
        """Before the calls of a step of the recording, everything earlier having been made."""
        made: dict[tuple[str, str], int] = {}
        past: list[str] = []
        guessed = frozenset[str]()
        epoch = self._end
        for turn in self._turns:
            if turn.step >= step:
                epoch = turn.epoch
                break
            past.append(turn.epoch.guessed)
            guessed |= turn.guessed
            for each in turn.calls:
                key = each.identity, each.moment.guessed
                made[key] = made.get(key, 0) + 1
        return Head(epoch, tuple(past), made, guessed)

    def after(self, head: Head, calls: Sequence[Act]) -> Head:
        """Where a run stands that has made the calls of one turn."""
        made = dict(head.made)
        known = self._made(calls)
        at, epoch = in_turn(head.epoch, known)
        for each, moment in zip(known, at, strict=True):
            key = each.identity, moment.guessed
            made[key] = made.get(key, 0) + 1
        guessed = head.guessed | {
            call.tool for call, each in zip(calls, known, strict=True) if each.effect.guessed_read
        }
        return Head(epoch, (*head.past, head.epoch.guessed), made, guessed)

    # --- what a call gets

    def find(self, head: Head, calls: Sequence[Act], offered: Collection[str]) -> tuple[Found, ...]:
        """What each call of a turn gets, in their order, whatever the others get."""
        made = dict(head.made)
        found = []
        known = self._made(calls)
        beside = self.after(head, calls).guessed
        for call, each, moment in zip(calls, known, in_turn(head.epoch, known)[0], strict=True):
            key = each.identity, moment.guessed
            got = self._find(call, each, moment, made.get(key, 0), head, call.tool in offered)
            found.append(self._guessed(got, moment, beside))
            made[key] = made.get(key, 0) + 1
        return tuple(found)

    def _guessed(self, found: Found, moment: Moment, called: frozenset[str]) -> Found:
        """The same, said to rest on a guess where it was recorded at the same moment only if all
        that is guessed to read does; `called` are the tools of the run that is guessed of."""
        entry = self._places.get((found.step, found.place))
        if entry is None or found.rank == "stale" or entry.moment.certain == moment.certain:
            return found
        before = (turn.guessed for turn in self._turns if turn.step <= entry.step)
        guesses = tuple(sorted(called.union(*before)))
        rank: Rank = "guessed" if found.rank == "exact" else found.rank
        return structs.replace(found, rank=rank, guesses=guesses)

    def along(self, step: int, calls: Sequence[Act], offered: Collection[str]) -> tuple[Found, ...]:
        """What the calls of a recorded step got there, in the order in which they are given.

        A miss is only what the recording cannot stand for: a tool offered there and not here, or
        here and not there.
        """
        left = [each for each in self.recorded if each.step == step]
        found = []
        for call in calls:
            identity = self._identities.of(call)
            entry = next((each for each in left if each.identity == identity), None)
            if entry is None:
                found.append(structs.replace(self._miss(call, NO_RESULT), rank="exact"))
            elif entry.offered != (call.tool in offered):
                found.append(self._miss(call, NOT_OFFERED if entry.offered else UNLIKE))
            else:
                left.remove(entry)
                found.append(self._from(entry, call, "edited" if entry.edited else "exact"))
        return tuple(found)

    def filled(self, found: Sequence[Found]) -> tuple[Found, ...]:
        """The same, what has no observation answered by a stub where there is one."""
        return tuple(each if each.text is not None else self._filled(each) for each in found)

    def _filled(self, found: Found) -> Found:
        stub = self._stubs.get(self._identities.of(found.call))
        return found if stub is None else self._stubbed(found.call, stub)

    def _made(self, calls: Sequence[Act]) -> list[Made]:
        return [made_by(call, self._identities.of(call), self.effects) for call in calls]

    def _find(
        self, call: Act, made: Made, moment: Moment, earlier: int, head: Head, offered: bool
    ) -> Found:
        identity = made.identity
        same = [each for each in self._same.get(identity, ()) if each.offered == offered]
        here = [each for each in same if each.moment.guessed == moment.guessed]
        if earlier < len(here) and here[earlier].text is not None:
            entry = here[earlier]
            return self._from(entry, call, "edited" if entry.edited else "exact")
        heard = [each for each in here[:earlier] if each.text is not None]
        if heard:
            return self._from(heard[-1], call, "reused")
        if identity in self._stubs:
            return self._stubbed(call, self._stubs[identity])
        others = [each for each in same if each not in here and each.text is not None]
        if made.effect.reads and others:
            return self._stale(call, others, head)
        return self._miss(call, self._why(call, same, here, offered))

    def _stale(self, call: Act, others: list[Recorded], head: Head) -> Found:
        """The latest of a state that the run itself was in, else the latest recorded."""
        order = {epoch: at for at, epoch in enumerate(head.past)}
        entry = max(
            others, key=lambda each: (order.get(each.moment.guessed, -1), each.step, each.place)
        )
        found = self._from(entry, call, "stale")
        if self._terms.allow_stale:
            return found
        why = f"stale, {ELSEWHERE}"
        return structs.replace(found, text=None, content=None, is_error=None, why=why)

    def _why(self, call: Act, same: list[Recorded], here: list[Recorded], offered: bool) -> str:
        """Why nothing answers a call."""
        if not offered:
            return NOT_OFFERED
        if here:
            return NO_RESULT
        if same:
            return f"the call may write and was {ELSEWHERE}"
        if any(each.call.tool == call.tool for each in self.recorded):
            return "never recorded with these arguments"
        return "tool never called in the recording"

    def _from(self, entry: Recorded, call: Act, rank: Rank) -> Found:
        return Found(
            call=call,
            rank=rank,
            effect=effect_of(call, self.effects),
            text=entry.text,
            content=entry.content,
            is_error=entry.is_error,
            step=entry.step,
            place=entry.place,
            why=None if entry.text is not None else NO_RESULT,
        )

    def _stubbed(self, call: Act, stub: Stub) -> Found:
        return Found(
            call=call,
            rank="stub",
            effect=effect_of(call, self.effects),
            text=stub.result,
            content=stub.result,
            is_error=stub.is_error or None,
            stub=stub.digest,
        )

    def _miss(self, call: Act, why: str) -> Found:
        return Found(call=call, rank="miss", effect=effect_of(call, self.effects), why=why)


class Near(Struct, frozen=True, eq=False):
    """A recorded call with an observation, and how the call in question differs from it."""

    recorded: Recorded
    difference: Difference

    @property
    def phrase(self) -> str:
        """What differs, in one line; for the same call, when it was made."""
        return self.difference.brief if not self.difference.same else "same call, stale"


def nearest(
    call: Act,
    recorded: Iterable[Recorded],
    tools: Mapping[str, Tool],
    rules: Rules = PLAIN,
    n: int = 3,
) -> tuple[Near, ...]:
    """The `n` nearest recorded calls: of the same tool before others, then by how many places in
    the arguments differ, the latest first. Those of other tools come in the order of how alike
    their names are."""
    heard = [each for each in recorded if each.text is not None]
    offered = [tools[call.tool]] if call.tool in tools else []
    near = [Near(each, _difference(each.call, call, offered, rules)) for each in heard]
    return tuple(sorted(near, key=lambda each: _distance(each, call))[:n])


def draft(call: Act, near: Iterable[Near]) -> Stub:
    """A stub of the call to start from: what the nearest call of the same tool was answered."""
    same = next((each.recorded for each in near if each.recorded.call.tool == call.tool), None)
    return Stub(
        tool=call.tool,
        arguments=call.arguments if isinstance(call.arguments, dict) else {},
        result=(same.text or "") if same is not None else "",
        is_error=bool(same is not None and same.is_error),
    )


def _difference(first: Act, call: Act, tools: list[Tool], rules: Rules) -> Difference:
    return compare(Action(calls=(first,)), Action(calls=(call,)), tools, rules)


def _distance(near: Near, call: Act) -> tuple[float, int, int, int]:
    found = near.recorded
    alike = JaroWinkler.normalized_distance(found.call.tool, call.tool)
    return (alike, len(near.difference.changes), -found.step, found.place)


def grown_request(sent: Sent, answer: Mapping[str, Any], found: Sequence[Found]) -> Sent:
    """The request after `answer` and what its calls got, one result a call, in their order."""
    talk = sent.conversation
    if sent.wire != "messages":
        model, results_ = str(sent.params["model"]), [each.content for each in found]
        grown = openai_requests.grow(talk, sent.wire, model, answer["content"], results_)
        return structs.replace(sent, conversation=grown)
    said = list(_answer_message(answer["content"], talk.calls))
    results = list(_results(found, talk.calls))
    asked = turn_after(talk.turn, {"role": "assistant", "content": said})
    told = turn_after(asked, {"role": "user", "content": results})
    talk = structs.replace(talk, turn=told, calls=talk.calls + len(found))
    return structs.replace(sent, conversation=talk)


def _answer_message(content: Iterable[dict[str, Any]], given: int) -> Iterator[dict[str, Any]]:
    for block in content:
        if block["type"] == "text" and str(block.get("text", "")).strip():
            yield text_block(block["text"])
        elif block["type"] == "tool_use":
            name, arguments = block["name"], block["input"]
            yield {"type": "tool_use", "id": _id(given), "name": name, "input": arguments}
            given += 1


def _results(found: Iterable[Found], given: int) -> Iterator[dict[str, Any]]:
    for place, each in enumerate(found, given):
        result = {"type": "tool_result", "tool_use_id": _id(place), "content": each.content}
        yield {**result, "is_error": True} if each.is_error else result


def _id(place: int) -> str:
    return f"toolu_arc_{place}"
