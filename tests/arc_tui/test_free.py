"""Free replay for a person: its views, and `arc replay --free`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.cli import db_option, json_option, open_store
from arc_tui.experiments.request import FreeRunRequest, ReplayRequest, views_of
from arc_tui.features.free.command import free_options, free_request, refuse_free_options, run_free
from arc_tui.features.free.run import estimate_cost, free_runs, kept_run, run_free_replays
from arc_tui.features.free.view import UNCHECKED, FreeView, got_words
from arc_tui.features.free.widgets import row_page
from arc_tui.ui.document import document_text
from replay import bundle, kept
from replay.budget import Limits
from replay.edit.changes import Edit, RemoveTool, SetModel
from replay.errors import BadEdit, ModelRefused, NotFound, OfflineMiss
from replay.free.recorded_results import Stub, stubs_from_toml, stubs_to_toml
from replay.free.result import FreeCore
from replay.kept import of_trace
from replay.locked.row import AUTO, Sampling, fixed
from replay.store import edits
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.free_case import (
    ACCOUNT,
    BALANCE,
    MORE,
    READ,
    REFUND,
    TOUR,
    V4,
    WITHDRAWN,
    put_account,
)
from tests.build import Gives, call, step
from tests.messages_api import MessagesApi, demo_policy
from tests.replay.free_case import says, uses
from tests.replay.live_case import clean_environment


def views(db: Path, **request: Any) -> list[FreeView]:
    with open_ledger(db) as store:
        return list(views_of(run_free_replays, store, FreeRunRequest(**{"trace": TOUR, **request})))


def last(db: Path, **request: Any) -> FreeView:
    return views(db, **request)[-1]


@click.command()
@click.argument("trace")
@click.option("--edit", "name")
@click.option("-k", "samples", type=int)
@click.option("--model")
@click.option("--bundle", type=Path)
@free_options
@click.option("--step", type=int)
@json_option
@db_option
def replay(trace: str, name: str, samples: int, model: str, db: Path, **options: Any) -> int:
    """The command with the options that free runs look at."""
    with open_store(db) as store:
        request = ReplayRequest(
            trace=trace,
            edit=edits.find(store, name) if name else None,
            model=model,
            sampling=fixed(samples) if samples else AUTO,
        )
        wish = free_request(request, options)
        return run_free(store, wish, as_json=options["as_json"], bundle=options["bundle"])


def run(db: Path, *arguments: str) -> Result:
    with open_ledger(db) as store:
        edits.save(store, V4)
    result = CliRunner().invoke(replay, ["--db", str(db), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


# --- a run as a view


def test_the_view_says_where_it_left_the_road_and_what_each_call_got(db: Path) -> None:
    view = last(db, edit=V4)
    assert view.sentence == (
        "Diverged at step 4: refund_order → get_order. No recorded result for"
        ' get_order(order_id="1039"): never recorded with these arguments.'
    )
    assert [row.mark for row in view.rows] == ["same"] * 4 + ["diverged"]
    assert [(got.rank, got.step) for row in view.rows for got in row.got] == [
        ("exact", 0), ("exact", 1), ("exact", 2), ("exact", 3), ("miss", None),
    ]  # fmt: skip
    assert view.rows[2].got[0].is_error
    assert view.rows[4].recorded.startswith("refund_order(")
    assert (view.recorded_steps, view.limit, view.ranks) == (8, 21, {"exact": 4})


def test_a_miss_comes_with_the_nearest_calls_and_a_stub_to_start_from(db: Path) -> None:
    missed = last(db, edit=V4).missed
    assert missed is not None
    assert [near.step for near in missed.near] == [0, 1, 6]
    assert missed.near[0].differs == 'get_order order_id: "1049" → "1039"'
    assert missed.draft is not None
    assert missed.draft.arguments == {"order_id": "1039"}
    assert missed.draft.result == missed.near[0].text
    assert missed.drafted_from == 'step 0, for order_id "1049"'


def test_stubs_carry_the_run_on_and_are_kept_with_the_trace(db: Path) -> None:
    assert last(db, edit=V4).spent.calls == 5
    further = last(db, edit=V4, stubs=(READ,))
    assert (further.status, further.spent.calls, further.spent.cached) == ("miss", 1, 5)
    end = last(db, edit=V4, stubs=(REFUND,))
    assert (end.status, end.ranks) == ("user", {"exact": 4, "stub": 2})
    assert end.rows[4].got[0].stub == READ
    assert end.notices == (
        "2 calls got a stub.",
        "1 new call that may write (refund_order), not in the recording; no tool was run.",
    )
    again = last(db, edit=V4)
    assert (again.digest, again.spent.calls) == (end.digest, 0)


def test_an_unedited_run_does_what_was_recorded(db: Path) -> None:
    view = last(db)
    assert view.sentence == (
        "Same as recorded at 8 steps, to step 7. The agent replied with text; no user"
        " message follows in the recording."
    )
    assert (view.status, view.diverged, view.notices) == ("finished", None, ())


def test_it_may_begin_at_any_step_and_end_at_a_limit(db: Path) -> None:
    view = last(db, start=3, max_steps=2)
    assert [row.step for row in view.rows] == [3, 4]
    assert (view.status, view.start, view.recorded_steps) == ("cap", 3, 5)
    with pytest.raises(NotFound):
        last(db, start=8)


def test_a_stub_that_could_not_answer_is_not_offered(db: Path) -> None:
    """The recorded road has the call; what follows there shows the recorded answer to it."""
    gone = Edit(name="gone", changes=(RemoveTool("get_order"),))
    with open_ledger(db) as store:
        edits.save(store, gone)
    view = last(db, edit=gone, model="demo")
    assert view.stop is not None
    for each in view.stop.missed:
        assert (each.draft is None) == (view.rows[-1].mark == "same")


def test_several_runs_are_told_together(db: Path) -> None:
    made = [view for view in views(db, edit=V4, samples=3) if view.stop is not None]
    assert [view.sample for view in made] == [0, 1, 2]
    assert free_runs(made).sentence == (
        "3 of 3 stopped: no recorded result at step 4; 3 diverged at step 4."
    )
    other = structs.replace(last(db), sample=3)
    assert free_runs([*made[:2], other]).sentence == (
        "2 of 3 stopped: no recorded result at step 4, 1 finished; 2 diverged at step 4."
    )
    assert free_runs([other]).sentence.endswith("1 sample: not conclusive.")


# --- stale answers


def test_a_stale_answer_stops_the_run_unless_it_is_allowed_and_is_then_told(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    key = put_account(db)
    wish: dict[str, Any] = {"trace": key, "model": "script", "stubs": (WITHDRAWN,)}
    strict = last(db, **wish)
    assert (strict.status, strict.diverged.step if strict.diverged else None) == ("stale", 1)
    assert (
        "withdraw counts as writing (guessed from its name). Try: --reads withdraw"
        in (strict.notices[-1])
    )
    loose = last(db, **wish, allow_stale=True)
    assert (loose.status, loose.rows[2].got[0].rank, loose.rows[2].got[0].step) == (
        "finished", "stale", 0,
    )  # fmt: skip
    assert loose.notices[0].startswith("1 call got a stale result")


def test_what_the_user_says_of_a_tool_is_part_of_what_is_kept(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    key = put_account(db)
    view = last(db, trace=key, model="script", stubs=(WITHDRAWN,), effects={"withdraw": "read"})
    assert view.digest is not None
    with open_ledger(db) as store:
        core, terms = kept_run(store, view.digest)
        assert core.yours == terms.effects == {"withdraw": "read"}
        assert bundle.write(store, core, tmp_path / "run.arc", terms).same
    plain = last(db, trace=key, model="script")
    assert plain.digest != view.digest


# --- what rests on a guess


def test_what_is_only_guessed_says_so_in_the_reason_and_beside_each_result(tmp_path: Path) -> None:
    """Only the name says that get_balance changes nothing: withdraw met the same account."""
    db = tmp_path / "arc.db"
    twice = (uses(BALANCE), uses(BALANCE), uses(("withdraw", {"amount": 10})), says("Done."))
    key = put_account(db, twice)
    wish: dict[str, Any] = {"trace": key, "model": "script"}
    guessed = last(db, **wish)
    assert [got_words(each) for row in guessed.rows for each in row.got] == [
        "exact, step 0", "reused, guessed, step 0", "guessed, step 1",
    ]  # fmt: skip
    assert guessed.sentence.endswith(
        "2 tool results are guessed (read-only by name alone: get_balance)."
    )
    assert guessed.notices == (
        "Mark these tools as read-only: --reads get_balance; or as writing: --writes TOOL.",
    )
    assert "guessed: read-only by name alone: get_balance" in document_text(
        row_page(guessed.rows[2])
    )
    known = last(db, **wish, effects={"get_balance": "read"})
    assert [each.rank for row in known.rows for each in row.got] == ["exact", "reused", "exact"]
    assert (known.guessed, known.notices) == (0, ())
    assert "guessed" not in known.sentence
    assert known.digest != guessed.digest
    assert free_runs([guessed, known]).sentence.endswith("1 of 2 runs use guessed tool results.")


# --- the end of a recording that was broken off


def test_a_stub_answers_the_last_recorded_call_where_its_result_was_not_recorded(
    tmp_path: Path,
) -> None:
    db = tmp_path / "arc.db"
    broken = (*ACCOUNT[:1], step(call("withdraw", Gives(None), amount=20)))
    key = put_account(db, [MORE[0], MORE[1], says("Done.")], broken)
    bare = last(db, trace=key, model="script")
    assert (bare.status, bare.diverged) == ("miss", None)
    assert bare.missed is not None
    assert bare.missed.why == "result not recorded"
    done = last(db, trace=key, model="script", stubs=(WITHDRAWN,))
    assert (done.status, done.rows[-1].mark) == ("finished", "own")
    assert done.rows[1].got[0].rank == "stub"
    assert done.sentence.startswith("Same as recorded to the end of the recording, then")


# --- what is kept


def test_a_run_is_kept_and_found_as_what_it_is(db: Path) -> None:
    view = last(db, edit=V4)
    assert view.digest is not None
    with open_ledger(db) as store:
        core = kept.find(store, view.digest, FreeCore)
        assert (core.status, core.digest) == ("miss", view.digest)
        with pytest.raises(NotFound, match="no replay"):
            kept.find(store, view.digest)
        assert [kept.kind for kept in of_trace(store, view.trace)] == ["free"]
        with pytest.raises(NotFound, match="no free replay"):
            kept_run(store, "sha256:none")


def test_offline_a_model_of_a_server_is_not_asked(db: Path) -> None:
    with pytest.raises(OfflineMiss, match="step 0"):
        last(db, model="claude-test")
    with pytest.raises(ModelRefused, match="needs a limit"):
        last(db, model="claude-test", live=True)


@pytest.mark.slow
def test_a_limit_stops_the_run_and_is_no_result_of_it(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch, tmp_path)
    with MessagesApi(demo_policy()) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        live: dict[str, Any] = {"model": "claude-test", "edit": V4, "live": True}
        view = last(db, **live, limits=Limits(calls=2))
        assert view.stop is not None
        assert (view.status, view.stop.passing, view.digest) == ("refused", True, None)
        assert (len(view.rows), view.spent.calls, api.asked) == (2, 2, 2)
        further = last(db, **live, limits=Limits(calls=9))
        assert (further.status, further.spent.calls, further.spent.cached) == ("miss", 3, 2)
        assert further.digest is not None


def test_before_a_server_is_asked_it_is_said_what_the_recording_would_cost(db: Path) -> None:
    with open_ledger(db) as store:
        found = estimate_cost(
            store, FreeRunRequest(trace=TOUR, edit=V4, model="claude-test", start=2)
        )
        assert (found.models, found.max_calls, found.as_recorded.calls) == (("claude-test",), 17, 6)
        assert found.as_recorded.input_tokens > 0


# --- the command


def test_the_command_prints_a_stub_to_paste_and_how_to_go_on(db: Path, tmp_path: Path) -> None:
    first = run(db, TOUR, "--edit", "v4", "--free")
    assert first.return_value == 2
    assert UNCHECKED in first.stdout
    assert '≠ diverged  4     get_order(order_id="1039")' in first.stdout
    assert f"$ arc --db {db} replay {TOUR} --free --edit v4 --stub stubs.toml" in first.stdout
    file = tmp_path / "stubs.toml"
    file.write_text(pasted(first.stdout))
    [drafted] = stubs_from_toml(file.read_text(), "f")
    assert (drafted.tool, drafted.arguments) == ("get_order", {"order_id": "1039"})
    file.write_text(stubs_to_toml([READ]) + "\n" + stubs_to_toml([REFUND]))
    further = run(db, TOUR, "--edit", "v4", "--free", "--stub", str(file))
    assert "2 stub" in further.stdout
    assert "[[stub]]" not in further.stdout


def pasted(printed: str) -> str:
    """The lines of the stubs in what was printed, with the words above them."""
    return "\n".join(re.findall(r"^(?:# .*|\[\[stub\]\]|\w+ = .*)$", printed, re.MULTILINE))


def test_exit_codes_tell_a_finished_run_from_one_that_stopped(db: Path) -> None:
    assert run(db, TOUR, "--free").return_value == 0
    assert run(db, TOUR, "--free", "--step", "2", "--max-steps", "1").return_value == 2
    with pytest.raises(NotFound):
        run(db, TOUR, "--free", "--step", "99")


def test_as_json_every_wish_gives_its_runs(db: Path) -> None:
    found = json.loads(run(db, TOUR, "--free", "--edit", "v4", "-k", "2", "--json").stdout)
    assert found["sentence"].startswith("2 of 2 stopped: no recorded result at step 4")
    assert [each["sample"] for each in found["runs"]] == [0, 1]
    assert found["runs"][0]["stop"]["missed"][0]["draft"]["tool"] == "get_order"


@pytest.mark.slow
def test_runs_that_are_alike_are_printed_once(db: Path) -> None:
    printed = run(db, TOUR, "--free", "--edit", "v4", "-k", "3").stdout
    assert printed.count("≠ diverged") == 1
    assert "runs 1, 2, 3: Diverged at step 4" in printed
    assert printed.count("[[stub]]") == 1
    assert printed.count("digest sha256:") == 3


@pytest.mark.slow
def test_a_stop_at_a_stale_answer_names_both_ways_on(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    key = put_account(db)
    file = tmp_path / "s.toml"
    file.write_text(stubs_to_toml([WITHDRAWN]))
    words = (key, "--free", "--model", "script")
    printed = run(db, *words, "--stub", str(file), "--writes", "withdraw").stdout
    assert "--model script --writes withdraw --stub stubs.toml" in printed
    assert "--model script --writes withdraw --allow-stale" in printed
    assert run(db, *words, "--allow-stale").return_value == 0


@pytest.mark.slow
def test_a_run_can_be_bundled(db: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.arc"
    run(db, TOUR, "--free", "--edit", "v4", "--bundle", str(file))
    assert bundle.verify(file).same
    with pytest.raises(bundle.BadBundle, match="one run"):
        run(db, TOUR, "--free", "-k", "2", "--bundle", str(file))


def test_options_of_a_free_run_need_it_and_must_make_sense() -> None:
    bare: dict[str, Any] = {
        "free": False, "step": None, "stubs": (), "allow_stale": False, "reads": (),
        "writes": (), "max_steps": None,
    }  # fmt: skip
    refuse_free_options(bare)
    for given, words in (
        ({"reads": ("a",)}, "--reads"), ({"max_steps": 3}, "--max-steps"),
        ({"stubs": (Path("x"),)}, "--stub"), ({"allow_stale": True}, "--allow-stale"),
    ):  # fmt: skip
        with pytest.raises(click.UsageError, match=words):
            refuse_free_options({**bare, **given})
    with pytest.raises(BadEdit, match="has both --reads and --writes"):
        free_request(ReplayRequest(trace="t"), {**bare, "reads": ("a", "b"), "writes": ("b",)})
    with pytest.raises(click.UsageError):
        free_request(ReplayRequest(trace="t", resample=True), bare)
    with pytest.raises(click.UsageError):
        free_request(ReplayRequest(trace="t", sampling=Sampling(schedule="batch")), bare)


def test_a_model_that_the_edit_names_acts_unless_another_one_is_chosen() -> None:
    edit = Edit(name="other", changes=(SetModel("claude-test"),))
    bare: dict[str, Any] = {
        "stubs": (), "step": None, "allow_stale": False, "reads": (), "writes": (),
        "max_steps": None,
    }  # fmt: skip
    assert (
        free_request(ReplayRequest(trace="t", edit=edit, model="demo"), bare).model == "claude-test"
    )
    assert free_request(ReplayRequest(trace="t", model="demo"), bare).model == "demo"


# --- files of stubs, and words


def test_stubs_written_one_by_one_can_be_pasted_together() -> None:
    odd = Stub(tool="a'b", arguments={"x": None, "y": "'''"}, result="one\n'two'\n", is_error=True)
    ends = Stub(tool="c", arguments={}, result="it's\nthe 'end'")
    both = (READ, odd, ends)
    assert stubs_from_toml("\n".join(stubs_to_toml([each]) for each in both), "f") == both
    assert 'result = \'{"order_id"' in stubs_to_toml([READ])
    assert tomllib.loads(stubs_to_toml([odd]))["stub"][0]["is_error"] is True


@pytest.mark.slow
def test_no_word_of_a_view_says_how_the_run_would_have_ended(db: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    key = put_account(other)
    made = [
        last(db), last(db, edit=V4), last(db, edit=V4, stubs=(READ, REFUND)),
        last(db, start=3, max_steps=1),
        last(other, trace=key, model="script", stubs=(WITHDRAWN,)),
        last(other, trace=key, model="script", allow_stale=True),
    ]  # fmt: skip
    said = [words for view in made for words in (view.sentence, *view.notices)]
    said.append(free_runs(made).sentence)
    assert not [each for each in said if re.search(r"(?i)\b(pass|fail|succe|solved|fixed)", each)]
