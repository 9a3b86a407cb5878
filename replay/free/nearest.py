"""Which recorded calls are nearest to one that nothing answers, and how do they differ from it?

What a person needs in order to write the stub: what this tool said when it was asked nearly the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from rapidfuzz.distance import JaroWinkler

from replay.action import Act, Action
from replay.compare import PLAIN, Difference, Rules, compare
from replay.free.recorded import Recorded
from replay.free.stub import Stub
from replay.trace import Tool


class Near(Struct, frozen=True, eq=False):
    """A recorded call with an observation, and how the call in question differs from it."""

    recorded: Recorded
    difference: Difference

    @property
    def phrase(self) -> str:
        """What differs, in one line; for the same call, when it was made."""
        return self.difference.brief if not self.difference.same else "the same, at another moment"


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
