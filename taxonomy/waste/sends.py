"""Which requests carried an observation?

The contexts of a thread are chains that share their fronts. One walk over them tells for every
message from which request to which it was in the conversation, through rewrites too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay.trace import Context, Step, ToolCall


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
