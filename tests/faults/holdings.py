"""A database with something of everything in it, and what a database holds, for comparing two."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from arc_tui.commands import cli
from arc_tui.places import fixtures
from replay.care import check
from replay.store.handle import Store
from replay.store.rows import trace_row, trace_rows
from taxonomy.judgements.schema import open_ledger

Holdings = dict[str, dict[Any, Any]]
"""By table: what tells a row from others, and the row."""

TOUR = "shop-many-wishes-v5-0"
TAGGED = "shop-warranty-v3-0"


def arc(db: Path, *words: str) -> str:
    """What a command prints, in this process; what it raises is raised here."""
    done = CliRunner().invoke(cli, ["--db", str(db), *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def some_traces() -> list[Path]:
    """Some of the bundled runs, those that are replayed among them."""
    found = sorted((fixtures() / "traces").glob("*.jsonl"))
    chosen = {*found[::4], *(each for each in found if each.stem in (TOUR, TAGGED))}
    return sorted(chosen)


def furnish(db: Path, traces: Iterable[Path] | None = None) -> None:
    """Runs with their diagnoses, tags, labels, clearances, an edit, replays and their answers."""
    arc(db, "import", *map(str, traces or some_traces()))
    prompt = fixtures() / "demo" / "prompts" / "v6.md"
    for name in (TOUR, TAGGED):
        arc(db, "replay", name, "--model", "demo", "--system", str(prompt))
    arc(db, "replay", TOUR, "--model", "demo", "-k", "3")
    gold = db.with_name("gold.jsonl")
    gold.write_text('{"task": "many-wishes", "actions": [], "answer": "done"}\n')
    arc(db, "gold", "import", str(gold))
    gold.unlink()
    before = os.environ.get("ARC_USER")
    try:
        for person in ("ann", "ben"):
            os.environ["ARC_USER"] = person
            with open_ledger(db) as store:
                rows = trace_rows(store)
            for at, row in enumerate(rows):
                step = str(at % row.steps)
                words = f"{person} looked at run {at} and " + "went on looking at it " * (at % 9)
                if at % 5 == 4:
                    arc(db, "tag", "add", row.trace, "--clean", "--note", words)
                else:
                    kind = ("loop", "bad args", "gave up")[at % 3]
                    arc(db, "tag", "add", row.trace, step, kind, "--note", words)
                arc(db, "label", row.trace, step, f"0.{at % 10}", "--note", words)
    finally:
        if before is None:
            del os.environ["ARC_USER"]
        else:
            os.environ["ARC_USER"] = before


_KEYS = {
    "tag": ("trace", "span", "class", "by"),
    "clearance": ("trace", "by"),
    "score": ("trace", "step", "source", "by"),
    "suggestion": ("trace", "source", "place"),
    "answer": ("server", "key"),
    "replay": ("digest", "trace_key"),
    "edit": ("digest",),
    "supplement": ("digest",),
    "gold": ("task",),
    "diagnosis": ("trace",),
}
_WHEN = {"imported_ns", "tagged_ns", "cleared_ns", "added_ns", "ran_ns", "id", "until_ns"}


def holdings(path: Path) -> Holdings:
    """Everything that was recorded, paid for or said, without when and without row numbers."""
    with open_ledger(path) as store:
        held: Holdings = {
            "trace": {
                key: (content, outcome, task, trial, title, steps, spans, problems, run, first)
                for key, content, outcome, task, trial, title, steps, spans, problems, run, first
                in store.db.execute(
                    "SELECT key, content, outcome, task, trial, title, steps, spans, problems, run,"
                    " preferred"
                    " FROM trace WHERE complete"
                )
            }
        }  # fmt: skip
        for table, keys in _KEYS.items():
            cursor = store.db.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, values, strict=True)) for values in cursor]
            held[table] = {
                tuple(row[key] for key in keys): {
                    name: value for name, value in row.items() if name not in _WHEN
                }
                for row in rows
            }
        return held


def damage(path: Path) -> list[str]:
    """Everything that `arc db verify` calls damage in a database that opens, [] for nothing."""
    with open_ledger(path) as store:
        found = [*check.pages(store), *check.content(store), *check.kept(store)]
        for row in trace_rows(store, every=True):
            found += check.trace_digests(store, row.trace)
        return [f"{each.where}: {each.what}" for each in found]


def key_of(path: Path, name: str) -> str:
    """The id of the trace that a command takes by this name."""
    with open_ledger(path) as store:
        return trace_row(store, name).trace


def answers(path: Path) -> int:
    """How many answers are kept."""
    with Store.open(path) as store:
        return int(store.db.execute("SELECT count(*) FROM answer").fetchone()[0])
