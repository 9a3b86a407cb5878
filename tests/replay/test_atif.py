"""ATIF trajectories read as traces: the real ones by their counts, small ones rule by rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import atif, load, part_of, sniff
from replay.formats.atif.thread import COMPACTED, NO_MEDIA, SEVERAL, SUMMARISED
from replay.formats.source import Source, Tally
from replay.messages import observed, text
from replay.steps import build
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Batch,
    Cost,
    Level,
    Usage,
)
from tests.replay.kinds import agents, models, seen, tools
from tests.shared import DATA, needs_shared
from tests.tries import often

Step = dict[str, Any]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*steps: Step, name: str = "trajectory.json", **root: Any) -> Path:
        document = {
            "schema_version": "ATIF-v1.7",
            "session_id": name,
            "agent": {"name": "a", "version": "1", "model_name": "m"},
            "steps": [{"step_id": n, **step} for n, step in enumerate(steps, 1)],
        }
        path = tmp_path / name
        path.write_text(json.dumps({**document, **root}))
        return path

    return write


def read(path: Path) -> tuple[Batch, Tally]:
    tally = Tally()
    source = Source(path)
    assert sniff(source) is atif
    (batch,) = load(source, tally, format=atif)
    assert batch.last
    return batch, tally


def user(words: Any, **more: Any) -> Step:
    return {"source": "user", "message": words, **more}


def agent(words: str = "", *calls: str, **more: Any) -> Step:
    asked = [{"tool_call_id": c, "function_name": "Bash", "arguments": {"x": c}} for c in calls]
    return {"source": "agent", "message": words, **({"tool_calls": asked} if calls else {}), **more}


def system(words: str, **more: Any) -> Step:
    return {"source": "system", "message": words, **more}


def results(*found: Any) -> Step:
    return {"results": list(found)}


def answer(call: str | None, content: Any, **more: Any) -> Step:
    return {"source_call_id": call, "content": content, **more}


METRICS = {"prompt_tokens": 10, "completion_tokens": 2}
ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}
SPOKE = {"metrics": METRICS}


# --- real files

EXPECTED: dict[str, dict[str, Any]] = (
    json.loads((DATA / "expected.json").read_text()) if DATA.is_dir() else {}
)
ROWS = sorted(n for n, row in EXPECTED.items() if str(row.get("format")).startswith("ATIF"))
SAMPLES = sorted((DATA / "formats" / "atif").glob("*.json"))


@needs_shared
@pytest.mark.parametrize("name", ROWS)
def test_a_real_trial_gives_the_counts_taken_independently(name: str) -> None:
    batch, tally = read(DATA / name)
    row = EXPECTED[name]
    for count in ("steps", "tool_calls", "tool_errors"):
        assert tally.counts[count] == row[count], count
    for count, value in row["final_metrics"].items():
        assert tally.counts[count] == value, count
    assert len(tools(batch)) == row["tool_calls"]
    assert sum(call.status == "error" for call in tools(batch)) == row["tool_errors"]
    assert batch.header.outcome.value == row["reward"]


@needs_shared
@pytest.mark.parametrize("name", ROWS)
def test_the_tokens_of_the_model_calls_sum_to_the_trial_s_own_total(name: str) -> None:
    batch, _ = read(DATA / name)
    used = [call.usage for call in models(batch) if call.usage]
    totals = EXPECTED[name]["final_metrics"]
    assert sum(usage.input_tokens or 0 for usage in used) == totals["total_prompt_tokens"]
    assert sum(usage.output_tokens or 0 for usage in used) == totals["total_completion_tokens"]
    assert sum(usage.cache_read_tokens or 0 for usage in used) == totals["total_cached_tokens"]


@needs_shared
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_read_and_its_tree_is_whole(path: Path) -> None:
    batch, tally = read(path)
    assert models(batch)
    assert not tally.unknown
    assert len({span.id for span in batch.spans}) == len(batch.spans)
    assert build(batch.spans)[2].orphans == ()


@needs_shared
def test_fix_git_has_a_model_call_for_each_answer_not_for_each_step() -> None:
    batch, _ = read(DATA / "terminal_bench/fix-git__cCozJVA/agent/trajectory.json")
    assert len(models(batch)) == 55  # 54 in the stream, which lost the first, broken one
    assert batch.header.source_id == "2e18b951-1d54-4365-b8ea-351a9e48c64e"
    assert batch.header.run is None
    said = [text(call.response.message) for call in models(batch) if call.response.message]
    assert not any("Executed" in words for words in said)


@needs_shared
def test_recorded_costs_come_to_the_total_of_the_trajectory() -> None:
    batch, _ = read(DATA / "formats/atif/multi_tool_trajectory.json")
    assert sum(call.cost.usd for call in models(batch) if call.cost) == pytest.approx(0.0074)
    assert batch.header.reported_cost_usd == 0.0074


# --- which steps are one model call


def test_a_step_without_metrics_at_the_same_time_continues_the_answer(write: Write) -> None:
    at = {"timestamp": "2026-01-01T00:00:05Z"}
    batch, _ = read(
        write(
            user("do", timestamp="2026-01-01T00:00:00Z"),
            agent("I look.", reasoning_content="hm", **SPOKE, **at),
            agent(
                "Executed Bash c1",
                "c1",
                reasoning_content="hm",
                observation=results(answer("c1", "one")),
                **at,
            ),
            agent("Executed Bash c2", "c2", observation=results(answer("c2", "two")), **at),
        )
    )
    (call,) = models(batch)
    message = call.response.message
    assert message is not None
    assert text(message) == "I look."
    assert message.body["reasoning_content"] == "hm"
    assert [c["id"] for c in message.body["tool_calls"]] == ["c1", "c2"]
    assert [(act.asked_by, act.place.message) for act in tools(batch)] == [
        (call.id, 2),
        (call.id, 3),
    ]
    assert call.duration_ns == 5_000_000_000
    assert call.time_quality == "derived"


def test_a_bare_call_later_than_a_measured_answer_still_belongs_to_it(write: Write) -> None:
    batch, _ = read(
        write(
            user("do"),
            agent("", timestamp="2026-01-01T00:00:01Z", **SPOKE),
            agent("Executed Bash c", "c", timestamp="2026-01-01T00:00:02Z"),
            agent("Executed Bash d", "d", timestamp="2026-01-01T00:00:09Z", **SPOKE),
        )
    )
    assert [len(step.acts) for step in build(batch.spans)[0]] == [1, 1]


def test_words_that_only_resemble_the_converter_s_are_kept(write: Write) -> None:
    batch, _ = read(write(user("do"), agent("Executed Bash twice", "c", **SPOKE)))
    message = models(batch)[0].response.message
    assert message is not None
    assert text(message) == "Executed Bash twice"


def test_steps_without_times_or_metrics_are_calls_of_their_own(write: Write) -> None:
    batch, _ = read(write(user("do"), agent("Executed Bash a", "a"), agent("Executed Bash b", "b")))
    assert len(models(batch)) == 2
    assert {call.time_quality for call in models(batch)} == {"none"}
    assert {(call.start_ns, call.end_ns) for call in models(batch)} == {(None, None)}


def test_an_unanswered_call_appended_at_the_end_goes_back_to_its_answer(write: Write) -> None:
    batch, tally = read(
        write(
            user("do", timestamp="2026-01-01T00:00:00Z"),
            agent("", timestamp="2026-01-01T00:00:01Z", metrics=ZERO),
            agent("I retry.", timestamp="2026-01-01T00:00:05Z", **SPOKE),
            agent("Executed Bash lost", "lost", timestamp="2026-01-01T00:00:02Z"),
        )
    )
    broken, retry = models(batch)
    assert [(act.asked_by, act.observation) for act in tools(batch)] == [(broken.id, None)]
    assert broken.usage is None
    assert broken.extra["given_up_for"] == "3"
    assert seen(retry) == seen(broken) == [("user", "do")]
    assert [problem.where for problem in tally.problems] == ["step 1"]


def test_a_step_without_a_model_asks_for_nothing(write: Write) -> None:
    batch, _ = read(
        write(
            user("do"),
            agent("", "c", llm_call_count=0, observation=results(answer("c", "done"))),
            agent("fine", **SPOKE),
        )
    )
    (act,), (call,) = tools(batch), models(batch)
    assert act.asked_by is None
    assert act.observation is not None
    assert seen(call) == [("user", "do"), ("assistant", ""), ("tool", "done")]


def test_several_model_calls_in_one_step_are_said_to_be_so(write: Write) -> None:
    batch, _ = read(write(user("do"), agent("x", llm_call_count=3, **SPOKE), agent("y", **SPOKE)))
    first, second = models(batch)
    assert SEVERAL in first.fidelity.reasons
    assert SEVERAL not in second.fidelity.reasons


# --- what the model was asked


def test_the_first_system_step_is_the_prompt_and_later_ones_stay(write: Write) -> None:
    definition = {"type": "function", "function": {"name": "Bash", "parameters": {}}}
    batch, _ = read(
        write(
            system("be good"),
            system("and brief"),
            user("do"),
            agent("ok", model_name="m2", reasoning_effort="high", **SPOKE),
            agent={
                "name": "a",
                "model_name": "m",
                "tool_definitions": [definition],
                "extra": {"temperature": 0.5},
            },
        )
    )
    request = models(batch)[0].request
    assert request.system is not None
    assert text(request.system) == "be good"
    assert seen(models(batch)[0]) == [("system", "and brief"), ("user", "do")]
    assert [tool.name for tool in request.tools or ()] == ["Bash"]
    assert request.model == "m2"
    assert request.params == {"temperature": 0.5, "reasoning_effort": "high"}
    assert models(batch)[0].fidelity.level == Level.REBUILT


def test_what_is_not_recorded_makes_a_request_partial(write: Write) -> None:
    batch, _ = read(write(user("do"), agent("ok")))
    assert models(batch)[0].fidelity.level == Level.PARTIAL
    assert models(batch)[0].fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert models(batch)[0].request.tools is None


def test_a_compaction_puts_its_summary_in_place_of_everything(write: Write) -> None:
    boundary = {"context_management": {"type": "compaction", "boundary": "replace"}}
    batch, _ = read(
        write(
            user("do"),
            agent("one", **SPOKE),
            system("Compacted.", observation=results(answer(None, "in short")), extra=boundary),
            agent("two", **SPOKE),
        )
    )
    before, after = models(batch)
    assert seen(after) == [("user", "in short")]
    assert COMPACTED in after.fidelity.reasons
    assert COMPACTED not in before.fidelity.reasons


def test_copied_steps_are_context_and_no_calls(write: Write) -> None:
    copied = {"is_copied_context": True}
    batch, tally = read(
        write(
            user("do", **copied),
            agent("one", "c", observation=results(answer("c", "r")), **copied),
            agent("two", **SPOKE),
        )
    )
    assert [seen(call) for call in models(batch)] == [
        [("user", "do"), ("assistant", "one"), ("tool", "r")]
    ]
    assert tools(batch) == []
    assert tally.problems == []


def test_images_become_openai_s_and_a_bare_path_is_a_loss(write: Write) -> None:
    def shown(path: str) -> Step:
        image = {"type": "image", "source": {"media_type": "image/png", "path": path}}
        return user([{"type": "text", "text": "see"}, image])

    batch, _ = read(write(shown("https://x/y.png"), agent("1"), shown("img/y.png"), agent("2")))
    fetchable, lost = models(batch)
    assert fetchable.request.context is not None
    assert fetchable.request.context.message.body["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
    ]
    assert NO_MEDIA not in fetchable.fidelity.reasons
    assert NO_MEDIA in lost.fidelity.reasons


# --- what came back


def test_a_result_without_a_call_id_answers_the_only_call(write: Write) -> None:
    batch, _ = read(
        write(
            user("do"),
            agent("one", "c", observation=results(answer(None, "r")), **SPOKE),
            agent("two", "d", "e", observation=results(answer(None, "screen")), **SPOKE),
            agent("three", **SPOKE),
        )
    )
    assert [act.observation and observed(act.observation).text for act in tools(batch)] == [
        "r",
        None,
        None,
    ]
    assert seen(models(batch)[2])[-1] == ("user", "screen")


def test_a_reused_call_id_is_answered_where_it_was_asked(write: Write) -> None:
    batch, _ = read(
        write(
            user("do"),
            agent("", "same", observation=results(answer("same", "first")), **SPOKE),
            agent("", "same", observation=results(answer("same", "second")), **SPOKE),
        )
    )
    found = [act.observation and observed(act.observation).text for act in tools(batch)]
    assert found == ["first", "second"]
    assert len({act.id for act in tools(batch)}) == 2


@pytest.mark.parametrize(
    ("content", "extra"),
    [
        ("no\n\n[error] tool reported failure", {}),
        ("no", {"tool_result_is_error": True}),
        ("no", {"tool_result_metadata": {"is_error": True}}),
    ],
)
def test_a_failure_is_read_from_what_the_converter_left(
    write: Write, content: str, extra: dict[str, Any]
) -> None:
    step = agent("", "c", observation=results(answer("c", content)), extra=extra, **SPOKE)
    batch, tally = read(write(user("do"), step))
    (act,) = tools(batch)
    assert (act.status, act.error) == ("error", content)
    assert tally.counts["tool_errors"] == 1


def test_arguments_stay_as_recorded(write: Write) -> None:
    step = agent("", "c", **SPOKE)
    step["tool_calls"][0]["arguments"] = {"input": "{broken"}
    batch, _ = read(write(user("do"), step))
    assert tools(batch)[0].arguments == {"input": "{broken"}


def test_tokens_include_the_cache_and_costs_are_recorded(write: Write) -> None:
    metrics = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "cached_tokens": 60,
        "cost_usd": 0.25,
        "extra": {"cache_creation_input_tokens": 30, "reasoning_tokens": 4},
    }
    more = {"stop_reason": "max_tokens"}
    batch, _ = read(write(user("do"), agent("x", metrics=metrics, extra=more)))
    (call,) = models(batch)
    assert call.usage == Usage(
        input_tokens=100,
        output_tokens=5,
        reasoning_tokens=4,
        cache_read_tokens=60,
        cache_write_tokens=30,
    )
    assert call.cost == Cost(usd=0.25, source="recorded")
    assert (call.response.stop, call.response.stop_raw) == ("length", "max_tokens")


# --- several documents

CHILD = {
    "schema_version": "ATIF-v1.7",
    "session_id": "child-session",
    "trajectory_id": "child",
    "agent": {"name": "c"},
    "steps": [user("look"), agent("found", **SPOKE)],
}


def sent(**reference: Any) -> Step:
    given = answer("c", "sent", subagent_trajectory_ref=[reference])
    return agent("", "c", observation=results(given), **SPOKE)


def below_the_call(batch: Batch) -> bool:
    root, child = agents(batch)
    (act,) = tools(batch)
    first, inner, last = models(batch)
    return (
        child.parent == act.id
        and inner.parent == child.id
        and first.parent == last.parent == root.id
    )


def test_an_embedded_sub_agent_hangs_below_the_call_that_sent_it(write: Write) -> None:
    steps = (user("do"), sent(trajectory_id="child"), agent("done", **SPOKE))
    batch, _ = read(write(*steps, subagent_trajectories=[CHILD]))
    assert below_the_call(batch)
    inner = models(batch)[1]
    assert seen(inner) == [("user", "look")]
    assert (inner.place.span, inner.place.message) == ("child/1", None)


def test_a_sub_agent_is_found_by_its_session_in_a_bundle(write: Write, tmp_path: Path) -> None:
    steps = (user("do"), sent(session_id="child-session"), agent("done", **SPOKE))
    parent = json.loads(write(*steps).read_text())
    bundle = tmp_path / "bundle.json"
    bundle.write_text(json.dumps({"parent": parent, "child": CHILD}))
    assert below_the_call(read(bundle)[0])


def test_a_sub_agent_s_file_is_read_from_the_same_folder_only(write: Write) -> None:
    other = "trajectory.summarization-1-summary.json"
    main = write(user("do"), sent(trajectory_path=other), agent("done", **SPOKE))
    child = write(*CHILD["steps"], name=other)
    assert below_the_call(read(main)[0])
    assert part_of(child) == main
    main = write(user("do"), sent(trajectory_path="../../etc/passwd"))
    assert [problem.why for problem in read(main)[1].problems] == [
        "../../etc/passwd is not in the folder of the file"
    ]
    assert part_of(child) is None


def test_a_sub_agent_nobody_refers_to_hangs_off_the_root(write: Write) -> None:
    batch, _ = read(write(user("do"), agent("ok"), subagent_trajectories=[CHILD]))
    root, child = agents(batch)
    assert child.parent == root.id


def test_agents_that_send_each_other_in_a_circle_are_told_once(write: Write) -> None:
    inner = {**CHILD, "steps": [user("look"), sent(trajectory_id="child")]}
    batch, _ = read(
        write(
            user("do"),
            sent(trajectory_id="child"),
            trajectory_id="main",
            subagent_trajectories=[inner],
        )
    )
    assert len(agents(batch)) == 2


def test_a_continuation_goes_on_in_the_same_trace(write: Write) -> None:
    copied = {"is_copied_context": True}
    handed_over = system("Summarised.", observation=results({"subagent_trajectory_ref": []}))
    next_name = "trajectory.cont-1.json"
    main = write(
        user("do"),
        agent("one", **SPOKE),
        handed_over,
        continued_trajectory_ref=next_name,
        final_metrics={"total_cost_usd": 1.0},
    )
    further = write(
        user("do", **copied),
        user("so far", **copied),
        agent("two", **SPOKE),
        name=next_name,
        final_metrics={"total_cost_usd": 3.0},
    )
    batch, tally = read(main)
    assert [seen(call) for call in models(batch)] == [
        [("user", "do")],
        [("user", "do"), ("user", "so far")],
    ]
    assert [call.place.message for call in models(batch)] == [1, 5]
    assert batch.header.reported_cost_usd == 3.0
    assert tally.counts["steps"] == 6
    assert part_of(further) == main


def test_a_continuation_that_is_not_there_is_a_problem(write: Write) -> None:
    _, tally = read(write(user("do"), agent("one"), continued_trajectory_ref="gone.json"))
    assert [problem.why for problem in tally.problems] == [
        "gone.json is not in the folder of the file"
    ]


def test_calls_after_a_summary_by_sub_agents_say_what_is_not_known(write: Write) -> None:
    reference = {"subagent_trajectory_ref": [{"trajectory_id": "child"}]}
    batch, _ = read(
        write(
            user("do"),
            agent("one", **SPOKE),
            system("Summarised.", observation=results(reference)),
            agent("two", **SPOKE),
            subagent_trajectories=[CHILD],
        )
    )
    first, _, second = models(batch)
    assert SUMMARISED not in first.fidelity.reasons
    assert SUMMARISED in second.fidelity.reasons


# --- identity, and documents that are not as they should be


def test_a_trajectory_without_an_id_is_known_by_its_opening(write: Write) -> None:
    steps = (user("do"), agent("one"))
    short, _ = read(write(*steps, session_id=None))
    longer, _ = read(write(*steps, agent("two"), session_id=None))
    another, _ = read(write(user("do"), agent("other"), session_id=None))
    named, _ = read(write(*steps, session_id=None, trajectory_id="t"))
    assert short.header.source_id == longer.header.source_id != another.header.source_id
    assert [span.id for span in longer.spans][: len(short.spans)] == [s.id for s in short.spans]
    assert named.header.source_id == "t"


def test_what_is_wrong_is_told_and_the_rest_is_read(write: Write) -> None:
    odd = agent("", "c", timestamp="yesterday")
    odd["tool_calls"].append("no call")
    odd["observation"] = {"results": "none"}
    path = write(user("do"), odd, {"source": "robot"}, agent("end", surprise=1))
    document = json.loads(path.read_text())
    document["steps"].append("not a step")
    path.write_text(json.dumps(document))
    batch, tally = read(path)
    assert len(models(batch)) == 2
    assert [problem.where for problem in tally.problems] == [
        "step 1",
        "step 1 tool_calls[1]",
        "step 1 results",
        "step 2",
        "step 4",
    ]
    assert tally.unknown == {"step surprise": 1}


@pytest.mark.parametrize("document", ['{"schema_version": "ATIF-v1.4"}', '{"a": 1}', "[]", "{"])
def test_a_document_without_steps_is_refused_with_a_sentence(tmp_path: Path, document: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(document)
    with pytest.raises(BadTrace, match=r"steps|trajectory|JSON"):
        list(atif.read(Source(path), Tally()))


def test_a_newer_version_is_read_and_said_to_be_newer(write: Write) -> None:
    batch, tally = read(write(user("do"), agent("one"), schema_version="ATIF-v1.9"))
    assert len(models(batch)) == 1
    assert [problem.where for problem in tally.problems] == ["schema_version"]


def test_a_trajectory_nested_too_deeply_is_refused_with_a_sentence(write: Write) -> None:
    arguments: Any = "nested"
    for _ in range(300):
        arguments = {"a": arguments}
    step = agent("", "c")
    step["tool_calls"][0]["arguments"] = arguments
    with pytest.raises(BadTrace, match="nested too deeply"):
        read(write(user("do"), step))


WRONG: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1e300, 10**30, "", "x", [], [[]], {}, {"a": []}, "2026-01-01T00:00:00Z"]
)
HARD: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "session_id": "s",
    "trajectory_id": "main",
    "agent": {"name": "a", "model_name": "m", "tool_definitions": [{"function": {"name": "B"}}]},
    "steps": [
        system("be good"),
        user([{"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav"}}]),
        sent(trajectory_id="child"),
        agent("Executed Bash d", "d", timestamp="2026-01-01T00:00:02Z", reasoning_content="hm"),
        system("S", extra={"context_management": {"type": "compaction", "boundary": "replace"}}),
        agent("done", llm_call_count=2, is_copied_context=False, **SPOKE),
    ],
    "final_metrics": {"total_cost_usd": 1.0, "total_steps": 6},
    "subagent_trajectories": [CHILD],
}


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, (dict, list)):
        inside = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [here, *(path for key, each in inside for path in places(each, (*here, key)))]


@given(path=st.sampled_from(places(HARD)[1:]), wrong=WRONG)
@settings(
    max_examples=often(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
def test_a_trajectory_with_any_field_of_another_type_gives_a_trace_or_a_sentence(
    path: tuple[Any, ...], wrong: Any, tmp_path: Path
) -> None:
    changed = json.loads(json.dumps(HARD))
    home = changed
    for key in path[:-1]:
        home = home[key]
    home[path[-1]] = wrong
    file = tmp_path / "t.json"
    file.write_text(json.dumps(changed))
    with suppress(BadTrace):
        (batch,) = atif.read(Source(file), Tally())
        assert len({span.id for span in batch.spans}) == len(batch.spans)
        build(batch.spans)


@needs_shared
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_cut_anywhere_is_refused_with_a_sentence(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes().rstrip()
    for share in (0.0, 0.3, 0.6, 0.999):
        file = tmp_path / "t.json"
        file.write_bytes(data[: int(share * len(data))])
        with pytest.raises(BadTrace, match="not JSON"):
            list(atif.read(Source(file), Tally()))


@needs_shared
def test_harbor_s_files_under_their_own_names_are_one_run(tmp_path: Path) -> None:
    names = {"continuation": "trajectory.json", "continuation_cont1": "trajectory.cont-1.json"}
    for part in ("summary", "questions", "answers"):
        names[f"sub_{part}"] = f"trajectory.summarization-1-{part}.json"
    for sample, name in names.items():
        text = (DATA / f"formats/atif/harbor_terminus2_{sample}.json").read_bytes()
        (tmp_path / name).write_bytes(text)
    main = tmp_path / "trajectory.json"
    batch, tally = read(main)
    assert tally.problems == []
    assert len(agents(batch)) == 4
    assert len(build(batch.spans)[0]) == 10
    others = [tmp_path / name for name in names.values() if name != "trajectory.json"]
    assert {part_of(path) for path in others} == {main}
