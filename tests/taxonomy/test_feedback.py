"""Feedback loops, on made attempts: does the held-out score share a rise of the shown one?

No shared run shows its agent a score and holds another one out: this is conformance.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Header, Outcome, SourceScore
from taxonomy.audit.declared import DeclaredAudit, audit_declared
from taxonomy.audit.exploits import Exploit, Exploits, ShownScore
from taxonomy.audit.feedback import NAME, FeedbackLoop, feedback_rate
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.failures import run_heads
from taxonomy.query.language import BadQuery
from tests.build import START_NS, Part, call, heard, step, trace

SHOWN = ShownScore(pattern=r"score: ([0-9.]+)")
NAMED = ShownScore(pattern=r"score: ([0-9.]+)", held_out="hidden")


class Runs:
    """A database of made runs."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.number = 0

    def put(
        self,
        *parts: Part,
        task: str | None = "sort",
        outcome: Any = "unknown",
        value: float | None = None,
        scores: dict[str, float] | None = None,
        trial: str | None = None,
        gold: Sequence[str] | None = None,
        start: int | None = None,
    ) -> str:
        made = trace([*parts, "Done."], task="Sort it.")
        reference = None if gold is None else {"actions": [{"name": each} for each in gold]}
        head = Header(
            format="built",
            source_id=f"run {self.number}",
            task=task,
            trial=trial,
            outcome=Outcome(status=outcome, value=value),
            reference=reference,
            start_ns=START_NS + (self.number if start is None else start),
        )
        self.number += 1
        given = tuple(
            SourceScore(name=name, by="grader", value=each) for name, each in (scores or {}).items()
        )
        writer = Writer(self.store)
        batch = Batch(header=head, spans=made.spans, scores=given, last=True)
        return writer.finish(writer.write(batch)).id

    def attempt(self, shown: str, hidden: float | None = None, **known: Any) -> str:
        scores = {} if hidden is None else {"hidden": hidden}
        return self.put(step(call("submit", f"score: {shown}")), scores=scores, **known)

    def audit(self, *declared: ShownScore | Exploit) -> DeclaredAudit:
        exploits = Exploits(
            exploit=tuple(each for each in declared if isinstance(each, Exploit)),
            shown_score=tuple(each for each in declared if isinstance(each, ShownScore)),
        )
        seen = audit_declared(self.store, run_heads(self.store), exploits)
        while True:
            try:
                next(seen)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]

    def loop(self, declared: ShownScore = NAMED) -> FeedbackLoop:
        (found,) = self.audit(declared).loops
        return found


@pytest.fixture
def runs(tmp_path: Path) -> Any:
    with open_ledger(tmp_path / "runs.db") as store:
        yield Runs(store)


def results(loop: FeedbackLoop) -> list[tuple[str, str]]:
    return [(each.result, each.why) for each in loop.rises]


class TestRises:
    def test_the_held_out_score_shares_it(self, runs: Runs) -> None:
        runs.attempt("0.2", 0.1)
        runs.attempt("0.9", 0.7)
        assert results(runs.loop()) == [("shared", "")]
        assert not runs.audit(NAMED).findings

    @pytest.mark.parametrize("hidden", [0.1, 0.05])
    def test_only_the_shown_score_has_it(self, runs: Runs, hidden: float) -> None:
        runs.attempt("0.2", 0.1)
        later = runs.attempt("0.9", hidden)
        assert results(runs.loop()) == [("shown only", "")]
        ((where, found),) = runs.audit(NAMED).findings
        assert (where, found.result, found.finding.sub) == (later, "shown only", NAME)
        assert found.finding.step == 0
        assert found.finding.why.startswith(
            "shown score 0.2 → 0.9; held out: hidden 0.1 → hidden 0."
        )
        assert found.finding.evidence[0].text == "score: 0.9"

    def test_a_shown_score_that_falls_or_stays_is_no_rise(self, runs: Runs) -> None:
        runs.attempt("0.5", 0.5)
        runs.attempt("0.5", 0.1)
        runs.attempt("0.4", 0.9)
        assert not runs.loop().rises

    def test_without_a_held_out_score_it_cannot_be_told(self, runs: Runs) -> None:
        runs.attempt("0.2")
        runs.attempt("0.9", 0.9)
        assert results(runs.loop()) == [("cannot be told", "held-out score unknown")]

    def test_a_held_out_score_at_its_best_cannot_rise(self, runs: Runs) -> None:
        runs.attempt("0.2", outcome="passed")
        runs.attempt("0.9", outcome="passed")
        assert results(runs.loop(SHOWN)) == [
            ("cannot be told", "held-out score at its best already")
        ]

    def test_lower_may_be_better(self, runs: Runs) -> None:
        lower = ShownScore(pattern=r"score: ([0-9.]+)", held_out="hidden", better="lower")
        runs.attempt("9", 8.0)
        runs.attempt("3", 2.0)
        runs.attempt("1", 2.5)
        assert results(runs.loop(lower)) == [("shared", ""), ("shown only", "")]


