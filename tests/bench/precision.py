"""`python -m tests.bench.precision`: what the rules say of the shared runs, and how much is true.

`figures` prints, with the outcome hidden, how many of the runs that passed are given a class, and
how many of those that failed; and which findings people who annotated the runs agree with.
`draw --seed N` prints findings of each rule with enough of the run to judge them by reading.
`publish` writes the figures into `precision.json` beside this file, whose rows are what was read:
the docs take both from there.

Nothing that says how a run ended is left in it when it is diagnosed: neither the outcome nor what
its check printed. Rules that speak only of runs known to have failed are read as recorded.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, structs

from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import Outcome, Trace
from taxonomy.audit.probes import PROBES, Probe, audit_run
from taxonomy.audit.rates import ProbeRate, rate_probe
from taxonomy.calibration.labels import place, read_labels
from taxonomy.evidence.reading import Reading
from taxonomy.evidence.results import cut
from taxonomy.findings import Audited, Finding
from taxonomy.judgements.diagnoses import engine_version
from taxonomy.judgements.schema import open_ledger
from taxonomy.rules import RULES, findings
from taxonomy.rules.rule import RuleContext
from tests.bench.precision_results import Agreement, ProbeShare, Share, save, shipped, tables
from tests.shared import DATA, imported

LABELS = ("trail_gaia", "trail_swe_bench", "apb_hotpotqa")
"""Labels of people on runs whose outcome no source says: a run with a decisive step failed."""

SCRIPTED = "clients"
"""Captures of one scripted agent, whose mistake is known: one of them is read, and the figure of
all runs leaves them out."""

COUNT = 12
"""Findings drawn of a rule, one a run at most."""

AROUND = 2
"""So many steps before the step of a finding are printed."""


class Case(Struct, frozen=True, eq=False, kw_only=True):
    """A run as the rules see it: `found` as recorded, `hidden` with the outcome hidden.

    `name` is its file below the folder of its source, and the beginning of its id. `failed` is None
    where neither the source nor a person says.
    """

    key: str
    source: str
    name: str
    failed: bool | None
    found: tuple[Finding, ...]
    hidden: tuple[Finding, ...]


def hide(trace: Trace) -> Trace:
    """A run without anything that says how it ended."""
    header = trace.header
    known = {key: value for key, value in (header.reference or {}).items() if key != "check"}
    return structs.replace(
        trace, header=structs.replace(header, outcome=Outcome(), reference=known or None)
    )


def cases(store: Store) -> Iterator[Case]:
    """Every shared run, diagnosed twice."""
    wrong = {key for name in LABELS for key in _decisive(store, name)}
    for row in trace_rows(store):
        trace = read.load(store, row.trace)
        status = trace.header.outcome.status
        path = Path(row.path or "").relative_to(DATA)
        yield Case(
            key=row.trace,
            source=path.parts[0],
            name=f"{'/'.join(path.parts[1:])} · {row.trace[:10]}",
            failed={"passed": False, "failed": True}.get(status, row.trace in wrong or None),
            found=_sure(findings(RuleContext(trace))),
            hidden=_sure(findings(RuleContext(hide(trace)))),
        )


def _sure(found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(each for each in found if not each.is_hint)


def _decisive(store: Store, name: str) -> set[str]:
    labels, _ = read_labels(DATA / "labels" / f"{name}.jsonl")
    placed, _ = place(store, labels)
    return {each.trace for each in placed if each.label.decisive}


# --- figures


def measured(store: Store, every: Sequence[Case]) -> tuple[tuple[Share, ...], Agreement]:
    """A row a source and one of all agents, and what people say of the steps that rules name."""
    by_source: dict[str, list[Case]] = defaultdict(list)
    for each in every:
        by_source[each.source].append(each)
    rows = [_share(name, some) for name, some in sorted(by_source.items())]
    agents = [each for each in every if each.source != SCRIPTED]
    return (*rows, _share(f"all but {SCRIPTED}", agents)), agreement(store, every)


def _share(source: str, some: Sequence[Case]) -> Share:
    passed = [each for each in some if each.failed is False]
    failed = [each for each in some if each.failed]
    return Share(
        source=source,
        runs=len(some),
        passed=len(passed),
        alarms=sum(bool(each.hidden) for each in passed),
        failed=len(failed),
        classed=sum(bool(each.found) for each in failed),
        classed_hidden=sum(bool(each.hidden) for each in failed),
        by_rule=dict(Counter(rule for each in passed for rule in {f.rule for f in each.hidden})),
    )


def _with_before(share: Share, kept: Share | None) -> Share:
    """A row with what was counted before the rules were mended."""
    if kept is None:
        return share
    return structs.replace(
        share, classed_before=kept.classed_before, alarms_before=kept.alarms_before
    )


def agreement(store: Store, every: Sequence[Case]) -> Agreement:
    """Of the findings on the runs that TRAIL's annotators read: how many name a step at which, or
    next to which, a person saw an error, and how many with the class that the error stands for."""
    marked: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name in LABELS[:2]:
        labels, _ = read_labels(DATA / "labels" / f"{name}.jsonl")
        placed, _ = place(store, labels)
        for each in placed:
            if each.step is not None:
                marked[each.trace][each.step] |= {str(c) for c in each.label.classes or ()}
    steps = {row.trace: row.steps for row in trace_rows(store)}
    found = [(each.key, f) for each in every if each.key in marked for f in each.hidden]
    return Agreement(
        findings=len(found),
        step=sum(bool(marked[key].get(f.step)) or f.step in marked[key] for key, f in found),
        near=sum(any(abs(f.step - at) <= 1 for at in marked[key]) for key, f in found),
        classed=sum(f.failure.value in marked[key].get(f.step, ()) for key, f in found),
        chance=_chance(marked, [key for key, _ in found], steps),
    )


def _chance(marked: dict[str, dict[int, set[str]]], keys: Sequence[str], steps: dict[str, int]
) -> float:  # fmt: skip
    """How many random steps of the same runs would be marked ones."""
    return sum(len(marked[key]) / max(steps[key], 1) for key in keys)


def audited(store: Store) -> tuple[ProbeShare, ...]:
    """What the probes find in the runs of all agents, each with its outcome hidden."""
    found: dict[str, tuple[Audited, ...]] = {}
    passed: set[str] = set()
    for row in trace_rows(store):
        if Path(row.path or "").relative_to(DATA).parts[0] != SCRIPTED:
            found[row.trace] = audit_run(hide(read.load(store, row.trace)))
            if row.outcome == "passed":
                passed.add(row.trace)
    return tuple(_probe_share(rate_probe(each, found), each, found, passed) for each in PROBES)


def _probe_share(
    rated: ProbeRate, probe: Probe, found: dict[str, tuple[Audited, ...]], passed: set[str]
) -> ProbeShare:
    good = rate_probe(probe, {key: said for key, said in found.items() if key in passed})
    return ProbeShare(
        probe=rated.title,
        unit=rated.unit,
        checks=rated.chances.n,
        failed=rated.failed,
        runs=rated.runs.n,
        runs_failed=rated.runs_failed,
        passed=good.runs.n,
        alarms=good.runs_failed,
        unread=rated.unread,
    )


# --- reading


def drawn(every: Sequence[Case], seed: int, count: int = COUNT) -> Iterator[tuple[Case, Finding]]:
    """Findings of each rule, source after source, one a run; of rules that are silent where the
    outcome is hidden, those of the runs as recorded."""
    for name in dict.fromkeys(rule.name for rule in RULES):
        chance = random.Random(f"{seed} {name}")
        found = _of_rule(every, name, hidden=True) or _of_rule(every, name, hidden=False)
        for some in found.values():
            chance.shuffle(some)
        order = sorted(found)
        chance.shuffle(order)
        taken = 0
        while taken < count and any(found.values()):
            for source in order:
                if found[source] and taken < count:
                    yield found[source].pop()
                    taken += 1


def _of_rule(
    every: Sequence[Case], name: str, *, hidden: bool
) -> dict[str, list[tuple[Case, Finding]]]:
    found: dict[str, list[tuple[Case, Finding]]] = defaultdict(list)
    for each in every:
        first = next((f for f in (each.hidden if hidden else each.found) if f.rule == name), None)
        if first is not None and not (each.source == SCRIPTED and found[each.source]):
            found[each.source].append((each, first))
    return found


def printed(store: Store, case: Case, found: Finding) -> Iterator[str]:
    """A finding with its evidence, the task, the steps before its own and the end of the run."""
    reading = Reading(hide(read.load(store, case.key)))
    sub = f" / {found.sub}" if found.sub else ""
    yield f"=== {found.rule} · {case.source} · {case.name} · step {found.step}"
    yield f"    {found.failure}{sub}: {found.why}"
    yield from (f"    {e.role} step {e.step} {e.place}: {cut(e.text, 400)}" for e in found.evidence)
    asked = next((heard.text for turn in reading.turns for heard in turn.heard), "")
    yield f"  task: {cut(asked, 500)}"
    last = len(reading.turns) - 1
    shown = [*range(max(found.step - AROUND, 0), min(found.step + AROUND, last) + 1), last]
    for turn in (reading.turns[at] for at in dict.fromkeys(shown)):
        yield from (f"  <{heard.role}> {cut(heard.text, 300)}" for heard in turn.heard[-2:])
        yield f"  [{turn.index}] {turn.ask.agent or ''}: {cut(turn.said, 500)}"
        for act in turn.acts:
            yield f"      -> {cut(act.key, 400)}"
            yield f"      <- {act.reply.failed}: {cut(act.reply.text, 300)}"


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.bench.precision", description=__doc__)
    asked.add_argument("what", choices=["figures", "draw", "publish"])
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--count", type=int, default=COUNT)
    asked.add_argument("--rule", help="draw findings of this rule alone")
    asked.add_argument("--db", type=Path, help="a database of the runs, made where there is none")
    given = asked.parse_args()
    folder = given.db.parent if given.db else None
    with (
        nullcontext(folder)
        if folder
        else tempfile.TemporaryDirectory(prefix="arc-precision-") as at
    ):
        path = given.db or Path(at) / "runs.db"
        new = not path.exists()
        with open_ledger(path) as store:
            if new:
                folders = (each for each in DATA.iterdir() if each.is_dir())
                imported(store, *sorted(each for each in folders if each.name != "labels"))
            every = list(cases(store))
            if given.what == "draw":
                for case, found in drawn(every, given.seed, given.count):
                    if given.rule in (None, found.rule):
                        print("\n".join(printed(store, case, found)), flush=True)
                return
            shares, agreed = measured(store, every)
            probes = audited(store)
    kept = shipped()
    before = {each.source: each for each in kept.shares}
    results = structs.replace(
        kept,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        engine=engine_version(),
        shares=tuple(_with_before(each, before.get(each.source)) for each in shares),
        agreement=agreed,
        probes=probes,
    )
    if given.what == "publish":
        save(results)
    print(tables(results))


if __name__ == "__main__":
    main()
