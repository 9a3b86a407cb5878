"""Label files as people write them, and the traces and steps that they point at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.errors import ArcError
from replay.store.handle import Store
from replay.trace import AgentSpan, Header, Outcome
from taxonomy.calibration.labels import (
    At,
    Label,
    Places,
    Unusable,
    class_named,
    item_named,
    item_names,
    kept_labels,
    place,
    read_labels,
)
from taxonomy.classes import CLASSES, FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give, opinion, opinions, take_back
from taxonomy.judgements.tags import CleanMark, Tag, mark_clean, put_tag
from taxonomy.step_scores import GROUNDED, VERIFIED
from tests.arc_tui.sample import put
from tests.build import call, heard, step, trace
from tests.shared import DATA, Imported, needs_shared, runs_below

TALK = trace(
    [
        step("I look.", call("find", "{}", name="a")),
        heard("And now?"),
        step("I look again.", call("find", "{}", name="b")),
        "Done.",
    ]
)


def file(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n")
    return path


class TestReading:
    def test_every_key_is_read_and_the_unknown_ones_are_kept(self, tmp_path: Path) -> None:
        path = file(
            tmp_path,
            {"trace": "a.json#7", "at": {"message": 8}, "class": ["hallucinated_state"],
             "score": 0.3, "decisive": True, "by": "human", "strength": "weak", "note": "so",
             "category": "shop", "seen": [1, 2]},
        )  # fmt: skip
        (label,), unusable = read_labels(path)
        assert unusable == ()
        assert label == Label(
            trace="a.json#7", at=At(message=8), classes=(FailureClass.HALLUCINATED_STATE,),
            score=0.3, decisive=True, by="human", strength="weak", note="so", category="shop",
            extra={"seen": [1, 2]}, line=1,
        )  # fmt: skip

    def test_no_class_and_nothing_said_of_classes_are_two_things(self, tmp_path: Path) -> None:
        path = file(
            tmp_path, {"trace": "a", "class": []}, "", {"trace": "b", "class": None}, {"trace": "c"}
        )
        labels, _ = read_labels(path)
        assert [label.classes for label in labels] == [(), None, None]
        assert [label.line for label in labels] == [1, 3, 4]

    def test_items_have_their_names_and_null_says_nothing_of_one(self, tmp_path: Path) -> None:
        said = {"Arguments_Grounded": True, "state_reverified": False, "call fits": None}
        path = file(tmp_path, {"trace": "a", "at": {"step": 1}, "items": said})
        (label,), unusable = read_labels(path)
        assert unusable == ()
        assert label.items == {GROUNDED: True, VERIFIED: False}

    @pytest.mark.parametrize("name", item_names())
    def test_an_item_has_its_name_with_spaces_or_underscores(self, name: str) -> None:
        assert item_named(name) == item_named(name.replace(" ", "_").upper()) == name
        assert item_named(f"no {name}") is None

    def test_several_files_are_read_together_and_each_trouble_names_its_file(
        self, tmp_path: Path
    ) -> None:
        good, bad = file(tmp_path, {"trace": "a"}), tmp_path / "bad.jsonl"
        bad.write_text("oops\n")
        labels, unusable = read_labels(good, bad, good)
        assert [(label.trace, label.file) for label in labels] == [("a", "labels.jsonl")]
        assert [(each.file, each.line) for each in unusable] == [("bad.jsonl", 1)]
        with pytest.raises(ArcError, match=r"bad\.jsonl: contains no label: line 1"):
            read_labels(bad)

    @pytest.mark.parametrize("entry", CLASSES, ids=[entry.name for entry in CLASSES])
    def test_a_class_has_its_name_its_underscored_name_and_its_letter(self, entry: Any) -> None:
        for word in (entry.name.value, entry.name.replace(" ", "_"), entry.key, entry.name.upper()):
            assert class_named(word) is entry.name
        assert class_named("other / cap hit") is FailureClass.OTHER

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            ('{"trace": "a", "class": ["confusion"]}', "unknown class"),
            ('{"trace": "a", "score": 3}', "has a score of 3"),
            ('{"trace": "a", "at": {}}', "needs exactly one"),
            ('{"trace": "a", "at": {"step": 1, "message": 1}}', "needs exactly one"),
            ('{"at": null}', "is not a label"),
            ('{"trace": "a", "decisive": "yes"}', "is not a label"),
            (
                '{"trace": "a", "at": {"step": 1}, "items": {"charm": true}}',
                "unknown rubric item 'charm' (known: tool choice, ",
            ),
            ('{"trace": "a", "at": {"step": 1}, "items": {"tool choice": 1}}', "is not a label"),
            ('{"trace": "a", "items": {"tool choice": true}}', "they apply to a step"),
            ('{"trace": "a"', "is not a label"),
            ("[1]", "is not a label"),
        ],
    )
    def test_a_line_that_says_what_cannot_be_is_a_value_with_its_reason(
        self, tmp_path: Path, line: str, why: str
    ) -> None:
        labels, unusable = read_labels(file(tmp_path, {"trace": "good"}, line))
        assert [label.trace for label in labels] == ["good"]
        assert [each.line for each in unusable] == [2]
        assert why in unusable[0].why

    def test_a_file_without_a_label_is_an_error_that_names_the_first_trouble(
        self, tmp_path: Path
    ) -> None:
        with pytest.raises(ArcError, match="contains no label: line 1 is not a label"):
            read_labels(file(tmp_path, "oops"))
        with pytest.raises(ArcError, match="cannot be read"):
            read_labels(tmp_path / "absent.jsonl")

    @pytest.mark.parametrize(
        ("by", "strength", "made_by"),
        [
            ("human", "strong", "people"),
            ("mei", None, "people"),
            (None, None, "people"),
            ("mechanical", "mechanical", "rule"),
            ("self-declared", None, "rule"),
            ("judge:step:some-model:3", None, "rule"),
            ("human", "mechanical", "rule"),
        ],
    )
    def test_labels_made_by_a_rule_are_told_from_people_s(
        self, by: str | None, strength: str | None, made_by: str
    ) -> None:
        assert Label(trace="a", by=by, strength=strength).made_by == made_by


class TestPlaces:
    places = Places(TALK)

    def test_a_step_is_itself_and_one_past_the_end_is_nowhere(self) -> None:
        assert self.places.step(At(step=2)) == 2
        assert self.places.step(At(step=3)) is None
        assert self.places.step(At(step=-1)) is None

    def test_a_span_maps_to_the_step_that_asked_for_it(self) -> None:
        asked = TALK.steps[1].acts[0]
        assert self.places.step(At(span=asked.id)) == 1
        assert self.places.step(At(span=TALK.steps[2].ask.id)) == 2
        assert self.places.step(At(span="absent")) is None

    def test_a_span_that_stands_above_the_first_step_maps_to_that_step(self) -> None:
        root = next(span for span in TALK.spans if isinstance(span, AgentSpan))
        assert self.places.step(At(span=root.id)) == 0

    def test_a_message_maps_to_the_step_it_belongs_to(self) -> None:
        begins = [step.ask.place.message for step in TALK.steps]
        assert [self.places.step(At(message=at)) for at in begins if at is not None] == [0, 1, 2]

    def test_a_message_between_two_steps_belongs_to_the_earlier_one(self) -> None:
        begins = [each.ask.place.message or 0 for each in TALK.steps]
        late = trace([step("One."), "Two."])
        assert begins == sorted(begins)
        assert Places(late).step(At(message=99)) == 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "arc.db"
    for source_id, source, item in (
        ("r-1", "/runs/one/a.json", None),
        ("r-2", "/runs/two/a.json", None),
        ("r-3", "/runs/many.json", "1187"),
        ("r-4", "/runs/many.json", "29800"),
    ):
        head = Header(
            format="built", source_id=source_id, path=source, item=item, outcome=Outcome()
        )
        put(path, head, TALK.spans)
    with open_ledger(path) as opened:
        yield opened


def found(store: Store, name: str, at: At | None = None) -> list[str] | str:
    """The source id of the trace a name finds, or why it finds none."""
    placed, unusable = place(store, [Label(trace=name, at=at)])
    assert len(placed) + len(unusable) == 1
    if unusable:
        return unusable[0].why
    key = placed[0].trace
    return [row[0] for row in store.db.execute("SELECT source_id FROM trace WHERE key = ?", (key,))]


class TestPlacing:
    def test_a_trace_is_found_by_the_end_of_its_path(self, store: Store) -> None:
        assert found(store, "one/a.json") == ["r-1"]
        assert found(store, "runs/two/a.json") == ["r-2"]
        assert found(store, "many.json#1187") == ["r-3"]
        assert found(store, "./runs/many.json#29800") == ["r-4"]

    def test_a_trace_is_found_by_its_id_and_by_the_source_s_own(self, store: Store) -> None:
        key = store.db.execute("SELECT key FROM trace WHERE source_id = 'r-4'").fetchone()[0]
        assert found(store, key) == found(store, key[:12]) == found(store, "r-4") == ["r-4"]

    def test_a_name_that_finds_nothing_or_too_much_says_so(self, store: Store) -> None:
        assert found(store, "three/a.json") == "matches no run of this database"
        assert found(store, "e/a.json") == "matches no run of this database"
        assert found(store, "many.json#9") == "matches no run of this database"
        assert "matches 2 runs" in found(store, "a.json")
        assert "#item selects one" in found(store, "many.json")

    def test_a_label_past_the_end_of_its_run_is_listed_not_dropped(self, store: Store) -> None:
        assert found(store, "one/a.json", At(step=7)) == "refers to no step: step 7"
        assert found(store, "one/a.json", At(span="absent")) == "refers to no step: span absent"

    def test_every_label_is_placed_or_listed(self, store: Store) -> None:
        labels = [
            Label(trace="one/a.json", at=At(step=1), line=1),
            Label(trace="one/a.json", at=At(step=7), line=2),
            Label(trace="one/a.json", at=At(message=0), line=3),
            Label(trace="nowhere", line=4),
            Label(trace="many.json#1187", line=5),
        ]
        placed, unusable = place(store, labels)
        assert sorted((each.label.line, each.step) for each in placed) == [
            (1, 1),
            (3, 0),
            (5, None),
        ]
        assert [each.line for each in unusable] == [2, 4]
        assert all(isinstance(each, Unusable) for each in unusable)


class TestKept:
    def test_tags_and_scores_of_people_are_labels_too(self, store: Store) -> None:
        key, span = store.db.execute(
            "SELECT trace, span FROM steps WHERE step = 1 ORDER BY trace LIMIT 1"
        ).fetchone()
        given = Tag(
            trace=key, span=span, step=1, failure=FailureClass.LOOP, by="mei", note="thrice"
        )
        put_tag(store, given)
        score = HumanScore(trace=key, span=span, step=1, value=0.2, by="mei", note="poor")
        give(store, score)
        labels = kept_labels(store)
        assert [(x.at, x.classes, x.score, x.note) for x in labels] == [
            (At(step=1), (FailureClass.LOOP,), None, "thrice"),
            (At(step=1), None, 0.2, "poor"),
        ]
        placed, unusable = place(store, labels)
        assert [each.step for each in placed] == [1, 1]
        assert unusable == ()

    def test_a_run_that_a_person_found_clean_is_a_label_of_no_class(self, store: Store) -> None:
        key = store.db.execute("SELECT min(key) FROM trace").fetchone()[0]
        mark_clean(store, CleanMark(trace=key, by="mei", blind=True))
        (label,) = kept_labels(store)
        assert (label.at, label.classes, label.by, label.blind) == (None, (), "mei", True)

    def test_answers_to_items_stand_beside_a_score_or_alone(self, store: Store) -> None:
        key, span = store.db.execute(
            "SELECT trace, span FROM steps WHERE step = 1 ORDER BY trace LIMIT 1"
        ).fetchone()
        alone = HumanScore(trace=key, span=span, step=1, by="ana", items={GROUNDED: False})
        both = HumanScore(
            trace=key, span=span, step=1, by="mei", value=0.4, items={VERIFIED: True}, note="so"
        )
        for each in (alone, both):
            give(store, each)
        assert opinion(store, key, 1, "mei") == both
        assert opinion(store, key, 0, "mei") is None
        assert [(x.score, x.items, x.note) for x in kept_labels(store)] == [
            (None, {GROUNDED: False}, None),
            (0.4, {VERIFIED: True}, "so"),
        ]

    def test_a_second_score_of_one_person_replaces_the_first_and_another_s_stands_beside(
        self, store: Store
    ) -> None:
        key = store.db.execute("SELECT min(key) FROM trace").fetchone()[0]
        for by, value in (("mei", 0.2), ("mei", 0.8), ("ana", 0.5)):
            given = HumanScore(trace=key, span="s", step=0, value=value, by=by)
            give(store, given)
        kept = [(score.by, score.value) for score in opinions(store)]
        assert kept == [("ana", 0.5), ("mei", 0.8)]
        assert take_back(store, key, 0, "ana")
        assert not take_back(store, key, 0, "ana")

    def test_a_secret_in_a_note_is_masked(self, store: Store) -> None:
        secret = "ghp_" + "a1B2" * 9
        given = HumanScore(
            trace="t", span="s", step=0, value=0.5, by="mei", note=f"it used {secret}"
        )
        give(store, given)
        note = opinions(store)[0].note or ""
        assert secret not in note
        assert "[[SECRET:" in note


@needs_shared
@pytest.mark.parametrize(
    ("labels", "traces", "lost"),
    [
        ("tb_claude_code", "claude_code_runs", 0),
        ("whowhen_ag", "whowhen", 0),
        ("toolbench_cot", "toolbench", 0),
        # one annotation names no span: its place reads "Span ID not found for this shard"
        ("trail_swe_bench", "trail_swe", 1),
    ],
)
def test_the_shared_labels_point_at_steps_of_their_traces(
    real: Imported, labels: str, traces: str, lost: int
) -> None:
    with open_ledger(real.path) as store:
        read, unusable = read_labels(DATA / "labels" / f"{labels}.jsonl")
        placed, nowhere = place(store, read)
        named = {row.trace for row in runs_below(store, traces)}
    assert unusable == ()
    assert {each.trace for each in placed} <= named
    assert len(nowhere) == lost
    assert len(placed) == len(read) - lost
    assert all((each.step is None) == (each.label.at is None) for each in placed)
