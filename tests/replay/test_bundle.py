"""Bundles: one replay, the same bytes; run again from themselves; damage is found and named."""

from __future__ import annotations

import io
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from arc_tui.commands import cli
from replay import bundle, digests, kept
from replay.bundle import BadBundle, Verified, contents
from replay.compare.rules import PLAIN, Rules, rules_from
from replay.edit.changes import Edit, SetModel, SetSystem
from replay.errors import ArcError, BadTrace, RequestRefused
from replay.formats import arc
from replay.formats.source import BytesSource, Source, Tally
from replay.free.recorded_results import Stub, Terms
from replay.locked.row import Models, Sampling
from replay.locked.run import Core, core, replay
from replay.models.cached import Cached
from replay.store import answers, edits, read
from replay.store.edits import Supplement, attach
from replay.store.handle import Store
from replay.store.read import content_digest, recorded
from replay.store.write import Writer
from replay.trace import Context, Level, Trace
from tests.messages_api import Body, message, text, tool_use
from tests.replay import free_case
from tests.replay.locked_case import (
    DIALOGUE,
    SYSTEM,
    TOOLS,
    VERIFY,
    Fixed,
    Tiny,
    request,
    spans,
    stored,
    think,
)

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))
TWICE = Sampling(levels=(2,))


def replayed(
    store: Store,
    trace: Trace,
    edit: Edit | None = EDIT,
    model: Any = None,
    *,
    other: Any = None,
    rules: Rules = PLAIN,
    steps: tuple[int, ...] | None = None,
    sampling: Sampling = TWICE,
) -> Core:
    """The kept result of a replay."""
    saved = edits.save(store, edit) if edit is not None else None
    control = edited = Cached(store, "tiny", model or Tiny())
    if other is not None:
        edited = Cached(store, "other", other)
    models = Models(control, edited)
    terms = {"sampling": sampling, "steps": steps, "rules": rules}
    rows = {row.step: row for row in replay(trace, saved, models, **terms)}  # type: ignore[arg-type]
    made = core(trace, saved, models, rows.values(), **terms)  # type: ignore[arg-type]
    return kept.find(store, kept.keep(store, made))


def bundled(store: Store, file: Path, **beside: Any) -> Verified:
    """A bundle of the small case in `file`."""
    return bundle.write(store, replayed(store, stored(store), **beside), file)


