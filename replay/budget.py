"""May this call still be made? Limits, and what has been spent against them.

Reserve, then settle: before a call its worst cost is set aside, afterwards its real one takes the
place. A call that could exceed a limit is refused before it is made; one whose cost nobody will
ever know (it timed out) stays counted at its worst.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

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


What: TypeAlias = Literal["calls", "tokens", "USD", "minutes"]


class Used(Struct, frozen=True, kw_only=True):
    """A limit, and how much of it is used."""

    what: What
    used: float
    limit: float


class Budget:
    """Limits and the ledger against them. `clock` gives seconds from any fixed point.

    Several models may share one, from one thread.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.usd_complete = True
        self._clock = clock
        self._began: float | None = None
        self._settled = _Sum()
        self._open = _Sum()

    @property
    def calls(self) -> int:
        """Calls made and set aside."""
        return self._settled.calls + self._open.calls

    @property
    def tokens(self) -> int:
        """Tokens spent and set aside."""
        return self._settled.tokens + self._open.tokens

    @property
    def usd(self) -> float:
        """USD spent and set aside, as far as prices are known (`usd_complete`)."""
        return self._settled.usd + self._open.usd

    @property
    def seconds_left(self) -> float | None:
        """Until the limit in minutes, counted from when this was first asked; None for no limit."""
        if self._began is None:
            self._began = self._clock()
        if self.limits.minutes is None:
            return None
        return self.limits.minutes * 60 - (self._clock() - self._began)

    def refuse_late(self) -> None:
        """Raises ModelRefused where the minutes allowed are over."""
        left = self.seconds_left
        if left is not None and left <= 0:
            raise ModelRefused(f"time limit of {self.limits.minutes:g} minutes reached", AGAIN)

    def fits(self, worst: Worst) -> bool:
        """May `worst` be reserved now? False where that depends on what open calls will cost.

        Raises ModelRefused where it would not fit though every open call were free: beyond what
        is settled, where there is no limit at all, and where the only limit is in USD and no price
        is known.
        """
        limits = self.limits
        if not limits.any:
            raise ModelRefused("--live needs a limit", "Try: --budget 0.50, or --max-calls 20")
        if worst.usd is None and not limits.beside_usd:
            raise ModelRefused(
                "model price unknown: a limit in USD cannot be enforced",
                "Try: --max-calls 20, --max-tokens N or --max-minutes N",
            )
        self.refuse_late()
        beyond = self._beyond(self._settled, worst)
        if beyond is not None:
            raise beyond
        return self._beyond(self._settled + self._open, worst) is None

    def reserve(self, worst: Worst) -> Worst:
        """Set the worst case of a call aside; give what is returned to `settle` or `release`.

        Raises ModelRefused where `fits` does, and where it is False.
        """
        if not self.fits(worst):
            beyond = self._beyond(self._settled + self._open, worst)
            assert beyond is not None
            raise beyond
        return self.hold(worst)

    def hold(self, worst: Worst) -> Worst:
        """Set the worst case of a call aside that is made in any case."""
        self._open += _Sum.of(worst)
        return worst

    def used_up(self, *, with_open: bool) -> Used | None:
        """The first limit that is used up, by what is settled, or also by what is set aside; None
        where there is none. A call counts as soon as it is made."""
        limits, spent = self.limits, self._settled + self._open if with_open else self._settled
        left_s = self.seconds_left
        minutes = None if left_s is None else (limits.minutes or 0.0) - left_s / 60
        each: tuple[tuple[What, float | None, float | None], ...] = (
            ("calls", self.calls, limits.calls),
            ("minutes", minutes, limits.minutes),
            ("tokens", spent.tokens, limits.tokens),
            ("USD", spent.usd, limits.usd),
        )
        for what, used, limit in each:
            if limit is not None and used is not None and used >= limit:
                return Used(what=what, used=used, limit=limit)
        return None

    def settle(self, reserved: Worst, usage: Usage | None, usd: float | None) -> None:
        """Put what a call cost in the place of what was set aside; unknown parts stay."""
        tokens = reserved.tokens
        if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
            tokens = usage.input_tokens + usage.output_tokens
        spent = reserved.usd if usd is None else usd
        self.release(reserved)
        self._settled += _Sum.of(Worst(tokens=tokens, usd=spent))
        self.usd_complete = self.usd_complete and spent is not None

    def release(self, reserved: Worst) -> None:
        """The call was refused before it could cost anything."""
        assert self._open.calls, "what was never reserved is settled"
        self._open -= _Sum.of(reserved)

    def _beyond(self, spent: _Sum, worst: Worst) -> ModelRefused | None:
        """Which limit `worst` on top of what is spent could exceed, None where none."""
        limits, more = self.limits, _Sum.of(worst)
        pico_usd = None if limits.usd is None else limits.usd * _PICO
        for what, used, needed, limit, unit in (
            ("calls", spent.calls, more.calls, limits.calls, 1),
            ("tokens", spent.tokens, more.tokens, limits.tokens, 1),
            ("USD", spent.pico_usd, more.pico_usd, pico_usd, _PICO),
        ):
            if limit is not None and used + needed > limit:
                return ModelRefused(
                    f"limit of {limit / unit:g} {what} could be exceeded:"
                    f" {used / unit:.6g} spent, next call ≤ {needed / unit:.6g}",
                    AGAIN,
                )
        return None


AGAIN = "Completed calls are saved. Try: the same command with a higher limit"


class _Sum(Struct, frozen=True):
    """What some calls come to. USD are counted in whole picodollars: no sum of them drifts."""

    calls: int = 0
    tokens: int = 0
    pico_usd: int = 0

    @classmethod
    def of(cls, call: Worst) -> _Sum:
        return cls(1, call.tokens, round((call.usd or 0.0) * _PICO))

    @property
    def usd(self) -> float:
        return self.pico_usd / _PICO

    def __add__(self, other: _Sum) -> _Sum:
        return _Sum(
            self.calls + other.calls, self.tokens + other.tokens, self.pico_usd + other.pico_usd
        )

    def __sub__(self, other: _Sum) -> _Sum:
        return self + _Sum(-other.calls, -other.tokens, -other.pico_usd)


_PICO = 10**12
