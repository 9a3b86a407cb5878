"""`arc bisect`: versions, revisions and hunks named, offline and against a local server.

`TestConformance` shows that the parts fit together on planted regressions of the demo model, which
follows rules; it says nothing of how well a real model's regressions are found. That is what the
simulations of `tests/replay/test_bisection.py` and `tests/bench` are for.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from arc_tui.commands import BISECT
from arc_tui.features.bisect.run import kept_bisects
from arc_tui.features.bisect.versions import BadVersions
from replay.errors import ArcError, ModelRefused, NotFound, OfflineMiss, Stopped
from replay.models.demo import Demo
from replay.store.rows import trace_row
from taxonomy.detectors import NothingExpected
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.bisect_case import (
    CAPITALS,
    GUESS,
    LOOP,
    TOUR,
    Repository,
    bisected,
    expected,
    prompt,
    prompts,
    put_runs,
    repository,
    run,
)
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL

PLANTED = [
    pytest.param(TOUR, (1, 2), "hallucinated state", "+- All amounts are in cents", id="v2"),
    pytest.param(CAPITALS, (1, 2, 3), "loop", "+- Look up the order", id="v3"),
    pytest.param(TOUR, (3, 4, 5), "hallucinated state", "-- Look up the order before", id="v5"),
    pytest.param(LOOP, (4, 5, 6), "loop", "-- Never repeat a call", id="v6"),
    pytest.param(GUESS, (3, 4, 5, 6, 7), "hallucinated state", "+- Try not to guess", id="v7"),
]
"""A run, the prompt versions up to the one that broke it, what it does wrong, a line of why."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bisect") / "arc.db"
    put_runs(path)
    return path


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "arc.db"
    copy.write_bytes(made.read_bytes())
    return copy


class TestConformance:
    @pytest.mark.parametrize(("trace", "versions", "wrong", "line"), PLANTED)
    def test_the_planted_version_is_named(
        self, db: Path, trace: str, versions: tuple[int, ...], wrong: str, line: str
    ) -> None:
        view = bisected(db, trace, *prompts(versions))
        assert view["first_bad"] == f"v{versions[-1]}"
        assert (view["status"], view["verified"]) == ("found", True)
        assert view["detector"] == f"{wrong}, by rule"
        assert any(each.startswith(line) for each in view["diff"])

    @pytest.mark.parametrize(("trace", "versions", "wrong", "line"), PLANTED)
    @pytest.mark.slow
    def test_so_are_the_hunks_that_did_it(
        self, db: Path, trace: str, versions: tuple[int, ...], wrong: str, line: str
    ) -> None:
        old, new = prompts(versions[-2:])
        view = bisected(db, trace, "--old", old, "--new", new, way="hunks")
        assert (view["status"], view["verified"]) == ("found", True)
        assert "sufficient" in view["sentence"]
        assert any(each.startswith(line) for each in view["diff"])

    @pytest.mark.process
    @pytest.mark.parametrize(
        ("trace", "versions", "share"),
        [(*each.values[:2], ".8" if each.id == "v7" else ".5") for each in PLANTED],
        ids=[each.id for each in PLANTED],
    )
    def test_git_bisect_run_comes_to_the_same_revision(
        self, db: Path, tmp_path: Path, trace: str, versions: tuple[int, ...], share: str
    ) -> None:
        """v7 hedges its rule, so that most of its answers still keep it: there a half is no bar."""
        scratch = repository(tmp_path / "scratch")
        hashes = {}
        for version in versions:
            hashes[version] = scratch.commit(f"v{version}", system__md=prompt(version).read_text())
            scratch.commit(f"after v{version}", other=str(version))
        scratch.git("bisect", "start", "HEAD", hashes[versions[0]])
        root = str(Path(__file__).resolve().parents[2])
        arc = ("-m", "arc_tui", "--db", str(db), "replay", trace, "--system", "system.md")
        said = scratch.git(
            "bisect", "run", sys.executable, *arc, "--expect", "rule", "-k", "60", "--share", share,
            PYTHONPATH=root,
        )  # fmt: skip
        assert f"{scratch.git('rev-parse', hashes[versions[-1]]).strip()} is the first bad" in said

    @pytest.mark.process
    @pytest.mark.parametrize("seed", range(3))
    def test_killed_again_and_again_it_asks_each_answer_once(
        self, db: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
    ) -> None:
        whole = tmp_path / "whole.db"
        whole.write_bytes(made.read_bytes())
        words = (GUESS, *prompts((3, 4, 5, 6, 7)))
        wanted = bisected(whole, *words)
        answer = Demo.complete
        lives, dies = random.Random(seed), [0]

        def mortal(self: Demo, body: Body, sample: int) -> Body:
            if not dies[0]:
                raise Stopped("killed")
            dies[0] -= 1
            return answer(self, body, sample)

        monkeypatch.setattr(Demo, "complete", mortal)
        paid, found = 0, None
        while found is None:
            left = dies[0] = lives.randint(1, 12)
            try:
                found = bisected(db, *words)
            except Stopped:
                paid += left
            else:
                paid += left - dies[0]
        assert paid == wanted["calls"]
        assert found["digest"] == wanted["digest"]
        assert found["rows"] == wanted["rows"]


