"""Which versions and pins each source records of a run, as labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from replay.formats import load, sniff
from replay.formats.source import Source, Tally
from replay.pins import is_version
from tests.hostile import SEEDS
from tests.replay.otlp_case import pairs

Values = list[Any]


def labels_of(path: Path, values: Values, **more: Any) -> dict[str, str]:
    """The versions and pins of the last trace in a file of these values."""
    one_a_line = "\n".join(json.dumps(value) for value in values)
    path.write_text(one_a_line if len(values) > 1 else json.dumps(values[0]))
    source = Source(path)
    assert sniff(source) is not None
    *_, batch = load(source, Tally(), **more)
    labels = batch.header.labels
    return {name: labels[name] for name in labels if is_version(name) or name.startswith("pin.")}


def seed(format: str, change: Callable[[Any], None] = lambda _: None) -> Values:
    """The small sample of a format; `change` what its first value holds."""
    values = deepcopy(SEEDS[format]())
    change(values[0])
    return values


def with_resource(values: Values, **attributes: Any) -> Values:
    resource = values[0]["resourceSpans"][0]["resource"]
    given = {name.replace("__", "."): value for name, value in attributes.items()}
    resource["attributes"] += pairs(given)
    return values


PIN = {"arc.pin.index": "docs-7"}


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (with_resource(seed("otlp"), arc__pin__index="docs-7", service__version="1.4"),
         {"pin.index": "docs-7", "version": "1.4"}),
        (with_resource(seed("otlp"), arc__pin__fresh=True), {"pin.fresh": "true"}),
        (seed("openai-agents", lambda trace: trace["metadata"].update(PIN)),
         {"pin.index": "docs-7"}),
        (seed("mini-swe-agent"), {"version": "2.4.6"}),
        (seed("langfuse", lambda trace: trace.update(metadata=PIN, version="v7")),
         {"pin.index": "docs-7", "version": "v7"}),
        (seed("atif", lambda run: run["agent"].update(version="2.1.89")), {"version": "2.1.89"}),
    ],
    ids=["otlp", "otlp, a truth", "openai-agents", "mini-swe-agent", "langfuse", "atif"],
)  # fmt: skip
def test_a_source_s_versions_and_pins_are_labels(
    tmp_path: Path, values: Values, labels: dict[str, str]
) -> None:
    assert labels_of(tmp_path / "trace.json", values) == labels


def test_pins_that_were_given_stand_over_those_of_the_source(tmp_path: Path) -> None:
    values = with_resource(seed("otlp"), arc__pin__index="docs-7")
    given = {"pin.index": "docs-8", "pin.image": "a"}
    assert labels_of(tmp_path / "trace.json", values, pins=given) == given


def test_an_agent_s_own_version_is_told_from_that_of_its_service(tmp_path: Path) -> None:
    values = seed("otlp")
    first = values[0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    first["attributes"] += pairs({"gen_ai.agent.version": "9.1"})
    with_resource(values, service__version="1.4")
    assert labels_of(tmp_path / "trace.json", values) == {"version": "9.1"}


def test_a_stream_of_claude_code_names_its_mcp_servers(tmp_path: Path) -> None:
    from tests.replay.test_claude_code import init, said, stream, words

    servers = [
        {"name": "shop", "status": "connected", "serverInfo": {"version": "0.3"}},
        {"name": "mail", "status": "failed"},
        {"status": "connected"},
        "odd",
    ]
    events = stream(init(claude_code_version="2.1", mcp_servers=servers), said("m1", words("hi")))
    assert labels_of(tmp_path / "trace.jsonl", events) == {
        "version": "2.1", "mcp.shop": "0.3", "mcp.mail": "failed",
    }  # fmt: skip


def test_langsmith_names_the_packages_that_ran(tmp_path: Path) -> None:
    def change(run: Any) -> None:
        extra = run.setdefault("extra", {})
        extra["runtime"] = {"langchain_version": "1.2", "sdk": "langsmith"}
        extra.setdefault("metadata", {}).update(PIN)

    values = deepcopy(SEEDS["langsmith"]())
    for each in values:
        if each.get("id") and each.get("parent_run_id") is None:
            change(each)
    assert labels_of(tmp_path / "runs.jsonl", values) == {
        "version.langchain": "1.2", "pin.index": "docs-7",
    }  # fmt: skip
