"""Which spans tell of the same call?

A framework, the client library that it uses and a server may each write a span of one model call; a
framework and a client of tools each one of a tool call. One of them is kept as the call and takes
from the others what it leaves out itself; they stay in the trace as spans that repeat it. A span
that only groups calls, and a helper that makes a request ready and asks nobody, are no calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any

from replay.formats.common import listed
from replay.formats.genai import attributes
from replay.formats.genai.attributes import GAVE, GIVEN, Kind, Known, known_of
from replay.formats.genai.calls import message_of, usage
from replay.formats.genai.functions import tool
from replay.formats.genai.messages import several
from replay.formats.genai.records import SERVER, RawSpan, readable
from replay.formats.genai.translate import answers, asks, in_conventions
from replay.messages import calls

LEVELS = 32
"""How far apart two spans of one call may hang."""

_GROUP = re.compile(r"\(.*\)")
"""A name in parentheses is a framework's word for several tools that ran together."""


def reconcile(raws: Iterable[RawSpan]) -> list[Known]:
    """The spans of a trace, those that tell of a call that another one tells of marked as such.
    The spans given may be changed."""
    found = _with_tools([in_conventions(raw) for raw in raws])
    return _Trace(found).reconcile()


def _with_tools(found: list[Known]) -> list[Known]:
    """A span of no kind of its own that bears the name of a tool that a model called is one."""
    named = {call.name for each in found if each.kind is Kind.MODEL for call in _calls_in(each.raw)}
    return [_as_tool(each) if _bears(each, named) else each for each in found]


def _bears(span: Known, named: Collection[str]) -> bool:
    return span.kind is Kind.OTHER and span.raw.name.removeprefix("tool.") in named


def _as_tool(span: Known) -> Known:
    made = tool(span.raw.name.removeprefix("tool."), span.of(GIVEN), span.of(GAVE))
    span.raw.attributes = {**span.raw.attributes, **made}
    return known_of(span.raw)


def _calls_in(raw: RawSpan) -> list[Any]:
    """The calls in a model's answer."""
    bodies = several(listed(raw.attributes.get(attributes.OUTPUT)), "assistant")
    return [call for body in bodies for call in calls(message_of(body))]


