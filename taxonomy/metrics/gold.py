"""What should a run of a task have called, and what should it have said?

Read from the reference that a source, or the user by `arc gold import`, gives with a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from replay.action import Act
from replay.trace import Json
from taxonomy.metrics.change import dated

OWN = "gold"
"""The entry of a reference that holds a user's own gold, which outranks that of the source part by
part: `actions` with their `order` and what comes `after` what, the `answer`, the `plan`."""

Order: TypeAlias = Literal["any", "sequence", "graph"]
"""The order that a run has to keep."""

PARTS = ("actions", "answer", "plan")


class Gold(Struct, frozen=True, kw_only=True):
    """What a correct run of the task calls.

    `after` are the dependencies, (earlier, later) places, None where not given. `order`: the order
    that a run has to keep. `own`: a user wrote it, and its reads are asked for like its writes.
    """

    calls: tuple[Act, ...]
    after: tuple[tuple[int, int], ...] | None = None
    order: Order = "any"
    own: bool = False


class GoldAnswer(Struct, frozen=True, kw_only=True):
    """What a correct run says: at its end one of `answers`, somewhere each of `said`."""

    answers: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


def gold_of(reference: Mapping[str, Json]) -> Gold | None:
    """The gold calls of a reference, those of the user before those of the source; None where it
    has none or one of them is no call.

    Of tau2 those that the simulated user is to make are left out.
    """
    mine = _own(reference)
    own = "actions" in mine
    given = mine if own else reference
    actions = given.get("actions", _criteria(given).get("actions"))
    if not isinstance(actions, list):
        return None
    calls = [_gold_call(action) for action in actions if not _of_user(action)]
    known = tuple(call for call in calls if call is not None)
    if len(known) < len(calls):
        return None
    order: Order = next((each for each in get_args(Order) if each == given.get("order")), "any")
    return Gold(
        calls=known,
        after=_dependencies(given.get("after", given.get("dependencies"))),
        order=order,
        own=own,
    )


def answer_of(reference: Mapping[str, Json]) -> GoldAnswer | None:
    """What gold wants said, None where it wants nothing.

    A user's gold has an `answer`, Inspect a `target` of which one text will do, Who&When a
    `ground_truth`; tau-bench `outputs` and tau2 `communicate_info`, all of which are to be said.
    """
    mine = _own(reference)
    if "answer" in mine:
        reference = {"answer": mine["answer"]}
    given = next((reference[key] for key in _ANSWERS if key in reference), None)
    said = reference.get("outputs", _criteria(reference).get("communicate_info"))
    found = GoldAnswer(answers=_texts(given), said=_texts(said))
    return found if found.answers or found.said else None


def plan_of(reference: Mapping[str, Json]) -> tuple[str, ...] | None:
    """The steps of the plan that a user's gold has, None where it has none."""
    plan = _own(reference).get("plan")
    return None if plan is None else _texts(plan)


def own_parts(reference: Mapping[str, Json]) -> tuple[str, ...]:
    """Which parts of gold a user wrote."""
    mine = _own(reference)
    return tuple(part for part in PARTS if part in mine)


def seen_late(reference: Mapping[str, Json], start_ns: int | None) -> bool | None:
    """Was the user's gold first seen after the run began? None where that is not known."""
    seen, began = _own(reference).get("first_seen_ns"), dated(start_ns)
    return None if began is None or not isinstance(seen, int) else seen > began


def _own(reference: Mapping[str, Json]) -> Mapping[str, Json]:
    found = reference.get(OWN)
    return found if isinstance(found, dict) else {}


_ANSWERS = ("answer", "target", "ground_truth")


def _criteria(reference: Mapping[str, Json]) -> Mapping[str, Json]:
    """What tau2 evaluates a run by."""
    found = reference.get("evaluation_criteria")
    return found if isinstance(found, dict) else {}


def _of_user(action: Json) -> bool:
    return isinstance(action, dict) and action.get("requestor") == "user"


def _texts(given: Json) -> tuple[str, ...]:
    """The texts of a value, a number as it is written; nothing of what is neither."""
    values = given if isinstance(given, list) else [given]
    plain = [
        str(each)
        for each in values
        if isinstance(each, str | int | float) and not isinstance(each, bool)
    ]
    return tuple(each.strip() for each in plain if each.strip())


def _gold_call(action: Json) -> Act | None:
    if not isinstance(action, dict):
        return None
    name = action.get("name", action.get("tool"))
    given: Json = next(
        (action[key] for key in ("kwargs", "arguments", "args") if key in action), {}
    )
    return Act(tool=name, arguments=given) if isinstance(name, str) else None


def _dependencies(given: Json) -> tuple[tuple[int, int], ...] | None:
    """Pairs of places (earlier, later); None where none are given or one is no such pair."""
    try:
        return msgspec.convert(given, tuple[tuple[int, int], ...])
    except msgspec.ValidationError:
        return None
