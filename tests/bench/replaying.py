"""A cached replay: nothing is asked, nothing is imported, what is left is ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from arc_tui import importing
from arc_tui.experiments.request import ReplayRequest, views_of
from arc_tui.features.replay.run import run_replay
from arc_tui.places import fixtures
from replay.budget import Budget, Limits
from replay.edit.changes import Edit
from replay.edit.files import from_files
from replay.locked import run as locked
from replay.locked.row import AUTO, LOOK, Models
from replay.models.choose import choose
from replay.models.servers import ModelConfig
from replay.providers import bare as bare_name
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.judgements.schema import open_ledger
from tests.bench.measure import Row, best, compare, ms, python
from tests.openai_servers import OpenaiApi
from tests.openai_servers import said as said_

TRACE = "shop-long-v6-0"
OPENAI = ("openai:gpt-4o", "openai-responses:gpt-5")
SAID = "I look into it."


def rows(folder: Path) -> Iterator[Row]:
    """The engine's own time, then the whole job, then what importing the SDK alone would cost."""
    edit = from_files(fixtures() / "demo" / "prompts" / "v8.md", [])
    with open_ledger(folder / "replay.db") as store:
        for _ in importing.import_paths(store, [fixtures() / "traces" / f"{TRACE}.jsonl"]):
            pass
        request = ReplayRequest(trace=TRACE, edit=edit)
        *_, view = views_of(run_replay, store, request)
        trace = read.load(store, trace_row(store, TRACE).trace)
        models = Models.one(choose("demo", store))
        look = best(lambda: list(locked.replay(trace, edit, models, sampling=LOOK)))
        auto = best(lambda: list(locked.replay(trace, edit, models, sampling=AUTO)))
        whole = best(lambda: list(views_of(run_replay, store, request)))
        by_openai = [_by_openai(store, trace, edit, name) for name in OPENAI]
    steps = view.total
    said, answers = f"cached replay of {steps} steps", view.cached + view.calls
    yield Row(f"{said}, a look at both arms: engine", ms(look), "goal < 5 ms at 20 steps")
    for name, seconds in zip(OPENAI, by_openai, strict=True):
        yield Row(f"{said}, a look at both arms, {name}: engine", ms(seconds), "goal < 5 ms")
    yield Row(f"{said}, {answers} answers: engine", ms(auto), "–")
    yield Row(f"{said}, {answers} answers: load, views, digest", ms(whole), "–")
    imported = compare(python("import anthropic"), python("pass"), 3)
    sdk = imported.ours_s - imported.theirs_s
    yield Row(
        "importing the SDK (a cached replay never does)",
        ms(sdk),
        f"{sdk / look:.0f}× the engine",
    )


def _by_openai(store: Store, trace: Trace, edit: Edit | None, name: str) -> float:
    """The engine's own time where the answers are those of a model of OpenAI's, asked once."""
    with OpenaiApi(lambda _: said_(SAID)) as api:
        mine = {"mine": ModelConfig(
            base_url=f"{api.base_url}/v1", model=bare_name(name),
            api="responses" if "responses" in name else "chat",
        )}  # fmt: skip
        budget = Budget(Limits(calls=1000))
        with choose("mine", store, live=True, budget=budget, models=mine) as asked:
            list(locked.replay(trace, edit, Models.one(asked), sampling=LOOK))
    with choose("mine", store, models=mine) as offline:
        models = Models.one(offline)
        return best(lambda: list(locked.replay(trace, edit, models, sampling=LOOK)))
