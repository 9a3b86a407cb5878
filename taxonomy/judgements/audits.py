"""What did audits say of runs, when, and which runs did none see as they are?

An audit of a run holds for its content and for the version of the probes that made it, as a
diagnosis does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec import Struct

from replay.store.handle import Store
from taxonomy.findings import Audited

DAY_NS = 24 * 3600 * 10**9

STALE_DAYS = 90
"""An audit that is older says little of the agent of today."""


class AuditAge(Struct, frozen=True, kw_only=True):
    """How old what is known of some runs is at a moment.

    `last_ns` is when the newest audit of any of them was made, None: no audit yet; `days` is its
    age in whole days. `new` of the `runs` were not audited as they are, by the probes of today.
    """

    runs: int
    new: int
    last_ns: int | None = None
    days: int | None = None

    @property
    def is_stale(self) -> bool:
        """Is the newest audit too old to rely on? Not where there is none."""
        return self.days is not None and self.days > STALE_DAYS


def keep_audits(
    store: Store, found: Mapping[str, tuple[Audited, ...]], version: str, at_ns: int
) -> None:
    """Keep what an audit said of runs, by trace, in place of what was said before."""
    with store.writing() as db:
        db.executemany(
            "INSERT OR REPLACE INTO audit (trace, content, version, audited_ns, body)"
            " SELECT key, content, ?, ?, ? FROM trace WHERE key = ? AND complete",
            [(version, at_ns, store.redactor.encoded(said), key) for key, said in found.items()],
        )


def date_audits(store: Store, traces: Collection[str], at_ns: int) -> None:
    """An audit at this moment says the same of these runs as the one before."""
    with store.writing() as db:
        db.executemany(
            "UPDATE audit SET audited_ns = ? WHERE trace = ?", [(at_ns, key) for key in traces]
        )


def kept_audits(
    store: Store, traces: Collection[str], version: str
) -> dict[str, tuple[Audited, ...]]:
    """What was said of those of the runs that were audited as they are, by trace."""
    found = store.db.execute(
        "SELECT a.trace, a.body FROM audit a JOIN trace t ON t.key = a.trace"
        " WHERE a.content = t.content AND a.version = ?"
        " AND a.trace IN (SELECT value FROM json_each(?))",
        (version, msgspec.json.encode(sorted(traces)).decode()),
    )
    decode = msgspec.json.Decoder(tuple[Audited, ...]).decode
    return {trace: decode(body) for trace, body in found}


def audit_age(store: Store, traces: Collection[str], version: str, at_ns: int) -> AuditAge:
    """How old the audits of these runs are, and how many of them none has seen as they are."""
    last_ns, current = store.db.execute(
        "SELECT max(a.audited_ns), coalesce(sum(a.content = t.content AND a.version = ?), 0)"
        " FROM audit a JOIN trace t ON t.key = a.trace"
        " WHERE a.trace IN (SELECT value FROM json_each(?))",
        (version, msgspec.json.encode(sorted(traces)).decode()),
    ).fetchone()
    days = None if last_ns is None else max(at_ns - last_ns, 0) // DAY_NS
    return AuditAge(runs=len(traces), new=len(traces) - current, last_ns=last_ns, days=days)
