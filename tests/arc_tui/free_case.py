"""Runs to go on from freely: the tour with the demo model, and an account with a scripted one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arc_tui import importing
from arc_tui.places import fixtures
from replay.edit.changes import Edit, SetSystem
from replay.free import run as free
from replay.free.recorded_results import Stub, Terms
from replay.models.cached import Cached
from replay.store import read
from replay.store.rows import trace_row
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import sample
from tests.build import Part, call, step, tool, trace
from tests.messages_api import Body
from tests.replay.free_case import Script, says, uses

TOUR = "shop-many-wishes-v5-0"
FEW = (TOUR, "shop-many-wishes-v5-1", "shop-stock-v4-0", "shop-refund-v8-0")
V4 = Edit(name="v4", changes=(SetSystem((fixtures() / "demo/prompts/v4.md").read_text()),))

READ = Stub(
    tool="get_order",
    arguments={"order_id": "1039"},
    result='{"order_id":"1039","status":"delivered","total_cents":12900,"refunded_cents":0}',
)
REFUND = Stub(
    tool="refund_order",
    arguments={
        "order_id": "1039",
        "amount": 12900,
        "reason": "And the Orbit Headphones of order 1039 crackle, so please refund that one.",
    },
    result='{"order_id":"1039","refunded_cents":12900}',
)
"""What carries the tour under the older prompt to where it speaks."""

BALANCE: tuple[str, dict[str, Any]] = ("get_balance", {})
WITHDRAW: tuple[str, dict[str, Any]] = ("withdraw", {"amount": 20})
WITHDRAWN = Stub(tool="withdraw", arguments={"amount": 20}, result="gone")
ACCOUNT: tuple[Part, ...] = (
    step(call("get_balance", "40")),
    step(call("withdraw", "gone", amount=10)),
    step(call("get_balance", "30")),
    "You have 30.",
)
MORE = (uses(BALANCE), uses(WITHDRAW), uses(BALANCE), says("You have 20."))
"""What withdraws more than was recorded, and reads the balance after it."""


def put_bundled(path: Path, *names: str) -> None:
    """A database with bundled traces of those names; with that of the tour, if none is given."""
    files = [fixtures() / "traces" / f"{name}.jsonl" for name in names or [TOUR]]
    with open_ledger(path) as store:
        for _ in importing.import_paths(store, files):
            pass


def put_account(path: Path, answers: Sequence[Body] = MORE, parts: Sequence[Part] = ACCOUNT) -> str:
    """A recorded run of an account, with the stored answers of a scripted model named `script`
    to all it can be asked there, and the stub it needs; returns the trace's id."""
    tools = [tool("get_balance"), tool("withdraw", amount={})]
    spans = trace(parts, system="Be brief.", tools=tools).spans
    key = sample.put(path, sample.header("account", None, sample.PASSED), spans)
    with open_ledger(path) as store:
        model = Cached(store, "script", Script(*answers))
        kept = read.load(store, trace_row(store, key).trace)
        stubbed = Terms(stubs=(WITHDRAWN,))
        loose = Terms(stubs=(WITHDRAWN,), allow_stale=True)
        harmless = Terms(stubs=(WITHDRAWN,), effects={"withdraw": "read"})
        for terms in (stubbed, loose, harmless):
            for _ in free.run(kept, None, model, terms):
                pass
    return key
