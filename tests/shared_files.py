"""Which format claims each of the real files beside the checkout, and why some are claimed by none.

One table, asked from the top: the first row whose pattern a path fits is the file's row. A `*`
crosses folders. A file that fits no row is new, and somebody has to say what it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from tests.shared import DATA


class Row(Struct, frozen=True):
    """Files that are treated alike. `format` claims them, None where none does, and `why` then says
    what they are. `refusal` is a part of the sentence that refuses a claimed file; `traces` is
    False for a claimed file that rightly holds none."""

    pattern: str
    format: str | None
    why: str = ""
    refusal: str | None = None
    traces: bool = True


def no(pattern: str, why: str) -> Row:
    return Row(pattern, None, why)


ROWS = (
    no("README.md", "what the folder holds"),
    no("*/NOTICE.md", "where a folder comes from"),
    no("*/LICENSE.upstream", "a licence"),
    no("expected.json", "counts of the other files"),
    no("labels/*.jsonl", "what people say of the other files"),
    Row("apb_hotpotqa/*.json", "chat"),
    Row("claude_code_jsonl/*.json*", "claude-code"),
    no("claude_code_runs/index.jsonl", "the outcomes of the runs beside it"),
    Row("claude_code_runs/*.jsonl.gz", "claude-code"),
    no("clients/README.md", "how the captures were made"),
    no("clients/*/expected.json", "what is true of the capture beside it"),
    no("clients/gemini_cli/tmp/shop/.project_root", "the folder of the sessions beside it"),
    Row("clients/claude_code*.jsonl", "claude-code"),
    Row("clients/codex/exec.jsonl", "codex"),
    Row("clients/codex*/sessions/*.jsonl", "codex"),
    Row("clients/gemini_cli/*.jsonl", "gemini-cli"),
    Row("clients/inspect/*.eval", "inspect"),
    Row("clients/llm_logs_db/logs.db", "sqlite"),
    Row("clients/openai_agents_export/export.jsonl", "openai-agents"),
    Row("clients/*/otlp/traces.pb", "otlp"),
    Row("docent/log.eval", "inspect"),
    Row("docent/ctf.json", "inspect"),
    Row("docent/tb_airline.json", "tau-bench"),
    Row("formats/anthropic-messages/*.jsonl", "anthropic"),
    Row("formats/atif/*.json", "atif"),
    no("formats/claude-code/config/*.meta.json", "names the agent of the session beside it"),
    no("formats/claude-code/ccusage_transcript.jsonl", "tokens alone: no message, no session"),
    Row("formats/claude-code/*.jsonl", "claude-code"),
    Row("formats/inspect/*.eval", "inspect"),
    Row("formats/inspect/*.header.json", "inspect", traces=False),
    Row("formats/inspect/*.sample.json", "chat"),
    Row("formats/langfuse/*.json", "langfuse"),
    Row("formats/langsmith/*.jsonl", "langsmith"),
    Row("formats/mini-swe-agent/*.traj.json", "mini-swe-agent"),
    Row("formats/mlflow/*.json", "mlflow"),
    Row("formats/openai-agents/*.jsonl", "openai-agents"),
    Row("formats/openinference/*.parquet", "openinference"),
    Row("formats/openinference/*.json", "openinference"),
    Row("formats/otlp/*.jsonl", "otlp"),
    Row("formats/otlp/*.json", "otlp"),
    Row("formats/otlp/*.pb", "otlp"),
    Row("formats/swe-agent/*.traj", "swe-agent"),
    Row("formats/weave/*.jsonl", "weave"),
    no("inspect_ai/tests/log/test_skeleton/*.json", "outlines of logs, without a message"),
    Row("inspect_ai/*_no-samples.json", "inspect", traces=False),
    Row("inspect_ai/*.json", "inspect"),
    Row("inspect_ai/*.eval", "inspect"),
    Row("langfuse/*.trace.json", "langfuse"),
    Row("langfuse/seeder/*.json", "langfuse"),
    no("langfuse/chatml/autogen-*.chatml.json", "cases of a renderer: no list of messages"),
    no("langfuse/chatml/llamaindex-*.chatml.json", "cases of a renderer: no list of messages"),
    Row("langfuse/chatml/*.chatml.json", "chat", refusal="contains no list of messages with roles"),
    Row("mini_swe_agent/*.traj.json", "mini-swe-agent"),
    Row("openclaw/*.jsonl", "openclaw"),
    Row("openhands/*.jsonl", "openhands"),
    no("openinference/v6-spans/capture-results.json", "a log of what was captured: no spans"),
    Row("openinference/v6-spans/*.json", "openinference"),
    Row("otlp/trace.json", "otlp", refusal="none of its spans is of a model, a tool or an agent"),
    Row("otlp/events.json", "otlp", refusal="none of a model call"),
    Row("otlp/logs.json", "otlp", refusal="none of a model call"),
    no("otlp/metrics.json", "metrics: neither spans nor log records"),
    Row("swe_agent/*.traj", "swe-agent"),
    no("tau_bench/few_shot/*.jsonl", "examples for a prompt: the talk is one text"),
    Row("tau_bench/*.json", "tau-bench"),
    Row("terminal_bench/*/agent/claude-code.txt", "claude-code"),
    Row("terminal_bench/*/agent/trajectory.json", "atif"),
    no("terminal_bench/*/result.json", "how the trial beside it ended"),
    no("terminal_bench/*/verifier/*", "what the check of the trial printed"),
    Row("toolbench/*.json", "toolbench"),
    no("trail_gaia/annotations/*.json", "what people say of the runs beside it"),
    Row("trail_gaia/*.json.gz", "openinference"),
    no("trail_swe/annotations/*.json", "what people say of the runs beside it"),
    Row("trail_swe/*.json", "openinference"),
    Row("whowhen/*.json", "whowhen"),
)  # fmt: skip


def files() -> Mapping[Row | None, list[Path]]:
    """The files of each row; under None those that no row covers."""
    found: defaultdict[Row | None, list[Path]] = defaultdict(list)
    for path in sorted(DATA.rglob("*")):
        if path.is_file():
            name = path.relative_to(DATA).as_posix()
            found[next((row for row in ROWS if fnmatchcase(name, row.pattern)), None)].append(path)
    return found
