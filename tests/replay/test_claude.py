"""The live client against a server that misbehaves in every way we know of."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.budget import Budget, Limits, Worst
from replay.edit import Edit, SetSystem
from replay.errors import ModelRefused, OfflineMiss, RequestRefused, Stopped
from replay.locked import core, replay
from replay.models import stream
from replay.models.choose import choose
from replay.models.claude import Claude
from replay.models.wire import is_local
from replay.store import Store, answers
from replay.trace import Usage
from replay.verdict import summary
from tests.messages_api import Body, Fault, MessagesApi, message, text, tool_use
from tests.replay.locked_case import BREAK, VERIFY, stored, think

BODY: Body = {
    "model": "claude-test",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}
LARGE: Body = {**BODY, "max_tokens": 64_000}
EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as running:
        yield running


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path / "none"))


class Waits:
    """Stands where time passes: keeps what it was asked to wait, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def claude(api: MessagesApi, waits: Waits) -> Iterator[Claude]:
    with client(api, waits) as made:
        yield made


def client(api: MessagesApi, waits: Waits, **beside: Any) -> Claude:
    given = {"budget": Budget(Limits(calls=1000)), "attempts": 3, "timeout_s": 5.0, **beside}
    return Claude(
        "claude-test",
        base_url=api.base_url,
        sleep=waits,
        jitter=lambda: 0.0,
        clock=lambda: 1_000_000_000.0,
        **given,
    )


# --- what goes over the wire


def test_a_request_goes_out_as_it_is_under_our_version_of_the_api(
    api: MessagesApi, claude: Claude
) -> None:
    assert claude.complete(BODY, 7)["content"] == [text("Done.")]
    sent = api.received[0]
    assert sent.body == BODY
    assert sent.headers["anthropic-version"] == "2026-10-21"
    assert sent.headers["authorization"] or sent.headers["x-api-key"]


def test_a_large_limit_is_streamed_and_gives_the_same_message(
    api: MessagesApi, claude: Claude
) -> None:
    said = message(text("Grüße,\nhello"), tool_use("get_order", id=1, note='a "b"'), tool_use("x"))
    api.policy = lambda _: said
    answer = claude.complete(LARGE, 0)
    assert api.received[0].body == {**LARGE, "stream": True}
    assert answer["content"] == said["content"]
    assert answer["stop_reason"] == "tool_use"
    assert answer["usage"] == {"input_tokens": 100, "output_tokens": 12}


def test_every_kind_of_delta_finds_its_place() -> None:
    events = (
        '{"type":"message_start","message":{"type":"message","content":[],"usage":{}}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}',
        '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"t"}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":1}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"newer_delta","what":1}}',
        '{"type":"message_stop"}',
    )
    found = stream.message("\r\n\r\n".join(f"data: {event}" for event in events).encode())
    assert found["content"] == [
        {"type": "thinking", "thinking": "h", "signature": "s"},
        {"type": "text", "text": "t", "citations": [1]},
    ]


@pytest.mark.parametrize("raw", [b"", b"data: {", b'data: {"type":"content_block_delta"}'])
def test_a_stream_of_another_shape_is_broken(raw: bytes) -> None:
    with pytest.raises(stream.BrokenStream):
        stream.message(raw)


# --- what goes wrong, row by row


def test_a_server_that_is_busy_is_asked_again_after_the_wait_it_names(
    api: MessagesApi, claude: Claude, waits: Waits
) -> None:
    api.fault(Fault(status=429, headers={"retry-after": "1"}))
    assert claude.complete(BODY, 0)["type"] == "message"
    assert (api.asked, waits.seconds) == (2, [1.0])


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Sun, 09 Sep 2001 01:46:43 GMT"}, 3.0),
        ({"retry-after": "Sat, 08 Sep 2001 01:46:43 GMT"}, 0.0),
        ({"retry-after": "soon"}, 0.5),
        ({}, 0.5),
    ],
)
def test_the_wait_is_read_from_any_header_and_never_negative(
    api: MessagesApi, claude: Claude, waits: Waits, headers: dict[str, str], seconds: float
) -> None:
    api.fault(Fault(status=529, headers=headers))
    claude.complete(BODY, 0)
    assert waits.seconds == [seconds]


