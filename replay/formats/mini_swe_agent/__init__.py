"""mini-swe-agent trajectories (`.traj.json`), v1 and v2: one trace a file.

The path of a file: what each message is (`records`), and the spans (`tell`). A document is one run
and is held whole. A bare list of messages is the oldest form, and known by the agent's own marks
in its texts. How a run ended is its exit status; whether its patch is right stands in the reports
of the benchmark beside it (`swe_bench`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats import swe_bench
from replay.formats.fields import known, obj, word
from replay.formats.intake import Head, Source, Tally
from replay.formats.litellm import cost
from replay.formats.mini_swe_agent.records import Record
from replay.formats.mini_swe_agent.tell import Teller, request
from replay.formats.normal import derived_id
from replay.messages import text
from replay.trace import AgentSpan, Batch, Header, Json, Level, Outcome, TimeQuality

NAME = "mini-swe-agent"
TITLE = "mini-swe-agent trajectories"
FILES = ".traj.json"
FIDELITY = (Level.REBUILT, Level.PARTIAL)
LACKS = "the words of reasoning items; what files of the oldest form lack"

_VERSION = rb'"(?:trajectory_format"\s*:\s*"mini-swe-agent|mini_version"\s*:)'
_MARKS = rb"mswea_bash_command|(?:COMPLETE_TASK_AND_SUBMIT|MINI_SWE_AGENT)_FINAL_OUTPUT"
_LIST = rb'\A\W*\[\s*\{\s*"(?:role|content)"\s*:'
_FIELDS = {"info", "messages", "trajectory_format", "instance_id"}
_INSTANCE = re.compile(r"[\w.-]+__[\w.-]+-\d+")


def sniff(head: Head) -> bool:
    if head.starts(b"["):
        return head.has(_LIST, _MARKS)
    return head.starts(b"{") and head.has(_VERSION, rb'"(?:messages|info)"\s*:')


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The one trace of a file. Raises BadTrace where it holds no list of messages."""
    document = source.document()
    raw = document if isinstance(document, dict) else {"messages": document}
    if not isinstance(raw.get("messages"), list):
        raise BadTrace(source.display, "", "holds no list of `messages`")
    for name in raw.keys() - _FIELDS:
        tally.unknown[name] += 1
    records = [*_records(raw["messages"], tally)]
    info = obj(raw.get("info"))
    task = _instance(raw, source)
    verdict = swe_bench.beside(source, task)
    settings = _settings(info)
    root = derived_id(task, *(record.raw for record in records))
    reported = cost(obj(info.get("model_stats")).get("instance_cost"), None)
    _count(records, info, tally)
    own = _ended(info, records)
    yield Batch(
        header=Header(
            format=NAME,
            source_id=root,
            path=source.display,
            title=_title(records) or task,
            task=task,
            variant=verdict.variant or word(settings.get("model_name")),
            agent=NAME,
            outcome=verdict.outcome if verdict.outcome != Outcome() else own,
            reference=verdict.reference or None,
            reported_cost_usd=reported.usd if reported is not None else None,
        ),
        spans=(
            _agent(root, records, info, own),
            *Teller(root, request(records, settings), tally).tell(records),
        ),
        last=True,
    )


def _records(messages: list[Json], tally: Tally) -> Iterator[Record]:
    for index, raw in enumerate(messages):
        if isinstance(raw, dict):
            yield Record(index=index, raw=raw)
        else:
            tally.problem(f"message {index}", "is not an object")


def _settings(info: dict[str, Any]) -> dict[str, Any]:
    """The model's settings, and its class under `type`."""
    config = obj(info.get("config"))
    return {**obj(config.get("model")), "type": config.get("model_type")}


def _instance(raw: dict[str, Any], source: Source) -> str | None:
    """The instance the file names, or is named after as benchmarks name them."""
    stated = word(raw.get("instance_id")) or word(obj(raw.get("info")).get("instance_id"))
    stem = source.name.removesuffix(".json").removesuffix(".traj")
    return stated or (stem if _INSTANCE.fullmatch(stem) else None)


def _title(records: list[Record]) -> str | None:
    for record in records:
        if record.raw.get("role") == "user":
            return swe_bench.first_line(text(record.message))
    return None


def _last(records: list[Record]) -> dict[str, Any]:
    """The notes of the message that ended the run, {} where none did."""
    return next((record.extra for record in reversed(records) if record.ends), {})


def _ended(info: dict[str, Any], records: list[Record]) -> Outcome:
    """The exit status. Without a patch nothing was solved; with one, nobody knows yet."""
    last = _last(records)
    status = word(info.get("exit_status")) or word(last.get("exit_status"))
    if status is None:
        return Outcome()
    handed_in = status == "Submitted" or info.get("submission") or last.get("submission")
    return Outcome(status="unknown" if handed_in else "failed", value=status, by="exit status")


def _agent(root: str, records: list[Record], info: dict[str, Any], ended: Outcome) -> AgentSpan:
    times = [at_ns for record in records if (at_ns := record.at_ns) is not None]
    last = _last(records)
    failed = ended.status == "failed"
    why = word(last.get("exception_str")) or word(ended.value) if failed else None
    quality: TimeQuality = "derived" if times else "none"
    return AgentSpan(
        id=root,
        name=NAME,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality=quality,
        status="error" if failed else "unset",
        error=why,
        extra=known(
            exit_status=ended.value,
            submission=info.get("submission") or last.get("submission"),
            traceback=info.get("traceback") or last.get("traceback"),
            mini_version=info.get("mini_version"),
            model_stats=info.get("model_stats"),
            agent=obj(obj(info.get("config")).get("agent")).get("mode"),
            environment=obj(info.get("config")).get("environment_type"),
        ),
    )


def _count(records: list[Record], info: dict[str, Any], tally: Tally) -> None:
    tally.counts["traces"] += 1
    tally.counts["messages"] += len(records)
    for name in ("api_calls", "instance_cost"):
        value = obj(info.get("model_stats")).get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            tally.counts[name] += value
