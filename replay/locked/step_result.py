"""A step asked again, as a value: what each arm answered, and what may be compared with what."""

from __future__ import annotations

from msgspec import Struct

from replay.action import Action
from replay.compare import Difference
from replay.trace import Fidelity


class Reply(Struct, frozen=True, eq=False, kw_only=True):
    """One answer of an arm. `against` compares it with the recording.

    `beside` compares it with the first whole answer of control, where another model is asked than
    was recorded; None elsewhere, and for that answer itself. `shows` tells at the break whether
    the answer still shows the failure, as the oracle sees it. `flaws` say what is wrong with it
    whatever was meant: a tool that is not offered, a required argument left out.
    """

    key: str
    action: Action
    against: Difference
    beside: Difference | None = None
    shows: bool | None = None
    flaws: tuple[str, ...] = ()


class StepResult(Struct, frozen=True, eq=False, kw_only=True):
    """A step asked again: the replies of each arm, in the order of their samples.

    `edited` is empty where there is no edit. `touched` tells whether the edit changes this
    request; where it does not, both arms hold the same replies. `between` compares the first
    replies of the arms. `refused` says why there is no answer at all: nothing to ask, or the model
    declined; `edited_refused` why only the edited arm has none; `lacks` why an arm lacks samples
    though it has some; `declined` that an arm could not be asked though the other could, or that
    the model declined it; `ended` that nothing more was asked, and why: another run goes on there.
    `oracle` names who judged whether the replies show the failure, None where nobody did.
    """

    step: int
    thread: str
    model: str
    recorded_model: str | None
    recorded: Action
    fidelity: Fidelity
    oracle: str | None = None
    losses: tuple[str, ...] = ()
    touched: bool = False
    control: tuple[Reply, ...] = ()
    edited: tuple[Reply, ...] = ()
    between: Difference | None = None
    refused: str | None = None
    edited_refused: str | None = None
    lacks: str | None = None
    declined: str | None = None
    ended: str | None = None

    @property
    def rebased(self) -> bool:
        """Was another model asked than the recorded one? An edit is then held against control:
        the recording says little of this model."""
        return self.recorded_model is not None and not same_model(self.model, self.recorded_model)


def same_model(name: str, other: str) -> bool:
    """Do two names mean one model, whichever provider it is asked of?"""
    return name.rpartition("/")[2] == other.rpartition("/")[2]
