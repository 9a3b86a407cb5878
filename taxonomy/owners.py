"""Whose is a failure? The team that would mend it, by what people wrote down.

Two places say so: the settings (`[owners]`: a class, a sub-label or an attribution → a name; the
playbook, `taxonomy/playbook.py`, adds to them) and the goals of a task (`taxonomy/goals.py`: a goal
→ a name). The first that applies is taken:

1. the attribution, where it is not the agent: what the environment broke is no team's prompt;
2. the goal with an owner that covers the step, in the newest version of each file of goals that
   was kept; of several the weightiest, then the first. It outranks the class: who answers for what
   the step was for knows the case, who answers for a class knows the kind;
3. the sub-label (`other / cap hit`), then the class;
4. `attribution:agent`: whatever else the agent did wrong.

None where nobody is named: an owner is never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import Struct

from replay.errors import ArcError
from replay.store.handle import Store
from replay.trace import Header, Trace
from taxonomy.classes import Attribution, FailureClass, class_label

if TYPE_CHECKING:
    from taxonomy.evidence.reading import Turn
    from taxonomy.goals import Goals
    from taxonomy.judgements.tags import TagRow

ATTRIBUTION = "attribution:"


class BadOwner(ArcError):
    """An owner given to something that is no class and no attribution."""


class Owners(Struct, frozen=True, kw_only=True):
    """Names by what they answer for: an attribution, or a class as written with its sub-label."""

    by_attribution: dict[Attribution, str] = {}
    by_label: dict[str, str] = {}

    def of(
        self,
        failure: FailureClass,
        sub: str | None = None,
        attribution: Attribution | None = None,
        goal: str | None = None,
    ) -> str | None:
        """Who a failure belongs to; `goal` is the owner of the goal its step was for."""
        if attribution is not None and attribution is not Attribution.AGENT:
            return self.by_attribution.get(attribution)
        return (
            goal
            or self.by_label.get(class_label(failure, sub))
            or self.by_label.get(failure.value)
            or self.by_attribution.get(Attribution.AGENT)
        )


NOBODY = Owners()


def owners_from(named: Mapping[str, str]) -> Owners:
    """Owners by the keys of the settings: `bad args` or `bad_args`, `other / cap hit`,
    `attribution:environment`. Raises BadOwner naming the key and what is known."""
    by_attribution: dict[Attribution, str] = {}
    by_label: dict[str, str] = {}
    for key, owner in named.items():
        if not owner.strip():
            raise BadOwner(f"{key!r} names no owner")
        meant = owner_key(key)
        if isinstance(meant, Attribution):
            by_attribution[meant] = owner.strip()
        else:
            by_label[meant] = owner.strip()
    return Owners(by_attribution=by_attribution, by_label=by_label)


def owner_key(key: str) -> Attribution | str:
    """What a key means: an attribution, else a class as it is written with its sub-label. Raises
    BadOwner."""
    kind, _, rest = key.partition(":")
    if rest and kind.strip().lower() == ATTRIBUTION[:-1]:
        return _attribution(key, rest)
    return _label(key)


def _attribution(key: str, word: str) -> Attribution:
    wanted = word.strip().lower()
    if wanted not in set(Attribution):
        raise BadOwner(f"{key!r}: unknown attribution", f"known: {', '.join(Attribution)}")
    return Attribution(wanted)


def _label(key: str) -> str:
    """A class as it is written, with its sub-label."""
    word, slash, sub = key.partition("/")
    wanted = " ".join(word.lower().replace("_", " ").replace("-", " ").split())
    if wanted not in set(FailureClass):
        near = get_close_matches(wanted, list(FailureClass), n=1)
        meant = f", did you mean {str(near[0])!r}?" if near else ""
        known = ", ".join(
            [*FailureClass, "other / …", *(ATTRIBUTION + each for each in Attribution)]
        )
        raise BadOwner(f"{key!r}: unknown failure class{meant}", f"known: {known}")
    return class_label(FailureClass(wanted), sub.strip() or None if slash else None)


def owners_of(
    store: Store, rows: Sequence[TagRow], owners: Owners = NOBODY
) -> tuple[str | None, ...]:
    """The owner of each row, None where nobody is named.

    A step is read only where a goal with an owner may cover it.
    """
    from taxonomy.goals import newest  # settings are read without

    goals = [seen.goals for seen in newest(store)]
    return tuple(
        owners.of(row.failure, row.sub, row.attribution, _goal_owner(store, goals, row))
        for row in rows
    )


def depends_on_steps(store: Store) -> bool:
    """Is there a goal with an owner: does it take the step of a failure to know whose it is?"""
    from taxonomy.goals import newest

    return any(
        goal.owner for seen in newest(store) for task in seen.goals.task for goal in task.goal
    )


def _goal_owner(store: Store, goals: Sequence[Goals], row: TagRow) -> str | None:
    head = Header(format="", source_id="", task=row.task)
    named = [goal for each in goals for goal in each.of(head) if goal.owner]
    if not named:
        return None
    turn = _turn(store, head, row)
    covering = [goal for goal in named if turn is not None and goal.covers(turn)]
    return max(covering, key=lambda goal: goal.weight).owner if covering else None


def _turn(store: Store, head: Header, row: TagRow) -> Turn | None:
    """The step of a row as goals read it, None where the recording has none of that number."""
    from replay.store import read  # a list of runs starts without either
    from taxonomy.evidence.reading import Reading

    step = read.part(store, row.recording, {row.step}).get(row.step)
    if step is None:
        return None
    trace = Trace(id=row.recording, run=row.run, header=head, spans=(), steps=(step,))
    (turn,) = Reading(trace).turns
    return turn
