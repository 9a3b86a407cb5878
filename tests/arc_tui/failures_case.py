"""The sample runs with a person's words beside the rules', a run nobody names, and owners."""

from __future__ import annotations

from pathlib import Path

from replay.store.handle import Store
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from taxonomy.query.failures import run_heads
from tests.arc_tui import sample
from tests.build import trace

OWNERS = """[owners]
hallucinated_state = "grounding"
"attribution:user" = "simulator"
"""


def put(path: Path) -> dict[str, str]:
    """Eight runs, five of them failed; their traces by `task/trial`."""
    sample.put_runs(path)
    short = trace(sample.PARTS[:4], task="Hi.").spans
    sample.put(path, sample.header("31", "0", sample.FAILED), short, sample.HEALTHY)
    late = sample.header("26", "2", sample.FAILED, start_ns=1_780_000_000 * 10**9)
    sample.put(path, late, sample.failed_run().spans, sample.SAID)
    with open_ledger(path) as store:
        runs = {f"{run.task}/{run.trial}": run.trace for run in run_heads(store)}
        tagged(store, runs["26/1"], 3, FailureClass.HALLUCINATED_STATE)
        tagged(store, runs["7/0"], 1, FailureClass.WRONG_TOOL)
    return runs


def tagged(store: Store, trace: str, step: int, failure: FailureClass) -> None:
    given = Tag(
        trace=trace, span=f"span {step}", step=step, failure=failure, by="ann",
        note="ann looked",
    )  # fmt: skip
    put_tag(store, given)


def configured(folder: Path, text: str = OWNERS) -> str:
    """A folder of settings; its path for `ARC_CONFIG_DIR`."""
    folder.mkdir()
    (folder / "config.toml").write_text(text)
    return str(folder)
