"""In which calls do a run and the gold of its task differ?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arc_tui.ui import format
from arc_tui.views.evidence import GoldDifference
from replay.action import Act, Action
from replay.store.handle import Store
from taxonomy.metrics.calls import counted, pairs
from taxonomy.metrics.gold import gold_of
from taxonomy.query.fields import CallMade, calls_made, references
from taxonomy.stats.runs import writing_tools


def gold_differences(store: Store, trace: str) -> tuple[GoldDifference, ...]:
    """Where the calls that change something differ from gold; () where the task has no gold.

    Calls that ended in an error changed nothing and are left out, and so are reads: a run may read
    what it likes.
    """
    reference = references(store, [trace]).get(trace)
    gold = None if reference is None else gold_of(reference)
    if gold is None:
        return ()
    every = calls_made(store, [trace]).get(trace, [])
    writes = writing_tools([every], [gold])
    made = [each for each in every if each.act.tool in writes and not each.failed]
    wanted = [act for act in gold.calls if act.tool in writes]
    paired = pairs([counted(each.act) for each in made], [counted(act) for act in wanted])
    mine, theirs = ({place for place, _ in paired}, {place for _, place in paired})
    extra = [each for place, each in enumerate(made) if place not in mine]
    missing = [act for place, act in enumerate(wanted) if place not in theirs]
    return tuple(_differences(extra, missing))


def _differences(extra: Sequence[CallMade], missing: list[Act]) -> Iterator[GoldDifference]:
    for each in extra:
        act = each.act
        like = next((gold for gold in missing if gold.tool == act.tool), None)
        if like is not None:
            missing.remove(like)
        yield GoldDifference(
            tool=act.tool,
            step=each.step,
            made=_phrase(act),
            gold=None if like is None else _phrase(like),
            arguments=() if like is None else _differing(act, like),
        )
    for act in missing:
        yield GoldDifference(tool=act.tool, gold=_phrase(act))


def _phrase(act: Act) -> str:
    return format.one_line(Action(calls=(act,)).phrase)


def _differing(made: Act, gold: Act) -> tuple[str, ...]:
    mine, theirs = (
        act.arguments if isinstance(act.arguments, dict) else {} for act in (made, gold)
    )
    names = [*mine, *(name for name in theirs if name not in mine)]
    found = (name for name in names if mine.get(name) != theirs.get(name))
    return tuple(map(format.one_line, found)) or ("arguments",)
