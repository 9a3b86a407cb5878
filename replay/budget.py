"""May this call still be made? Limits, and what has been spent against them.

Reserve, then settle: before a call its worst cost is set aside, afterwards its real one takes the
place. A call that could exceed a limit is refused before it is made; one whose cost nobody will
ever know (it timed out) stays counted at its worst.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from replay.errors import ModelRefused
from replay.trace import Usage


class Limits(Struct, frozen=True, kw_only=True):
    """What may be spent; None is no limit of that kind."""

    usd: float | None = None
    calls: int | None = None
    tokens: int | None = None
    minutes: float | None = None

    @property
    def any(self) -> bool:
        return any(limit is not None for limit in (self.usd, self.calls, self.tokens, self.minutes))

    @property
    def beside_usd(self) -> bool:
        """Is there a limit that needs no price?"""
        return any(limit is not None for limit in (self.calls, self.tokens, self.minutes))


class Worst(Struct, frozen=True, kw_only=True):
    """The most a call can cost: tokens in and out, and USD where the price is known."""

    tokens: int
    usd: float | None = None


class Estimate(Struct, frozen=True, kw_only=True):
    """What a replay would ask and cost, before it asks anything.

    `stored` calls are already answered and cost nothing. Figures cover the other `calls`, from the
    recorded tokens; `by_size` of them had none recorded and are reckoned from the size of their
    text. `usd` None: no price is known for the model.
    """

    calls: int
    stored: int
    input_tokens: int
    output_tokens: int
    by_size: int = 0
    usd: float | None = None


class Budget:
    """Limits and the ledger against them. `clock` gives seconds from any fixed point."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.usd_complete = True
        self._clock = clock
        self._began: float | None = None
        self._settled: list[Worst] = []
        self._open: list[Worst] = []

    @property
    def calls(self) -> int:
        return len(self._settled) + len(self._open)

    @property
    def tokens(self) -> int:
        """Tokens spent and set aside."""
        return sum(each.tokens for each in self._settled + self._open)

    @property
    def usd(self) -> float:
        """USD spent and set aside, as far as prices are known (`usd_complete`)."""
        return sum(each.usd or 0.0 for each in self._settled + self._open)

    @property
    def seconds_left(self) -> float | None:
        """Until the limit in minutes, counted from when this was first asked; None for no limit."""
        if self._began is None:
            self._began = self._clock()
        if self.limits.minutes is None:
            return None
        return self.limits.minutes * 60 - (self._clock() - self._began)

    def reserve(self, worst: Worst) -> Worst:
        """Set the worst case of a call aside; give what is returned to `settle` or `release`.

        Raises ModelRefused where the call could exceed a limit, where there is no limit at all,
        and where the only limit is in USD and no price is known.
        """
        limits, left = self.limits, self.seconds_left
        if not limits.any:
            raise ModelRefused("live calls need a limit", "--budget USD, or --max-calls N")
        if worst.usd is None and not limits.beside_usd:
            raise ModelRefused(
                "no price is known for this model, so a limit in USD cannot be kept",
                "use --max-calls, --max-tokens or --max-minutes",
            )
        _refuse_beyond("calls", self.calls, 1, limits.calls)
        _refuse_beyond("tokens", self.tokens, worst.tokens, limits.tokens)
        _refuse_beyond("USD", self.usd, worst.usd or 0.0, limits.usd)
        if left is not None and left <= 0:
            raise ModelRefused(f"the {limits.minutes:g} minutes allowed are over", _AGAIN)
        self._open.append(worst)
        return worst

    def settle(self, reserved: Worst, usage: Usage | None, usd: float | None) -> None:
        """Put what a call cost in the place of what was set aside; unknown parts stay."""
        tokens = reserved.tokens
        if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
            tokens = usage.input_tokens + usage.output_tokens
        spent = reserved.usd if usd is None else usd
        self._open.remove(reserved)
        self._settled.append(Worst(tokens=tokens, usd=spent))
        self.usd_complete = self.usd_complete and spent is not None

    def release(self, reserved: Worst) -> None:
        """The call was refused before it could cost anything."""
        self._open.remove(reserved)


_AGAIN = "what is paid for is kept; run it again with a higher limit"


def _refuse_beyond(what: str, spent: float, more: float, limit: float | None) -> None:
    if limit is not None and spent + more > limit:
        raise ModelRefused(
            f"the limit of {limit:g} {what} could be exceeded:"
            f" {spent:.6g} are spent and the next call can take {more:.6g}",
            _AGAIN,
        )
