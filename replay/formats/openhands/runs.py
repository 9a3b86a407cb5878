"""Where are the runs of an OpenHands source, which events has each, and which are one answer?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats import common
from replay.formats.common import count, listed, obj, seconds_ns, total_usage, word
from replay.formats.openhands.events import (
    Acted,
    Happened,
    Sent,
    is_runtime_event,
    is_sdk_event,
    read_runtime_event,
    read_sdk_event,
)
from replay.formats.source import Head, Source, Tally, decode
from replay.messages import calls
from replay.trace import Cost, Json, Message, Usage

_FILE = re.compile(r"event-(\d+)(?:-.*)?\.json|(\d+)\.json")
_MAX_FOLDER = 200_000


class Event(Struct, frozen=True, kw_only=True, eq=False):
    """One event at its place among those of its run."""

    index: int
    raw: dict[str, Any]

    @property
    def happened(self) -> Happened:
        if is_sdk_event(self.raw):
            return read_sdk_event(self.raw, self.index)
        return read_runtime_event(self.raw, self.index)


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """One run: what the source says of it, and its events. `line` is None for a whole file."""

    about: dict[str, Any]
    events: list[Event]
    line: int | None = None


def is_event(raw: Json) -> bool:
    return isinstance(raw, dict) and (is_sdk_event(raw) or is_runtime_event(raw))


def runs(source: Source, tally: Tally) -> Iterator[Run]:
    """The runs of a source. Raises BadTrace where it holds none."""
    if not source.head.starts(b"{"):
        yield from _listed(source, tally)
        return
    loose: list[Json] = []
    found = False
    for line, raw in _objects(source, tally):
        if isinstance(raw.get("history"), list):
            found = True
            yield Run(about=raw, events=_events(raw["history"], tally), line=line)
        elif is_event(raw):
            loose.append(raw)
        else:
            tally.problem(f"line {line}", "is no run: it holds no `history`")
    if len(loose) == 1 and _number(source.path) is not None:
        loose = [*_folder(source, loose[0], tally)]
    if loose:
        yield Run(about=_state(source.path), events=_events(loose, tally))
    elif not found:
        raise BadTrace(source.display, "", "holds no run with a `history` of events")


def _listed(source: Source, tally: Tally) -> Iterator[Run]:
    document = source.document()
    entries = listed(document)
    if any(is_event(entry) for entry in entries):
        yield Run(about={}, events=_events(entries, tally))
        return
    told = [obj(entry) for entry in entries if isinstance(obj(entry).get("history"), list)]
    if not told:
        raise BadTrace(source.display, "", "holds no events and no run with a `history` of them")
    for about in told:
        yield Run(about=about, events=_events(about["history"], tally))


def _objects(source: Source, tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, one a line, or one over many lines."""
    if _is_one_object(source.head):
        yield 1, obj(source.document())
    else:
        yield from source.records(tally)


def _is_one_object(head: Head) -> bool:
    """Does the first line of the file end in the midst of an object?"""
    first, newline, _ = head.data.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if not newline:
        return False
    try:
        decode(first, head.name, "line 1")
    except BadTrace:
        return True
    return False


def _events(entries: list[Json], tally: Tally) -> list[Event]:
    """The events in their order. The oldest histories hold pairs of action and observation."""
    flat: list[Json] = []
    for entry in entries:
        flat.extend(entry if isinstance(entry, list) else [entry])
    found: list[Event] = []
    for index, raw in enumerate(flat):
        if is_event(raw):
            found.append(Event(index=index, raw=raw))
        else:
            tally.problem(f"event {index}", "is neither an action nor an observation")
    return found


# --- a folder of events


def part_of(path: Path) -> Path | None:
    """The first file of the folder of events that this file belongs to."""
    if path.parent.name != "events" or _number(path) is None:
        return None
    found = _files(path.parent)
    return found[0] if found and found[0] != path else None


def _number(path: Path) -> int | None:
    match = _FILE.fullmatch(path.name)
    return int((match[1] or match[2])[:18]) if match is not None else None


def _files(folder: Path) -> tuple[Path, ...]:
    try:
        return _sorted(folder, folder.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=2)
def _sorted(folder: Path, _changed_ns: int) -> tuple[Path, ...]:
    numbered = [
        (number, path) for path in folder.iterdir() if (number := _number(path)) is not None
    ]
    return tuple(path for _, path in sorted(numbered)[:_MAX_FOLDER])