def history(folder: Path, versions: tuple[int, ...]) -> list[str]:
    """Files p0, p1 …, each a prompt of the demo and a line of its own."""
    files = []
    for at, version in enumerate(prompts(versions)):
        file = folder / f"p{at}.md"
        file.write_text(f"{Path(version).read_text()}\nRevision {at}.\n")
        files.append(str(file))
    return files


class TestOutput:
    def test_unchecked_it_says_that_it_may_be_one_boundary_of_several(
        self, db: Path, tmp_path: Path
    ) -> None:
        files = (*history(tmp_path, (4, 4, 4, 5, 5, 5, 5, 5)), "--no-check")
        view = bisected(db, TOUR, *files)
        assert (view["status"], view["verified"], view["first_bad"]) == ("found", None, "p3")
        assert view["several"] > 0.03
        (warning,) = (each for each in view["notices"] if "several" in each)
        assert warning.startswith("one boundary of possibly several: ")
        result = run(BISECT, db, "versions", TOUR, *files)
        assert warning in result.stdout
        assert result.return_value == 0
        checked = bisected(db, TOUR, *files[:-1])
        assert (checked["verified"], checked["notices"]) == (True, [])
        assert checked["several"] <= 0.03

    @pytest.mark.slow
    def test_what_was_mended_and_broke_again_is_one_boundary_of_possibly_several(
        self, db: Path, tmp_path: Path
    ) -> None:
        files = history(tmp_path, (4, 4, 5, 5, 4, 4, 5, 5))
        result = run(BISECT, db, "versions", TOUR, *files)
        assert (
            "is one boundary of possibly several, new samples: 2/2 fail, 0/2 just before; "
            in (result.stdout.splitlines()[0])
        )
        assert result.return_value == 1
        view = bisected(db, TOUR, *files)
        assert (view["status"], view["verified"]) == ("non-monotone", True)
        assert view["several"] > 0.99

    def test_the_sentence_first_then_the_table_then_why_and_the_diff(self, db: Path) -> None:
        result = run(BISECT, db, "versions", TOUR, *prompts((3, 4, 5)))
        assert result.return_value == 0
        lines = result.stdout.splitlines()
        assert lines[0] == (
            "First bad: v5; 5/5 fail from it on, 0/8 before (probability 1.00, 9 samples + 4 to"
            " confirm, new samples: 2/2 fail, 0/2 just before)"
        )
        assert any(line.startswith("▸  v5       5/5  1.00 ") for line in lines)
        assert "as recorded" in result.stdout
        assert "confirm both sides of the boundary" in result.stdout
        assert "--- v4" in lines
        assert "Step 4 only, with its recorded context" in result.stdout
        assert "says nothing about a real model" in result.stdout

    def test_a_rerun_asks_nothing_and_what_it_came_to_is_kept(self, db: Path) -> None:
        first = bisected(db, TOUR, *prompts((3, 4, 5)))
        again = bisected(db, TOUR, *prompts((3, 4, 5)))
        assert (first["calls"], again["calls"]) == (13, 0)
        assert first["digest"] == again["digest"]
        with open_ledger(db) as store:
            (kept,) = kept_bisects(store, trace_row(store, TOUR).trace)
        assert kept.sentence == first["sentence"]

    def test_resampled_it_asks_afresh_every_time(self, db: Path) -> None:
        words = (TOUR, *prompts((3, 4, 5)), "--no-cache")
        assert [bisected(db, *words)["calls"] for _ in range(2)] == [13, 13]

    def test_versions_that_say_the_same_are_merged_and_said(self, db: Path, tmp_path: Path) -> None:
        copy = tmp_path / "copy.md"
        copy.write_text(prompt(4).read_text().rstrip("\n"))
        view = bisected(db, TOUR, *prompts((3, 4)), str(copy), *prompts((5,)))
        assert [row["name"] for row in view["rows"]] == ["v3", "v4", "v5"]
        assert "copy left out: same text as v4" in view["notices"]
        with pytest.raises(BadVersions, match="all versions are the same"):
            bisected(db, TOUR, str(prompt(4)), str(copy))

    @pytest.mark.parametrize(
        ("versions", "more", "status", "said"),
        [
            ((3, 4), (), "no change", "neither fails in most samples"),
            ((2, 5), (), "no change", "the cause is older than v2"),
            ((5, 4), (), "reversed", "Reversed: oldest fails, newest passes"),
            (
                (2, 3, 4, 5),
                (),
                "non-monotone",
                "Not monotonic: not explained by one change: v3 (0/6), v4 (0/6)",
            ),
            ((3, 4, 5), ("--max-samples", "3"), "budget", "Try: --max-samples N"),
        ],
    )
    @pytest.mark.slow
    def test_each_way_it_can_end_has_its_sentence(
        self, db: Path, versions: tuple[int, ...], more: tuple[str, ...], status: str, said: str
    ) -> None:
        files = [*prompts(versions), *more]
        view = bisected(db, TOUR, *files)
        assert view["status"] == status
        assert said in view["sentence"]
        assert view["first_bad"] is None or status == "budget"
        if status == "budget":
            with pytest.raises(ArcError, match="inconclusive: sample limit reached"):
                run(BISECT, db, "versions", TOUR, *files)
        else:
            assert run(BISECT, db, "versions", TOUR, *files).return_value == 1

    @pytest.mark.slow
    def test_an_end_that_cannot_be_judged_is_censored(self, db: Path) -> None:
        words = (TOUR, *prompts((3, 4, 5)), "--free", "--expect", "args.order_id=1039")
        view = bisected(db, *words)
        assert view["status"] == "censored"
        assert view["sentence"].startswith("No usable sample of v3")
        assert any("the next recorded user message" in said for said in view["notices"])

    def test_the_last_step_from_which_a_fix_saves_the_run(self, db: Path) -> None:
        view = bisected(
            db, TOUR, "--fix", str(prompt(4)),
            "--expect", "tool=get_order, args.order_id=1039 or tool!=refund_order", way="recovery",
        )  # fmt: skip
        assert (view["kind"], view["status"]) == ("prefix", "found")
        assert view["sentence"].startswith("Last recoverable: step 4")
        lost = {row["name"]: row["unusable"] for row in view["rows"]}
        assert lost["step 5"] > 0, "a run that left the tape is counted apart"

    def test_a_fix_may_be_a_kept_edit_by_its_name(self, db: Path) -> None:
        words = (
            "--expect",
            "tool=get_order, args.order_id=1039 or tool!=refund_order",
            "--max-samples",
        )
        with pytest.raises(NotFound, match="'v4'"):
            bisected(db, TOUR, "--fix", "v4", *words, "2", way="recovery")
        expected(db, TOUR, "--system", str(prompt(4)), "--expect", "rule")
        view = bisected(db, TOUR, "--fix", "v4", *words, "2", way="recovery")
        assert (view["status"], view["samples"]) == ("budget", 2)


