"""What pruning, scrubbing and exporting a database do to judgements.

Of recordings that go, the words of rules and judges go with them and the words of people stay. A
run that was scanned in a trace store too still counts there, without what quotes it.
Gold is of a task, not of a recording: it stays until it is removed.
Text from outside stands in what people write and what others quote.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from replay.care.export import Count, Flag, Number, Row, Whole
from replay.care.scrub.content import DIGEST, ID, WORD, Places, Texts
from replay.store.handle import Store
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Evidence, Item, Source
from taxonomy.judgements import scans
from taxonomy.judgements.golds import JUDGE_ANEW
from taxonomy.judgements.tags import RECORDINGS


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
    "audit": _AMONG,
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
    people say, too. Otherwise that stays, without what their tags quote. What a scan of a trace
    store found in them stays without its words."""
    names = (msgspec.json.encode(sorted(traces)).decode(),)
    with store.writing() as db:
        for table, where in _REST.items():
            db.execute(f"DELETE FROM {table} WHERE {where}", names)
        if even_people:
            for table, where in _PEOPLE.items():
                db.execute(f"DELETE FROM {table} WHERE {where}", names)
        db.execute(f"DELETE FROM tag WHERE {_AMONG} AND source <> 'human'", names)
        db.execute(f"UPDATE tag SET evidence = '[]' WHERE {_AMONG}", names)
        scans.forget_texts(store, *names)


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
    "first_word": Texts(
        text=("task", "sub"), ours={"run": ID, "trace": ID, "class": WORD, "fault": WORD}
    ),
    "score": Texts(
        text=("span", "by"),
        json=("items",),
        ours={"trace": ID, "source": WORD},
        derived="source IN ('rule', 'import')",
    ),
    "audit": Texts(
        json=("body",),
        ours={
            "trace": ID, "content": DIGEST,
            "version": "the name and version of arc's probes",
        },
        derived="1",
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
    "gold": Texts(text=("task", "name"), json=("body",), ours={"digest": DIGEST}),
    "scan": Texts(
        text=("fleet", "query", "since", "until"),
        ours={"engine": "the name and version of arc's rules"},
    ),
    "scan_partition": Texts(),
    "scan_run": Texts(
        text=(
            "trace", "title", "task", "trial", "agent", "models", "variant", "why", "problem",
        ),
        ours={"key": ID, "outcome": WORD},
    ),
    "scan_finding": Texts(
        text=("source", "span", "sub", "why", "by", "tool"),
        json=("evidence",),
        ours={"class": WORD, "fault": WORD},
    ),
}  # fmt: skip
"""The tables of the ledger. A row hangs on the ids of a trace and a span, masked alike in both."""


class TagRow(Row, frozen=True, kw_only=True, tag="tag"):
    """A failure class that someone gave a step."""

    TABLE = "tag"
    SAME = ("trace", "span", "class", "by")
    RUN = "trace"
    JSON = {"evidence": tuple[Evidence, ...]}
    AGAINST = f"SELECT 1 FROM clearance WHERE by = :by AND trace IN {RECORDINGS}"

    trace: str
    span: str
    step: Count
    failure: FailureClass = msgspec.field(name="class")
    sub: str | None
    fault: Attribution | None
    note: str | None
    by: str
    source: Source
    evidence: Raw
    tagged_ns: Count
    blind: Flag


class CleanMarkRow(Row, frozen=True, kw_only=True, tag="clean_mark"):
    """A person saw nothing wrong in a run."""

    TABLE = "clearance"
    SAME = ("trace", "by")
    RUN = "trace"
    AGAINST = f"SELECT 1 FROM tag WHERE source = 'human' AND by = :by AND trace IN {RECORDINGS}"

    trace: str
    by: str
    note: str | None
    blind: Flag
    cleared_ns: Count


class ScoreRow(Row, frozen=True, kw_only=True, tag="score"):
    """A score of a step by a person, a judge or a file. What the rules said of the run rests on
    other scores, and ceases to count."""

    TABLE = "score"
    SAME = ("trace", "step", "source", "by")
    WHERE = "source NOT IN ('rule', 'import')"
    RUN = "trace"
    JSON = {"items": tuple[Item, ...]}
    AFTER = "UPDATE diagnosis SET until_ns = 0 WHERE trace = :trace"

    trace: str
    span: str
    step: Whole
    value: Number | None
    source: Literal["human", "judge", "file"]
    by: str
    items: Raw


class SuggestionRow(Row, frozen=True, kw_only=True, tag="suggestion"):
    """A failure class that a judge or an agent suggests for a step."""

    TABLE = "suggestion"
    SAME = ("trace", "source", "place")
    WHERE = "source <> 'rule'"
    RUN = "trace"
    JSON = {"evidence": tuple[Evidence, ...]}

    trace: str
    place: Count
    span: str
    step: Whole
    failure: FailureClass = msgspec.field(name="class")
    sub: str | None
    fault: Attribution | None
    why: str
    by: str
    source: Literal["human", "judge", "file", "import", "agent"]
    confidence: Number | None
    evidence: Raw
    approved: Flag = 0


class GoldRow(Row, frozen=True, kw_only=True, tag="gold"):
    """What a user wrote that a run of a task should do. What the rules said of its runs ceases to
    count."""

    TABLE = "gold"
    SAME = ("task",)
    JSON = {"body": dict[str, Any]}
    AFTER = JUDGE_ANEW

    task: str
    body: Raw
    digest: str
    name: str
    first_seen_ns: Count


EXPORTED: tuple[type[Row], ...] = (TagRow, CleanMarkRow, ScoreRow, SuggestionRow, GoldRow)
"""What an export holds of judgements: all but what rules and sources say, which comes again with
the recordings."""
