"""The shape of results, and the environment that a run keeps."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from replay.care import check
from replay.care.prune import remove
from replay.pins import MANY_KEYS, MOST_PATHS, pins_of, result_shape
from replay.store.environments import environments, tool_definitions, tool_digest
from replay.store.handle import Store
from replay.store.schema import migrations
from replay.store.write import Writer
from replay.trace import Batch, Header
from tests.arc_tui.drift_case import NEW, OLD, REFUND, lookup, spans_of


@pytest.mark.parametrize(
    ("result", "shape"),
    [
        ("sent", {"": {"text"}}),
        ("12", {"": {"text"}}),
        ('{"a": ', {"": {"text"}}),
        ('{"a": 1, "b": null}', {"": {"object"}, "a": {"number"}, "b": {"null"}}),
        (' [{"a": true}, {"a": "x"}]',
         {"": {"array"}, "[]": {"object"}, "[].a": {"boolean", "string"}}),
        ('{"by": {"credit_card_4421": 1, "2026-01-02": 2}}',
         {"": {"object"}, "by": {"object"}, "by.*": {"number"}}),
        ('{"a@b.c": 1}', {"": {"object"}, "*": {"number"}}),
        ("{}", {"": {"object"}}),
        ("", {"": {"text"}}),
    ],
)  # fmt: skip
def test_key_paths_have_their_types_and_keys_that_are_values_are_one(
    result: str, shape: dict[str, set[str]]
) -> None:
    assert result_shape(result) == shape


def test_an_object_of_many_things_has_one_key_and_one_of_many_shapes_is_not_compared() -> None:
    many = {f"k{'abcdefghij'[at // 10]}{'abcdefghij'[at % 10]}": 1 for at in range(MANY_KEYS + 1)}
    assert result_shape(json.dumps(many)) == {"": {"object"}, "*": {"number"}}
    letters = "abcdefghijklmnopqrstuvwxyz"
    wide = {f"x{a}": {f"y{a}{b}": {f"z{c}": 1 for c in "abcd"} for b in letters} for a in letters}
    assert len(result_shape(json.dumps(wide))) == MOST_PATHS + 1
    store = Store.open(":memory:")
    key = written(store, spans_of(wide, None, None), "wide")
    assert environments(store.db, [key])[key][1].results == {"get_order": {}}


def test_attributes_that_pin_become_labels() -> None:
    given = {"arc.pin.index": "a", "arc.pin.fresh": True, "arc.pin.n": 3, "arc.pin.l": [1], "x": 1}
    assert pins_of(given) == {"pin.index": "a", "pin.fresh": "true", "pin.n": "3"}


def written(store: Store, spans: tuple[object, ...], name: str, **more: object) -> str:
    header = Header(format="built", source_id=name, **more)  # type: ignore[arg-type]
    writer = Writer(store)
    return writer.finish(writer.write(Batch(header=header, spans=spans, last=True))).id  # type: ignore[arg-type]


def test_runs_of_one_environment_share_a_row_and_unknown_stays_unknown(store: Store) -> None:
    first, second = written(store, OLD, "1"), written(store, OLD, "2")
    other, silent = written(store, NEW, "3"), written(store, spans_of({}, None, None), "4")
    none = written(store, spans_of({}, (), None), "5")
    found = environments(store.db, [first, second, other, silent, none])
    assert found[first][0] == found[second][0] != found[other][0]
    assert found[first][1].models == ("m-2026-01",)
    assert found[first][1].tools == {
        "get_order": (tool_digest(lookup("order_id")),), "refund_order": (tool_digest(REFUND),),
    }  # fmt: skip
    assert found[silent][1].tools is None
    assert found[none][1].tools == {}
    assert found[silent][1].results == {"get_order": {"": ("object",)}}
    assert store.db.execute("SELECT count(*) FROM environment").fetchone() == (4,)
    wanted = {tool_digest(REFUND)}
    assert tool_definitions(store.db, wanted) == {tool_digest(REFUND): REFUND}
    assert not [each for each in check.kept(store) if each.severity == "damage"]


def test_an_older_database_gets_environments_and_the_labels_of_versions(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    with Store.open(path) as store:
        key = written(store, OLD, "1")
        now = environments(store.db, [key])
        store.db.execute("UPDATE trace SET environment = NULL, format = 'mini-swe-agent'")
        store.db.execute("DELETE FROM environment")
        detail = msgspec.json.encode({"extra": {"mini_version": "1.9"}}).decode()
        store.db.execute("UPDATE span SET detail = ? WHERE kind = 'agent'", (detail,))
        store.db.execute("DROP TABLE environment")
        store.db.execute("ALTER TABLE trace DROP COLUMN environment")
        store.db.execute("DELETE FROM _sqlite_migrations WHERE name = '0003_environments'")
        assert migrations.pending(store.db)
    with Store.open(path) as store:
        assert environments(store.db, [key]) == now
        labels = store.db.execute("SELECT labels FROM trace").fetchone()[0]
    assert json.loads(labels) == {"version": "1.9"}


def test_a_changed_environment_is_damage_and_one_goes_with_its_last_run(store: Store) -> None:
    key = written(store, OLD, "1")
    written(store, NEW, "2")
    store.db.execute("UPDATE environment SET body = replace(body, 'm-2026-01', 'm-2026-02')")
    damaged = [each for each in check.kept(store) if each.severity == "damage"]
    assert [each.where.split()[0] for each in damaged] == ["environment"]
    remove(store.db, [key])
    assert not [each for each in check.kept(store) if each.severity == "damage"]
    assert store.db.execute("SELECT count(*) FROM environment").fetchone() == (1,)
