"""The kept edits, and what came of each where it was tried on runs."""

from __future__ import annotations

from msgspec import Struct

from arc_tui.jobs.tryout.kept import KeptTry, kept_tries
from replay.cluster import Clustered
from replay.edit import Change
from replay.store import Store, edits


class TriedOn(Struct, frozen=True, kw_only=True):
    """What trying an edit on some runs came to. `query` is how they were named; `fixed` and `broke`
    are shares of breaks and of healthy steps, as `arc try` has them."""

    query: str
    models: tuple[str, ...]
    samples: int
    fixed: Clustered
    broke: Clustered
    ran_ns: int
    digest: str | None


class EditRow(Struct, frozen=True, kw_only=True):
    """A kept edit. `replays` counts the kept replays that used it; `tries` are the latest first."""

    name: str
    digest: str
    changes: tuple[Change, ...]
    thread: str | None
    added_ns: int
    replays: int
    tries: tuple[TriedOn, ...]

    @property
    def short(self) -> str:
        return edits.short(self.digest)


def build_edits(store: Store) -> list[EditRow]:
    """Every kept edit, the latest first."""
    tries: dict[str, list[TriedOn]] = {}
    for kept in kept_tries(store):
        tries.setdefault(kept.edit, []).append(_tried_on(kept))
    return [
        EditRow(
            name=each.name,
            digest=each.digest,
            changes=each.changes,
            thread=each.thread,
            added_ns=each.added_ns,
            replays=each.replays,
            tries=tuple(tries.get(each.digest, ())),
        )
        for each in edits.listed(store)
    ]


def _tried_on(kept: KeptTry) -> TriedOn:
    return TriedOn(
        query=kept.view.query,
        models=kept.models,
        samples=kept.view.samples,
        fixed=kept.view.fixed,
        broke=kept.view.broke,
        ran_ns=kept.ran_ns,
        digest=kept.view.digest,
    )