class _Trace:
    """The spans of a trace as a tree; groups of spans that tell of one call, by the id of each."""

    def __init__(self, found: list[Known]) -> None:
        self._spans = {each.raw.id: each for each in found}
        self._group_of: dict[str, list[Known]] = {}

    def reconcile(self) -> list[Known]:
        for kind in (Kind.MODEL, Kind.TOOL):
            self._without_helpers(kind)
            within = self._within(kind)
            self._group_siblings(kind)
            for outer, inner in within.items():
                self._group_nested(self._spans[outer], inner)
        for group in list({id(group): group for group in self._group_of.values()}.values()):
            if len(group) > 1:
                self._keep_one(group)
        return list(self._spans.values())

    def _of(self, kind: Kind) -> list[Known]:
        return [each for each in self._spans.values() if each.kind is kind]

    def _put(self, span: Known) -> None:
        self._spans[span.raw.id] = span

    # --- what is no call

    def _without_helpers(self, kind: Kind) -> None:
        """Take what only groups tools, and what says nothing of an answer next to a span of the
        same kind that does, for no call."""
        if kind is Kind.TOOL:
            for each in self._of(kind):
                if _GROUP.fullmatch(each.word(attributes.TOOL) or each.raw.name):
                    self._put(each._replace(kind=Kind.OTHER))
            return
        models = self._of(kind)
        silent = [each for each in models if _is_silent(each)]
        if not silent or len(silent) == len(models):
            return
        heard = {(each.raw.parent, "") for each in models if not _is_silent(each)}
        heard |= {(None, each.raw.name) for each in models if not _is_silent(each)}
        for each in silent:
            if (each.raw.parent, "") in heard and (None, each.raw.name) not in heard:
                self._put(each._replace(kind=Kind.OTHER))

    # --- what tells of the same call

    def _within(self, kind: Kind) -> dict[str, list[Known]]:
        """The spans of a kind by the nearest one of the same kind above, the innermost first; those
        below another agent, or a tool that asks models, are its own."""
        found: dict[str, list[Known]] = {}
        for each in self._of(kind):
            for above in self._above(each.raw):
                if above.kind is kind and not each.raw.logged:
                    found.setdefault(above.raw.id, []).append(each)
                if above.kind in (Kind.MODEL, Kind.TOOL, Kind.AGENT):
                    break
        return dict(sorted(found.items(), key=lambda item: -self._depth(item[0])))

    def _above(self, raw: RawSpan) -> Iterator[Known]:
        for _ in range(LEVELS):
            above = self._spans.get(raw.parent or "")
            if above is None:
                return
            yield above
            raw = above.raw

    def _depth(self, name: str) -> int:
        return sum(1 for _ in self._above(self._spans[name].raw))

    def _group_nested(self, outer: Known, inner: list[Known]) -> None:
        """An outer span with one call inside tells of that one, also where the client tried more
        than once; one with several calls inside only groups them."""
        if outer.kind is Kind.TOOL:
            for each in inner:
                if _same_tool(outer, each):
                    self._join(outer, each)
            return
        groups = {id(self._group_of.get(each.raw.id, each)): each for each in inner}
        tries = [each for each in groups.values() if each.raw.status == "error"]
        if len(groups) - len(tries) > 1:
            self._put(outer._replace(kind=Kind.OTHER))
            return
        for each in inner:
            self._join(outer, each)

    def _group_siblings(self, kind: Kind) -> None:
        """Join spans of one response, and spans that two instrumentations wrote side by side."""
        beside: dict[str | None, list[Known]] = {}
        responses: dict[str, list[Known]] = {}
        for each in self._of(kind):
            beside.setdefault(each.raw.parent, []).append(each)
            response = each.word(attributes.RESPONSE)
            if response is not None and kind is Kind.MODEL:
                responses.setdefault(response, []).append(each)
        for alike in responses.values():
            for one, other in pairwise(alike):
                if self._is_one_response(one.raw, other.raw):
                    self._join(one, other)
        for siblings in beside.values():
            if len({_vocabulary(each.raw) for each in siblings}) > 1:
                self._join_twins(siblings)

    def _join_twins(self, siblings: list[Known]) -> None:
        """Join each span with the first of another vocabulary that lies in it, or in which it
        lies, and contradicts it in nothing."""
        taken: set[str] = set()
        in_time = sorted(siblings, key=lambda each: each.raw.start_ns or 0)
        for at, one in enumerate(in_time):
            for other in in_time[at + 1 :]:
                if (one.raw.end_ns or 0) <= (other.raw.start_ns or 0):
                    break
                if other.raw.id not in taken and _are_twins(one, other):
                    taken.add(other.raw.id)
                    self._join(one, other)
                    break

    def _is_one_response(self, one: RawSpan, other: RawSpan) -> bool:
        """Do spans of one response lie in one another, or beside one another at the same time? One
        that was answered from a cache has the response too, but later."""
        if any(each.raw is one for each in self._above(other)):
            return True
        if any(each.raw is other for each in self._above(one)):
            return True
        if one.parent != other.parent or None in (one.start_ns, one.end_ns, other.start_ns):
            return False
        starts = (one.start_ns or 0, other.start_ns or 0)
        ends = (one.end_ns or 0, other.end_ns or 0)
        return max(starts) < min(ends)

    def _join(self, one: Known, other: Known) -> None:
        into = self._group_of.setdefault(one.raw.id, [one])
        from_ = self._group_of.setdefault(other.raw.id, [other])
        if into is not from_:
            into, from_ = sorted((into, from_), key=len, reverse=True)
            into += from_
            self._group_of.update({each.raw.id: into for each in from_})

    def _keep_one(self, group: list[Known]) -> None:
        best = max(group, key=_worth)
        others = sorted((each for each in group if each is not best), key=_worth, reverse=True)
        self._put(_fill(best, others))
        for each in others:
            self._put(each._replace(same_as=best.raw.id))


def _is_silent(span: Known) -> bool:
    """Does a span that ended well say nothing of an answer, its length, or why it ended?"""
    says = any(span.of(each) is not None for each in (attributes.STOP, attributes.RESPONSE))
    ended = span.raw.end_ns is not None and span.raw.status != "error"
    is_made = span.of(GAVE) is not None or span.of(attributes.ASKED_MODEL) is not None
    return ended and is_made and not says and not answers(span.raw) and usage(span) is None


