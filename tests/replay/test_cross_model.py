"""A real run of another provider's model, asked again of this one: what that can and cannot say.

The run is gpt-4o's at a capture-the-flag task, every request recorded. The server is the tests'
own, as strict as the real one; its policy stands for some other model with habits of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_tui import importing
from arc_tui.experiments.locked_view import ReplayView
from arc_tui.experiments.request import ReplayRequest, views_of
from arc_tui.features.replay.run import run_replay
from replay.budget import Limits
from replay.edit.changes import Edit, InjectConstraint
from replay.store.handle import Store
from replay.trace import Level
from taxonomy.judgements.schema import open_ledger
from tests.messages_api import Body, MessagesApi, message, text, tool_use
from tests.replay.live_case import clean_environment
from tests.shared import DATA, needs_shared

pytestmark = needs_shared

RUN, STEPS = "9266374f", (0, 2, 5, 11, 17, 23)
CAREFUL = Edit(
    name="say first", changes=(InjectConstraint(text="Say what you expect before you act."),)
)


def policy(body: Body) -> Body:
    """Reads a file first, whatever the recorded model did; says so first where it is told to."""
    if "Say what you expect" in str(body["system"]):
        return message(text("I expect a flag in the archive."), model=body["model"])
    return message(tool_use("bash", cmd="cat README.md"), model=body["model"])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    clean_environment(monkeypatch, tmp_path)
    with open_ledger(tmp_path / "arc.db") as opened:
        for _ in importing.import_paths(opened, [DATA / "docent" / "log.eval"]):
            pass
        yield opened


def asked(store: Store, **beside: object) -> ReplayView:
    request = ReplayRequest(trace=RUN, edit=CAREFUL, model="claude-other", steps=STEPS, **beside)  # type: ignore[arg-type]
    *_, view = views_of(run_replay, store, request)
    return view


@pytest.mark.slow
def test_a_run_of_another_provider_is_asked_again_whole_and_the_verdict_says_of_whom(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessagesApi(policy) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        limits = Limits(calls=1000)
        view = asked(store, live=True, limits=limits)
        verdict = view.verdict
        # The strict server takes every request, each said to be translated from another API.
        assert verdict.weakest is Level.REBUILT
        assert verdict.losses == ("translated from another API",)
        assert verdict.control.of == len(STEPS)
        assert verdict.notices == ()
        # What it can say: what this model would do, and what the edit changes in that.
        assert verdict.rebased
        assert "recorded with gpt-4o" in verdict.sentence
        assert "the result holds for claude-other only" in verdict.sentence
        assert verdict.edited_diverges == 0
        assert "from control's first sample" in verdict.sentence
        assert len(verdict.effects) == len(STEPS)
        # What it cannot say: why the recorded run failed, and what became of its break.
        assert verdict.at_break in (None, "not control's", "unknown")
        assert verdict.collateral is not None
        assert verdict.collateral.fixed == 0
        made = api.asked
        again = asked(store)
        assert (again.calls, api.asked) == (0, made)
        assert again.digest == view.digest is not None
