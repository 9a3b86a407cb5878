"""What should a run of a task have done? Gold that a user wrote, kept by task.

```json
{"task": "26", "actions": [{"tool": "refund_order", "arguments": {"id": "1"}}], "answer": "5 USD"}
```

A line has the name of the task and some of these: `actions`, which a run is to take; their `order`
(`any`; `sequence`, as they stand; `graph`, with `after`: pairs of places from 0, earlier and
later); the `answer`, a text or several of which one will do; the `plan`, a text a step. Each
outranks what the source of a run says of the same.

Gold is worth something only where it was there before the run: each content is kept with the time
it was first seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay import digests, written
from replay.errors import ArcError
from replay.store.handle import Store, now_ns
from replay.trace import Json, Trace
from taxonomy.metrics.calls import predecessors
from taxonomy.metrics.gold import OWN, Order


class BadGold(ArcError):
    """A file of gold that cannot be used; the message names the file and the line."""


class GoldAction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that a run is to make."""

    tool: str
    arguments: dict[str, Json] = {}


class TaskGold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a file: what a run of a task is to do and to say; None is not said."""

    task: str
    actions: tuple[GoldAction, ...] | None = None
    order: Order = "any"
    after: tuple[tuple[int, int], ...] = ()
    answer: str | int | float | tuple[str, ...] | None = None
    plan: tuple[str, ...] | None = None

    @property
    def body(self) -> dict[str, Any]:
        """All but the name of the task, as it is kept."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in found.items() if name != "task"}


class KeptGold(Struct, frozen=True, kw_only=True):
    """Gold as it is kept: since when (ns since the epoch), from the file of that name, and how many
    `runs` are of its task."""

    task: str
    body: dict[str, Json]
    digest: str
    name: str
    first_seen_ns: int
    runs: int = 0


