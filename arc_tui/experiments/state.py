"""Where an experiment stands, as every screen of one tells it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from replay.errors import ArcError

Phase: TypeAlias = Literal["estimating", "idle", "running", "stopping", "stopped", "failed", "done"]
"""`estimating`: what a run would ask is being read; `idle`: it waits for a person; `stopping`: the
calls in flight are being cancelled; `stopped`, `failed` and `done` tell how a run ended."""


class ExperimentState(Struct, frozen=True, eq=False, kw_only=True):
    """What a screen draws. `trouble` is why it goes no further, None where nothing is wrong."""

    phase: Phase = "estimating"
    trouble: ArcError | None = None

    @property
    def running(self) -> bool:
        return self.phase in ("running", "stopping")

    @property
    def title(self) -> str:
        """What is asked, "" where another line says it."""
        return ""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said first, then what it means."""
        raise NotImplementedError

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it."""
        return ()


def as_sentence(words: str) -> str:
    """A message of an error as a sentence."""
    return f"{words[:1].upper()}{words[1:]}".rstrip(".") + "."
