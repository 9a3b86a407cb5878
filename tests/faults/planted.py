"""Runs with a word of its own planted in every place that keeps text, for trials that look for it.

The words are made of syllables by a seed, so that no rule masks them and nothing else says them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from replay import kept
from replay.edit.changes import Edit, SetSystem
from replay.free.recorded_results import Stub
from replay.store import edits, read
from replay.store.edits import Supplement, attach
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Header, Outcome, SourceScore
from taxonomy.classes import FailureClass
from taxonomy.findings import Evidence, Item
from taxonomy.judge import scores
from taxonomy.judge.scores import Judged
from taxonomy.judgements.tags import Tag, put_tag
from tests.build import START_NS, call, error, step, trace
from tests.messages_api import message, text
from tests.replay.locked_case import TOOLS, Fixed, core_of, run, tiny

IN_THE_TAPE = (
    "system", "task text", "said", "thought", "argument", "result", "error", "extra", "title",
    "task", "trial", "label", "path", "source score", "shared by two",
)  # fmt: skip
BESIDE_IT = ("answer", "edit", "stub", "supplement", "quoted", "judged step", "judged run")
BY_PEOPLE = ("note of a person",)
PLACES = (*IN_THE_TAPE, *BESIDE_IT, *BY_PEOPLE)

COMMON = "Every one of these runs says this sentence."
DAY_NS = 86_400_000_000_000


def words(seed: int, run: int) -> dict[str, str]:
    """A word for each place of a run. Two runs, an even one and the next, share one of them."""
    made = random.Random(f"{seed}/{run}")
    found = {place: _word(made) for place in PLACES}
    found["shared by two"] = _word(random.Random(f"{seed}/shared/{run // 2}"))
    return found


def _word(made: random.Random) -> str:
    return "".join(made.choice("bdfgklmnprstvz") + made.choice("aeiou") for _ in range(7))


def plant(store: Store, said: Mapping[str, str], run: int) -> str:
    """A run that began `run` days after the first, with these words in it; returns its id."""
    made = trace(
        [
            step(said["said"], call("look_up", f"it is {said['result']}", what=said["argument"])),
            step(call("refund", error(f"no: {said['error']}"), order=run)),
            step(f"{COMMON} {said['shared by two']}", thought=said["thought"]),
        ],
        task=f"Please {said['task text']}.",
        system=f"You are {said['system']}.",
        tools=TOOLS,
        outcome="failed" if run % 3 == 0 else "passed",
        extra={"remark": said["extra"]},
    )
    header = Header(
        format="built",
        source_id=f"run-{run}",
        title=said["title"],
        task=said["task"],
        trial=said["trial"],
        labels={"team": said["label"]},
        path=f"/runs/{said['path']}.jsonl",
        outcome=Outcome(status="failed" if run % 3 == 0 else "passed"),
        start_ns=START_NS + run * DAY_NS,
    )
    scores = (SourceScore(name="quality", by="source", explanation=said["source score"]),)
    writer = Writer(store)
    key = writer.write(Batch(header=header, spans=made.spans, scores=scores, last=True))
    writer.finish(key)
    _beside(store, key, said)
    return key


def _beside(store: Store, key: str, said: Mapping[str, str]) -> None:
    """What is kept of a run: a replay with its answers and its edit, stubs, judgements, a tag."""
    asked = Edit(name=said["edit"], changes=(SetSystem(f"Be {said['edit']}."),))
    edit = edits.save(store, asked)  # as it is stored: what is planted may be masked
    whole = read.load(store, key)
    model = tiny(store, Fixed(message(text(f"I say {said['answer']}"), model="tiny")))
    results = run(whole, edit, model)
    kept.keep(store, core_of(whole, edit, results))
    stub = Stub(tool="look_up", arguments={"what": "else"}, result=said["stub"])
    kept.put(store, key, stub, source="a file")
    attach(store, key, Supplement(name="added", system=said["supplement"]))
    because = (Item(name="holds", held=None, because=said["judged step"]),)
    scores.keep(
        store, key, "judge/1", [Judged(step=0, span="step-0", samples=(0.5,), items=because)]
    )
    because = (Item(name="holds", held=None, because=said["judged run"]),)
    scores.keep(store, key, "judge/1", [Judged(step=None, samples=(0.5,), items=because)])
    quoted = (Evidence(role="says", text=said["quoted"], step=0),)
    given = Tag(
        trace=key, span="step-0", step=0, failure=FailureClass.LOOP, by="ada",
        note=said["note of a person"], evidence=quoted,
    )  # fmt: skip
    put_tag(store, given)


def bytes_of(file: Path) -> bytes:
    """The bytes of a database, of its log, and of anything beside it."""
    return b"\n".join(each.read_bytes() for each in file.parent.glob(f"{file.name}*"))


def found_in(file: Path, wanted: Iterable[str]) -> list[str]:
    """Which of the words stand in the bytes of a database, of its log, or of anything beside it."""
    data = bytes_of(file)
    return [word for word in wanted if word.encode() in data]


def indexed(store: Store, wanted: Iterable[str]) -> list[str]:
    """Which of the words the indices for the search still know."""
    known: set[str] = set()
    for table in ("message_words", "span_words"):
        store.db.execute(
            f"CREATE VIRTUAL TABLE temp.{table}_known USING fts5vocab(main, {table}, row)"
        )
        known |= {row[0] for row in store.db.execute(f"SELECT term FROM temp.{table}_known")}
        store.db.execute(f"DROP TABLE temp.{table}_known")
    return [word for word in wanted if word in known]


def every(said: Sequence[Mapping[str, str]], places: Iterable[str] = PLACES) -> list[str]:
    """The words of some runs in some places."""
    return [each[place] for place in places for each in said]
