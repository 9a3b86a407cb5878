"""Runs to try the localiser on that no fit sees: long chats made of short ones, and wrong writes.

The chats that people labelled have fifteen messages at most, other sets a hundred and more. Each
is told again as a group under an orchestrator: it plans, keeps a ledger, hands on the word, and
has pages opened on which nothing hangs. What was said and blamed stays. The airline runs that
failed have gold actions: the first change that is none of them is where most went wrong, which is
a rule's word and no person's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arc_tui import importing
from replay import digests
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import Json, Trace
from taxonomy.evidence.reading import Reading, mutates
from taxonomy.judgements.schema import open_ledger
from tests.bench.labelled import Labelled, labelled
from tests.shared import DATA

LONG = "whowhen_ag, made long"
WRITES = "tau_bench, first write that is not gold"

_SHORTEST, _LONGEST = 30, 130
_WORDS = "alder birch cedar elm fir hazel ivy larch maple oak pine rowan spruce willow yew".split()
_IDLE = (
    "Waiting for the next instruction.",
    "Nothing is missing here, please go on.",
    "The request stands as it was asked.",
)


def stretched(folder: Path) -> tuple[Labelled, ...]:
    """The Who&When chats, each made 30 to 130 messages long; `folder` is for files."""
    source = random.Random(3)
    chats = folder / "long"
    chats.mkdir()
    blamed: dict[str, int] = {}
    for path in sorted((DATA / "whowhen").rglob("*.json")):
        chat = json.loads(path.read_text())
        if "mistake_step" in chat:
            history, blamed[path.name] = told_long(chat, source)
            said = {**chat, "history": history, "mistake_step": str(blamed[path.name])}
            (chats / path.name).write_text(json.dumps(said))
    store = _imported(folder / "long.db", chats)
    return tuple(
        labelled(trace, {blamed[Path(trace.header.path or "").name]}) for trace in _traces(store)
    )


def told_long(chat: dict[str, Any], source: random.Random) -> tuple[list[dict[str, str]], int]:
    """The history of a chat under an orchestrator, and the place of the blamed message in it."""
    told = [*_opening(chat["question"])]
    wanted = source.randint(_SHORTEST, _LONGEST)
    idle = max(0, wanted // (3 * len(chat["history"])) - 1)
    blamed = -1
    for place, said in enumerate(chat["history"]):
        speaker = said.get("name") or said["role"]
        told += _handed_to(speaker, "Please go on with your part of the request.")
        if place == int(chat["mistake_step"]):
            blamed = len(told)
        told.append({"role": speaker, "content": said["content"]})
        for _ in range(source.randint(0, 2 * idle)):
            told += _handed_to("WebSurfer", "Please look whether anything is missing.")
            told.append({"role": "WebSurfer", "content": _page(source)})
    return told, blamed


def _opening(question: str) -> Iterator[dict[str, str]]:
    yield {"role": "human", "content": question}
    plan = (
        f"We are working to address the following user request:\n\n{question}\n\nEach takes a turn."
    )
    yield {"role": "Orchestrator (thought)", "content": plan}


def _handed_to(speaker: str, words: str) -> Iterator[dict[str, str]]:
    ledger = {"is_request_satisfied": False, "is_in_loop": False, "next_speaker": speaker}
    yield {"role": "Orchestrator (thought)", "content": f"Updated ledger:\n{json.dumps(ledger)}"}
    yield {"role": f"Orchestrator (-> {speaker})", "content": words}


def _page(source: random.Random) -> str:
    """Idle words, or a page full of names and numbers that the run only reads."""
    if source.random() < 0.5:
        return source.choice(_IDLE)
    names = (f"{source.choice(_WORDS).title()}ton {source.randint(10, 9999)}" for _ in range(15))
    text = "\n".join(f"the {name}" for name in names)
    return f"I opened a page.\nThe following text was detected on the screenshot:\n\n{text}"


def wrong_writes(folder: Path) -> tuple[Labelled, ...]:
    """The failed airline runs that changed something which no gold action changes."""
    store = _imported(folder / "airline.db", DATA / "tau_bench")
    found = []
    for trace in _traces(store):
        step = _first_wrong(trace) if trace.header.outcome.status == "failed" else None
        if step is not None:
            found.append(labelled(trace, {step}))
    return tuple(found)


def _first_wrong(trace: Trace) -> int | None:
    actions = (trace.header.reference or {}).get("actions")
    gold = {_call(each.get("name"), each.get("kwargs")) for each in actions or () if each}
    for act in Reading(trace).acts:
        written = mutates(act.span) and not act.reply.failed
        if written and _call(act.name, act.span.arguments) not in gold:
            return act.step
    return None


def _call(name: Json, arguments: Json) -> str:
    return digests.canonical([name, arguments])


def _imported(database: Path, traces: Path) -> Store:
    store = open_ledger(database)
    for _ in importing.import_paths(store, [traces]):
        pass
    return store


def _traces(store: Store) -> Iterator[Trace]:
    for row in sorted(trace_rows(store), key=lambda row: (row.path or "", row.item or "")):
        yield read.load(store, row.trace)