def _same_tool(one: Known, other: Known) -> bool:
    """Are two spans, one in the other, of one tool? Some frameworks put a plugin's name before the
    tool's: then the arguments have to agree, for a tool may run another one."""
    names = [tool_key(each.word(attributes.TOOL) or each.raw.name) for each in (one, other)]
    if names[0] == names[1]:
        return True
    given = [readable(each.of(attributes.ARGUMENTS)) for each in (one, other)]
    long, short = sorted(names, key=len, reverse=True)
    return long.endswith(f"_{short}") and given[0] is not None and given[0] == given[1]


def tool_key(name: str) -> str:
    """A tool's name without what frameworks change in it: case, blanks, punctuation."""
    return re.sub(r"[^a-z0-9]+", "_", name.removeprefix("execute_tool ").lower()).strip("_")


def _are_twins(one: Known, other: Known) -> bool:
    if _vocabulary(one.raw) == _vocabulary(other.raw) or not _contain(one.raw, other.raw):
        return False
    if one.kind is Kind.TOOL:
        return _same_tool(one, other)
    things = (attributes.USAGE_IN, attributes.USAGE_OUT, attributes.RESPONSE, attributes.STOP)
    pairs = [(one.of(each), other.of(each)) for each in things]
    both = [pair for pair in pairs if None not in pair]
    return bool(both) and all(str(first) == str(second) for first, second in both)


def _contain(one: RawSpan, other: RawSpan) -> bool:
    """Does one of two spans begin and end within the other?"""
    starts, ends = (one.start_ns, other.start_ns), (one.end_ns, other.end_ns)
    if None in starts or None in ends:
        return False
    first, second = (starts[0] or 0, ends[0] or 0), (starts[1] or 0, ends[1] or 0)
    outer, inner = sorted((first, second), key=lambda span: (span[0], -span[1]))
    return outer[0] <= inner[0] and inner[1] <= outer[1]


_VOCABULARIES = ("openinference.", "traceloop.", "langfuse.", "langsmith.", "mlflow.", "ai.")


def _vocabulary(raw: RawSpan) -> str:
    """Whose words a span is written in: two instrumentations seldom share them."""
    foreign = [name for name in raw.attributes if name.startswith(_VOCABULARIES)]
    for stem in _VOCABULARIES if foreign else ():
        if any(name.startswith(stem) for name in foreign):
            return stem
    return "gen_ai."


def _worth(span: Known) -> tuple[int, bool, bool, int]:
    """The one that says most of the messages or the tool, the caller's before the server's, the
    one that did not fail, the one nearest the wire."""
    raw = span.raw
    if span.kind is Kind.TOOL:
        things = (attributes.CALL, attributes.ARGUMENTS, attributes.RESULT)
        return sum(span.of(each) is not None for each in things), True, True, -(raw.start_ns or 0)
    says = asks(raw) + answers(raw)
    return says, raw.kind != SERVER, raw.status != "error", raw.start_ns or 0


_ASKED = re.compile(r"gen_ai\.(input|system|prompt)|llm\.input_messages|input\.|ai\.prompt")
_ANSWERED = re.compile(r"gen_ai\.(output|completion)|llm\.output_messages|output\.|ai\.response")


def _fill(best: Known, others: list[Known]) -> Known:
    """The span that is kept, with what it leaves out and another one says: figures, ids, settings;
    one side of the conversation only where it says nothing of that side."""
    raw = best.raw
    known = {thing for thing, value in best.given.of.items() if value is not None}
    added: dict[str, Any] = {}
    for each in others:
        has_asked, has_answered = asks(raw), answers(raw)
        for name, value in each.raw.attributes.items():
            side = has_asked if _ASKED.match(name) else has_answered and _ANSWERED.match(name)
            if not side and name not in raw.attributes and not _is_said(name, known):
                added.setdefault(name, value)
        if not (has_asked or has_answered):
            raw.events = [*raw.events, *each.raw.events]
        if best.kind is Kind.TOOL and each.raw.status == "error" and raw.status != "error":
            raw.status, raw.message = "error", each.raw.message
    if not added:
        return best
    raw.attributes = {**raw.attributes, **added}
    return known_of(raw)._replace(kind=best.kind)


def _is_said(name: str, known: Collection[attributes.Thing]) -> bool:
    """Is the thing of that name known under another one?"""
    return any(name in thing.names for thing in known)