def _folder(source: Source, first: Json, tally: Tally) -> Iterator[Json]:
    """The events of the files beside the first one, where it stands in such a folder."""
    yield first
    if source.display == "-" or source.path.parent.name != "events":
        return
    for path in _files(source.path.parent):
        if path.name == source.path.name:
            continue
        try:
            yield Source(path).document()
        except BadTrace as error:
            tally.problem(path.name, error.why)


def _state(path: Path) -> dict[str, Any]:
    """What the SDK keeps of a conversation beside its events."""
    place = path.parent.parent / "base_state.json"
    if path.parent.name != "events" or not place.is_file():
        return {}
    try:
        state = obj(Source(place).document())
    except BadTrace:
        return {}
    return {"base_state": state}


def answers(told: list[tuple[Event, Happened]]) -> dict[int, list[Acted]]:
    """The answers of a run: the index of the event that tells each, and all that share its id."""
    found: dict[int, list[Acted]] = {}
    first: dict[str, int] = {}
    for event, happened in told:
        acted = happened.acted if isinstance(happened, Sent) else happened
        if not isinstance(acted, Acted):
            continue
        index = first.setdefault(acted.answer_id, event.index) if acted.answer_id else event.index
        found.setdefault(index, []).append(acted)
    return found


def answer_id(group: list[Acted]) -> str | None:
    return group[0].answer_id


def joined(group: list[Acted]) -> Message:
    """The message of an answer: the provider's own, or one with the calls of all its events."""
    first = group[0].message
    if group[0].answer or len(group) == 1:
        return first
    given = [each.message.body.get("tool_calls") for each in group if calls(each.message)]
    listed_calls = [call for each in given if isinstance(each, list) for call in each]
    return Message(dialect="openai", body={**first.body, "tool_calls": listed_calls})


class Figures:
    """The figures of a run by call; `answers` are the answer ids of its calls in their order."""

    def __init__(self, metrics: dict[str, Any], answers: Sequence[str | None]) -> None:
        self._tokens = _by_call(listed(metrics.get("token_usages")), answers)
        self._latencies = _by_call(listed(metrics.get("response_latencies")), answers)
        self._costs = _by_call(listed(metrics.get("costs")), answers)

    def usage(self, call: int, answer: dict[str, Any]) -> Usage | None:
        """Tokens of the provider's own answer, else of the run's list."""
        return common.usage(answer.get("usage")) or _usage(obj(self._tokens.get(call)))

    def cost(self, call: int, tokens: Usage | None) -> Cost | None:
        given = self._costs.get(call)
        return common.cost(obj(given).get("cost") if isinstance(given, dict) else given, tokens)

    def latency_ns(self, call: int) -> int | None:
        latency = seconds_ns(obj(self._latencies.get(call)).get("latency"))
        return latency if latency is not None and latency >= 0 else None


def _by_call(entries: list[Json], answers: Sequence[str | None]) -> dict[int, Json]:
    """The entries by the index of their call: by answer id, or all in their order."""
    named = {name: entry for entry in entries if (name := word(obj(entry).get("response_id")))}
    known = {call: named[name] for call, name in enumerate(answers) if name and name in named}
    if known or len(entries) != len(answers):
        return known
    return dict(enumerate(entries))


def _usage(given: dict[str, Any]) -> Usage | None:
    return total_usage(
        count(given.get("prompt_tokens")),
        count(given.get("completion_tokens")),
        reasoning=count(given.get("reasoning_tokens")) or None,
        read=count(given.get("cache_read_tokens")),
        write=count(given.get("cache_write_tokens")),
    )


def metrics_of(about: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a run: its own, or what the SDK's state adds up for the agent."""
    if isinstance(about.get("metrics"), dict):
        return obj(about["metrics"])
    stats = obj(obj(about.get("base_state")).get("stats"))
    used = obj(stats.get("usage_to_metrics")) or obj(stats.get("service_to_metrics"))
    return obj(used.get("agent"))


def reported_usd(metrics: dict[str, Any]) -> float | None:
    """The run's cost; zero without a single cost is a model without a price."""
    found = common.cost(metrics.get("accumulated_cost"), None)
    return found.usd if found is not None else None