class TestMistakes:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("versions", TOUR), "VERSION"),
            (("versions", TOUR, str(prompt(4)), "--git", "x", "a..b"), "or --git"),
            (("hunks", TOUR, "--old", str(prompt(4))), "'--new'"),
            (("recovery", TOUR, "--fix", str(prompt(4))), "'--expect'"),
            (("recovery", TOUR, "--expect", "gold"), "'--fix'"),
            (("versions", TOUR, *prompts((4, 5)), "--max-steps", "3"), "need --free"),
        ],
    )
    def test_what_is_missing_or_does_not_go_together_is_said(
        self, db: Path, words: tuple[str, ...], said: str
    ) -> None:
        with pytest.raises(click.UsageError) as refused:
            run(BISECT, db, *words)
        assert said in refused.value.format_message()

    def test_a_step_where_no_rule_found_anything_needs_an_expectation(self, db: Path) -> None:
        with pytest.raises(NothingExpected, match="no finding at step 0"):
            bisected(db, TOUR, *prompts((4, 5)), "--step", "0")
        with pytest.raises(NothingExpected, match="no expectation for a whole run"):
            bisected(db, TOUR, *prompts((4, 5)), "--free")


class TestLive:
    def asked(self, db: Path, *more: str) -> Any:
        return run(
            BISECT, db, "versions", TOUR, *prompts((3, 4, 5)), "--model", MODEL,
            "--expect", "tool=get_order", *more,
        )  # fmt: skip

    @pytest.mark.slow
    def test_it_says_what_it_may_cost_first_and_a_limit_ends_it_with_what_is_known(
        self, db: Path, api: MessagesApi
    ) -> None:
        with pytest.raises(OfflineMiss, match="v3, sample 1"):
            self.asked(db)
        words = ("--live", "--max-calls", "12", "-m", "1", "--model", MODEL)
        first = CliRunner().invoke(
            BISECT,
            [
                "versions",
                TOUR,
                *prompts((3, 4, 5)),
                "--expect",
                "tool=get_order",
                *words,
                "--db",
                str(db),
            ],
            standalone_mode=False,
        )
        assert isinstance(first.exception, ModelRefused)
        assert "not finished: limit of 12 calls" in first.exception.message
        assert "samples of claude-test, at most 200 · 0 cached" in first.stderr
        assert api.asked == 12
        assert "stopped before it was confirmed" in first.stdout
        rest = self.asked(db, "--live", "--max-calls", "60", "-m", "1")
        assert "9 cached" in rest.stderr, "the rounds that are there in full"
        assert api.asked == 13
        assert "Holds for claude-test; other models may differ." in rest.stdout

    def test_where_nothing_could_be_asked_the_reason_is_the_error(
        self, db: Path, api: MessagesApi
    ) -> None:
        with pytest.raises(ModelRefused, match="--live needs a limit"):
            self.asked(db, "--live")

    def test_the_estimate_asks_nothing(self, db: Path, api: MessagesApi) -> None:
        result = self.asked(db, "--estimate", "--json")
        assert '"calls_each": 1' in result.stdout
        assert api.asked == 0


