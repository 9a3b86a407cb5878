"""What was not finished ends in code 2, whichever command asks and whatever stopped it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from arc_tui import commands
from replay.errors import RequestRefused
from replay.models import line
from tests.arc_tui.bisect_case import TOUR, prompt
from tests.messages_api import FAULTS, Body, Fault, MessagesApi, Policy, message, text
from tests.replay.live_case import MODEL

V4, V5 = str(prompt(4)), str(prompt(5))
COMMANDS = {
    "replay": ("replay", TOUR, "--system", V4, "-k", "2"),
    "replay, all at once": ("replay", TOUR, "--system", V4, "-k", "2", "--schedule", "fast"),
    "free replay": ("replay", TOUR, "--free"),
    "bisect": ("bisect", "versions", TOUR, V4, V5, "--expect", "tool=get_order"),
    "bisect of steps": (
        "bisect", "steps", TOUR, "--detector", "recoverable", "--fix", V4,
        "--expect", "tool=get_order", "-k", "2",
    ),
    "try": ("try", V4, "--on", "variant:v5", "-k", "2", "--healthy-steps", "2"),
    "probe": ("experiment", "probe", TOUR, "--probe", "constraint"),
    "paraphrase": ("experiment", "paraphrase", TOUR, "--judge", MODEL),
    "inject": ("experiment", "inject-error", TOUR, "-k", "4"),
    "judge": ("judge", TOUR),
}  # fmt: skip


class Failing:
    """The demo model for so many answers, then nothing but a fault."""

    def __init__(self, demo: Policy) -> None:
        self.api: MessagesApi | None = None
        self.after = 10**6
        self.fault = Fault()
        self._demo = demo

    def __call__(self, body: Body) -> Body:
        assert self.api is not None
        if self.api.asked >= self.after:
            self.api.fault(*[self.fault] * 99)
        if "output_config" in body:
            return message(text("{}"), model=body["model"])
        return self._demo(body)


@pytest.fixture
def failing(api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> Failing:
    made = Failing(api.policy)
    made.api, api.policy = api, made
    monkeypatch.setattr(line, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(line, "LONGEST_WAIT_S", 0.001)
    return made


def ended(db: Path, *words: str) -> int:
    """The code of `arc` with those words, as a shell sees it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["arc", "--db", str(db), *words])
        with pytest.raises(SystemExit) as error:
            commands.main()
    assert isinstance(error.value.code, int)
    return error.value.code


LIVE = ("--model", MODEL, "--live")
SOME = {"bisect": 7, "bisect of steps": 3}
"""By command, how many answers come before: a search that has judged some says what it found."""

WHYS = {
    "a limit": (None, (), r"limit of \d calls"),
    "the key": (FAULTS["no key"], ("--max-calls", "999"), "HTTP 401"),
    "a web page": (FAULTS["web page"], ("--max-calls", "999"), "returned a web page"),
    "the time": (
        FAULTS["slow"],
        ("--max-minutes", "0.02"),
        "no response within|time limit of",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("why", WHYS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_not_finished_ends_in_two(
    db: Path,
    failing: Failing,
    capsys: pytest.CaptureFixture[str],
    command: str,
    why: str,
) -> None:
    fault, limit, said = WHYS[why]
    some = SOME.get(command, 1)
    if fault is not None:
        failing.after, failing.fault = some, fault
    limit = limit or ("--max-calls", str(some))
    assert ended(db, *COMMANDS[command], *LIVE, *limit) == 2
    assert failing.api is not None
    assert failing.api.asked >= 1
    sentence = next(line for line in capsys.readouterr().err.splitlines() if line[:4] == "arc:")
    assert re.search(said, sentence)


WORDS = """[[task]]
match = "many-wishes"
texts = ["In other words: the same wishes."]
"""
DECLINED = COMMANDS | {
    "bisect of two files": (
        "bisect", "hunks", TOUR, "--old", V4, "--new", V5, "--expect", "tool=get_order",
    ),
    "bisect by free runs": (
        "bisect", "versions", TOUR, V4, V5, "--free", "--expect", "tool=get_order",
    ),
    "bisect of prefixes": (
        "bisect", "recovery", TOUR, "--fix", V4, "--expect", "tool=get_order",
    ),
    "bisect of steps by belief": (
        "bisect", "steps", TOUR, "--detector", "belief", "--question", "When?", "--truth", "now",
    ),
    "bisect of steps by a judge": (
        "bisect", "steps", TOUR, "--detector", "judge", "--judge", MODEL,
    ),
    "test of a step": ("bisect", "steps", TOUR, "--confirm"),
    "paraphrases of your own": (
        "experiment", "paraphrase", TOUR, "--judge", MODEL, "--paraphrases", "words.toml",
    ),
    "inject a tool's error": (
        "experiment", "inject-error", TOUR, "--kind", "tool-error", "-k", "4",
    ),
    "score of whole runs": ("judge", TOUR, "--mode", "run"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", DECLINED)
def test_where_every_request_is_declined_nothing_is_answered(
    db: Path,
    failing: Failing,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    assert failing.api is not None
    failing.api.fault(*[FAULTS["bad request"]] * 999)
    monkeypatch.chdir(db.parent)
    Path("words.toml").write_text(WORDS)
    assert ended(db, *DECLINED[command], *LIVE, "--max-calls", "99") == 2
    assert failing.api.asked >= 1
    said = capsys.readouterr()
    assert "HTTP 400" in said.out + said.err
    assert re.search("^arc: (no request got a response|.*HTTP 400)", said.err, re.MULTILINE)


@pytest.mark.slow
def test_steps_the_model_declines_with_the_edit_are_no_word_for_it(
    db: Path, api: MessagesApi, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = api.policy
    edited = Path(V4).read_text().strip()

    def declines(body: Body) -> Body:
        if body["system"].strip() == edited:
            raise RequestRefused("system: not here")
        return recorded(body)

    api.policy = declines
    words = ("replay", TOUR, "--system", V4, "-k", "1", *LIVE, "--max-calls", "99")
    assert ended(db, *words, "--json") == 2
    view = json.loads(capsys.readouterr().out)
    assert view["ended"] is None
    assert view["digest"] is not None
    assert view["unanswered"] == view["done"] > 0
    assert {row["mark"] for row in view["rows"]} == {None}


def test_a_replay_that_is_answered_everywhere_and_changes_nothing_ends_in_zero(
    db: Path, api: MessagesApi
) -> None:
    words = ("replay", TOUR, "-k", "1", *LIVE, "--max-calls", "99")
    assert ended(db, *words) == 0