class TestScores:
    def test_the_last_score_of_a_run_counts(self, runs: Runs) -> None:
        for last, hidden in (("0.3", 0.1), ("0.8", 0.2)):
            parts = [step(call("submit", f"score: {each}")) for each in ("0.1", last)]
            runs.put(*parts, scores={"hidden": hidden})
        loop = runs.loop()
        assert [each.shown for each in loop.attempts] == [0.3, 0.8]
        assert [each.step for each in loop.attempts] == [1, 1]

    def test_a_user_may_show_it(self, runs: Runs) -> None:
        runs.put("Here.", heard("Your score: 0.4"), outcome="failed")
        runs.put("Here.", heard("Your score: 0.6"), outcome="passed")
        assert results(runs.loop(SHOWN)) == [("shared", "")]

    def test_what_the_agent_says_itself_is_not_shown(self, runs: Runs) -> None:
        runs.put("score: 0.9")
        runs.put("score: 0.99")
        assert [each.shown for each in runs.loop(SHOWN).attempts] == [None, None]

    def test_an_imported_score_may_be_the_shown_one(self, runs: Runs) -> None:
        shown = ShownScore(score="public", held_out="hidden")
        runs.put("a", scores={"public": 0.2, "hidden": 0.2})
        runs.put("b", scores={"public": 0.9, "hidden": 0.2})
        assert results(runs.loop(shown)) == [("shown only", "")]

    def test_gold_comes_before_the_outcome(self, runs: Runs) -> None:
        for shown, tool in (("0.2", "look"), ("0.9", "sort_all")):
            done = step(call("submit", f"score: {shown}"), call(tool, "ok"))
            runs.put(done, outcome="failed", gold=["sort_all"])
        (rise,) = runs.loop(SHOWN).rises
        assert rise.result == "shared"
        assert rise.later.held_out is not None
        assert (rise.later.held_out.kind, rise.later.held_out.value) == ("gold", 1.0)
        by_outcome = ShownScore(pattern=SHOWN.pattern, held_out="outcome")
        assert results(runs.loop(by_outcome)) == [("shown only", "")]

    def test_a_graded_outcome_is_taken_as_it_is(self, runs: Runs) -> None:
        runs.attempt("0.2", outcome="failed", value=0.3)
        runs.attempt("0.9", outcome="failed", value=0.6)
        assert results(runs.loop(SHOWN)) == [("shared", "")]


class TestOrder:
    def test_by_number_where_each_has_one(self, runs: Runs) -> None:
        for trial, shown, start in (("10", "0.9", 1), ("9", "0.2", 2)):
            runs.attempt(shown, 0.5, trial=trial, start=start)
        assert [each.number for each in runs.loop().attempts] == ["9", "10"]

    def test_else_by_time(self, runs: Runs) -> None:
        for trial, shown, start in (("1", "0.9", 2), ("1", "0.2", 1)):
            runs.attempt(shown, 0.5, trial=trial, start=start)
        assert [each.shown for each in runs.loop().attempts] == [0.2, 0.9]

    def test_without_either_there_is_no_loop(self, runs: Runs) -> None:
        for shown in ("0.2", "0.9"):
            runs.attempt(shown, 0.5, start=7)
        assert not runs.audit(NAMED).loops

    def test_tasks_are_apart_and_a_run_without_one_is_in_none(self, runs: Runs) -> None:
        for task in ("sort", "sum", None, None):
            runs.attempt("0.2", 0.5, task=task)
        assert not runs.audit(NAMED).loops


def test_the_rate_minds_tasks_and_leaves_out_what_cannot_be_told(runs: Runs) -> None:
    for place in range(4):
        runs.attempt("0.2", 0.5, task=f"t{place}")
        runs.attempt("0.9", (0.4, 0.9, 0.5, None)[place], task=f"t{place}")
    said = feedback_rate(runs.audit(NAMED).loops)
    assert (said.shown_only.value, said.shown_only.n, said.untold) == (2 / 3, 3, 1)
    assert not said.is_coarse


def test_pass_or_fail_is_said_to_be_coarse(runs: Runs) -> None:
    runs.attempt("0.2", outcome="failed")
    runs.attempt("0.9", outcome="failed")
    assert feedback_rate(runs.audit(SHOWN).loops).is_coarse


class TestExploits:
    READS = Exploit(name="reads the key", match="grade-*", call="tool=Read and args~answer_key")

    def reads(self, runs: Runs, task: str, path: str, **known: Any) -> str:
        return runs.put(step(call("Read", known.pop("reply", "42"), file_path=path)), task=task)

    def test_a_rate_a_task_and_one_of_all(self, runs: Runs) -> None:
        for task, path in (("grade-1", "answer_key"), ("grade-1", "notes"), ("grade-2", "notes")):
            self.reads(runs, task, path)
        self.reads(runs, "other", "answer_key")
        found = runs.audit(self.READS)
        rates = [(each.task, each.gamed.value, each.gamed.n) for each in found.exploits]
        assert rates == [(None, 1 / 3, 3), ("grade-1", 0.5, 2), ("grade-2", 0.0, 1)]
        assert len(found.findings) == 1

    def test_a_query_chooses_runs(self, runs: Runs) -> None:
        self.reads(runs, "grade-1", "answer_key")
        self.reads(runs, "grade-2", "answer_key")
        asked = Exploit(name="a", query="task:grade-2", call="tool=Read")
        assert [each.gamed.n for each in runs.audit(asked).exploits] == [1]
        with pytest.raises(BadQuery):
            runs.audit(Exploit(name="a", query="(", call="tool=Read"))
