"""tau-bench results: a list of runs with task, trial, reward and the gold actions.

The chat of a run is its request history, word for word, so each assistant message is a model call
whose context is all before it. Times, tokens, the model and the tools offered are not recorded.
The file names no run, so a run's identity is its content: task, trial and what was said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.chat import chat_spans, user_label
from replay.formats.common import derived_id
from replay.formats.sidecars import rewarded
from replay.formats.source import Head, Source, Tally
from replay.trace import Batch, Header, Json, Level

NAME = "tau-bench"
TITLE = "tau-bench results"
FILES = ".json"
FIDELITY = (Level.PARTIAL,)
LACKS = "the tools"
VERIFIED = "real files"


def sniff(head: Head) -> bool:
    return head.starts(b"[", b"{") and head.has(rb'"task_id"\s*:', rb'"reward"\s*:', rb'"info"\s*:')


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a run. Raises BadTrace where the document is neither a run nor a list of runs."""
    document = source.document()
    runs = document if isinstance(document, list) else [document]
    if not any(isinstance(run, dict) and "traj" in run for run in runs):
        raise BadTrace(source.display, "", "contains no run with a `traj`")
    for index, run in enumerate(runs):
        if not isinstance(run, dict):
            tally.problem(f"run {index}", "is not an object")
            continue
        yield _run(run, index, source, tally)


def _run(run: dict[str, Any], index: int, source: Source, tally: Tally) -> Batch:
    traj = run.get("traj")
    messages: list[Json] = traj if isinstance(traj, list) else []
    given = run.get("info")
    info: dict[str, Any] = given if isinstance(given, dict) else {}
    reward, task, trial = run.get("reward"), run.get("task_id"), run.get("trial")
    tally.counts["traces"] += 1
    tally.counts["messages"] += len(messages)
    if isinstance(reward, (int, float)):
        tally.counts["reward_sum"] += reward
    source_id = derived_id(task, trial, *messages)
    error = info.get("error")
    spans = chat_spans(
        messages, root=source_id, tally=tally, where=f"run {index}", error=error, name="tau-bench"
    )
    header = Header(
        format=NAME,
        source_id=source_id,
        item=f"{task}/{trial}",
        path=source.display,
        title=user_label(messages),
        task=None if task is None else str(task),
        trial=None if trial is None else str(trial),
        outcome=rewarded(reward, "tau-bench reward"),
        reference=_reference(info),
    )
    return Batch(header=header, spans=spans, last=True)


def _reference(info: dict[str, Any]) -> dict[str, Json] | None:
    """The gold actions and outputs, the instruction given to the simulated user, the verdict."""
    task = info.get("task")
    if not isinstance(task, dict):
        return None
    kept = {name: task[name] for name in ("actions", "outputs", "instruction") if name in task}
    verdict = info.get("reward_info")
    return {**kept, "reward_info": verdict} if verdict else kept
