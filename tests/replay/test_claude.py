"""The live client against a server that misbehaves in every way we know of."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.budget import Budget, Limits
from replay.compare.rules import PLAIN
from replay.edit.changes import Edit, SetSystem
from replay.errors import ModelRefused, OfflineMiss, RequestRefused, Stopped
from replay.locked.row import LOOK, Models
from replay.locked.run import core, replay
from replay.locked.verdict import summary
from replay.models import messages, wire
from replay.models.choose import choose
from replay.models.claude import Claude
from replay.models.messages import MESSAGES
from replay.models.wire import Asked, Failed, Reply, judged
from replay.store import answers
from replay.store.handle import Store
from tests.messages_api import (
    FAULTS,
    Body,
    Fault,
    KnownModel,
    MessagesApi,
    message,
    text,
    tool_use,
)
from tests.replay.live_case import BODY, LARGE, Waits, client
from tests.replay.locked_case import BREAK, VERIFY, stored, think

pytestmark = pytest.mark.usefixtures("clean")

EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as running:
        yield running


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def claude(api: MessagesApi, waits: Waits) -> Iterator[Claude]:
    with client(api, waits) as made:
        yield made


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
    found = messages.message("\r\n\r\n".join(f"data: {event}" for event in events).encode())
    assert found["content"] == [
        {"type": "thinking", "thinking": "h", "signature": "s"},
        {"type": "text", "text": "t", "citations": [1]},
    ]


@pytest.mark.parametrize("raw", [b"", b"data: {", b'data: {"type":"content_block_delta"}'])
def test_a_stream_of_another_shape_is_broken(raw: bytes) -> None:
    with pytest.raises(wire.BrokenStream):
        messages.message(raw)


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
def test_what_is_no_message_is_asked_again_and_then_refused_though_its_status_is_200(
    api: MessagesApi, claude: Claude, waits: Waits, body: str
) -> None:
    api.fault(Fault(body=body))
    assert claude.complete(BODY, 0)["stop_reason"] == "end_turn"
    assert (api.asked, waits.seconds) == (2, [0.5])
    api.fault(*[Fault(body=body)] * 3)
    with pytest.raises(ModelRefused, match="not a message of the Messages API"):
        claude.complete(BODY, 0)
    assert api.asked == 5


def test_a_limit_that_ends_the_attempts_says_what_failed_before(
    api: MessagesApi, waits: Waits
) -> None:
    api.fault(*[FAULTS["web page"]] * 3)
    said = r"limit of 2 calls .* returned a web page"
    limited = client(api, waits, budget=Budget(Limits(calls=2)))
    with limited as made, pytest.raises(ModelRefused, match=said):
        made.complete(BODY, 0)
    assert api.asked == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, '{"detail": "Not Found"}'),
        (404, '{"error": {"message": "Unknown request URL", "type": "invalid_request_error"}}'),
        (404, "404 page not found"),
        (404, "<html>Not here</html>"),
        (405, "Method Not Allowed"),
    ],
)
def test_a_server_of_another_kind_is_told_from_a_model_it_does_not_have(
    api: MessagesApi, claude: Claude, status: int, body: str
) -> None:
    api.fault(Fault(status=status, body=body))
    with pytest.raises(ModelRefused) as error:
        claude.complete(BODY, 0)
    assert error.value.message == (
        f"{api.base_url} has no Messages API: nothing at /v1/messages (HTTP {status})"
    )
    assert "ANTHROPIC_BASE_URL" in error.value.hint
    unknown = f'{{"object": "error", "message": "The model `{claude.name}` does not exist."}}'
    api.fault(Fault(status=404, body=unknown))
    with pytest.raises(ModelRefused, match="HTTP 404") as error:
        claude.complete(BODY, 0)
    assert "--model" in error.value.hint


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


def test_bytes_that_are_no_text_are_no_answer() -> None:
    asked = Asked("claude-test", "http://localhost", streamed=False, now_s=0.0, wire=MESSAGES)
    found = judged(Reply(status=200, body=b'{"type": "\xff"}'), asked)
    assert isinstance(found, Failed)
    assert found.billed


@pytest.mark.slow
def test_a_silent_server_is_asked_again_and_counted_as_paid(api: MessagesApi, waits: Waits) -> None:
    with client(api, waits, timeout_s=0.5, attempts=2) as made:
        api.fault(Fault(cut="slow"), Fault(cut="slow"))
        with pytest.raises(ModelRefused, match=r"no response within 0\.5 s"):
            made.complete(BODY, 0)
        assert api.flights.landed(2)
        assert api.asked == 2
        assert made.budget.calls == 2
        assert made.budget.tokens >= 2 * BODY["max_tokens"]


def test_an_unreachable_server_costs_nothing(waits: Waits) -> None:
    with MessagesApi() as gone:
        made = client(gone, waits)
    with made, pytest.raises(ModelRefused, match="connection lost"):
        made.complete(BODY, 0)
    assert made.budget.calls == 0


def test_a_stopped_call_returns_at_once_and_no_other_is_made(
    api: MessagesApi, claude: Claude
) -> None:
    asked = threading.Event()

    def answer_late(_: Body) -> Body:
        asked.set()
        api.left.wait()
        return message(text("late"))

    api.policy = answer_late

    def stop_when_asked() -> None:
        asked.wait()
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


# --- what a server says of itself


def test_a_model_can_be_looked_at_before_anything_is_spent(waits: Waits) -> None:
    known = KnownModel("claude-test", max_input_tokens=1000, lifecycle="deprecated")
    with MessagesApi(models=[known]) as api, client(api, waits) as made:
        about = made.about()
        assert about is not None
        assert (about["max_input_tokens"], about["lifecycle"]) == (1000, "deprecated")
        assert made.budget.calls == 0
        with client(api, waits, name="claude-other") as other:
            assert other.about() is None


def test_the_tokens_of_a_request_are_counted_by_the_server(
    api: MessagesApi, claude: Claude
) -> None:
    counted = claude.count_tokens({**BODY, "stop_sequences": ["."]})
    assert counted is not None
    assert counted > 0
    assert set(api.received[0].body) == {"model", "messages"}
    api.fault(Fault(status=404))
    assert claude.count_tokens(BODY) is None


def test_a_question_that_costs_nothing_is_repeated_like_any_other(
    api: MessagesApi, claude: Claude, waits: Waits
) -> None:
    api.fault(FAULTS["overloaded"], FAULTS["server error"])
    assert claude.count_tokens(BODY) is not None
    assert waits.seconds == [0.5, 1.0]
    api.fault(FAULTS["no key"])
    with pytest.raises(ModelRefused, match="HTTP 401"):
        claude.about()


@pytest.mark.process
def test_the_package_behind_it_writes_nothing_on_the_terminal(
    api: MessagesApi, tmp_path: Path
) -> None:
    code = (
        "from replay.budget import Budget; from replay.budget import Limits\n"
        "from replay.models.claude import Claude\n"
        "with Claude('claude-3-opus-20240229', budget=Budget(Limits(calls=1))) as claude:\n"
        "    said = [{'role': 'user', 'content': 'Hi'}]\n"
        "    claude.complete({'model': claude.name, 'max_tokens': 9, 'messages': said}, 0)\n"
    )
    beside = {
        "ANTHROPIC_BASE_URL": api.base_url,
        "ANTHROPIC_API_KEY": "one",
        "ANTHROPIC_AUTH_TOKEN": "another",
    }
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).resolve().parents[2], env={**os.environ, **beside},
    )  # fmt: skip
    assert (done.stdout, done.stderr, api.asked) == ("", "", 1)


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
        pytest.raises(ModelRefused, match="model price unknown"),
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
            rows = list(replay(trace, EDIT, Models(live, live), sampling=LOOK))
        assert (live.asks, live.hits, api.asked, budget.calls) == (10, 0, 10, 10)
        assert summary(rows, BREAK).at_break == "absent"
        kept = answers.get(store, rows[0].control[0].key, live.server)
        assert kept is not None
        assert kept.body["stop_reason"] == "end_turn"
        offline = choose("tiny", store)
        again = list(replay(trace, EDIT, Models(offline, offline), sampling=LOOK))
        assert offline.hits == 10
        first, second = (
            core(trace, EDIT, Models(m, m), found, sampling=LOOK, steps=None, rules=PLAIN)
            for m, found in ((live, rows), (offline, again))
        )
        assert first.digest == second.digest
        other = choose("other", store)
        with pytest.raises(OfflineMiss):
            list(replay(trace, EDIT, Models(other, other), sampling=LOOK))


def test_a_replay_beyond_its_limit_says_so_and_loses_nothing(
    api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    api.policy = think
    with Store.open(tmp_path / "arc.db") as store:
        trace = stored(store)
        with choose("tiny", store, live=True, budget=Budget(Limits(calls=3))) as live:
            rows = list(replay(trace, EDIT, Models(live, live), sampling=LOOK))
        assert "limit of 3 calls" in str(rows[-1].refused)
        assert (live.asks, api.asked) == (3, 3)
        with choose("tiny", store, live=True, budget=Budget(Limits(calls=7))) as live:
            rows = list(replay(trace, EDIT, Models(live, live), sampling=LOOK))
        assert all(row.refused is None for row in rows)
        assert (live.asks, api.asked) == (7, 10)


@pytest.mark.process
def test_naming_a_live_model_imports_no_sdk(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from replay.budget import Budget; from replay.budget import Limits\n"
        "from replay.models.choose import choose\n"
        "from replay.store.handle import Store\n"
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
