"""Locked replay: control beside the edit, from stored answers, and what may be said of it."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from replay import kept as replays
from replay.budget import Limits
from replay.compare.rules import PLAIN
from replay.edit.changes import Edit, RenameTool, ReplaceText, SetMessage, SetSystem, SetTool
from replay.errors import BadEdit, ModelRefused, NotFound, OfflineMiss, RequestRefused
from replay.kept import of_trace
from replay.locked.estimate import NO_CALLS, Estimate, estimate, total_estimate
from replay.locked.row import LOOK, Models, Sampling, Schedule, fixed
from replay.locked.run import core, replay
from replay.locked.tally import StepResult
from replay.locked.verdict import Collateral, Match, p_value, percent, summary
from replay.models.cached import Cached
from replay.models.choose import choose, default_name, label
from replay.models.protocol import flaw
from replay.redact.rules import Policy, rules
from replay.statistics import rate
from replay.store import answers, edits, handle
from replay.store.handle import Store
from replay.trace import (
    NO_SYSTEM,
    AnySpan,
    Fidelity,
    Level,
    ModelCall,
    Response,
    Tool,
    Trace,
    Usage,
)
from tests.messages_api import Body, message, text, tool_use
from tests.replay.locked_case import (
    BREAK,
    DIALOGUE,
    SYSTEM,
    VERIFY,
    Fixed,
    Tiny,
    core_of,
    request,
    spans,
    stored,
    tiny,
)
from tests.replay.locked_case import run as run_with

ROOT = Path(__file__).resolve().parents[2]
EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arc.db") as opened:
        yield opened


def run(
    store: Store, trace: Trace, edit: Edit | None = EDIT, model: Any = None, **beside: Any
) -> list[StepResult]:
    return run_with(trace, edit, tiny(store, model), **beside)


def going(trace: Trace, edit: Edit | None, model: Cached) -> Generator[StepResult]:
    return replay(trace, edit, Models.one(model), sampling=LOOK)


def foreseen(trace: Trace, edit: Edit | None, model: Cached, sampling: Sampling = LOOK) -> Estimate:
    return estimate(trace, edit, Models.one(model), sampling=sampling)


# --- the two arms


def test_the_edit_diverges_at_the_break_and_control_repeats_the_recording(store: Store) -> None:
    verdict = summary(run(store, stored(store)), BREAK)
    assert verdict.sentence == (
        "Control matches 5 of 5 steps."
        " The edit first diverges at step 1: refund_order → get_order;"
        " fixed: recorded action repeated in 0/1 edited, 1/1 control."
        " 1 sample: not conclusive. Outcome not evaluated."
    )
    assert verdict.at_break == "absent"
    assert verdict.control == Match(repeated=5, of=5)
    assert verdict.edited == Match(repeated=4, of=5)
    assert verdict.collateral == Collateral(fixed=1, same=1), "what comes after is left out"
    assert verdict.dimmed == (2, 3, 4)
    assert verdict.weakest is Level.EXACT


def test_control_alone_is_a_replay_too(store: Store) -> None:
    rows = run(store, stored(store), None)
    verdict = summary(rows)
    assert verdict.sentence == ("Control matches 5 of 5 steps. 1 sample: not conclusive.")
    assert verdict.edited is None
    assert all(row.edited == () for row in rows)


def test_control_that_diverges_says_where_first(store: Store) -> None:
    trace = stored(store)
    wrong = Fixed(message(tool_use("get_order", order_id=1)))
    assert summary(run(store, trace, None, wrong)).sentence == (
        "Control matches 0 of 5 steps;"
        " it first diverges at step 0: text → get_order. 1 sample: not conclusive."
    )


def test_a_step_whose_request_the_edit_does_not_touch_is_asked_once(store: Store) -> None:
    trace, model = stored(store), Tiny()
    late = Edit(name="late", changes=(SetMessage(index=6, text="Refund order 7."),))
    rows = run(store, trace, late, model)
    assert [row.touched for row in rows] == [False, False, False, True, True]
    assert model.asked == 7
    assert rows[0].control is rows[0].edited
    assert summary(rows, 3).at_break == "absent"


def test_an_edit_that_changes_nothing_asks_nothing_more_and_says_so(store: Store) -> None:
    trace, model = stored(store), Tiny()
    control = run(store, trace, None, model)
    same = Edit(name="same", changes=(SetSystem(SYSTEM), ReplaceText("Act", "Act")))
    rows = run(store, trace, same, model)
    assert model.asked == 5
    assert [row.control[0].key for row in rows] == [row.control[0].key for row in control]
    assert [row.edited[0].key for row in rows] == [row.control[0].key for row in control]
    assert summary(rows).sentence == (
        "Control matches 5 of 5 steps. No request changed. 1 sample: not conclusive."
    )


def test_an_edit_of_a_tool_reaches_the_model(store: Store) -> None:
    change = SetTool(name="refund_order", description="Refund. First verify.")
    rows = run(store, stored(store), Edit(name="tool", changes=(change,)))
    assert rows[BREAK].edited[0].action.phrase == "get_order(order_id=1042)"


def test_an_edit_belongs_to_the_thread_of_the_first_step_unless_it_names_another(
    store: Store,
) -> None:
    helper = spans(DIALOGUE[2:6], root="helper", parent="root")
    trace = stored(store, [*spans(DIALOGUE[:6]), *helper])
    assert [row.touched for row in run(store, trace)] == [True, True, True, False, False]
    named = structs.replace(EDIT, thread="helper")
    assert [row.touched for row in run(store, trace, named)] == [False, False, False, True, True]
    with pytest.raises(BadEdit, match="did you mean 'helper'"):
        run(store, trace, structs.replace(EDIT, thread="helpr"))


def test_calls_of_a_renamed_tool_are_compared_under_its_recorded_name(store: Store) -> None:
    class Renamed(Tiny):
        """The tiny model, which pays back where it is offered that."""

        def complete(self, body: Body, sample: int) -> Body:
            given = super().complete(body, sample)
            if any(tool["name"] == "pay_back" for tool in body["tools"]):
                for block in given["content"]:
                    if block.get("name") == "refund_order":
                        block["name"] = "pay_back"
            return given

    edit = Edit(name="rename", changes=(RenameTool(name="refund_order", new="pay_back"),))
    row = run(store, stored(store), edit, Renamed())[BREAK]
    assert row.edited[0].action.phrase == "refund_order(order_id=1042, amount=100)"
    assert (row.edited[0].against.same, row.edited[0].flaws) == (True, ())


def test_control_is_not_read_by_the_names_of_the_edit(store: Store) -> None:
    edit = Edit(name="rename", changes=(RenameTool(name="refund_order", new="pay_back"),))
    pays = Fixed(message(tool_use("pay_back", order_id=1042, amount=100)))
    row = run(store, stored(store), edit, pays)[BREAK]
    assert row.control[0].action.brief == "pay_back"
    assert row.control[0].flaws == ("calls pay_back, which is not offered",)
    assert row.edited[0].action.brief == "refund_order"


def test_only_the_steps_asked_for_are_asked(store: Store) -> None:
    model = Tiny()
    rows = run(store, stored(store), EDIT, model, steps={BREAK, 4})
    assert [row.step for row in rows] == [1, 4]
    assert model.asked == 4


def test_every_sample_of_a_request_is_its_own_answer(store: Store) -> None:
    model = Tiny()
    rows = run(store, stored(store), EDIT, model, sampling=fixed(3))
    assert model.asked == 5 * 2 * 3
    assert len({reply.key for row in rows for reply in row.control + row.edited}) == 30


# --- an edit that does not apply


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ReplaceText("Never there", "x"), "step 0: anchor"),
        (SetTool(name="none", description="x"), "step 0: unknown tool 'none'"),
        (SetMessage(index=99, text="x"), "Cannot replay: no replayable step has message 99"),
    ],
)
def test_an_edit_that_does_not_apply_is_refused_before_anything_is_asked(
    store: Store, change: Any, said: str
) -> None:
    model = Tiny()
    with pytest.raises(BadEdit) as error:
        run(store, stored(store), Edit(name="bad", changes=(change,)), model)
    assert error.value.message.startswith(said)
    assert model.asked == 0


def test_a_prompt_that_was_not_recorded_cannot_be_edited(store: Store) -> None:
    unknown = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM,))
    trace = stored(store, spans(asking=request(system=None), fidelity=unknown))
    with pytest.raises(BadEdit, match="arc attach"):
        run(store, trace)
    assert run(store, trace, None)


# --- steps that cannot be asked


def test_a_step_whose_request_is_unknown_gets_its_reason_and_no_call(store: Store) -> None:
    lost = Fidelity(level=Level.NONE, reasons=("the request was truncated",))
    trace, model = stored(store, spans(fidelity=lost)), Tiny()
    rows = run(store, trace, EDIT, model)
    assert {row.refused for row in rows} == {"the request was truncated"}
    assert model.asked == 0
    verdict = summary(rows, BREAK)
    assert verdict.sentence == "No step was replayed."
    assert (verdict.samples, verdict.look, verdict.model) == (0, True, "tiny")
    assert verdict.notices == ("step 0 not replayed: the request was truncated (and 4 more steps)",)


def test_each_reason_names_its_own_steps(store: Store) -> None:
    lost = Fidelity(level=Level.NONE, reasons=("the request was truncated",))
    trace = stored(store, [*spans(DIALOGUE[:4] + DIALOGUE[5:])])
    rows = run(store, trace)
    first = run(store, stored(store, spans(fidelity=lost), id="lost"))[0]
    notices = summary([first, *rows[1:]], BREAK).notices
    assert notices[0] == "step 0 not replayed: the request was truncated"
    assert notices[1].startswith("step 2 not replayed: ")
    assert notices[1].endswith("(and 2 more steps)")
    assert len(notices) == 2


def test_a_missing_result_stops_the_steps_after_it_and_no_other(store: Store) -> None:
    rows = run(store, stored(store, spans(DIALOGUE[:4] + DIALOGUE[5:])))
    assert [row.refused is None for row in rows] == [True, True, False, False, False]
    assert rows[2].fidelity.level is Level.EXACT


@pytest.mark.parametrize(("error", "why"), [("overloaded", "failed"), (None, "not recorded")])
def test_a_recorded_call_without_an_answer_says_why(
    store: Store, error: str | None, why: str
) -> None:
    *before, last = spans()
    assert isinstance(last, ModelCall)
    lost = structs.replace(last, error=error, response=Response(model="tiny"))
    rows = run(store, stored(store, [*before, lost]), None)
    assert [row.recorded.cut for row in rows] == [None, None, None, None, why]
    assert rows[-1].control[0].against.same is None


def test_calls_without_definitions_of_tools_are_not_asked_for(store: Store) -> None:
    trace = stored(store, spans(asking=request(tools=None)))
    rows = run(store, trace, None)
    assert rows[0].refused is None
    assert "calls a tool, but tool definitions not recorded" in str(rows[BREAK].refused)


def test_what_could_not_be_sent_lowers_the_fidelity_and_the_verdict_says_the_weakest(
    store: Store,
) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}}
    said = (("user", [{"type": "text", "text": "Hello"}, image]), *DIALOGUE[1:])
    rows = run(store, stored(store, spans(said)), None)
    verdict = summary(rows)
    assert verdict.weakest is Level.PARTIAL
    assert verdict.reasons == ("media not sent",)
    assert verdict.losses == ("media not sent",)


def test_a_step_whose_sampling_is_not_sent_says_so_everywhere(store: Store) -> None:
    asking = request(model="claude-test", params={"temperature": 0, "top_p": 0.9})
    trace = stored(store, spans(asking=asking, model="claude-test"))
    rows = run_with(trace, None, Cached(store, "claude-test", Tiny()))
    said = ("`temperature` not sent", "`top_p` not sent")
    assert {(row.fidelity.level, row.fidelity.reasons) for row in rows} == {(Level.REBUILT, said)}
    verdict = summary(rows)
    assert (verdict.weakest, verdict.reasons, verdict.losses) == (Level.REBUILT, said, said)
    core = core_of(trace, None, rows)
    assert {(row.fidelity, row.losses) for row in core.rows} == {(Level.REBUILT, said)}
    assert verdict.control.repeated == verdict.control.of  # the control arm still is the recording


def test_sampling_reaches_a_server_that_takes_it_and_the_step_stays_exact(store: Store) -> None:
    trace = stored(store, spans(asking=request(params={"temperature": 0})))
    model = Tiny()
    rows = run(store, trace, None, model)
    assert [body["temperature"] for body in model.bodies] == [0] * len(rows)
    assert {row.fidelity for row in rows} == {Fidelity(level=Level.EXACT)}


# --- models that decline


def test_a_model_that_declines_altogether_ends_the_replay_with_a_sentence(store: Store) -> None:
    model = Fixed(ModelRefused("no key", "set one"), after=3)
    rows = run(store, stored(store), EDIT, model)
    assert [row.ended for row in rows] == [None] + ["no key; set one"] * 4
    assert [len(row.control) for row in rows] == [1, 1, 0, 0, 0]
    assert model.asked == 4
    assert summary(rows).notices == (
        "step 2 not replayed: no key; set one (and 2 more steps)",
        "step 1 incomplete: no key; set one",
    )


def test_a_request_that_is_declined_costs_its_step_only(store: Store) -> None:
    model = Fixed(RequestRefused("too long"), after=0)
    rows = run(store, stored(store), EDIT, model)
    assert [row.refused for row in rows] == ["too long"] * 5


def test_the_demo_model_refuses_strange_tools_in_one_sentence(store: Store) -> None:
    strange = (Tool(name="qzx", description="Zz."),)
    said = (("user", "Hi"), ("assistant", [tool_use("qzx")]), ("result", "x"), ("assistant", "Y."))
    trace = stored(store, spans(said, asking=request(tools=strange)))
    rows = run_with(trace, None, choose("demo", store))
    assert [row.control for row in rows] == [(), ()]
    assert "demo" in str(rows[0].refused)


def test_an_answer_that_is_no_message_is_refused_and_not_kept(store: Store) -> None:
    trace = stored(store)
    openai = {"choices": [{"message": {"role": "assistant"}}]}
    rows = run(store, trace, EDIT, Fixed(openai))
    assert not any(row.control for row in rows)
    assert "returned an invalid message" in str(rows[0].refused)
    with pytest.raises(OfflineMiss):
        run_with(trace, EDIT, Cached(store, "tiny"))


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {},
        {"type": "message", "content": None, "stop_reason": "end_turn"},
        {"type": "message", "content": [], "stop_reason": None},
        {"type": "message", "content": ["x"], "stop_reason": "end_turn"},
        {
            "type": "message",
            "content": [{"type": "tool_use", "name": "a", "input": "{"}],
            "stop_reason": "tool_use",
        },
    ],
)
def test_half_an_answer_is_none(wrong: Any) -> None:
    assert flaw(wrong) is not None
    assert flaw(message(text("x"), tool_use("a"))) is None


# --- stored answers


def test_the_second_run_asks_nothing_and_comes_to_the_same(store: Store) -> None:
    trace, model = stored(store), Tiny()
    first = core_of(trace, EDIT, run(store, trace, EDIT, model))
    again = Cached(store, "tiny", model)
    second = core_of(trace, EDIT, run_with(trace, EDIT, again))
    assert first.digest == second.digest
    assert first.encoded() == second.encoded()
    assert (again.asks, again.hits) == (0, 10)
    assert model.asked == 10


def test_the_order_in_which_steps_return_changes_no_digest(store: Store) -> None:
    trace = stored(store)
    rows = run(store, trace)
    shuffled = random.Random(7).sample(rows, len(rows))
    assert core_of(trace, EDIT, rows).digest == core_of(trace, EDIT, shuffled).digest
    assert summary(rows, BREAK) == summary(shuffled, BREAK)


def test_the_server_of_each_arm_is_part_of_the_digest(store: Store) -> None:
    trace = stored(store)
    rows = run(store, trace)
    places = [("", ""), ("http://one.test", ""), ("", "http://one.test")]
    made = [
        core(
            trace,
            EDIT,
            Models(*(Cached(store, "tiny", server=place) for place in pair)),
            rows,
            sampling=LOOK,
            steps=None,
            rules=PLAIN,
        )
        for pair in places
    ]
    assert [(each.server, each.edited_server) for each in made] == places
    assert len({each.digest for each in made}) == len(places)


def test_a_swapped_answer_changes_the_digest(tmp_path: Path) -> None:
    digests = set()
    for at, said in enumerate(("One.", "Two.")):
        with Store.open(tmp_path / f"{at}.db") as store:
            trace = stored(store)
            rows = run(store, trace, None, Fixed(message(text(said))))
            digests.add(core_of(trace, None, rows).digest)
    assert len(digests) == 2


def test_offline_a_missing_answer_is_an_error_that_names_the_step(store: Store) -> None:
    trace = stored(store)
    run(store, trace, None, steps={0, 1})
    rows: list[StepResult] = []
    with pytest.raises(OfflineMiss, match=r"step 2: no cached response of tiny.*--live"):
        rows.extend(going(trace, None, Cached(store, "tiny")))
    offline = going(trace, None, Cached(store, "tiny"))
    assert [next(offline).step, next(offline).step] == [0, 1]


def test_an_answer_is_kept_masked_and_read_back_as_kept(store: Store) -> None:
    key = "sk-ant-" + "a1" * 20
    trace = stored(store)
    first = run(store, trace, None, Fixed(message(text(f"Use {key}."))), steps={0})
    second = run(store, trace, None, steps={0})
    assert key not in str(first[0].control[0].action)
    assert first[0].control[0].action == second[0].control[0].action
    kept = answers.get(store, first[0].control[0].key)
    assert kept is not None
    assert key not in str(kept.body)


def test_what_a_replay_refers_to_is_found_again_under_a_pattern_that_matches_in_digests() -> None:
    with (
        handle.masked_by(Policy(rules=rules({"three": r"[a-f][0-9][a-f]"}))),
        Store.open(":memory:") as own,
    ):
        trace, edit = stored(own), edits.save(own, EDIT)
        made = core_of(trace, edit, run(own, trace, edit))
        kept = replays.find(own, replays.keep(own, made))
    assert (kept.trace, kept.edit) == (made.trace, made.edit)
    assert [each.key for row in kept.rows for each in row.control] == [
        each.key for row in made.rows for each in row.control
    ]


def test_a_replay_is_stored_once_with_its_edit_and_found_by_its_digest(store: Store) -> None:
    trace, edit = stored(store), edits.save(store, EDIT)
    made = core_of(trace, edit, run(store, trace, edit))
    assert replays.keep(store, made) == made.digest
    assert replays.keep(store, made) == made.digest
    assert replays.find(store, made.digest) == made
    assert replays.find(store, made.digest).digest == made.digest
    assert [kept.edit for kept in of_trace(store, trace.id)] == [edit.digest]
    with pytest.raises(NotFound):
        replays.find(store, "sha256:none")


def in_a_process(path: Path, key: str, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.replay.locked_case", str(path), key, *more],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, **env}, check=False,
    )  # fmt: skip


@pytest.mark.process
def test_offline_without_sockets_or_sdk_every_process_prints_the_same_digest(
    tmp_path: Path,
) -> None:
    path = tmp_path / "arc.db"
    with Store.open(path) as store:
        trace = stored(store)
        digest = core_of(trace, EDIT, run(store, trace)).digest
    for seed, zone in (("0", "UTC"), ("4242", "Asia/Kolkata")):
        done = in_a_process(path, trace.id, PYTHONHASHSEED=seed, TZ=zone, LANG="C")
        assert done.stdout.splitlines() == [digest, ""], done.stderr


@pytest.mark.slow
def test_a_killed_replay_resumes_and_asks_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    with Store.open(path) as store:
        trace = stored(store)
    killed = in_a_process(path, trace.id, "6")
    assert killed.returncode == -9
    with Store.open(path) as store:
        model = Tiny()
        rows = run(store, trace, EDIT, model)
        assert model.asked == 4
        assert summary(rows, BREAK).at_break == "absent"


def test_closing_the_replay_stops_it_and_keeps_what_was_answered(store: Store) -> None:
    trace, model = stored(store), Tiny()
    asking = going(trace, EDIT, tiny(store, model))
    next(asking)
    asking.close()
    assert model.asked == 2
    run(store, trace, EDIT, model)
    assert model.asked == 10


# --- what may be said


def test_the_recorded_action_may_still_be_there(store: Store) -> None:
    other = Edit(name="x", changes=(SetSystem("You refund orders. Be brief."),))
    verdict = summary(run(store, stored(store), other), BREAK)
    assert verdict.at_break == "present"
    assert verdict.sentence == (
        "Control matches 5 of 5 steps. The edit does not diverge;"
        " not fixed: recorded action at step 1 repeated in 1/1 edited, 1/1 control."
        " 1 sample: not conclusive. Outcome not evaluated."
    )


def test_a_break_that_control_does_not_repeat_is_no_ones_merit(store: Store) -> None:
    said = (*DIALOGUE[:3], ("assistant", [tool_use("get_order", order_id=9)]), *DIALOGUE[4:])
    verdict = summary(run(store, stored(store, spans(said))), BREAK)
    assert verdict.at_break == "absent in control"
    assert (
        "inconclusive, absent in control too: recorded action repeated in 0/1 edited"
        in verdict.sentence
    )
    assert verdict.collateral is not None
    assert verdict.collateral.fixed == 0


def test_other_words_at_the_break_are_no_divergence(store: Store) -> None:
    said = (*DIALOGUE[:3], ("assistant", "I cannot refund that."), *DIALOGUE[6:])
    rows = run(store, stored(store, spans(said)), EDIT, Fixed(message(text("No refund."))))
    verdict = summary(rows, BREAK)
    assert verdict.at_break == "reworded"
    assert verdict.control == Match(repeated=0, of=4, reworded=3)
    assert "inconclusive: text at step 1 reworded" in verdict.sentence
    assert verdict.sentence.startswith("Control matches 0 of 4 steps, 3 reworded. The edit")


@pytest.mark.parametrize(
    ("steps", "said"), [({0}, "1 step reworded"), ({0, 2}, "2 steps reworded")]
)
def test_steps_that_the_edit_only_rewords_are_counted(
    store: Store, steps: set[int], said: str
) -> None:
    rows = run(store, stored(store), EDIT, Fixed(message(text("Good day."))), steps=steps)
    assert f"The edit does not diverge; {said}." in summary(rows).sentence


@pytest.mark.parametrize(
    ("hits", "n", "said"),
    [(4, 5, "80 % (38–96 %, n = 5)"), (3, 96, "3 % (1–9 %, n = 96)"), (0, 0, "– (n = 0)")],
)
def test_a_rate_stands_with_its_interval_and_count(hits: int, n: int, said: str) -> None:
    assert percent(rate(hits, n)) == said


@pytest.mark.parametrize(
    ("p", "said"),
    [
        (1.0, "p = 1"),
        (0.9991, "p = 1"),
        (0.999, "p = .999"),
        (0.1, "p = .100"),
        (0.008, "p = .008"),
        (0.001, "p = .001"),
        (0.0009, "p < .001"),
    ],
)
def test_a_probability_is_printed_to_three_digits(p: float, said: str) -> None:
    assert p_value(p) == said


def test_a_break_after_the_first_divergence_rests_on_another_history(store: Store) -> None:
    early = Edit(name="x", changes=(SetMessage(index=0, text="Refund 1"), SetSystem(VERIFY)))
    verdict = summary(run(store, stored(store), early), BREAK)
    assert verdict.edited_diverges == 0
    assert verdict.dimmed == (1, 2, 3, 4)
    assert verdict.marks[BREAK] == "changed"
    assert "after divergence, not counted" in verdict.sentence


def test_a_divergence_that_control_shares_is_said_to_be_shared(store: Store) -> None:
    said = (("user", "Hello"), ("assistant", [tool_use("get_order", order_id=9)]), *DIALOGUE[4:])
    verdict = summary(run(store, stored(store, spans(said))))
    assert "first diverges at step 0: get_order → text, as does control." in verdict.sentence


def test_a_break_that_was_not_asked_is_not_known(store: Store) -> None:
    verdict = summary(run(store, stored(store), steps={0, 3}), BREAK)
    assert verdict.at_break == "unknown"
    assert "break at step 1 not evaluated" in verdict.sentence


def test_a_cut_answer_is_neither_a_match_nor_a_divergence(store: Store) -> None:
    cut = Fixed(message(text("I wi"), stop="max_tokens"))
    verdict = summary(run(store, stored(store), EDIT, cut), BREAK)
    assert verdict.control == Match(repeated=0, of=5, unclear=5)
    assert verdict.edited_diverges is None
    assert verdict.at_break == "unknown"
    assert verdict.collateral == Collateral(unclear=5)


def test_an_answer_that_cannot_be_right_breaks_its_step(store: Store) -> None:
    trace = stored(store)
    run(store, trace, None)
    rows = run(store, trace, EDIT, Fixed(message(tool_use("magic"))))
    assert summary(rows, BREAK).marks == dict.fromkeys(range(5), "broke")
    assert rows[0].edited[0].flaws == ("calls magic, which is not offered",)
    assert summary(rows, BREAK).collateral == Collateral(broke=1)


def test_another_model_answers_for_itself(store: Store) -> None:
    trace = stored(store, spans(model="openai/gpt-4o"))
    assert summary(run(store, trace)).sentence.endswith(
        "Replayed on tiny, recorded with openai/gpt-4o: the result holds for tiny only."
    )
    unknown = stored(store, spans(model=None), id="other")
    assert summary(run(store, unknown)).sentence.endswith(
        "Replayed on tiny; recorded model unknown."
    )


def test_what_the_caller_knows_against_a_prompt_edit_stands_beside_the_sentence(
    store: Store,
) -> None:
    notice = "Every call of this run is malformed: no prompt edit answers that."
    assert summary(run(store, stored(store)), notice=notice).notices == (notice,)


def test_no_sentence_says_how_the_run_would_have_ended(store: Store) -> None:
    trace = stored(store)
    models = [Fixed(message(text("No."))), Fixed(message(tool_use("magic"))), Tiny()]
    said = []
    for at, model in enumerate(models):
        with Store.open(":memory:") as fresh:
            rows = run(fresh, trace, EDIT, model)
        said += [summary(rows[:cut], step).sentence for cut in range(6) for step in (None, 0, at)]
    assert not [s for s in said if re.search(r"(?i)\b(pass|fail|succe|solved|correct)", s)]
    assert all(s.endswith(".") for s in said)


# --- before the first call


def test_the_estimate_counts_what_is_not_stored_from_recorded_tokens(store: Store) -> None:
    trace = stored(store)
    name = "claude-sonnet-4-5"
    offline = Cached(store, name)
    full = foreseen(trace, EDIT, offline)
    assert (full.calls, full.stored, full.by_size) == (10, 0, 0)
    assert (full.input_tokens, full.output_tokens) == (10_000, 500)
    assert full.usd == pytest.approx(10_000 * 3e-6 + 500 * 15e-6)
    run_with(trace, None, Cached(store, name, Tiny()))
    half = foreseen(trace, EDIT, offline)
    assert (half.calls, half.stored) == (5, 5)
    assert foreseen(trace, EDIT, Cached(store, "nobody-knows-it")).usd is None
    some = estimate(trace, EDIT, Models.one(offline), sampling=LOOK, steps={0, BREAK})
    assert (some.calls, some.stored, some.input_tokens) == (2, 2, 2000)


def sized(*tokens: int) -> list[AnySpan]:
    """The spans of the dialogue, whose calls took so many tokens."""
    left = iter(tokens)
    return [
        structs.replace(span, usage=Usage(input_tokens=next(left), output_tokens=50))
        if isinstance(span, ModelCall)
        else span
        for span in spans()
    ]


@pytest.mark.parametrize(
    ("schedule", "plain", "written", "read", "share"),
    [
        ("cheap", 900 + 900, 2000 + 500 + 3000 + 200, 2000 + 2000 + 2500 + 3000 + 3000 + 3200, 1.0),
        ("fast", 2 * (2000 + 2500 + 900 + 3000 + 3200), 0, 0, 1.0),
        ("batch", 2 * (2000 + 2500 + 900 + 3000 + 3200), 0, 0, 0.5),
    ],
)
def test_a_call_is_priced_by_what_the_one_before_it_left_in_the_cache(
    store: Store, schedule: Schedule, plain: int, written: int, read: int, share: float
) -> None:
    """Two samples of five steps: in turn, the second reads all of its request, the first what the
    step before it sent; below 1,024 tokens nothing is kept."""
    trace = stored(store, sized(2000, 2500, 900, 3000, 3200))
    sampling = Sampling(levels=(2,), schedule=schedule)
    made = foreseen(trace, None, Cached(store, "claude-sonnet-4-5"), sampling)
    assert (made.calls, made.input_tokens, made.output_tokens) == (10, 2 * 11_600, 500)
    usd = plain * 3e-6 + written * 3.75e-6 + read * 0.3e-6 + 500 * 15e-6
    assert made.usd == pytest.approx(share * usd)


def test_an_estimate_of_several_is_their_sum_and_its_price_known_where_all_are() -> None:
    one = Estimate(calls=2, stored=1, input_tokens=30, output_tokens=4, by_size=1, usd=0.25)
    other = Estimate(calls=3, stored=0, input_tokens=50, output_tokens=6, usd=0.5)
    assert total_estimate([one, other]) == Estimate(
        calls=5, stored=1, input_tokens=80, output_tokens=10,
        by_size=1, usd=0.75, max_calls=5, max_usd=0.75,
    )  # fmt: skip
    unknown = total_estimate([one, structs.replace(other, usd=None)])
    assert (unknown.calls, unknown.usd, unknown.max_usd) == (5, None, None)
    assert total_estimate([]) == NO_CALLS


def test_tokens_that_were_not_recorded_are_reckoned_from_the_size(store: Store) -> None:
    bare = [
        structs.replace(span, usage=None) if hasattr(span, "usage") else span for span in spans()
    ]
    trace, model = stored(store, bare), Tiny()
    made = foreseen(trace, None, Cached(store, "tiny"))
    assert made.by_size == made.calls == 5
    run(store, trace, None, model)
    sent = [json.dumps(body, separators=(",", ":"), ensure_ascii=False) for body in model.bodies]
    assert made.input_tokens == sum(len(body.encode()) // 4 + 1 for body in sent)


# --- choosing a model


def test_a_model_is_chosen_by_name_and_live_calls_need_a_limit(store: Store) -> None:
    assert choose("anthropic/claude-x", store).name == "claude-x"
    assert label(choose("demo", store).name) == "demo, rule-based"
    with pytest.raises(ModelRefused, match="needs a limit"):
        choose("claude-x", store, live=True)
    with pytest.raises(ModelRefused, match="--model"):
        choose(None, store)
    assert Limits(calls=3).any


def test_the_default_model_is_the_one_that_answered_most(store: Store) -> None:
    assert default_name(stored(store)) == "tiny"
    assert default_name(stored(store, spans(model=None), id="other")) is None
