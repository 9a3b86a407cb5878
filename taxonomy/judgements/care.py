"""What pruning and scrubbing a database do to judgements.

Of recordings that go, the words of rules and judges go with them and the words of people stay.
Text from outside stands in what people write and what others quote.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Struct

from replay.care.scrub.content import DIGEST, ID, WORD, Places, Texts
from replay.store.handle import Store


class JudgementCounts(Struct, frozen=True, kw_only=True):
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


def said_of(store: Store, traces: Collection[str]) -> JudgementCounts:
    """What is said of these recordings."""
    names = (msgspec.json.encode(sorted(traces)).decode(),)

    def count(table: str, where: str) -> int:
        found = store.db.execute(f"SELECT count(*) FROM {table} WHERE {where}", names)
        return int(found.fetchone()[0])

    return JudgementCounts(
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


JUDGEMENTS: Places = {
    "tag": Texts(
        text=("span", "sub", "note", "by"),
        json=("evidence",),
        ours={"trace": ID, "class": WORD, "fault": WORD, "source": WORD},
    ),
    "suggestion": Texts(
        text=("span", "sub", "why", "by"),
        json=("evidence",),
        ours={"trace": ID, "class": WORD, "fault": WORD, "source": WORD},
        derived="source = 'rule'",
    ),
    "score": Texts(
        text=("span", "by"),
        json=("items",),
        ours={"trace": ID, "source": WORD},
        derived="source IN ('rule', 'import')",
    ),
    "diagnosis": Texts(
        text=("why",),
        json=("warnings", "body"),
        ours={
            "trace": ID, "content": DIGEST, "shape": WORD,
            "engine": "the name and version of arc's rules",
        },
        derived="1",
    ),
    "clearance": Texts(text=("by", "note"), ours={"trace": ID}),
}  # fmt: skip
"""The tables of the ledger. A row hangs on the ids of a trace and a span, masked alike in both."""