def members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def resigned(file: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    """Change members of a bundle and put its sums right again: what a forger would do."""
    found = members(file)
    change(found)
    said = msgspec.json.decode(found.pop(contents.NAME), type=contents.Manifest)
    result = msgspec.json.decode(found[contents.RESULT], type=Core)
    said = structs.replace(
        said,
        digest=result.digest,
        members={name: contents.member(data) for name, data in found.items()},
    )
    file.write_bytes(contents.packed({contents.NAME: contents.encoded_manifest(said), **found}))


# --- the file


def test_the_same_replay_gives_the_same_bytes_that_only_their_owner_can_read(
    store: Store, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.zip", tmp_path / "b.zip"
    found = replayed(store, stored(store))
    bundle.write(store, found, first)
    bundle.write(store, found, second)
    assert first.read_bytes() == second.read_bytes()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    with zipfile.ZipFile(first) as opened:
        entries = opened.infolist()
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert [entry.filename for entry in entries] == [
        "manifest.json", "trace.arc.jsonl", "edit.json", "answers.jsonl", "result.json",
    ]  # fmt: skip


def test_the_answers_that_were_used_stand_in_it_by_their_keys_without_costs(
    store: Store, tmp_path: Path
) -> None:
    answers.put(store, "sha256:0", model="tiny", sample=0, body=message(text("x")), source="local")
    bundled(store, tmp_path / "b.zip")
    lines = members(tmp_path / "b.zip")[contents.ANSWERS].splitlines()
    found = [msgspec.json.decode(line) for line in lines]
    assert len(found) == 20
    assert [line["key"] for line in found] == sorted(line["key"] for line in found)
    assert set(found[0]) == {"key", "server", "model", "sample", "source", "body"}


def test_a_bundle_that_cannot_be_written_is_a_sentence_and_nothing_is_left_behind(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(BadBundle, match="cannot be written"):
        bundled(store, tmp_path / "nowhere" / "b.zip")
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadBundle, match="cannot be written"):
        bundled(store, tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_bundle_replaces_the_one_before_it_as_a_whole(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    bundled(store, file)
    before = file.read_bytes()
    found = replayed(store, stored(store))
    store.db.execute("DELETE FROM answer")
    with pytest.raises(BadBundle, match="a response of step 0 is no longer stored"):
        bundle.write(store, found, file)
    assert file.read_bytes() == before


# --- run again


def test_run_again_from_the_file_alone_it_comes_to_the_same(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    found = replayed(store, stored(store))
    bundle.write(store, found, file)
    again = bundle.verify(file)
    assert again.same
    assert again.differs == ()
    assert (again.digest, again.trace, again.edit) == (found.digest, found.trace, "verify")
    assert (again.answers, again.declined, again.levels) == (20, 0, (2,))


def test_a_replay_under_terms_of_its_own_comes_to_the_same(store: Store, tmp_path: Path) -> None:
    found = bundled(
        store,
        tmp_path / "b.zip",
        steps=(1, 3),
        rules=rules_from(["refund_order.amount=ignore"]),
        sampling=Sampling(levels=(1, 2), range=3),
    )
    assert found.same
    assert bundle.verify(tmp_path / "b.zip").same


def test_an_edit_that_asks_another_model_is_run_again_with_both(
    store: Store, tmp_path: Path
) -> None:
    edit = Edit(name="other", changes=(SetModel("other"),))
    refund = Fixed(message(tool_use("get_order", order_id=1)))
    found = bundled(store, tmp_path / "b.zip", edit=edit, other=refund)
    assert (found.same, found.model, found.edited_model) == (True, "tiny", "other")


def test_what_was_attached_goes_along_and_the_tape_stays_as_it_was_recorded(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "b.zip"
    bare = stored(store, spans(asking=request(system=None, tools=None)))
    attach(store, bare.id, Supplement(name="mine", system=SYSTEM, tools=TOOLS))
    found = replayed(store, read.load(store, bare.id))
    assert bundle.write(store, found, file).same
    assert {row.fidelity for row in found.rows} == {Level.SUPPLIED}
    opened = bundle.read(file)
    assert opened.supplement == Supplement(name="mine", system=SYSTEM, tools=TOOLS)
    assert SYSTEM.encode() not in members(file)[contents.TRACE]
    assert bundle.verify(file).same


def test_what_was_attached_after_the_replay_is_noticed_before_anything_is_written(
    store: Store, tmp_path: Path
) -> None:
    bare = stored(store, spans(asking=request(system=None)))
    found = replayed(store, bare, None)
    attach(store, bare.id, Supplement(name="late", system="Be kind."))
    with pytest.raises(BadBundle, match=r"is not reproducible any more \(step 0: "):
        bundle.write(store, found, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


class Picky:
    """A tiny model that declines one request, and another one from its second sample on."""

    name = "tiny"

    def complete(self, body: Body, sample: int) -> Body:
        said = str(body["messages"][-1]["content"])
        if said == "Hello":
            raise RequestRefused("too friendly", "be brief")
        if "where is order 7" in said and sample > 0:
            raise RequestRefused("asked before")
        return think(body)


def test_requests_that_were_declined_are_declined_again_and_counted(
    store: Store, tmp_path: Path
) -> None:
    found = replayed(store, stored(store), EDIT, Picky())
    assert found.rows[0].refused == "too friendly; be brief"
    assert [len(row.control) for row in found.rows] == [0, 2, 2, 1, 2]
    again = bundle.write(store, found, tmp_path / "b.zip")
    assert again.same
    assert again.declined == 2


def test_steps_that_could_not_be_asked_are_not_asked_again_either(
    store: Store, tmp_path: Path
) -> None:
    trace = stored(store, spans(asking=request(tools=None)))
    found = replayed(store, trace, None)
    assert sum(row.refused is not None for row in found.rows) == 4
    again = bundle.write(store, found, tmp_path / "b.zip")
    assert (again.same, again.declined) == (True, 0)


@pytest.mark.parametrize("name", sorted(path.stem for path in (FIXTURES / "traces").iterdir()))
def test_a_trace_comes_back_with_its_id_its_digests_and_its_fidelity(
    name: str, store: Store
) -> None:
    def imported(source: Source, into: Store) -> Trace:
        writer = Writer(into)
        (batch,) = arc.read(source, Tally())
        return read.load(into, writer.finish(writer.write(batch)).id)

    first = imported(Source(FIXTURES / "traces" / f"{name}.jsonl"), store)
    written = b"".join(arc.write([recorded(store, first.id)]))
    with Store.open(":memory:") as other:
        second = imported(BytesSource(written, "written"), other)
        assert second.id == first.id
        assert content_digest(other, first.id) == content_digest(store, first.id)
    for before, after in zip(first.steps, second.steps, strict=True):
        assert before.ask.fidelity == after.ask.fidelity
        assert _said(after.ask.request.context) == _said(before.ask.request.context)


def _said(context: Context | None) -> list[str]:
    """Identity of each message of a conversation."""
    return [digests.message_digest(each) for each in context.messages()] if context else []


# --- free replays


def test_a_free_replay_is_run_again_with_the_stubs_it_used(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    trace = free_case.recorded(store, free_case.TOUR)
    strange = free_case.Script(
        free_case.uses(("get_order", {"order_id": "999"})),
        free_case.says("It is lost."),
    )
    stubs = (
        Stub(tool="get_order", arguments={"order_id": "999"}, result="lost"),
        Stub(tool="get_order", arguments={"order_id": "998"}, result="found"),
    )
    terms = Terms(stubs=stubs, effects={"get_order": "read"})
    made = free_case.run(trace, strange, terms=terms, store=store)
    assert ("stub", "lost") in free_case.uses_of(made)
    found = bundle.write(store, made.core(), file, terms)
    assert (found.kind, found.same, found.answers) == ("free", True, 2)
    assert bundle.verify(file).same
    opened = bundle.read(file)
    assert opened.added == contents.Added(stubs=stubs[:1], effects={"get_order": "read"})


def test_a_free_replay_under_an_edit_that_ends_off_the_tape_comes_to_the_same(
    store: Store, tmp_path: Path
) -> None:
    trace = free_case.recorded(store, free_case.TOUR)
    edit = edits.save(store, free_case.V4)
    strange = free_case.Script(free_case.uses(("get_order", {"order_id": "999"})))
    made = free_case.run(trace, strange, edit, store=store)
    assert made.status == "miss"
    found = bundle.write(store, made.core(), tmp_path / "b.zip")
    assert (found.same, found.edit) == (True, "v4")


def test_without_its_stub_a_free_replay_comes_to_something_else(
    store: Store, tmp_path: Path
) -> None:
    trace = free_case.recorded(store, free_case.TOUR)
    strange = free_case.Script(
        free_case.uses(("get_order", {"order_id": "999"})),
        free_case.says("It is lost."),
    )
    stub = Stub(tool="get_order", arguments={"order_id": "999"}, result="lost")
    made = free_case.run(trace, strange, terms=Terms(stubs=(stub,)), store=store)
    with pytest.raises(BadBundle, match="is not reproducible any more"):
        bundle.write(store, made.core(), tmp_path / "b.zip")


# --- damage and tampering


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that holds, never to be changed."""
    file = tmp_path_factory.mktemp("bundle") / "sound.zip"
    with Store.open(":memory:") as store:
        bundled(store, file)
    return file


@pytest.fixture
def file(sound: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    copy = tmp_path / "b.zip"
    copy.write_bytes(sound.read_bytes())
    return copy


CHANGES = {
    "trace.arc.jsonl": (b"Refund order 1042", b"Refund order 1043"),
    "edit.json": (b"Always verify", b"Never verify!"),
    "answers.jsonl": (b'"order_id":1042', b'"order_id":1043'),
    "result.json": (b'"same":true', b'"same":null'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_member_that_was_changed_is_named(name: str, file: Path) -> None:
    found = members(file)
    assert CHANGES[name][0] in found[name]
    found[name] = found[name].replace(*CHANGES[name])
    file.write_bytes(contents.packed(found))
    with pytest.raises(BadBundle, match=f"{re.escape(str(file))}: {name} was changed"):
        bundle.verify(file)


@pytest.mark.parametrize("name", [contents.NAME, *contents.ALWAYS, contents.EDIT])
def test_a_member_that_was_left_out_is_missed(name: str, file: Path) -> None:
    found = members(file)
    del found[name]
    file.write_bytes(contents.packed(found))
    with pytest.raises(BadBundle, match=f"{name} is missing"):
        bundle.read(file)


def test_a_member_that_was_added_is_refused(file: Path) -> None:
    found = members(file)
    for extra in ("../evil", contents.SUPPLEMENT):
        file.write_bytes(contents.packed({**found, extra: b"{}"}))
        with pytest.raises(BadBundle, match=re.escape(extra)):
            bundle.read(file)


def test_a_name_that_stands_twice_is_refused(file: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as opened:
        opened.writestr("result.json", b"{}")
    with pytest.raises(BadBundle, match=r"result\.json occurs twice"):
        bundle.read(file)


def test_a_file_that_was_cut_or_is_something_else_is_no_bundle(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(BadBundle, match="not a bundle: not a complete zip file"):
            bundle.read(file)
    with pytest.raises(BadBundle, match="cannot be read"):
        bundle.read(tmp_path / "none.zip")


@settings(deadline=None)
@given(data=st.data())
def test_no_single_byte_can_be_changed_unnoticed(data: st.DataObject, sound: Path) -> None:
    whole = sound.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255))
    changed = whole[:at] + bytes([byte]) + whole[at + 1 :]
    try:
        opened = contents.Archive(changed)
        contents.decoded(opened)
    except (BadBundle, BadTrace):
        return
    # A byte that says when, by whom or how something was packed says nothing of what it is.
    assert {name: opened.read(name, 10**6) for name in opened.names} == members(sound)


@settings(deadline=None)
@given(data=st.binary(max_size=300))
def test_whatever_a_file_holds_it_is_a_sentence(data: bytes) -> None:
    for each in (data, contents.packed({contents.NAME: data})):
        with pytest.raises(BadBundle):
            contents.decoded(contents.Archive(each))


# --- forged: the sums are right


def test_an_answer_that_was_forged_comes_to_another_result(file: Path) -> None:
    def forge(found: dict[str, bytes]) -> None:
        found[contents.ANSWERS] = found[contents.ANSWERS].replace(
            b'"order_id":1042,"amount":100', b'"order_id":1042,"amount":999'
        )

    resigned(file, forge)
    found = bundle.verify(file)
    assert not found.same
    assert found.differs == ("step 1: the control samples",)


def test_a_result_that_was_forged_does_not_follow_from_its_answers(file: Path) -> None:
    def forge(found: dict[str, bytes]) -> None:
        told = msgspec.json.decode(found[contents.RESULT], type=Core)
        answer = structs.replace(told.rows[3].edited[0], same=False, kinds=("tool",))
        row = structs.replace(told.rows[3], edited=(answer, *told.rows[3].edited[1:]))
        rows = (*told.rows[:3], row, *told.rows[4:])
        found[contents.RESULT] = structs.replace(told, rows=rows).encoded()

    resigned(file, forge)
    found = bundle.verify(file)
    assert found.differs == ("step 3: the edited samples",)


def test_a_trace_that_was_forged_is_not_the_one_that_was_replayed(file: Path) -> None:
    resigned(file, lambda found: found.update({contents.TRACE: found[contents.TRACE].replace(
        b"Refund order 1042", b"Refund order 1043")}))  # fmt: skip
    with pytest.raises(BadBundle, match=r"trace\.arc\.jsonl is not the trace"):
        bundle.verify(file)


def test_an_edit_that_was_forged_is_not_the_one_of_the_result(file: Path) -> None:
    resigned(file, lambda found: found.update(
        {contents.EDIT: digests.encode(Edit(name="x", changes=(SetSystem("x"),)))}))  # fmt: skip
    with pytest.raises(BadBundle, match=r"edit\.json does not match"):
        bundle.read(file)


def test_an_answer_more_or_less_does_not_fit_the_result(file: Path) -> None:
    whole = file.read_bytes()
    for change in (lambda lines: lines[1:], lambda lines: [*lines, lines[-1]]):
        file.write_bytes(whole)

        def forge(found: dict[str, bytes], change: Any = change) -> None:
            lines = found[contents.ANSWERS].splitlines(keepends=True)
            found[contents.ANSWERS] = b"".join(change(lines))

        resigned(file, forge)
        with pytest.raises(BadBundle, match=r"answers\.jsonl does not match"):
            bundle.read(file)


@pytest.mark.parametrize("levels", [(), (0,), (5, 3), (10**9,)])
def test_terms_that_no_replay_can_have_had_are_refused(levels: tuple[int, ...], file: Path) -> None:
    def forge(found: dict[str, bytes]) -> None:
        told = msgspec.json.decode(found[contents.RESULT], type=Core)
        found[contents.RESULT] = structs.replace(told, levels=levels).encoded()

    resigned(file, forge)
    with pytest.raises(BadBundle, match=r"result\.json does not match"):
        bundle.read(file)


def test_a_rule_of_a_bundle_that_may_take_for_ever_is_refused(file: Path) -> None:
    rule = {"tool": "*", "path": "**", "how": "regex", "value": "(a+)+$"}
    found = members(file)
    result = {**msgspec.json.decode(found[contents.RESULT]), "paths": [rule]}
    found[contents.RESULT] = msgspec.json.encode(result)
    said = msgspec.json.decode(found.pop(contents.NAME), type=contents.Manifest)
    sums = {name: contents.member(data) for name, data in found.items()}
    whole = {contents.NAME: contents.encoded_manifest(structs.replace(said, members=sums)), **found}
    file.write_bytes(contents.packed(whole))
    with pytest.raises(BadBundle, match=r"result\.json.*'\(a\+\)\+\$' repeats a choice"):
        bundle.verify(file)


# --- from elsewhere


def rewritten(file: Path, **fields: Any) -> None:
    """The manifest with other fields, everything else as it is."""
    found = members(file)
    said = {**msgspec.json.decode(found[contents.NAME]), **fields}
    file.write_bytes(contents.packed({**found, contents.NAME: msgspec.json.encode(said)}))


def test_a_newer_format_says_so(file: Path) -> None:
    rewritten(file, format="arc-bundle/2", surprise=True)
    with pytest.raises(
        BadBundle, match="format arc-bundle/2 is not supported: this arc reads arc-bundle/1"
    ) as error:
        bundle.read(file)
    assert error.value.hint == "Try: a newer arc"


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"result": "arc-replay/9"}, "with result arc-replay/9"),
        ({"rules": 99}, "with rules 99"),
        ({"dice": 6}, "with dice 6"),
    ],
)
def test_another_engine_says_so(engine: dict[str, Any], said: str, file: Path) -> None:
    ours = msgspec.json.decode(members(file)[contents.NAME])["engine"]
    rewritten(file, engine={**ours, **engine})
    with pytest.raises(BadBundle, match=f"was made by an engine {said}"):
        bundle.read(file)


# --- hostile


@pytest.mark.slow
def test_a_member_that_inflates_beyond_what_it_may_have_is_not_read_to_its_end(file: Path) -> None:
    found = members(file)
    file.write_bytes(contents.packed({**found, contents.TRACE: bytes(50_000_000)}))
    assert file.stat().st_size < 100_000
    with pytest.raises(BadBundle, match=r"trace\.arc\.jsonl is larger than the limit of \d+ bytes"):
        bundle.read(file)
    with pytest.raises(BadBundle, match=r"manifest\.json is larger than the limit of 65536 bytes"):
        contents.decoded(contents.Archive(contents.packed({contents.NAME: bytes(50_000_000)})))


def test_what_is_nested_too_deeply_is_a_sentence(file: Path) -> None:
    whole, deep = file.read_bytes(), b"[" * 100_000 + b"]" * 100_000
    for name in (contents.TRACE, contents.ANSWERS):
        file.write_bytes(whole)

        def forge(found: dict[str, bytes], name: str = name) -> None:
            found[name] = deep

        resigned(file, forge)
        with pytest.raises(ArcError, match=re.escape(name)):
            bundle.read(file)


def test_a_number_larger_than_any_database_holds_is_another_answer(file: Path) -> None:
    def forge(found: dict[str, bytes]) -> None:
        found[contents.ANSWERS] = found[contents.ANSWERS].replace(
            b'"order_id":1042', b'"order_id":' + b"9" * 40
        )

    resigned(file, forge)
    assert bundle.verify(file).differs[0] == "step 1: the control samples"


def test_a_directory_of_many_entries_is_not_even_parsed() -> None:
    many = contents.packed({str(number): b"" for number in range(1000)})
    with pytest.raises(BadBundle, match="too many files for a bundle"):
        contents.Archive(many)


def test_a_member_that_is_packed_otherwise_is_refused(file: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as made:
        made.writestr(contents.NAME, members(file)[contents.NAME])
    with pytest.raises(BadBundle, match=r"manifest\.json is encrypted, or compressed"):
        contents.decoded(contents.Archive(out.getvalue()))


# --- secrets


def test_no_secret_of_a_trace_an_edit_an_attachment_or_an_answer_reaches_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = [f"sk-ant-{letter}1" + f"{letter}7" * 20 for letter in "abcdef"]
    said, asked, system, answer, refusal, redact = secrets
    monkeypatch.setenv("ARC_REDACT_KEY", redact)
    dialogue = (("user", f"Hello, my key is {said}"), *DIALOGUE[1:])

    class Leaky:
        name = "tiny"

        def complete(self, body: Body, sample: int) -> Body:
            if "where is order 7" in str(body["messages"][-1]):
                raise RequestRefused(f"the key {refusal} is not allowed here")
            return message(text(f"Use {answer}."), *think(body)["content"])

    file = tmp_path / "b.zip"
    with Store.open(tmp_path / "arc.db") as store:
        bare = stored(store, spans(dialogue, asking=request(system=None)))
        attach(store, bare.id, Supplement(name="mine", system=f"Log in with {system}."))
        edit = Edit(name=f"with {asked}", changes=(SetSystem(f"Now use {asked}."),))
        found = replayed(store, read.load(store, bare.id), edit, Leaky())
        assert bundle.write(store, found, file).same
    everything = file.read_bytes() + b"".join(members(file).values())
    assert everything.count(b"[[SECRET:anthropic_key:") >= 5
    assert not [secret for secret in secrets if secret.encode() in everything]


def test_what_is_masked_stays_as_it_is_under_another_databases_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-ant-" + "a1" * 20
    dialogue = (("user", f"Hello, my key is {key}"), *DIALOGUE[1:])
    file = tmp_path / "b.zip"
    monkeypatch.setenv("ARC_REDACT_KEY", "one")
    with Store.open(":memory:") as store:
        found = replayed(store, stored(store, spans(dialogue)), EDIT)
        bundle.write(store, found, file)
    monkeypatch.setenv("ARC_REDACT_KEY", "another")
    assert bundle.verify(file).found == found.digest
    with Store.open(":memory:") as store:
        assert replayed(store, stored(store, spans(dialogue)), EDIT).digest != found.digest


def test_neither_the_path_of_the_source_nor_what_it_cost_goes_along(
    store: Store, tmp_path: Path
) -> None:
    trace = stored(store)
    store.db.execute("UPDATE trace SET path = '/home/someone/runs/case.jsonl'")
    bundle.write(store, replayed(store, trace), tmp_path / "b.zip")
    everything = b"".join(members(tmp_path / "b.zip").values())
    assert b"someone" not in everything
    assert b"cost_usd" not in everything


# --- the command


def test_the_command_says_what_was_verified_and_whether_it_holds(file: Path) -> None:
    done = CliRunner().invoke(cli, ["bundle", "verify", str(file)], standalone_mode=False)
    assert done.return_value == 0
    assert "edit      verify" in done.stdout
    assert "answers   20" in done.stdout
    assert done.stdout.endswith("reproduced from the bundle alone: same result\n")
    told = CliRunner().invoke(cli, ["bundle", "verify", str(file), "--json"], standalone_mode=False)
    view = msgspec.json.decode(told.stdout)
    assert (view["same"], view["digest"], view["differs"]) == (True, view["found"], [])


def test_the_command_says_where_a_result_differs_and_exits_1(file: Path) -> None:
    def forge(found: dict[str, bytes]) -> None:
        told = msgspec.json.decode(found[contents.RESULT], type=Core)
        rows = tuple(structs.replace(row, losses=("invented",)) for row in told.rows)
        found[contents.RESULT] = structs.replace(told, rows=rows).encoded()

    resigned(file, forge)
    done = CliRunner().invoke(cli, ["bundle", "verify", str(file)], standalone_mode=False)
    assert done.return_value == 1
    assert "differs: step 0: losses\n" in done.stdout
    told = CliRunner().invoke(cli, ["bundle", "verify", str(file), "--json"], standalone_mode=False)
    assert msgspec.json.decode(told.stdout)["same"] is False


def test_the_command_refuses_a_file_that_is_no_bundle(file: Path) -> None:
    file.write_bytes(b"")
    broken = CliRunner().invoke(cli, ["bundle", "verify", str(file)], standalone_mode=False)
    assert isinstance(broken.exception, ArcError)
