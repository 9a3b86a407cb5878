"""Today's rules over a whole database, in one transaction, and then the end of the old bytes.

Killed before its end, the database is as it was; killed after it, the next run erases what is
left in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from replay.care import prune
from replay.care.scrub import content, side_tables, spans
from replay.care.scrub.content import PLAIN, STORE, Masks, Places, remembering
from replay.edit.changes import Edit
from replay.store import text_index
from replay.store.handle import Store, now_ns


class Masked(Struct, frozen=True, kw_only=True):
    """How many places of a table a rule masked."""

    table: str
    rule: str
    places: int


class Scrubbed(Struct, frozen=True, kw_only=True):
    """What was masked, or would be where `done` is False.

    `merged` rows of content say what others do now and went into them. Of the stored answers
    `rekeyed` got the key of their request as it is now; `untold` are those of which it cannot be
    told what they were asked, of a database in which something was masked: where that changed, they
    are asked for again. `unfinished` imports were dropped. `copies` are files beside the database
    that may hold the old texts; `tables` of other programs were not looked at.
    """

    done: bool
    masked: tuple[Masked, ...]
    merged: int
    rekeyed: int
    untold: int
    unfinished: int
    erased: bool = False
    copies: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    @property
    def places(self) -> int:
        return sum(each.places for each in self.masked)


class _Undo(Exception):
    """Ends a transaction that was only tried."""


def scrub(
    store: Store,
    judgements: Places,
    *,
    known: Places = STORE,
    prompts: Sequence[Edit] = (),
    dry: bool = False,
) -> Scrubbed:
    """Mask all that a database holds by the rules of its redactor.

    `judgements` are further tables of plain rows, `known` all tables that are ours. `prompts` are
    edits that the database does not keep and under which steps were asked: versions of a bisection.
    With `dry` everything is done and taken back.

    Raises StoreBusy where another process is in the way, StoreDamaged where something that would
    change is not what was written, StoreUnusable. Then nothing was changed; but a reader can keep
    old bytes in the log, which StoreBusy says too.
    """
    _ = store.redactor  # its key may have to be made, which is a transaction of its own
    found: list[Scrubbed] = []
    try:
        with prune.removing(store):
            found.append(_Work(store, judgements, known, prompts).run())
            if dry:
                raise _Undo
    except _Undo:
        return found[0]
    erased = prune.unerased(store)
    if erased:
        prune.erase(store)
    return msgspec.structs.replace(found[0], done=True, erased=erased)


class _Work:
    """One scrubbing under way, within its transaction."""

    def __init__(
        self, store: Store, judgements: Places, known: Places, prompts: Sequence[Edit]
    ) -> None:
        self._store = store
        self._db = store.db
        self._judgements = judgements
        self._known = known
        self._prompts = {f"prompt {at}": edit for at, edit in enumerate(prompts)}
        self._masks = Masks(store.redactor, self._is_trace)

    def run(self) -> Scrubbed:
        db, masks = self._db, self._masks
        unfinished = self._drop_unfinished()
        with remembering(db):
            content.find(db, masks)
            touched = set(filter(self._is_trace, self._touched()))
            merged = self._rewrite(touched)
            rekeyed, untold = self._answers()
        if masks.found or unfinished:
            text_index.refill(db)
            prune.mark_unerased(db)
        counts = sorted(masks.found.items())
        return Scrubbed(
            done=False,
            masked=tuple(
                Masked(table=table, rule=rule, places=many) for (table, rule), many in counts
            ),
            merged=merged,
            rekeyed=rekeyed,
            untold=untold if masks.found else 0,
            unfinished=unfinished,
            copies=tuple(map(str, prune.copies_beside(self._store.path))),
            tables=tuple(self._unknown_tables()),
        )

    def _drop_unfinished(self) -> int:
        """Rows of imports that never came to an end. One that is under way elsewhere knows rows
        that may go now: it must begin again, and does when its trace is gone."""
        if self._db.execute("SELECT 1 FROM trace WHERE NOT complete").fetchone() is None:
            return 0
        return prune.remove(self._db, (), unfinished_before_ns=now_ns()).unfinished

    def _rewrite(self, touched: set[str]) -> int:
        """Everything, in the order in which one follows from the other; how many rows of content
        went into others."""
        db, store, masks = self._db, self._store, self._masks
        was = side_tables.kept_edits(db)
        moved = side_tables.edits(db, masks)

        def edits_before(key: str) -> spans.Edits:
            """What may have been asked of a trace whose answers have other keys now."""
            changed: spans.Edits = {digest: was[digest] for digest in moved}
            return {"": None, **was, **self._prompts} if key in touched else changed

        concerned = sorted(touched) if not moved else self._traces()
        spans.before(store, concerned, edits_before)
        side_tables.supplements(db, masks)
        content.write(db)
        spans.write(db, masks)
        merged = content.drop(db)
        spans.sum_masked(db)
        side_tables.answers(db, masks)
        now = side_tables.kept_edits(db)
        edits_now = {digest: now[moved.get(digest, digest)] for digest in was}
        spans.after(store, {"": None, **edits_now, **self._prompts})
        side_tables.plain(db, masks, {"stub": PLAIN["stub"]})
        side_tables.write(store, masks, touched)
        for table, texts in self._judgements.items():
            if texts.derived:
                db.execute(f"DELETE FROM {table} WHERE trace IN ({_CHANGED}) AND {texts.derived}")
        side_tables.plain(db, masks, {**PLAIN, **self._judgements})
        return merged

    # --- which traces

    def _is_trace(self, key: str) -> bool:
        found = self._db.execute("SELECT 1 FROM trace WHERE key = ?", (key,))
        return found.fetchone() is not None

    def _traces(self) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT key FROM trace WHERE complete")]

    def _touched(self) -> Iterator[str]:
        """The traces whose requests hold something that is to be masked, before any is."""
        db = self._db
        yield from (row[0] for row in db.execute(_TOUCHED))
        unseen = Masks(self._store.redactor, self._is_trace)  # counted when they are written
        yield from side_tables.supplemented(db, unseen)
        for (params,) in db.execute("SELECT DISTINCT params FROM model_call").fetchall():
            if params is not None and unseen.json("model_call", params) != params:
                yield from (row[0] for row in db.execute(_WITH_PARAMS, (params,)))
        stubs = db.execute("SELECT trace_key, arguments, result, tool FROM stub").fetchall()
        for key, *texts in stubs:
            if any(unseen.json_or_text("stub", text) != text for text in texts):
                yield key

    # --- what is told of it

    def _answers(self) -> tuple[int, int]:
        """(answers under another key than before, answers to unknown requests)."""
        (rekeyed,) = self._db.execute(
            "SELECT count(*) FROM answer"
            " WHERE substr(key, instr(key, ':') + 1) IN (SELECT now FROM moved_digest)"
        ).fetchone()
        (untold,) = self._db.execute(
            "SELECT count(*) FROM answer"
            " WHERE substr(key, instr(key, ':') + 1) NOT IN (SELECT now FROM moved_digest)"
            " AND key NOT IN (SELECT key FROM asked)"
            f" AND (server, key) NOT IN ({prune.RESTS})"
        ).fetchone()
        return rekeyed, untold

    def _unknown_tables(self) -> Iterator[str]:
        found = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        own = (*self._known, *self._judgements)
        return (row[0] for row in found if row[0] not in own and not row[0].startswith("sqlite_"))


_CHANGED = "SELECT t.key FROM trace t JOIN moved_trace m ON m.id = t.id"

_TOUCHED = """
SELECT t.key FROM trace t WHERE t.complete AND (
  EXISTS (SELECT 1 FROM message_step e JOIN moved_message m ON m.id = e.message
    WHERE e.trace = t.id)
  OR EXISTS (SELECT 1 FROM span s JOIN model_call c ON c.span = s.id
    JOIN moved_toolset m ON m.id = c.toolset WHERE s.trace = t.id))
"""

_WITH_PARAMS = """
SELECT DISTINCT t.key FROM trace t JOIN span s ON s.trace = t.id
JOIN model_call c ON c.span = s.id WHERE t.complete AND c.params = ?
"""
