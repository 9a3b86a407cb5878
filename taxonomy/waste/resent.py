"""Which tool results were sent again and again, at what cost, and did anything ever repeat them?

A result's size in tokens is estimated where the source has none; it was used where anything
later repeats a name, a number or a new word of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from replay import digests
from replay.messages import observed, prose, results, text, thinking
from replay.trace import Context, Message, Observation, Step, ToolCall
from taxonomy.evidence.context_index import Index
from taxonomy.evidence.reading import Act, Reading, Turn, leaves
from taxonomy.evidence.value_origins import values
from taxonomy.waste.repeats import Rates, rates_of, unread_rate


class Resent(Struct, frozen=True, kw_only=True):
    """An observation that more than one request carried.

    `tokens` and how they are known (`sizes`), None for media. `resends` are the requests after the
    first, up to `last_step`, and `resent_tokens` all they carried of it; `priced` of them have a
    known price, whose sum is `cost_usd`, which is `at_most` that where the source does not count
    what was read from the cache. `repeated`: does anything later repeat something of it, at step
    `repeated_at` first? None where a later answer was not recorded.
    """

    step: int
    span: str
    tool: str
    how: How
    tokens: int | None
    resends: int
    resent_tokens: int | None
    last_step: int
    priced: int
    cost_usd: float | None
    at_most: bool
    repeated: bool | None
    repeated_at: int | None = None


class _Paid(NamedTuple):
    usd: float
    at_most: bool


def resent(reading: Reading) -> tuple[Resent, ...]:
    """The observations sent more than once, those with most tokens sent again first."""
    echoes = Echoes(reading)
    till = _Till()
    found = [_resent(each, size, echoes, till) for each, size in _sized(reading)]
    return tuple(sorted(found, key=lambda each: (-(each.resent_tokens or 0), each.step)))


def _sized(reading: Reading) -> Iterator[tuple[Sends, Size]]:
    for steps in threads_of(reading.trace.steps).values():
        together: dict[tuple[int, int], list[Sends]] = {}
        for each in sends(steps):
            together.setdefault((each.asked.index, each.first.index), []).append(each)
        for group in together.values():
            given = [o for each in group if (o := each.act.observation) is not None]
            measured = sizes(group[0].asked, group[0].first, given)
            yield from (pair for pair in zip(group, measured, strict=True) if pair[0].again)


def _resent(each: Sends, size: Size, echoes: Echoes, till: _Till) -> Resent:
    act: ToolCall = each.act
    paid = [found for step in each.again[: each.near] if (found := till.paid(step, size))]
    repeated_at = echoes.first_repeat(act.id)
    deaf = echoes.deaf(each.asked.index)
    return Resent(
        step=each.asked.index,
        span=act.id,
        tool=act.name,
        how=size.how,
        tokens=size.tokens,
        resends=len(each.again),
        resent_tokens=None if size.tokens is None else size.tokens * len(each.again),
        last_step=each.again[-1].index,
        priced=len(paid),
        cost_usd=sum(found.usd for found in paid) if paid else None,
        at_most=any(found.at_most for found in paid),
        repeated=True if repeated_at is not None else None if deaf else False,
        repeated_at=repeated_at,
    )


class _Till:
    """What a request paid for an observation; the rates of a step are looked up once."""

    def __init__(self) -> None:
        self._rates: dict[int, Rates | None] = {}

    def paid(self, step: Step, size: Size) -> _Paid | None:
        """In USD; None where the price is not known, or where in the request it stood."""
        usage, rates = step.ask.usage, self._rates_of(step)
        if usage is None or rates is None or size.tokens is None:
            return None
        read = usage.cache_read_tokens
        if read is None:
            return _Paid(size.tokens * unread_rate(usage, rates), at_most=True)
        if size.start is None:
            return None
        cached = min(max(read - size.start, 0), size.tokens)
        rest = size.tokens - cached
        return _Paid(cached * rates.read + rest * unread_rate(usage, rates), at_most=False)

    def _rates_of(self, step: Step) -> Rates | None:
        if step.index not in self._rates:
            self._rates[step.index] = rates_of(step)
        return self._rates[step.index]


class Sends(Struct, frozen=True, eq=False, kw_only=True):
    """An observation, the step that called for it, and the steps whose requests carried it.

    `near` of those in `again` came before the conversation around the observation was rewritten.
    """

    act: ToolCall
    asked: Step
    first: Step
    again: tuple[Step, ...]
    near: int


def threads_of(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """The steps of each thread, in their order."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.thread, []).append(step)
    return found