class TestRevisions:
    @pytest.fixture
    def scratch(self, tmp_path: Path) -> Repository:
        return repository(tmp_path / "scratch")

    def test_a_revision_is_named_by_its_hash_and_subject_and_the_work_tree_stays(
        self, db: Path, scratch: Repository
    ) -> None:
        for version in (3, 4):
            scratch.commit(f"Prompt {version}", old__md=prompt(version).read_text())
            scratch.commit("Something else", other=str(version))
        scratch.git("mv", "old.md", "system.md")
        scratch.commit("Another name")
        named = scratch.commit('Be "quick" ✓', system__md=prompt(5).read_text())
        (scratch.folder / "system.md").write_text("not committed")
        before = scratch.state()
        view = bisected(db, TOUR, "--git", str(scratch.folder / "system.md"), "HEAD~4..HEAD")
        assert view["first_bad"] == named
        assert view["sentence"].startswith(f'First bad: {named} “Be "quick" ✓”; ')
        notes = [row["note"] for row in view["rows"]]
        assert notes == ["Prompt 3", "Prompt 4", 'Be "quick" ✓ · as recorded']
        assert any("same text as" in said for said in view["notices"]), "the rename changed no text"
        assert scratch.state() == before
        assert (scratch.folder / "system.md").read_text() == "not committed"

    @pytest.mark.parametrize(
        ("span", "said"),
        [
            ("HEAD", "is not a range of revisions"),
            ("HEAD...HEAD", "is not a range of revisions"),
            ("--all..x", "is not a range of revisions"),
            ("nope..HEAD", "git: "),
            ("HEAD..HEAD", "no revision of HEAD..HEAD changes"),
        ],
    )
    def test_a_range_that_is_none_is_told(
        self, db: Path, scratch: Repository, span: str, said: str
    ) -> None:
        scratch.commit("Prompt", system__md=prompt(4).read_text())
        with pytest.raises(BadVersions, match=said):
            bisected(db, TOUR, "--git", str(scratch.folder / "system.md"), span)

    def test_a_file_that_came_later_begins_where_it_came(
        self, db: Path, scratch: Repository
    ) -> None:
        scratch.commit("Nothing yet", other="0")
        first = scratch.commit("Prompt 4", system__md=prompt(4).read_text())
        named = scratch.commit("Prompt 5", system__md=prompt(5).read_text())
        view = bisected(db, TOUR, "--git", str(scratch.folder / "system.md"), "HEAD~2..HEAD")
        assert [row["name"] for row in view["rows"]] == [first, named]

    def test_what_is_no_text_is_told_with_its_revision(self, db: Path, scratch: Repository) -> None:
        scratch.commit("Prompt 4", system__md=prompt(4).read_text())
        (scratch.folder / "system.md").write_bytes(b"\xff\xfe\x00")
        bad = scratch.commit("Binary")
        with pytest.raises(BadVersions, match=f"system.md at {bad} is not text"):
            bisected(db, TOUR, "--git", str(scratch.folder / "system.md"), "HEAD~1..HEAD")
