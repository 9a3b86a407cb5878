"""Captures of real clients are read as what happened: those beside the checkout, and our own.

A case that is read wrong stands in `WRONG` with what is wrong; it fails once that is mended.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.captures.truth import differences_of
from tests.shared import DATA, needs_shared

OURS = Path(__file__).resolve().parents[2] / "fixtures" / "captures"

WRONG: Mapping[str, str] = {
    "autogen_otel": "the trace of `create_agent`, which has no step, is a second run",
    "codex_unsupported_tool": "calls that the harness refused are no errors",
    "dspy_openinference": (
        "the task is taken for `[[ ## task ## ]]`, the tool for `get_order.__call__`"
    ),
    "google_adk_no_contents": "without contents, steps that have calls end for `end`",
    "google_adk_old_schema": ("contents in `gcp.vertex.agent.*` unread, calls belong to no step"),
    "haystack_openinference": "results and call ids in reprs unread, the failed call no error",
    "mastra_otel": "prompts in `mastra.model_step.input` unread: task and system unknown",
    "mlflow_otlp": "cached tokens are added to input tokens that hold them",
    "semantic_kernel_otel": (
        "log records whose body is JSON in a text unread; `FinishReason.TOOL_CALLS` unread"
    ),
    "strands_otel": "contents in span events as lists of parts in a text unread",
    "strands_otel_latest": "contents in events `gen_ai.client.inference.operation.details` unread",
}


def cases(folder: Path) -> list[object]:
    """A case for each capture in a folder, those in `WRONG` expected to fail."""
    return [
        pytest.param(
            path.parent,
            id=path.parent.name,
            marks=pytest.mark.xfail(strict=True, reason=why)
            if (why := WRONG.get(path.parent.name))
            else (),
        )
        for path in sorted(folder.glob("*/expected.json"))
    ]


@needs_shared
@pytest.mark.data
@pytest.mark.parametrize("capture", cases(DATA / "clients"))
def test_a_capture_of_a_real_client_is_read_as_it_happened(capture: Path) -> None:
    assert differences_of(capture) == []


@pytest.mark.parametrize("capture", cases(OURS))
def test_a_capture_of_ours_is_read_as_it_happened(capture: Path) -> None:
    assert differences_of(capture) == []
