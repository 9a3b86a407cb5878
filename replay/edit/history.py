"""What do changes make of a conversation? Every node of the recorded chain is edited once.

A node becomes the messages that stand in its place, on what became of the nodes before it; steps
that share a history share what it became. Which message a change means is decided where the
conversation first has it, so the steps of a trace are edited in their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.edit.aims import Aim, aims, goes_on_from, names_step, same
from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    InsertMessage,
    RenameTool,
    ReplaceText,
    SetMessage,
    SetObservation,
    SummariseBefore,
)
from replay.edit.place import Made, Place, make, parted, wedged
from replay.edit.speech import spoken
from replay.trace import Context, Message, Trace, extend


class History:
    """Edits the contexts of one trace. `met` are the changes that found what they mean.

    `trace` is needed where a change names a step. Raises BadEdit where the step is not there.
    """

    def __init__(self, edit: Edit, trace: Trace | None) -> None:
        self.met: set[int] = set()
        self._changes = [(at, each) for at, each in enumerate(edit.changes) if touches(each)]
        self._aims = aims(edit, trace)
        self._meant: dict[int, Message] = {}
        # The memo holds the node it knows, so that its id is never another node's.
        self._places: dict[tuple[int, frozenset[int]], Place] = {}

    def edited(self, context: Context | None, where: str, step: int | None) -> Context | None:
        """The context with the changes made; the same object where they change nothing.

        `step` is whose context it is, None where that is not known. Raises BadEdit naming `where`.
        """
        if context is None or not self._changes:
            return context
        return self._place(context, self._withheld(context, step), where).ending

    def places(self, context: Context | None, where: str, step: int | None) -> Iterator[Place]:
        """What became of each node, the last one first. Raises as `edited`."""
        if context is None or not self._changes:
            return
        withheld = self._withheld(context, step)
        place: Place | None = self._place(context, withheld, where)
        while place is not None:
            yield place
            place = self._known(place.node.parent, withheld)

    def _withheld(self, context: Context, step: int | None) -> frozenset[int]:
        """Changes that must not touch this step though its context has what they mean.

        Two steps may have one context, the same request sent twice: only the later one is meant.
        """
        if step is None:
            return frozenset()
        return frozenset(
            at
            for at, aim in self._aims.items()
            if step < aim.first
            and context.depth >= aim.depth
            and goes_on_from(context, aim.context)
        )

    def _known(self, node: Context | None, withheld: frozenset[int]) -> Place | None:
        return self._places.get((id(node), withheld)) if node is not None else None

    def _place(self, context: Context, withheld: frozenset[int], where: str) -> Place:
        fresh: list[Context] = []
        node: Context | None = context
        while node is not None and (id(node), withheld) not in self._places:
            fresh.append(node)
            node = node.parent
        place = self._known(node, withheld)
        for each in reversed(fresh):
            place = self._next(place, each, withheld, where)
            self._places[id(each), withheld] = place
        assert place is not None
        return place

    def _next(
        self, before: Place | None, node: Context, withheld: frozenset[int], where: str
    ) -> Place:
        """What becomes of a node after those before it."""
        equals = dict(before.equals) if before is not None else self._begun()
        made = Made(own=node.message)
        found: set[int] = set(before.pending) if before is not None else set()
        for at, change in self._changes:
            if at not in withheld and self._stands_here(at, change, node, equals):
                found.add(at)
                make(made, at, change, self._aims.get(at), where)
        if made.own == node.message:
            made.own = node.message
        base = before.whole if before is not None else None
        if made.summary is not None:
            base = self._summarised(made.summary, before, withheld)
        kept, pending = parted(made.behind)
        self.met.update(found - {at for at, _ in pending})
        alone = base is node.parent and made.own is node.message and not made.ahead
        core = node if alone else extend(base, (*made.ahead, made.own))
        ending = extend(core, (message for _, message in kept))
        return Place(
            node=node,
            own=made.own,
            ahead=tuple(made.ahead),
            behind=tuple(message for _, message in kept),
            held=tuple(message for _, message in pending),
            ending=ending,
            whole=extend(ending, (message for _, message in pending)),
            pending=tuple(at for at, _ in pending),
            summary=made.summary,
            equals=equals,
            wedged=wedged(before, node, made.behind, where),
        )

    def _stands_here(self, at: int, change: Change, node: Context, equals: dict[int, int]) -> bool:
        """Is this node where the change is to be made?"""
        match change:
            case SetMessage(index=index) | InsertMessage(index=index):
                return self._means(at, max(index, 0), node)
            case ReplaceText():
                return change.message is not None and self._means(at, change.message, node)
            case SetObservation():
                return self._comes_by(at, node, equals)
            case InjectConstraint() | SummariseBefore():
                return self._reaches(at, node)
            case _:
                return True

    def _means(self, at: int, index: int, node: Context) -> bool:
        """Is this the message of that index, as the conversation first had it?"""
        return node.depth == index + 1 and self._meant.setdefault(at, node.message) == node.message

    def _begun(self) -> dict[int, int]:
        """Results of a step whose context is empty may come by from the start."""
        return {
            at: 0
            for at, aim in self._aims.items()
            if aim.result is not None and aim.context is None
        }

    def _comes_by(self, at: int, node: Context, equals: dict[int, int]) -> bool:
        """Does this node carry the result that is meant? Counts those that are equal to it."""
        aim = self._aims[at]
        if at not in equals:
            if self._reaches(at, node):
                equals[at] = 0
            return False
        if aim.result is None or node.message != aim.result.message:
            return False
        equals[at] += 1
        return equals[at] == aim.equals + 1

    def _reaches(self, at: int, node: Context) -> bool:
        """Is this the last node of the context of the change's step?"""
        context = self._aims[at].context
        return context is not None and node.depth == context.depth and same(node, context)

    def _summarised(
        self, aim: Aim, before: Place | None, withheld: frozenset[int]
    ) -> Context | None:
        """The chain in which a summary stands for what came before the cut."""
        change = aim.change
        assert isinstance(change, SummariseBefore)
        earlier: list[Place] = []
        place = before
        while place is not None:
            earlier.append(place)
            place = self._known(place.node.parent, withheld)
        earlier.reverse()
        lead = (message for each in earlier[: aim.lead] for message in each.said)
        tail = (message for each in earlier[aim.cut :] for message in each.said)
        return extend(None, (*lead, spoken("user", change.text), *tail))


def touches(change: Change) -> bool:
    """Can the change do something to a conversation?"""
    match change:
        case RenameTool() | SetMessage() | InsertMessage() | SetObservation() | SummariseBefore():
            return True
        case ReplaceText():
            return change.message is not None
        case _:
            return names_step(change)