@pytest.mark.parametrize(
    ("status", "body"), [(429, None), (529, None), (502, "<html>Bad gateway</html>"), (408, None)]
)
def test_a_failure_that_stays_is_refused_after_the_last_attempt(
    api: MessagesApi, claude: Claude, waits: Waits, status: int, body: str | None
) -> None:
    api.fault(*[Fault(status=status, body=body)] * 3)
    with pytest.raises(ModelRefused, match=f"HTTP {status}"):
        claude.complete(BODY, 0)
    assert (api.asked, waits.seconds) == (3, [0.5, 1.0])
    assert claude.budget.calls == 0


def test_chance_shortens_a_wait_that_nobody_named(api: MessagesApi, waits: Waits) -> None:
    api.fault(Fault(status=500))
    with Claude(
        "claude-test", budget=Budget(Limits(calls=9)), base_url=api.base_url, sleep=waits,
        jitter=lambda: 1.0,
    ) as made:  # fmt: skip
        made.complete(BODY, 0)
    assert waits.seconds == [0.375]


@pytest.mark.parametrize(
    "headers", [{"x-should-retry": "false"}, {"retry-after": "3600"}], ids=["told not to", "long"]
)
def test_a_server_that_wants_no_other_attempt_gets_none(
    api: MessagesApi, claude: Claude, headers: dict[str, str]
) -> None:
    api.fault(Fault(status=429, headers=headers))
    with pytest.raises(ModelRefused) as error:
        claude.complete(BODY, 0)
    assert not isinstance(error.value, RequestRefused)
    assert api.asked == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_declined_is_not_repeated(
    api: MessagesApi, claude: Claude, status: int
) -> None:
    api.fault(Fault(status=status))
    with pytest.raises(RequestRefused, match=f"HTTP {status}"):
        claude.complete(BODY, 0)
    assert (api.asked, claude.budget.calls) == (1, 0)


def test_the_servers_own_sentence_is_passed_on(api: MessagesApi, claude: Claude) -> None:
    with pytest.raises(RequestRefused, match="temperature: Extra inputs are not permitted"):
        claude.complete({**BODY, "temperature": 0}, 0)
    prefilled = [*BODY["messages"], {"role": "assistant", "content": "Sure"}]
    with pytest.raises(RequestRefused, match="prefill"):
        claude.complete({**BODY, "messages": prefilled}, 0)


@pytest.mark.parametrize(("status", "hint"), [(401, "ANTHROPIC_API_KEY"), (404, "--model")])
def test_a_refusal_of_the_whole_model_says_what_to_do(
    api: MessagesApi, claude: Claude, status: int, hint: str
) -> None:
    api.fault(Fault(status=status))
    with pytest.raises(ModelRefused) as error:
        claude.complete(BODY, 0)
    assert hint in error.value.hint
    assert not isinstance(error.value, RequestRefused)


@pytest.mark.parametrize(
    "body",
    ["<html>Sign in</html>", '{"choices": [{"message": {}}]}', '{"type": "message"}', "[]", "3"],
)
def test_what_is_no_message_is_refused_though_it_came_with_status_200(
    api: MessagesApi, claude: Claude, body: str
) -> None:
    api.fault(Fault(body=body))
    with pytest.raises(ModelRefused, match="not with a message of the Messages API"):
        claude.complete(BODY, 0)
    assert api.asked == 1


@pytest.mark.parametrize(
    ("body", "cut"),
    [
        (BODY, "truncated"), (BODY, "reset"),
        (LARGE, "error"), (LARGE, "dropped"), (LARGE, "end"), (LARGE, "in tool"),
    ],
)  # fmt: skip
def test_half_an_answer_is_asked_for_again_and_never_returned(
    api: MessagesApi, claude: Claude, body: Body, cut: str
) -> None:
    api.policy = lambda _: message(tool_use("get_order", id=1042))
    api.fault(Fault(cut=cut))
    assert claude.complete(body, 0)["content"] == [tool_use("get_order", id=1042)]
    assert api.asked == 2
    api.fault(*[Fault(cut=cut)] * 3)
    with pytest.raises(ModelRefused):
        claude.complete(body, 0)
    assert api.asked == 5