class GoldImport(Struct, frozen=True, kw_only=True):
    """The tasks whose gold is new, has another content than before, or the same; and those of which
    there is no run yet."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    no_run: tuple[str, ...] = ()


_HINT = (
    'Try: {"task": "26", "actions": [{"tool": "refund_order", "arguments": {"id": "1"}}],'
    ' "order": "any", "answer": "5 USD", "plan": ["Refund the order"]}'
)


def read_gold(file: Path) -> tuple[TaskGold, ...]:
    """The gold in a file, a task a line. Raises BadGold naming the file and the line."""
    lines = written.from_file(file).splitlines()
    found: dict[str, tuple[int, TaskGold]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        gold = _line(line, f"{file}: line {number}")
        if gold.task in found:
            earlier, _ = found[gold.task]
            raise BadGold(
                f"{file}: line {number}: task {gold.task!r} has gold in line {earlier} already",
                "Try: one line a task",
            )
        found[gold.task] = number, gold
    if not found:
        raise BadGold(f"{file}: holds no gold", _HINT)
    return tuple(gold for _, gold in found.values())


def _line(line: str, where: str) -> TaskGold:
    try:
        value = written.from_json(line)
    except ValueError as error:
        raise BadGold(f"{where}: is not JSON: {error}", "Try: one JSON object a line") from error
    try:
        gold = msgspec.convert(value, TaskGold)
    except msgspec.ValidationError as error:
        raise BadGold(f"{where}: {error}", _HINT) from error
    wrong = written.half(value) or _flaw(gold)
    if wrong is not None:
        raise BadGold(f"{where}: {wrong}", _HINT)
    return gold


def _flaw(gold: TaskGold) -> str | None:
    if not gold.task.strip():
        return "its task has no name"
    if gold.actions is None and gold.answer is None and gold.plan is None:
        return "gives none of actions, answer and plan"
    if gold.order == "graph" and not gold.after:
        return "order is graph, and `after` does not say what comes before what"
    if gold.after and gold.order != "graph":
        return f"`after` is of the order graph, and order is {gold.order}"
    size = len(gold.actions or ())
    outside = [place for pair in gold.after for place in pair if not 0 <= place < size]
    if outside:
        return f"`after` names action {outside[0]}, and there are {size}, counted from 0"
    before = predecessors(size, "graph", gold.after)
    circle = next((place for place in range(size) if before[place] >> place & 1), None)
    return None if circle is None else f"`after` puts action {circle} before itself"


def keep_gold(
    store: Store, given: Iterable[TaskGold], name: str, at_ns: int | None = None
) -> GoldImport:
    """Keep gold, in place of what was there for the same tasks; the same content keeps the time it
    was first seen. What the rules said of the runs of a task ceases to count where it changed."""
    outcome: dict[str, list[str]] = {"added": [], "changed": [], "same": []}
    at_ns = now_ns() if at_ns is None else at_ns
    with store.writing() as db:
        for gold in given:
            task = store.redactor.text(gold.task)
            body = digests.encode(store.redactor.value(gold.body)).decode()
            digest = digests.digest("gold", body)
            before = db.execute("SELECT digest FROM gold WHERE task = ?", (task,)).fetchone()
            if before is not None and before[0] == digest:
                outcome["same"].append(task)
                continue
            outcome["added" if before is None else "changed"].append(task)
            db.execute(
                "INSERT OR REPLACE INTO gold (task, body, digest, name, first_seen_ns)"
                " VALUES (?, ?, ?, ?, ?)",
                (task, body, digest, store.redactor.text(name), at_ns),
            )
            db.execute(JUDGE_ANEW, {"task": task})
    kept = {each.task: each for each in kept_gold(store)}
    tasks = [task for found in outcome.values() for task in found]
    return GoldImport(
        no_run=tuple(task for task in tasks if not kept[task].runs),
        **{of: tuple(found) for of, found in outcome.items()},
    )


JUDGE_ANEW = (
    "UPDATE diagnosis SET until_ns = 0 WHERE trace IN (SELECT key FROM trace WHERE task = :task)"
)


def kept_gold(store: Store) -> tuple[KeptGold, ...]:
    """All gold that users wrote, by task."""
    found = store.db.execute(
        "SELECT task, body, digest, name, first_seen_ns, (SELECT count(DISTINCT run) FROM trace"
        " WHERE trace.task = gold.task AND complete) FROM gold ORDER BY task"
    )
    return tuple(
        KeptGold(
            task=task, body=msgspec.json.decode(body), digest=digest, name=name,
            first_seen_ns=seen, runs=runs,
        )
        for task, body, digest, name, seen, runs in found
    )  # fmt: skip


def remove_gold(store: Store, task: str) -> bool:
    """Forget the gold of a task; was there any?"""
    with store.writing() as db:
        done = db.execute("DELETE FROM gold WHERE task = ?", (task,)).rowcount > 0
        if done:
            db.execute(JUDGE_ANEW, {"task": task})
    return done


def own_gold(store: Store, tasks: Iterable[str]) -> dict[str, dict[str, Json]]:
    """By task, what a reference says of a user's gold."""
    wanted = msgspec.json.encode(sorted(set(tasks))).decode()
    found = store.db.execute(
        "SELECT task, body, digest, first_seen_ns FROM gold"
        " WHERE task IN (SELECT value FROM json_each(?))",
        (wanted,),
    )
    return {
        task: {**msgspec.json.decode(body), "digest": digest, "first_seen_ns": seen}
        for task, body, digest, seen in found
    }


def with_own_gold(store: Store, trace: Trace) -> Trace:
    """The trace with the gold that a user wrote for its task, as it is where there is none."""
    header = trace.header
    mine = {} if header.task is None else own_gold(store, [header.task])
    if header.task not in mine:
        return trace
    reference = {**(header.reference or {}), OWN: mine[header.task]}
    return structs.replace(trace, header=structs.replace(header, reference=reference))
