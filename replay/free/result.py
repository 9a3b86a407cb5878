"""What a free run came to so far: its steps, why it stopped, and the value its digest is over.

It tells what the edited agent did and what it was answered with. Whether such a run would have
ended well it never says: nobody checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from replay import digests, effects
from replay.action import Act, Action
from replay.compare import actions
from replay.compare.actions import Difference
from replay.compare.rules import PathRule
from replay.convert import API
from replay.effects import By
from replay.free import recorded_results
from replay.free.recorded_results import Found, Near, Rank
from replay.trace import Effect, Fidelity

FORMAT = "arc-free/1"

Status: TypeAlias = Literal[
    "finished", "user", "miss", "stale", "masked", "cut", "refused", "cap", "going"
]
"""Why a run is over. `finished` it ended its turn and no words of the user follow; `user` it spoke
and those that follow answer other words; `miss` nothing answers a call; `stale` only an observation
of another moment would; `masked` a call hangs on a masked value and is not on the tape; `cut` the
answer is not whole; `refused` there was nothing to ask, or the model declined; `cap` it was asked
as often as it may be; `going` it is not over."""


class Unanswered(Struct, frozen=True, eq=False):
    """A call that stopped a run, why nothing answers it, and the recorded calls nearest to it."""

    call: Act
    why: str
    near: tuple[Near, ...]


class Stop(Struct, frozen=True, eq=False, kw_only=True):
    """Why a run is over, in one word and in one sentence.

    `calls` are those that nothing answers; `stubs_help` where stubs of them would. `passing` where
    it lies in what may be asked now (a limit, no key), so that it says nothing of the run.
    """

    status: Status
    sentence: str
    calls: tuple[Unanswered, ...] = ()
    stubs_help: bool = False
    passing: bool = False


class FreeStep(Struct, frozen=True, eq=False, kw_only=True):
    """One answer of a free run and what its calls got.

    `step` is the recorded step it stands in for while the run is on the road, and `against` how
    it differs from what was done there; None after that. `key` and `action` are None where there
    was no answer. `found` has an entry a call, also where the turn was not taken. `fidelity` and
    `losses` are those of the recorded request that was asked, or grown from.
    """

    index: int
    step: int | None
    fidelity: Fidelity
    losses: tuple[str, ...] = ()
    key: str | None = None
    action: Action | None = None
    against: Difference | None = None
    flaws: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()


class Write(Struct, frozen=True):
    """A call that changes the world, or may: at which answer, and whether the recording made it
    at the same moment."""

    index: int
    call: Act
    effect: Effect
    by: By
    recorded: bool


class FreeRun(Struct, frozen=True, eq=False, kw_only=True):
    """A run so far. `stop` is None while it goes on.

    `start` is the recorded step it began at, `yours` what the user said of tools by name.
    `notices` are sentences to stand beside the reason.
    """

    trace: str
    thread: str
    edit: str | None
    model: str
    server: str
    start: int
    sample: int
    allow_stale: bool
    limit: int
    paths: tuple[PathRule, ...] = ()
    yours: Mapping[str, Effect] = {}
    steps: tuple[FreeStep, ...] = ()
    stop: Stop | None = None
    notices: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        return self.stop.status if self.stop is not None else "going"

    @property
    def path(self) -> tuple[str, ...]:
        """What it did, one phrase an answer."""
        return tuple(each.action.phrase for each in self.steps if each.action is not None)

    @property
    def divergence(self) -> int | None:
        """The recorded step at which it first acted otherwise, None where it did not."""
        return next(
            (e.step for e in self.steps if e.against is not None and e.against.diverges), None
        )

    @property
    def left(self) -> int | None:
        """The recorded step at which it left the recording: it diverged, or that is unknown."""
        found = (e.step for e in self.steps if e.against is not None and not e.against.same)
        return next(found, None)

    @property
    def text(self) -> str | None:
        """Its last words, where it ended its turn with them."""
        last = self.steps[-1].action if self.steps else None
        return last.text if last is not None and self.status in {"finished", "user"} else None

    @property
    def weakest(self) -> Fidelity | None:
        """The lowest fidelity of a request that was asked."""
        asked = [each.fidelity for each in self.steps if each.key is not None]
        return max(asked, key=lambda each: each.level.rank, default=None)

    @property
    def ranks(self) -> dict[Rank, int]:
        """How many observations of each rank it was answered with."""
        found: dict[Rank, int] = {}
        for each in self.steps:
            for use in each.found:
                if use.text is not None:
                    found[use.rank] = found.get(use.rank, 0) + 1
        return found

    @property
    def guesses(self) -> dict[str, int]:
        """The tools that what it was answered rests on a guess of that they read, each with the
        number of answers that do."""
        return dict(
            Counter(
                tool
                for each in self.steps
                for use in each.found
                if use.text is not None
                for tool in use.guesses
            )
        )

    @property
    def guessed(self) -> int:
        """How many of its answers rest on a guess."""
        return sum(1 for e in self.steps for use in e.found if use.text is not None and use.guesses)

    @property
    def writes(self) -> tuple[Write, ...]:
        """The calls it made that change the world, or may; no tool was run for any of them."""
        return tuple(
            Write(
                index=each.index,
                call=use.call,
                effect=use.effect.effect,
                by=use.effect.by,
                recorded=use.rank in {"exact", "edited", "guessed"},
            )
            for each in self.steps
            for use in each.found
            if not use.effect.reads
        )

    def core(self) -> FreeCore:
        """The value its digest is taken over."""
        return FreeCore(
            trace=self.trace,
            thread=self.thread,
            edit=self.edit,
            model=self.model,
            server=self.server,
            start=self.start,
            sample=self.sample,
            allow_stale=self.allow_stale,
            limit=self.limit,
            paths=self.paths,
            yours=dict(sorted(self.yours.items())),
            steps=tuple(map(_core_step, self.steps)),
            status=self.status,
        )

    @property
    def digest(self) -> str:
        return self.core().digest


class CoreUse(Struct, frozen=True, kw_only=True):
    """What a call got. `text` is the digest of the observation, `stub` that of its stub; `guesses`
    are the tools that it rests on a guess of that they read."""

    tool: str
    rank: Rank
    effect: Effect
    by: By
    step: int | None = None
    place: int | None = None
    text: str | None = None
    is_error: bool | None = None
    stub: str | None = None
    guesses: tuple[str, ...] = ()


class CoreStep(Struct, frozen=True, kw_only=True):
    """One answer: the key it is stored under, what it does, and what its calls got."""

    step: int | None
    key: str | None
    action: Action | None
    same: bool | None
    fidelity: Fidelity
    losses: tuple[str, ...]
    uses: tuple[CoreUse, ...]


class FreeCore(Struct, frozen=True, kw_only=True):
    """A whole free run: no clock, no id, no cost. Equal runs give equal bytes on any machine.

    `yours` is what the user said of tools by name: it decides which moments of the recording are
    the same, for tools that the run never called too.
    """

    trace: str
    thread: str
    edit: str | None
    model: str
    server: str
    start: int
    sample: int
    allow_stale: bool
    limit: int
    paths: tuple[PathRule, ...]
    steps: tuple[CoreStep, ...]
    status: Status
    yours: dict[str, Effect] = {}
    format: str = FORMAT
    api: str = API
    rules: int = actions.VERSION
    tape: int = recorded_results.VERSION
    effects: int = effects.VERSION

    @property
    def digest(self) -> str:
        return digests.digest("free", self.encoded())

    def encoded(self) -> bytes:
        """The canonical bytes."""
        return digests.encode(self)


def _core_step(step: FreeStep) -> CoreStep:
    return CoreStep(
        step=step.step,
        key=step.key,
        action=step.action,
        same=step.against.same if step.against is not None else None,
        fidelity=step.fidelity,
        losses=step.losses,
        uses=tuple(map(_core_use, step.found)),
    )


def _core_use(use: Found) -> CoreUse:
    return CoreUse(
        tool=use.call.tool,
        rank=use.rank,
        effect=use.effect.effect,
        by=use.effect.by,
        step=use.step,
        place=use.place,
        text=None if use.text is None else digests.digest("observation", use.text),
        is_error=use.is_error,
        stub=use.stub,
        guesses=use.guesses,
    )