def sends(steps: Sequence[Step]) -> Iterator[Sends]:
    """The observations of one thread that some later request carried, in the order of the calls."""
    spells = _spells(steps)
    for asked, step in enumerate(steps):
        for act in step.acts:
            if act.observation is None:
                continue
            held = [_after(spell, asked) for spell in spells.get(id(act.observation.message), ())]
            places = [place for spell in held for place in spell]
            if places:
                yield Sends(
                    act=act,
                    asked=step,
                    first=steps[places[0]],
                    again=tuple(steps[place] for place in places[1:]),
                    near=next(len(spell) for spell in held if spell) - 1,
                )


def _after(spell: range, place: int) -> range:
    return range(max(spell.start, place + 1), spell.stop)


def _spells(steps: Sequence[Step]) -> dict[int, list[range]]:
    """For each message, by identity, the stretches of requests that held it."""
    found: dict[int, list[range]] = {}
    began: dict[int, int] = {}
    chain: list[Context] = []
    for place, step in enumerate(steps):
        fresh = _beyond(chain, step.ask.request.context)
        kept = fresh[0].depth - 1 if fresh else _depth(step.ask.request.context)
        come = {id(node.message) for node in fresh}
        for message in {id(node.message) for node in chain[kept:]} - come:
            found.setdefault(message, []).append(range(began.pop(message, place), place))
        for message in come:
            began.setdefault(message, place)
        chain[kept:] = fresh
    for message, start in began.items():
        found.setdefault(message, []).append(range(start, len(steps)))
    return found


def _beyond(chain: Sequence[Context], context: Context | None) -> list[Context]:
    """The nodes of a context that are not in the chain, oldest first."""
    fresh: list[Context] = []
    while context is not None:
        if context.depth <= len(chain) and chain[context.depth - 1] is context:
            break
        fresh.append(context)
        context = context.parent
    fresh.reverse()
    return fresh


def _depth(context: Context | None) -> int:
    return context.depth if context is not None else 0


_RUN = re.compile(r"\w++(?:[./:\\@-]++\w++)*+")
_WORD = re.compile(r"\w++")
_QUOTED = re.compile(r"['\"`](\w++)['\"`]")
_MIXED = re.compile(r"\d|_|[a-z][A-Z]")
_SHORTEST = 3


class Echoes:
    """The later repetitions of every observation of a trace, by the span of its call."""

    def __init__(self, reading: Reading) -> None:
        self._said = _postings(reading.turns)
        self._derived = _derived(reading)
        self._silent = [turn.index for turn in reading.turns if turn.ask.response.message is None]
        self._first: dict[str, int | None] = {}
        given = _given(reading)
        known = set(given)
        for act in reading.acts:
            marks = _marks(act.reply.text)
            own = given | _marks(_arguments(act))
            telling = {mark for mark, tells in marks.items() if tells or mark not in known}
            self._first[act.span.id] = self._after(act, telling - own.keys())
            known |= marks.keys()

    def first_repeat(self, span: str) -> int | None:
        """The first step after the call that repeats something of its observation."""
        return self._first.get(span)

    def deaf(self, step: int) -> bool:
        """Was an answer after `step` not recorded, so that nobody knows what it repeats?"""
        return bool(self._silent) and self._silent[-1] > step

    def _after(self, act: Act, marks: Iterable[str]) -> int | None:
        found = [self._derived[act.span.id]] if act.span.id in self._derived else []
        for mark in marks:
            places = self._said.get(mark, ())
            at = bisect_right(places, act.step)
            if at < len(places):
                found.append(places[at])
        return min(found, default=None)


def _marks(words: str) -> dict[str, bool]:
    """The words and compounds of a text in lower case; does it tell more than a plain word?"""
    found: dict[str, bool] = {}
    for run in set(_RUN.findall(words)):
        parts = _WORD.findall(run)
        if len(parts) > 1:
            found[run.lower()] = True
        for part in parts:
            if len(part) >= _SHORTEST:
                found[part.lower()] = bool(_MIXED.search(part)) or found.get(part.lower(), False)
    return found | {word.lower(): True for word in _QUOTED.findall(words)}


def _given(reading: Reading) -> dict[str, bool]:
    """What prompts, tools and users said."""
    found: dict[str, bool] = {}
    systems = {
        id(turn.ask.request.system): turn.ask.request.system
        for turn in reading.turns
        if turn.ask.request.system is not None
    }
    for system in systems.values():
        found |= _marks(text(system))
    for tool in reading.offers.values():
        found |= _marks(f"{tool.name} {tool.description or ''}")
    for turn in reading.turns:
        for heard in turn.heard:
            found |= _marks(heard.text)
    return found


