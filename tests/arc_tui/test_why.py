"""Why a step is suspect: every score side by side, hints as hints, where values came from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from arc_tui.features.trace.pages import why_page
from arc_tui.ui.document import Block, Fold, Item, StepLink
from arc_tui.views.step import StepView, build_step, step_markdown
from arc_tui.views.trace import Lane, TraceView, build_trace, hide_judgements
from arc_tui.views.value_origins import RunOrigins
from replay.store.handle import Store, now_ns
from taxonomy import goals
from taxonomy.calibration import approval
from taxonomy.calibration.approval import ItemGate, keep_item
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Evidence, Finding, Signal
from taxonomy.findings import Item as RubricItem
from taxonomy.goals import Goal, Goals, Task
from taxonomy.judge import scores
from taxonomy.judge.scores import Judged, ScoreSet
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give
from taxonomy.judgements.tags import Tag, put_tag
from taxonomy.metrics.agreement import Estimate
from tests.arc_tui import sample
from tests.build import call, step, trace

WINDOW = ScoreSet(mode="window", model="claude-haiku", rubric="1-abcd1234").by
OTHER = ScoreSet(mode="step", model="other", rubric="1-ffff0000").by
BAND = ScoreSet(mode="step", model="claude-haiku", rubric="1-ffff0000").by
HINT = Finding(
    failure=FailureClass.WRONG_TOOL, step=4, why="another tool fits better", rule="better tool",
    confidence=0.3,
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    path = tmp_path / "arc.db"
    said = structs.replace(
        sample.SAID,
        findings=(*sample.SAID.findings, HINT),
        published=5,
        published_votes=(Signal(name="score drop", weight=1.0, phrase="score 0.50 → 0.25"),),
    )
    sample.put(path, sample.header("26", "1", sample.FAILED), sample.failed_run().spans, said)
    return open_ledger(path)


def judge(store: Store, by: str, values: dict[int, float]) -> None:
    view = build_trace(store, "last")
    scores.keep(
        store,
        view.run.trace,
        by,
        [
            Judged(
                step=at,
                span=view.steps[at].span,
                samples=(value,),
                items=(
                    RubricItem(name="tool choice", held=True, because="it had to look [2]"),
                    RubricItem(name="result read", held=False, because="it says else [3]"),
                    RubricItem(name="termination", held=None),
                ),
            )
            for at, value in values.items()
        ],
    )


def person(store: Store, at: int, value: float) -> None:
    view = build_trace(store, "last")
    given = HumanScore(
        trace=view.run.trace, span=view.steps[at].span, step=at, value=value, by="ada",
        note="half of it",
    )  # fmt: skip
    give(store, given)


def passes(store: Store, by: str, at_ns: int | None = None) -> None:
    at = now_ns() if at_ns is None else at_ns
    verdict = approval.JudgeApproval(by=by, r=Estimate(value=0.9, n=60), missing=(), checked_ns=at)
    approval.keep(store, verdict)


def in_thirty_days() -> str:
    day = datetime.fromtimestamp((now_ns() + approval.EXPIRES_NS) / 1e9, tz=UTC)
    return f"{day.day} {day:%b %Y}"


def lines(items: tuple[Item, ...]) -> list[str]:
    """What the page says, each block on a line, its folds open."""
    found: list[str] = []
    for item in items:
        if isinstance(item, Fold):
            found += [item.line, *lines(item.inside())]
        else:
            found.append("  ".join(filter(None, (item.label, item.text, item.aside))))
    return found


def why(store: Store, at: int, *, deeply: bool = True) -> list[str]:
    view, detail = at_step(store, at)
    if deeply:
        origins = RunOrigins(store, view.run.trace).of_step(at)
        detail = structs.replace(detail, value_origins=origins)
    return lines(why_page(view, detail))


def at_step(store: Store, at: int) -> tuple[TraceView, StepView]:
    view = build_trace(store, "last")
    return view, build_step(store, view.run.trace, at, rows=view.steps, said=view.diagnosis)


def score(lanes: tuple[Lane, ...]) -> Lane:
    assert lanes[0].name == "score"
    return lanes[0]


# --- whose score


def test_the_lane_shows_the_most_trusted_score_and_says_whose(store: Store) -> None:
    person(store, 2, 0.4)
    lane = score(build_trace(store, "last").lanes)
    assert lane.values[2:4] == (0.4, 0.25)
    assert lane.note == "by human, else rule"


def test_a_judge_that_is_not_calibrated_is_a_lane_of_its_own_and_in_no_other(store: Store) -> None:
    judge(store, WINDOW, {2: 0.1, 3: 0.9})
    view = build_trace(store, "last")
    assert score(view.lanes).values[2:4] == (1.0, 0.25)
    assert [who.name for who in view.scorers] == [
        "judge claude-haiku · window · never calibrated",
        "rule · rubric",
    ]
    alone = score(view.lanes_by(1))
    assert alone.values[2:5] == (0.1, 0.9, None)
    assert alone.note == "by judge claude-haiku · window · never calibrated"
    assert view.lanes_by(1)[1:] == view.lanes[1:]


def test_a_calibrated_judge_counts_and_one_that_failed_says_what_it_lacks(store: Store) -> None:
    judge(store, BAND, {2: 0.1})
    judge(store, OTHER, {2: 0.7})
    passes(store, BAND)
    weak = approval.JudgeApproval(
        by=OTHER,
        r=Estimate(value=0.5, n=60),
        missing=("r 0.50 is under 0.80",),
        checked_ns=now_ns(),
    )
    approval.keep(store, weak)
    view = build_trace(store, "last")
    assert score(view.lanes).values[2] == 0.1
    said = {who.model: (who.checked, who.used) for who in view.scorers if who.source == "judge"}
    assert said == {
        "claude-haiku": (f"approved until {in_thirty_days()}", True),
        "other": ("not approved: r 0.50 is under 0.80", False),
    }


def test_a_judge_that_is_trusted_on_other_tasks_says_on_which(store: Store) -> None:
    judge(store, BAND, {2: 0.1})
    r = Estimate(value=0.9, n=60)
    shop = approval.CategoryGate(category="shop", r=r, missing=())
    code = approval.CategoryGate(category="code", r=r, missing=("2 of at least 5 labels",))
    approval.keep(
        store,
        approval.JudgeApproval(
            by=BAND,
            r=r,
            missing=("code: 2 of at least 5 labels",),
            categories=(code, shop),
            checked_ns=now_ns(),
        ),
    )
    (who, _) = build_trace(store, "last").scorers
    assert who.checked == f"approved until {in_thirty_days()}: shop, not used for this run"
    assert not who.used


def test_a_person_who_answered_items_alone_gave_no_score(store: Store) -> None:
    view = build_trace(store, "last")
    said = HumanScore(trace=view.run.trace, span=view.steps[3].span, step=3, by="ada",
                          items={"tool choice": False})  # fmt: skip
    give(store, said)
    lines_ = why(store, 3)
    assert lines_[lines_.index("no score  human · ada") + 1] == "✗ tool choice"


def test_a_step_as_markdown_has_its_scores_and_whose_they_are(store: Store) -> None:
    person(store, 3, 0.5)
    judge(store, WINDOW, {3: 0.9})
    _, detail = at_step(store, 3)
    said = step_markdown(detail)
    section = said[said.index("### Scores") : said.index("### New in the request")]
    assert section.splitlines()[2:10] == [
        "- 0.50 by human · ada",
        "  - note: half of it",
        "- 0.90 by judge claude-haiku · window · never calibrated, not counted",
        "  - tool choice: yes (it had to look [2])",
        "  - result read: no (it says else [3])",
        "  - samples: 0.90",
        "- 0.25 by rule · rubric",
        "  - arguments grounded: no (seen before)",
    ]


def test_a_calibration_that_has_expired_says_so(store: Store) -> None:
    judge(store, BAND, {2: 0.1})
    passes(store, BAND, at_ns=1)
    view = build_trace(store, "last")
    assert view.scorers[0].checked == "calibration expired on 31 Jan 1970"
    assert score(view.lanes).values[2] == 1.0


def test_a_judge_calibrated_for_some_items_counts_on_those_alone(store: Store) -> None:
    judge(store, WINDOW, {3: 0.5})
    kappa = Estimate(value=0.8, n=40, low=0.6)
    keep_item(store, ItemGate(by=WINDOW, item="tool choice", kappa=kappa, missing=(),
                              checked_ns=now_ns()))  # fmt: skip
    assert score(build_trace(store, "last").lanes).values[3] == 1.0
    (head,) = (line for line in why(store, 3) if line.startswith("score 0.50"))
    assert f"approved until {in_thirty_days()}: tool choice" in head
    assert "counted as 1.00, on its calibrated items" in head


def test_all_scores_of_a_step_stand_side_by_side_with_what_is_behind_them(store: Store) -> None:
    person(store, 3, 0.5)
    judge(store, WINDOW, {3: 0.9})
    said = why(store, 3)
    heads = [line for line in said if line.startswith("score ") and "drop" not in line]
    assert heads == [
        "score 0.50  human · ada · counted",
        "score 0.90  judge claude-haiku · window · never calibrated · rubric 1-abcd1234"
        " · not counted",
        "score 0.25  rule · rubric",
    ]
    assert "· note  half of it" in said
    assert "✓ tool choice  it had to look [2]" in said
    assert "✗ result read  it says else [3]" in said
    assert "· not evaluated: termination" in said
    assert "· samples  0.90" in said


# --- what speaks against a step


def test_a_hint_is_marked_and_does_not_count_as_speaking_against_the_step(store: Store) -> None:
    said = why(store, 4)
    assert said[0].startswith("No findings, 1 hint.  ‹trace.candidate_next› candidate at")
    assert "wrong tool?  hint, not counted · rule: better tool · confidence 30%" in said


def test_a_step_with_nothing_against_it_says_so_in_one_line(store: Store) -> None:
    said = why(store, 1, deeply=False)
    assert said[0] == ("No findings.  ‹trace.candidate_next› candidate at step 3")


def test_the_published_rule_shows_its_votes_where_it_names_the_step(store: Store) -> None:
    assert "baseline heuristic: this step" in why(store, 5)
    assert "score 0.50 → 0.25  score drop" in why(store, 5)
    assert "baseline heuristic: this step" not in why(store, 3)
    assert any(line.startswith("   baseline heuristic: step 5") for line in why(store, 3))


def test_a_tag_says_who_gave_it_and_whose_doing_it_was(store: Store) -> None:
    view = build_trace(store, "last")
    given = Tag(
        trace=view.run.trace, span=view.steps[3].span, step=3, failure=FailureClass.OTHER,
        by="grace", sub="missing step", attribution=Attribution.ENVIRONMENT,
    )  # fmt: skip
    put_tag(store, given)
    assert why(store, 3)[0] == "tagged other / missing step  by grace · attribution: environment"


def test_evidence_from_another_step_leads_there(store: Store) -> None:
    view, detail = at_step(store, 3)
    links = {item.label: item.step for item in why_page(view, detail) if isinstance(item, StepLink)}
    assert links == {"says": None, "observed": 2, "stated": None}


def test_long_evidence_may_be_opened_and_is_never_cut(store: Store) -> None:
    view, detail = at_step(store, 3)
    long = Evidence(role="says", text="x" * 9000, step=2)
    finding = structs.replace(sample.BELIEF, evidence=(long,))
    page = why_page(view, structs.replace(detail, findings=(finding,)))
    block = next(item for item in page if isinstance(item, Block) and item.label == "says")
    assert len(block.text) == 9000
    assert block.key
    assert block.hidden


# --- what a step rests on


def test_each_value_says_where_it_was_shown_or_that_nothing_had(store: Store) -> None:
    assert "reservation_id  IFOYYZ  user message" in why(store, 4)
    said = why(store, 5)
    assert "value origins  1 of 1 not found in context" in said
    assert "✗ reservation_id  NQNUSR  not found in context" in said


def test_a_value_from_an_observation_leads_to_its_step(tmp_path: Path) -> None:
    run = trace(
        [
            step(call("find", {"order": "ORD-9912"}, name="Mei")),
            step(call("refund", "done", order="ORD-9912", reason="it broke on the way")),
        ],
        task="Refund Mei's order.",
    )
    path = tmp_path / "arc.db"
    sample.put(path, sample.header("1", "0", sample.FAILED), run.spans, sample.HEALTHY)
    with open_ledger(path) as store:
        view, detail = at_step(store, 1)
        detail = structs.replace(detail, value_origins=RunOrigins(store, view.run.trace).of_step(1))
        page = why_page(view, detail)
        placed = [item for item in page if isinstance(item, StepLink)]
        assert [(item.text, item.step) for item in placed] == [("order  ORD-9912", 0)]
        assert "1 value chosen by the model" in lines(page)
        assert "reason  it broke on the way  chosen by the model" in lines(page)


def test_goals_that_cover_a_step_are_named_with_their_weight(store: Store) -> None:
    goal = Goal(text="Reads before it speaks", weight=3, owner="desk", tool="get_*")
    kept_goals = Goals(task=(Task(match="26", goal=(goal,)),))
    goals.first_seen(store, kept_goals, "goals.toml")
    said = why(store, 2)
    place = said.index("goals covered")
    assert said[place + 1].startswith("Reads before it speaks  weight 3 · owner desk · goals.toml")
    assert "defined after the run" in said[place + 1]
    assert "goals covered" not in why(store, 4)
    last = max(at for at in range(12) if "goals covered" in why(store, at))
    assert any("last step of the goal" in line for line in why(store, last))


# --- blind


def test_a_blind_view_holds_nothing_that_was_said_of_the_run(store: Store) -> None:
    person(store, 3, 0.5)
    view = hide_judgements(build_trace(store, "last"))
    detail = build_step(store, view.run.trace, 3, rows=view.steps, said=None, blind=True)
    said = lines(why_page(view, detail))
    assert said == [
        "Blind review: findings, scores and other people's tags are hidden until you tag."
    ]
    assert (view.marked, view.tags, view.scorers, view.run.why) == ((), (), (), None)
    assert score(view.lanes).empty