def test_an_answer_cut_off_on_the_way_is_no_answer(api: MessagesApi, claude: Claude) -> None:
    api.fault(Fault(body='{"type": "message", "content": ['))
    assert claude.complete(BODY, 0)["stop_reason"] == "end_turn"
    assert api.asked == 2


def test_a_silent_server_is_asked_again_and_counted_as_paid(api: MessagesApi, waits: Waits) -> None:
    with client(api, waits, timeout_s=0.05, attempts=2) as made:
        api.fault(Fault(cut="slow"), Fault(cut="slow"))
        with pytest.raises(ModelRefused, match=r"no answer within 0\.05 s"):
            made.complete(BODY, 0)
        assert api.asked == 2
        assert made.budget.calls == 2
        assert made.budget.tokens >= 2 * BODY["max_tokens"]


def test_an_unreachable_server_costs_nothing(waits: Waits) -> None:
    with MessagesApi() as gone:
        made = client(gone, waits)
    with made, pytest.raises(ModelRefused, match="the connection broke"):
        made.complete(BODY, 0)
    assert made.budget.calls == 0


def test_a_stopped_call_returns_at_once_and_no_other_is_made(
    api: MessagesApi, claude: Claude
) -> None:
    asked = threading.Event()

    def answer_late(_: Body) -> Body:
        asked.set()
        api.left.wait(10)
        return message(text("late"))

    api.policy = answer_late

    def stop_when_asked() -> None:
        asked.wait(10)
        claude.stop()

    threading.Thread(target=stop_when_asked, daemon=True).start()
    with pytest.raises(Stopped):
        claude.complete(BODY, 0)
    with pytest.raises(Stopped):
        claude.complete(BODY, 0)
    assert api.asked == 1
    assert claude.budget.calls == 1


# --- where it goes