def _postings(turns: Iterable[Turn]) -> dict[str, list[int]]:
    """The steps whose answer holds each word, ascending."""
    found: dict[str, list[int]] = {}
    for turn in turns:
        spoken = "\n".join((turn.said, turn.thought, *map(_arguments, turn.acts)))
        for mark in _marks(spoken):
            found.setdefault(mark, []).append(turn.index)
    return found


def _arguments(act: Act) -> str:
    """What a call says in its arguments, as one text."""
    value = act.span.arguments if act.span.arguments is not None else act.span.arguments_raw
    return "\n".join(str(leaf) for _, leaf in leaves(value) if leaf is not None)


def _derived(reading: Reading) -> dict[str, int]:
    """The first step with a value that stems from a call, by the call's span."""
    index = Index(reading)
    found: dict[str, int] = {}
    for turn in reading.turns:
        for value in values(index, turn):
            if value.origin is not None and value.origin.span is not None:
                found.setdefault(value.origin.span, turn.index)
    return found


How = Literal["counted", "shared", "reckoned"]

CHARACTERS = 4
"""In a token, where nothing better is known."""

_FEW = 2
"""An answer with fewer characters a token than this held reasoning that it does not show."""

_SLACK = 50
_MEDIA = re.compile(r"^\[(?:image|image_url|input_image|document|audio|input_audio|video)\]$", re.M)


class Size(NamedTuple):
    """`tokens` None for media of unknown size; `start` is how many tokens stand before it."""

    how: How
    tokens: int | None
    start: int | None = None


def sizes(before: Step, after: Step, given: Sequence[Observation]) -> list[Size]:
    """The sizes of what step `before` observed, all of it sent first by `after`, in their order."""
    new = _new(before, after)
    growth = _growth(before, after) if new else None
    found = [_size(before, each, new, growth, alone=len(given) == 1) for each in given]
    return _placed(found, _input(after))


def _size(
    before: Step, given: Observation, new: Sequence[Message], growth: int | None, *, alone: bool
) -> Size:
    words = observed(given).text
    if growth is not None and alone and _nothing_else(given, new) and _shows_all(before):
        exact = growth - (_output(before) or 0)
        if exact > 0:
            return Size("counted", exact)
    if _MEDIA.search(words):
        return Size("reckoned", None)
    if growth is not None and growth > 0:
        whole = sum(map(_characters, new)) or 1
        return Size("shared", min(growth, round(growth * len(words) / whole)))
    return Size("reckoned", len(words) // CHARACTERS)


def _placed(found: Sequence[Size], end: int | None) -> list[Size]:
    """Observations stand at the end of the request that carries them first."""
    placed: list[Size] = []
    for size in reversed(found):
        start = None if end is None or size.tokens is None else max(0, end - size.tokens)
        placed.append(size._replace(start=start))
        end = start
    return placed[::-1]


def _growth(before: Step, after: Step) -> int | None:
    old, new = _input(before), _input(after)
    return None if old is None or new is None else new - old


def _input(step: Step) -> int | None:
    return step.ask.usage.input_tokens if step.ask.usage is not None else None


def _output(step: Step) -> int | None:
    return step.ask.usage.output_tokens if step.ask.usage is not None else None


def _new(before: Step, after: Step) -> list[Message]:
    """The messages a later request adds to an earlier one; none where it does not extend it."""
    base: Context | None = before.ask.request.context
    node = after.ask.request.context
    found: list[Message] = []
    while node is not None and node is not base:
        found.append(node.message)
        node = node.parent
    return found if node is base else []


def _nothing_else(given: Observation, new: Sequence[Message]) -> bool:
    """Is the observation all that came in, beside one answer?"""
    heard = [message for message in new if message.role != "assistant"]
    alone = len(heard) == 1 and heard[0] is given.message and len(new) == 2
    return alone and len(results(given.message)) == 1 and not prose(given.message).strip()


def _shows_all(step: Step) -> bool:
    """Is every token of an answer in the message that is sent on, as far as one can tell?"""
    output, message = _output(step), step.ask.response.message
    if output is None or message is None or thinking(message):
        return False
    return output * _FEW <= _characters(message) + _SLACK


def _characters(message: Message) -> int:
    return len(digests.pack(message.body))
