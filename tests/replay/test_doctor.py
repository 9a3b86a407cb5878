"""A check-up of a server that is as assumed, and of others that each differ in one thing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from replay.budget import Budget, Limits
from replay.doctor import checks
from replay.doctor.assumptions import ASSUMPTIONS
from replay.doctor.checks import Check, database_checks, machine_checks, model_checks
from replay.doctor.checkup import (
    DEFAULT_MODEL,
    PROBES,
    checkup,
    expected,
    keep,
    kept,
    report,
)
from replay.doctor.context import CheckContext
from replay.doctor.probes import Found
from replay.errors import ModelRefused, Stopped
from replay.store import answers
from replay.store.handle import Store
from tests.messages_api import FAULTS, MESSAGES, Received
from tests.messages_api.handler import Reply
from tests.replay.doctor_case import MODEL, OTHERWISE, TRIED, Odd, Otherwise, changing, rethought

PLENTY = Limits(usd=1.0)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("ARC_KILL", raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path / "none"))


def found_at(api: Odd, store: Store, limits: Limits = PLENTY, model: str = MODEL) -> list[Found]:
    with CheckContext(store, model, Budget(limits), base_url=api.base_url) as desk:
        return list(checkup(desk))


def outcomes(found: list[Found]) -> dict[str, str]:
    return {each.check: each.outcome for each in found}


# --- what a server does


def test_every_assumption_holds_at_the_strict_server(store: Store) -> None:
    with Odd() as api:
        found = found_at(api, store)
    assert outcomes(found) == dict.fromkeys(TRIED, "holds")
    assert len(found) == len(TRIED)


@pytest.mark.slow
@pytest.mark.parametrize(("check", "otherwise"), OTHERWISE.values(), ids=OTHERWISE.keys())
def test_exactly_what_is_otherwise_fails(store: Store, check: str, otherwise: Otherwise) -> None:
    with Odd(otherwise) as api:
        found = found_at(api, store)
    assert [each.check for each in found if each.outcome == "fails"] == [check]
    assert all(each.finding for each in found)
    assert set(outcomes(found)) == set(TRIED)


def test_every_assumption_that_is_tried_can_fail() -> None:
    assert {check for check, _ in OTHERWISE.values()} == set(TRIED)


def test_thinking_that_is_dropped_in_silence_is_told_by_its_tokens(store: Store) -> None:
    with Odd(changing(lambda body: rethought(body, lambda _: []))) as api:
        found = {each.check: each for each in found_at(api, store)}
    assert found["bound_thinking"].outcome == "holds"
    assert "dropped" in found["bound_thinking"].finding


def test_a_model_that_does_not_think_leaves_thinking_unclear(store: Store) -> None:
    with Odd(changing(lambda body: {n: v for n, v in body.items() if n != "thinking"})) as api:
        found = outcomes(found_at(api, store))
    assert found["stripped_thinking"] == found["bound_thinking"] == "unclear"
    assert "fails" not in found.values()


def test_an_older_model_is_made_to_think_by_a_budget(store: Store) -> None:
    def older(received: Received) -> Received | Reply:
        adaptive = (received.body.get("thinking") or {}).get("type") == "adaptive"
        return Reply(status=400, body="{}") if adaptive else received

    with Odd(older) as api:
        assert outcomes(found_at(api, store)) == dict.fromkeys(TRIED, "holds")
        asked = [each.body.get("thinking") for each in api.received if each.path == MESSAGES]
    assert {"type": "enabled", "budget_tokens": 1024} in asked


@pytest.mark.parametrize(("takes", "outcome"), [(True, "holds"), (False, "fails")])
def test_whether_sampling_is_taken_is_held_against_what_replay_sends(
    store: Store, takes: bool, outcome: str
) -> None:
    unknown = json.dumps({"error": {"message": "temperature: not supported"}})

    def strict(received: Received) -> Received | Reply:
        refused = not takes and "temperature" in (received.body or {})
        return Reply(status=400, body=unknown) if refused else received

    with Odd(strict) as api:
        (found,) = [
            each
            for each in found_at(api, store, Limits(calls=100), model="local-model")
            if each.check == "sampling"
        ]
    assert found.outcome == outcome


def test_a_batch_that_has_ended_already_is_no_failure(store: Store) -> None:
    with Odd(batch_polls=0) as api:
        found = {each.check: each for each in found_at(api, store)}
    assert found["batch"].outcome == "holds"
    assert "too late to cancel" in found["batch"].finding


def test_no_batch_is_left_behind(store: Store) -> None:
    with Odd() as api:
        found_at(api, store)
        assert [each.path for each in api.received if "cancel" in each.path]


# --- what it costs


def test_a_check_up_of_the_default_model_fits_into_five_cents() -> None:
    plan = expected(DEFAULT_MODEL)
    assert plan.usd is not None
    assert plan.most_usd is not None
    assert 0 < plan.usd <= plan.most_usd < 0.05


def test_a_model_without_a_price_has_no_estimate_in_usd() -> None:
    plan = expected("a-model-of-ours")
    assert plan.usd is plan.most_usd is None
    assert plan.calls > len(PROBES)


def test_the_estimate_is_near_what_is_asked(store: Store) -> None:
    plan = expected(MODEL)
    with Odd() as api:
        found_at(api, store)
        usage = api.usage_total()
    figures = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    asked = sum(usage[name] for name in figures)
    assert asked / 2 < plan.input_tokens < asked * 2


def test_what_does_not_fit_into_the_budget_is_not_asked_and_says_so(store: Store) -> None:
    with Odd() as api:
        found = {each.check: each for each in found_at(api, store, Limits(usd=0.005))}
        asked = [each.body["max_tokens"] for each in api.received if each.path == MESSAGES]
    assert found["stream"].outcome == "not run"
    assert "0.005 USD could be exceeded" in found["stream"].finding
    assert max(asked) <= 16_000
    assert found["tool_ids"].outcome == "holds"


def test_calls_end_where_their_limit_does(store: Store) -> None:
    with Odd() as api:
        found = outcomes(found_at(api, store, Limits(calls=3)))
        assert api.asked == 3
    assert list(found.values()).count("holds") == 3
    assert list(found.values()).count("not run") == len(TRIED) - 3


def test_a_budget_for_nothing_is_no_check_up(store: Store) -> None:
    with Odd() as api:
        with pytest.raises(ModelRefused, match="could be exceeded"):
            found_at(api, store, Limits(usd=0.000001))
        assert api.asked == 0


@pytest.mark.slow
def test_a_server_that_lets_nobody_in_cannot_be_checked(store: Store) -> None:
    with Odd() as api:
        api.fault(FAULTS["no key"], FAULTS["no key"])
        with pytest.raises(ModelRefused, match="401"):
            found_at(api, store)


def test_what_was_found_stays_when_the_server_shuts_its_door(store: Store) -> None:
    def shut(received: Received) -> Received | Reply:
        return Reply(status=401, body="{}") if api.asked >= 2 else received

    with Odd(shut) as api:
        found = found_at(api, store)
    assert [each.outcome for each in found] == ["holds"] * 2 + ["not run"] * (len(TRIED) - 2)


def test_a_kill_file_ends_a_check_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_KILL", str(tmp_path / "stop"))
    with Odd() as api, CheckContext(store, MODEL, Budget(PLENTY), base_url=api.base_url) as desk:
        going = checkup(desk)
        first = next(going)
        (tmp_path / "stop").touch()
        with pytest.raises(Stopped):
            next(going)
        made = report(desk, None, [first])
    assert made.tried
    assert {each.outcome for each in made.results[1:]} == {"not run", None}


# --- what is kept


@pytest.mark.slow
def test_every_check_up_asks_the_server_afresh_and_keeps_the_answers(store: Store) -> None:
    with Odd() as api:
        found_at(api, store)
        once = api.asked
        found_at(api, store)
        assert api.asked == 2 * once
    (kept_answers,) = store.db.execute("SELECT count(*) FROM answer").fetchone()
    refused_each_time = 2  # temperature, and thinking behind an edited prompt
    assert kept_answers == 2 * (once - refused_each_time)


@pytest.mark.slow
def test_the_last_report_of_each_model_is_kept(store: Store) -> None:
    with Odd() as api:
        for model in (MODEL, "claude-test", MODEL):
            with CheckContext(
                store, model, Budget(Limits(calls=50)), base_url=api.base_url
            ) as desk:
                made = report(desk, desk.about(), checkup(desk))
                keep(store, made)
        server = api.base_url
    latest, other = kept(store)
    assert latest == made
    assert (latest.model, other.model) == (MODEL, "claude-test")
    assert latest.server == server
    assert latest.answered_by == MODEL
    assert (latest.lifecycle, latest.max_input_tokens) == ("active", 200_000)
    assert latest.most_usd is not None
    assert other.most_usd is None
    assert [each.id for each in latest.results] == [each.id for each in ASSUMPTIONS]


@pytest.mark.slow
def test_no_key_is_in_a_report(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-ant-" + "unlikely0" * 4
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    with Odd() as api, CheckContext(store, MODEL, Budget(PLENTY), base_url=api.base_url) as desk:
        made = report(desk, desk.about(), checkup(desk))
        assert any(key in str(each.headers) for each in api.received)
    keep(store, made)
    assert key not in "\n".join(store.db.iterdump())


class Note(msgspec.Struct, frozen=True):
    text: str


def test_a_note_takes_the_place_of_the_one_before_and_its_secrets_are_masked(store: Store) -> None:
    answers.keep(store, "a:1", Note("first"))
    answers.keep(store, "a:1", Note("key sk-ant-" + "abcdefgh1" * 3))
    answers.keep(store, "a%", Note("of another prefix"))
    (found,) = answers.found(store, "a:", Note)
    assert found.text.startswith("key [[SECRET:anthropic_key:")


def test_a_note_of_another_shape_is_left_out(store: Store) -> None:
    answers.keep(store, "a:1", Note("first"))
    assert answers.found(store, "a:", Check) == []


# --- this machine


def by_name(checks: Iterator[Check]) -> dict[str, Check]:
    return {each.name: each for each in checks}


def test_a_new_database_is_well(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    Store.open(path).close()
    found = by_name(database_checks(path, Store.open))
    assert {each.status for each in found.values()} == {"ok"}
    assert "replay/0001_recordings" in found["schema"].finding
    assert "0 runs" in found["content"].finding


def test_looking_for_a_database_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "arc.db"
    found = by_name(database_checks(path, Store.open))
    assert found["file"].status == found["disk"].status == "ok"
    assert not path.parent.exists()


def test_a_database_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    Store.open(path).close()
    path.chmod(0o644)
    found = by_name(database_checks(path, Store.open))["mode"]
    assert (found.status, found.advice) == ("warn", f"Try: chmod 600 {path}")


def test_a_file_that_is_no_database_fails(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    path.write_text("no database at all\n" * 100)
    found = by_name(database_checks(path, Store.open))["content"]
    assert found.status == "fail"
    assert "--db" in found.advice


def test_a_page_that_was_overwritten_fails(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        size = int(connection.execute("PRAGMA page_size").fetchone()[0])
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    raw = bytearray(path.read_bytes())
    raw[5 * size : 6 * size] = b"\xff" * size
    path.write_bytes(raw)
    found = by_name(database_checks(path, Store.open))
    assert "fail" in {each.status for each in found.values()}


def test_a_full_disk_is_told_before_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SCARCE_BYTES", 10**20)
    assert by_name(database_checks(tmp_path / "arc.db", Store.open))["disk"].status == "warn"
    monkeypatch.setattr(checks, "NEXT_TO_NONE_BYTES", 10**20)
    assert by_name(database_checks(tmp_path / "arc.db", Store.open))["disk"].status == "fail"


def test_every_package_is_here() -> None:
    assert {each.status for each in machine_checks()} == {"ok"}


def test_keys_and_proxies_are_named_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@proxy")
    found = by_name(model_checks())
    assert found["key"].finding == "ANTHROPIC_API_KEY set"
    assert found["proxies"].finding == "set for https; live calls use them"
    assert "secret" not in str(found)
    assert "hunter2" not in str(found)


def test_a_server_of_this_machine_needs_no_key_and_no_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:11434")
    monkeypatch.setenv("ALL_PROXY", "http://proxy")
    found = by_name(model_checks())
    assert {each.status for name, each in found.items() if name != "OpenAI"} == {"ok"}
    assert "bypass them" in found["proxies"].finding


def test_without_a_key_it_cannot_be_told_whether_live_calls_work() -> None:
    assert by_name(model_checks())["key"].status == "unknown"


def test_a_wrong_address_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:1/v1")
    (found,) = model_checks()
    assert (found.name, found.status) == ("server", "fail")


def test_a_kill_file_that_is_there_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_KILL", str(tmp_path / "stop"))
    assert by_name(model_checks())["kill file"].status == "ok"
    (tmp_path / "stop").touch()
    assert by_name(model_checks())["kill file"].status == "warn"