def test_a_proxy_of_the_environment_does_not_stand_before_this_machine(
    api: MessagesApi, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert claude.complete(BODY, 0)["type"] == "message"


def test_an_address_with_the_version_in_it_is_refused_with_the_right_one() -> None:
    with pytest.raises(ModelRefused) as error:
        Claude("x", budget=Budget(Limits(calls=1)), base_url="http://localhost:1234/v1/")
    assert error.value.hint == "set it to http://localhost:1234"


@pytest.mark.parametrize("config", ["named and empty", "not named"])
def test_without_a_key_nothing_is_sent_and_the_hint_names_one(
    config: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if config == "not named":
        monkeypatch.delenv("ANTHROPIC_CONFIG_DIR")
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
    with Claude("x", budget=Budget(Limits(calls=1)), base_url="https://example.invalid") as made:
        with pytest.raises(ModelRefused) as error:
            made.complete(BODY, 0)
        assert "ANTHROPIC_API_KEY" in error.value.hint
        assert made.budget.calls == 0


def test_a_key_of_the_environment_is_used(
    api: MessagesApi, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    claude.complete(BODY, 0)
    assert "from-the-environment" in str(api.received[0].headers)


def test_this_machine_is_known_by_its_addresses() -> None:
    assert all(map(is_local, ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"]))
    assert not is_local("https://api.anthropic.com")


# --- money


def test_no_call_is_made_that_could_exceed_a_limit(api: MessagesApi, waits: Waits) -> None:
    with client(api, waits, budget=Budget(Limits(calls=1))) as made:
        made.complete(BODY, 0)
        with pytest.raises(ModelRefused, match="limit of 1 calls"):
            made.complete(BODY, 1)
    with client(api, waits, budget=Budget(Limits(tokens=150))) as made:
        made.complete(BODY, 0)
        assert made.budget.tokens == 110
        with pytest.raises(ModelRefused, match="limit of 150 tokens"):
            made.complete(BODY, 1)
    assert api.asked == 2


def test_a_limit_in_usd_needs_a_price(api: MessagesApi, waits: Waits) -> None:
    with (
        client(api, waits, budget=Budget(Limits(usd=1.0))) as made,
        pytest.raises(ModelRefused, match="no price is known"),
    ):
        made.complete(BODY, 0)
    assert api.asked == 0


def test_usd_is_set_aside_at_its_worst_and_settled_at_what_it_was(api: MessagesApi) -> None:
    api.policy = lambda _: message(text("ok"), model="claude-sonnet-4-5")
    priced = {**BODY, "model": "claude-sonnet-4-5"}
    budget = Budget(Limits(usd=0.003))
    with Claude("claude-sonnet-4-5", budget=budget, base_url=api.base_url) as made:
        made.complete(priced, 0)
        assert budget.usd == pytest.approx(100 * 3e-6 + 10 * 15e-6)
        with pytest.raises(ModelRefused, match=r"limit of 0\.003 USD"):
            made.complete({**priced, "max_tokens": 1000}, 0)
    assert api.asked == 1


def test_media_count_as_what_they_can_cost_not_as_their_length(api: MessagesApi) -> None:
    image = {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}
    content = [{"type": "image", "source": image}]
    budget = Budget(Limits(tokens=10_000))
    with Claude("claude-test", budget=budget, base_url=api.base_url) as made:
        made.complete({**BODY, "messages": [{"role": "user", "content": content}]}, 0)
    assert budget.tokens == 110


def test_the_ledger_settles_releases_and_keeps_the_unknown_at_its_worst() -> None:
    now = [0.0]
    budget = Budget(Limits(usd=1.0, minutes=1.0), clock=lambda: now[0])
    worst = Worst(tokens=500, usd=0.4)
    budget.settle(budget.reserve(worst), None, None)
    budget.settle(budget.reserve(worst), Usage(input_tokens=90, output_tokens=10), 0.1)
    budget.release(budget.reserve(worst))
    assert (budget.calls, budget.tokens) == (2, 600)
    assert budget.usd == pytest.approx(0.5)
    reserved = budget.reserve(worst)
    with pytest.raises(ModelRefused, match="limit of 1 USD"):
        budget.reserve(worst)
    budget.release(reserved)
    assert budget.usd_complete
    budget.settle(budget.reserve(Worst(tokens=1)), None, None)
    assert not budget.usd_complete
    now[0] = 61.0
    with pytest.raises(ModelRefused, match="1 minutes allowed are over"):
        budget.reserve(worst)
    with pytest.raises(ModelRefused, match="need a limit"):
        Budget(Limits()).reserve(worst)


# --- the whole way


def test_a_live_replay_is_taken_by_a_strict_server_and_repeats_offline(
    api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    api.policy = think
    with Store.open(tmp_path / "arc.db") as store:
        trace = stored(store)
        budget = Budget(Limits(calls=20))
        with choose("tiny", store, live=True, budget=budget) as live:
            rows = list(replay(trace, EDIT, live))
        assert (live.asks, live.hits, api.asked, budget.calls) == (10, 0, 10, 10)
        assert summary(rows, BREAK).at_break == "gone"
        kept = answers.get(store, rows[0].control[0].key)
        assert kept is not None
        assert kept.body["stop_reason"] == "end_turn"
        again = list(replay(trace, EDIT, choose("tiny", store)))
        assert core(trace, EDIT, "tiny", rows).digest == core(trace, EDIT, "tiny", again).digest
        with pytest.raises(OfflineMiss):
            list(replay(trace, EDIT, choose("other", store)))


def test_a_broken_server_ends_the_replay_with_a_row_and_loses_nothing(
    api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    api.policy = think
    with Store.open(tmp_path / "arc.db") as store:
        trace = stored(store)
        with choose("tiny", store, live=True, budget=Budget(Limits(calls=3))) as live:
            rows = list(replay(trace, EDIT, live))
        assert [row.refused is None for row in rows] == [True, False]
        assert "limit of 3 calls" in str(rows[1].refused)
        with choose("tiny", store, live=True, budget=Budget(Limits(calls=7))) as live:
            rows = list(replay(trace, EDIT, live))
        assert len(rows) == 5
        assert api.asked == 10


def test_naming_a_live_model_imports_no_sdk(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from replay.budget import Budget, Limits\n"
        "from replay.models.choose import choose\n"
        "from replay.store import Store\n"
        "from pathlib import Path\n"
        f"store = Store.open(Path({str(tmp_path / 'arc.db')!r}))\n"
        "choose('claude-x', store, live=True, budget=Budget(Limits(calls=1))).close()\n"
        "print({'anthropic', 'httpx2', 'genai_prices'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    assert done.stdout.strip() == "set()"
