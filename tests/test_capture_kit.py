"""The capture kit itself: its model says what the truth says, nothing of a machine stays in what it
keeps, and whatever a reader gets wrong is told."""

from __future__ import annotations

import gzip
import json
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anthropic import Anthropic
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from replay.errors import ArcError
from tests.captures import script
from tests.captures.expected import Expected, expected_of
from tests.captures.scripts import Framework, environment, frameworks
from tests.captures.scrubbed import Scrubber
from tests.captures.server import CaptureServers
from tests.captures.truth import differences_in
from tests.test_boundaries import ROOT

CAPTURES = ROOT / "fixtures" / "captures"
EXACT = CAPTURES / "pydantic_ai_otel"

UNTRUE: dict[str, Any] = {
    "task": "Where is my parcel?",
    "system": "You are a poet.",
    "model": "gpt-5",
    "tool_calls": 4,
    "tool_errors": 0,
    "input_tokens": 601,
    "output_tokens": 62,
    "cost_usd": 0.0001183,
    "final_answer": "Nothing was refunded.",
    "outcome": "passed",
    "steps.0.input_tokens": 99,
    "steps.1.output_tokens": 20,
    "steps.2.cache_read_tokens": 0,
    "steps.2.stop": "length",
    "steps.2.text": "Nothing.",
    "steps.0.calls.0.id": "call_9",
    "steps.0.calls.0.name": "get_customer",
    "steps.0.calls.1.arguments": {"order_id": "1051"},
    "steps.0.calls.1.result": "lost",
    "steps.0.calls.0.error": "no such order: 1049",
    "steps.1.calls.0.error": "no such customer",
}
"""Fields of a run, and what is not true of them."""


@pytest.mark.parametrize("field", UNTRUE)
def test_whatever_is_read_otherwise_is_told(field: str) -> None:
    truth = msgspec.to_builtins(expected_of(EXACT))
    at: Any = truth["runs"][0]
    *path, last = (int(part) if part.isdigit() else part for part in field.split("."))
    for part in path:
        at = at[part]
    assert at[last] != UNTRUE[field]
    at[last] = UNTRUE[field]
    assert differences_in(EXACT, msgspec.convert(truth, Expected))


@pytest.mark.slow
def test_a_step_or_a_run_too_few_is_told() -> None:
    truth = msgspec.to_builtins(expected_of(EXACT))
    run = truth["runs"][0]
    truth["runs"] = [{**run, "steps": run["steps"][:2]}, run]
    said = differences_in(EXACT, msgspec.convert(truth, Expected))
    assert "1 runs instead of 2" in said
    assert "run 0: 3 model steps instead of 2" in said


def test_what_a_file_lacks_may_be_unknown_and_never_wrong() -> None:
    truth = msgspec.to_builtins(expected_of(CAPTURES / "openai_v2_no_contents"))
    folder = CAPTURES / "openai_v2_no_contents"
    assert differences_in(folder, msgspec.convert(truth, Expected)) == []
    truth["not_in_the_file"] = []
    assert differences_in(folder, msgspec.convert(truth, Expected))
    wrong = msgspec.to_builtins(expected_of(EXACT)) | {"not_in_the_file": ["stop reasons"]}
    wrong["runs"][0]["steps"][2]["stop"] = "length"
    assert differences_in(EXACT, msgspec.convert(wrong, Expected)) == [
        "step 2: stop is end, not length"
    ]


def test_the_model_speaks_to_a_real_client_whole_and_in_events() -> None:
    with CaptureServers() as servers:
        client = Anthropic(base_url=servers.model.url, api_key="none")
        asked: Any = {"model": "claude-haiku-4-5", "max_tokens": 9, "system": "Be brief.",
                      "messages": [{"role": "user", "content": "Refund them."}]}  # fmt: skip
        whole = client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
    assert whole.content == streamed.content
    assert whole.usage.output_tokens == streamed.usage.output_tokens == 20
    assert [block.type for block in whole.content] == ["tool_use", "tool_use"]
    assert [each.question.system for each in servers.served] == ["Be brief."] * 2


def test_the_turn_follows_from_the_results_that_were_given() -> None:
    turns = [script.turn_after(results, ("Shop-get_order",)) for results in (0, 1, 2, 3, 4)]
    assert [turn.number for turn in turns] == [0, 1, 1, 2, 2]
    assert {call.name for call in turns[0].calls} == {"Shop-get_order"}


def test_the_sink_keeps_a_body_as_it_was_posted() -> None:
    packed = gzip.compress(b"{}")
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with CaptureServers() as servers:
        url = f"{servers.sink.url}/api/public/otel/v1/traces"
        with urllib.request.urlopen(urllib.request.Request(url, packed, headers)) as answer:
            assert json.load(answer) == {}
    (post,) = servers.posts
    assert (post.path, post.body, post.encoding) == (
        "/api/public/otel/v1/traces", packed, "gzip",
    )  # fmt: skip


def test_nothing_of_a_machine_stays_in_a_capture() -> None:
    scrubber = Scrubber({"/srv/build/env-1": "/home/user/venv"})
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="host.name").value.string_value = "tower"
    span = resource.scope_spans.add().spans.add(name=f"in {ROOT}/shop.py", trace_id=b"1" * 16)
    span.attributes.add(key="file").value.string_value = "/srv/build/env-1/lib/a.py"
    span.events.add(name="exception").attributes.add(
        key="trace"
    ).value.string_value = f"File {sys.base_prefix}/lib/x.py"
    kept = scrubber.file("otlp/traces.pb", request.SerializeToString())
    again = ExportTraceServiceRequest.FromString(kept)
    assert again.resource_spans[0].resource.attributes == []
    found = again.resource_spans[0].scope_spans[0].spans[0]
    assert found.trace_id == b"1" * 16
    assert found.name == "in /home/user/shop/shop.py"
    assert found.attributes[0].value.string_value == "/home/user/venv/lib/a.py"
    assert found.events[0].attributes[0].value.string_value == "File /usr/lib/x.py"
    zipped = scrubber.file("a.json.gz", gzip.compress(b"'/srv/build/env-1' /tmp/s/12.sock"))
    assert gzip.decompress(zipped) == b"'/home/user/venv' /tmp/it"


def test_every_capture_that_is_kept_has_its_script_and_every_script_its_capture() -> None:
    kept = {path.parent.name for path in CAPTURES.glob("*/expected.json")}
    assert kept == set(frameworks())
    for name, made in frameworks().items():
        expected = expected_of(CAPTURES / name)
        assert (expected.client, expected.not_in_the_file) == (made.client, made.not_in_the_file)


def test_the_wheel_takes_every_fixture_but_the_captures() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    taken = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    names = {path.name for path in CAPTURES.parent.iterdir()} - {CAPTURES.name}
    assert taken == {f"fixtures/{name}": f"arc_tui/fixtures/{name}" for name in names}


@pytest.mark.process
def test_what_cannot_be_installed_says_so(tmp_path: Path) -> None:
    path = tmp_path / "nothing.py"
    path.touch()
    chosen = Framework(name="nothing", path=path, dependencies=("./no-such-folder",))
    with pytest.raises(ArcError, match=r"nothing: cannot be installed: .*no-such-folder"):
        environment(chosen, tmp_path)
