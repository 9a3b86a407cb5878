"""What is said of recordings that go: rules' and judges' words go with them, people's stay.

A tag, a clearance or an opinion of a person hangs on the id of a recording, which it has again when
it is imported again. What a tag quotes of the recording goes.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Struct

from replay.store import Store


class Said(Struct, frozen=True, kw_only=True):
    """What is said of some recordings: words of `people`, and how many each kind of the rest."""

    people: int
    suggestions: int
    scores: int
    diagnoses: int


_AMONG = "trace IN (SELECT value FROM json_each(?))"

_PEOPLE = {
    "tag": f"{_AMONG} AND source = 'human'",
    "clearance": _AMONG,
    "score": f"{_AMONG} AND source = 'human'",
}
"""Where the words of people stand."""

_REST = {
    "suggestion": _AMONG,
    "score": f"{_AMONG} AND source <> 'human'",
    "diagnosis": _AMONG,
}


def spoken_of(store: Store) -> frozenset[str]:
    """The recordings that a person tagged, cleared, scored or noted something of."""
    found = store.db.execute(
        "SELECT trace FROM tag WHERE source = 'human' UNION SELECT trace FROM clearance"
        " UNION SELECT trace FROM score WHERE source = 'human'"
    )
    return frozenset(row[0] for row in found)


def said_of(store: Store, traces: Collection[str]) -> Said:
    """What is said of these recordings."""
    names = (msgspec.json.encode(sorted(traces)).decode(),)

    def count(table: str, where: str) -> int:
        found = store.db.execute(f"SELECT count(*) FROM {table} WHERE {where}", names)
        return int(found.fetchone()[0])

    return Said(
        people=sum(count(*each) for each in _PEOPLE.items()),
        suggestions=count("suggestion", _REST["suggestion"]),
        scores=count("score", _REST["score"]),
        diagnoses=count("diagnosis", _REST["diagnosis"]),
    )


def forget(store: Store, traces: Collection[str], *, even_people: bool = False) -> None:
    """Delete what rules, judges and sources say of these recordings; with `even_people` what
    people say, too. Otherwise that stays, without what their tags quote."""
    names = (msgspec.json.encode(sorted(traces)).decode(),)
    with store.writing() as db:
        for table, where in _REST.items():
            db.execute(f"DELETE FROM {table} WHERE {where}", names)
        if even_people:
            for table, where in _PEOPLE.items():
                db.execute(f"DELETE FROM {table} WHERE {where}", names)
        db.execute(f"DELETE FROM tag WHERE {_AMONG} AND source <> 'human'", names)
        db.execute(f"UPDATE tag SET evidence = '[]' WHERE {_AMONG}", names)
