"""The models of one experiment: chosen by name, under one budget, counted and stopped together."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from arc_tui.config import read_config
from replay.budget import Budget, Limits
from replay.edit.changes import Edit
from replay.errors import ArcError, ModelRefused
from replay.locked.row import Models
from replay.models.cached import Cached
from replay.models.choose import DEMO, choose
from replay.models.protocol import Target
from replay.models.servers import Models as ConfiguredModels
from replay.models.servers import lacks_key, require_key, resolve
from replay.store.handle import Store


def models_configured() -> ConfiguredModels:
    """The models of the settings, by the names they are asked by. Raises BadConfig."""
    return read_config().models


def configured_words() -> list[tuple[str, str]]:
    """The names of the settings' models, each with what is asked by it and where; none where the
    settings cannot be read, which asking says."""
    try:
        known = models_configured()
        found = [(name, resolve(name, known)) for name in known]
    except ArcError:
        return []
    return [(name, f"{target.model} at {target.address}") for name, target in found]


def targets_of(models: Iterable[str]) -> list[Target]:
    """Whom these names mean, the demo model left out.

    Raises ModelRefused where it is not known who serves one.
    """
    known = models_configured()
    by_whole_name = {resolve(name, known).model: name for name in known}
    return [resolve(by_whole_name.get(each, each), known) for each in models if each != DEMO]


def whole_names(models: Iterable[str]) -> list[str]:
    """The names with their providers, by which it is known how each is asked."""
    known = models_configured()
    return [each if each == DEMO else resolve(each, known, live=False).model for each in models]


def servers_of(models: Iterable[str]) -> str:
    """Where these models are asked, as a person reads it. Raises as `targets_of`."""
    return " and ".join(dict.fromkeys(target.address for target in targets_of(models)))


def require_keys(models: Iterable[str]) -> None:
    """Raises ModelRefused where calls to one of these would have no key."""
    for target in targets_of(models):
        require_key(target)


def lacking_key(models: Iterable[str]) -> str | None:
    """The sentence where it is plain that one of these has no key, or no known server."""
    try:
        found = targets_of(models)
    except ModelRefused as error:
        return str(error)
    return next((why for target in found if (why := lacks_key(target)) is not None), None)


class Spending(Struct, frozen=True, kw_only=True):
    """Calls made, responses that were cached, and what the calls cost in USD (`complete` where
    every price was known)."""

    calls: int = 0
    cached: int = 0
    usd: float = 0.0
    complete: bool = True

    def since(self, before: Spending) -> Spending:
        """What was spent after `before`."""
        return Spending(
            calls=self.calls - before.calls,
            cached=self.cached - before.cached,
            usd=self.usd - before.usd,
            complete=self.complete,
        )


NOTHING_SPENT = Spending()


class HasSpending(Protocol):
    """A view with what was spent."""

    @property
    def calls(self) -> int: ...

    @property
    def cached(self) -> int: ...

    @property
    def spent_usd(self) -> float: ...

    @property
    def spent_complete(self) -> bool: ...


def spending_of(view: HasSpending) -> Spending:
    """What was spent by the time of a view."""
    return Spending(
        calls=view.calls,
        cached=view.cached,
        usd=view.spent_usd,
        complete=view.spent_complete,
    )


class ModelPool:
    """Each model once, whatever name it was asked for by.

    Without `live` a missing answer of a server is an OfflineMiss. `budget` is what several pools
    spend from, one after another; else one of `limits` is made. Close it, or use it as a context,
    in the thread that asked; `stop` may be called from any.
    """

    def __init__(
        self,
        store: Store,
        *,
        live: bool = False,
        limits: Limits | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._store = store
        self._live = live
        self._budget = budget or Budget(limits or Limits())
        self._by_name: dict[str, Cached] = {}
        self._stopped = False

    @property
    def models(self) -> tuple[Cached, ...]:
        """Those that were chosen so far."""
        return tuple({id(each): each for each in list(self._by_name.values())}.values())

    def named(self, name: str | None) -> Cached:
        """The model of that name. Raises ModelRefused where there is no name, and where a live call
        would have no limit."""
        if name is None or name not in self._by_name:
            known = models_configured()
            made = choose(name, self._store, live=self._live, budget=self._budget, models=known)
            whom = (made.name, made.server)
            same = (each for each in self.models if (each.name, each.server) == whom)
            return self.add(name or made.name, next(same, made))
        return self._by_name[name]

    def arms(self, name: str | None, edit: Edit | None) -> Models:
        """The model of the control arm, and of the edited one, which an edit may name."""
        control = self.named(name)
        other = edit.model if edit is not None else None
        return Models(control, control if other is None else self.named(other))

    def add(self, name: str, model: Cached) -> Cached:
        """Ask this one by that name from now on."""
        self._by_name[name] = model
        if self._stopped:
            model.stop()
        return model

    @property
    def spending(self) -> Spending:
        """What was spent by now."""
        models = self.models
        return Spending(
            calls=sum(each.asks for each in models),
            cached=sum(each.hits for each in models),
            usd=sum(each.usd for each in models),
            complete=all(each.usd_complete for each in models),
        )

    def stop(self) -> None:
        """Cancel what is in flight and ask no more; whoever waits for it gets Stopped."""
        self._stopped = True
        for each in self.models:
            each.stop()

    def close(self) -> None:
        """Close the connections."""
        for each in self.models:
            each.close()

    def __enter__(self) -> ModelPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
