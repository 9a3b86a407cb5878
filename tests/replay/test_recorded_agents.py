"""Sessions that real agents recorded of one scripted run: `tests/replay/recorded`.

The script is that of the captures beside the checkout: two calls at once, a call that fails, and
last words that claim success. Turn r takes 100·(r+1) input tokens, 64 of them cached after the
first, and 20+r output tokens.
"""

from __future__ import annotations

import pytest
from msgspec import Struct

from replay.formats import load, sniff
from replay.formats.source import Source, Tally
from replay.messages import text
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.write import Writer
from replay.trace import Batch
from tests.replay.kinds import models, seen, tools
from tests.replay.recorded import RECORDED


class Truth(Struct, frozen=True):
    """What is true of a recording: its format, the agent, the tools called, stop reasons,
    whether it has the user's prompt, and its title."""

    file: str
    format: str
    agent: str
    called: tuple[str, str, str]
    stops: tuple[str | None, ...] = (None, None, None)
    prompt: bool = True
    title: str | None = "Refund my orders"


TRUTHS = (
    Truth(
        "qwen-code.jsonl",
        "gemini-cli",
        "qwen-code",
        ("read_file", "list_directory", "read_file"),
    ),
    Truth(
        "claude-agent-sdk.jsonl",
        "claude-code",
        "claude-code",
        ("Read", "Bash", "Read"),
        prompt=False,
        title=None,
    ),
    Truth(
        "cline/1795489038937_l4bcm/1795489038937_l4bcm.messages.json",
        "cline",
        "cline",
        ("read_files", "run_commands", "read_files"),
    ),
    Truth(
        "copilot-cli.jsonl",
        "copilot-cli",
        "copilot-cli",
        ("view", "bash", "view"),
        ("tool", "tool", "end"),
    ),
    Truth(
        "opencode.json",
        "opencode",
        "opencode",
        ("read", "bash", "read"),
        ("tool", "tool", "end"),
        title="Order 1039 was refunded, all done.",
    ),
    Truth(
        "qwen-code-stream.jsonl",
        "claude-code",
        "qwen-code",
        ("read_file", "list_directory", "read_file"),
        ("tool", "tool", None),
        prompt=False,
        title=None,
    ),
)
each = pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.file)


def read(truth: Truth) -> tuple[Batch, Tally]:
    source, tally = Source(RECORDED / truth.file), Tally()
    claimed = sniff(source)
    assert claimed is not None
    assert truth.format == claimed.NAME
    (batch,) = load(source, tally)
    return batch, tally


@each
def test_a_recording_has_the_steps_calls_and_tokens_of_its_script(truth: Truth) -> None:
    batch, tally = read(truth)
    told = [ask.usage for ask in models(batch)]
    assert all(told)
    assert [(u.input_tokens, u.cache_read_tokens or 0, u.output_tokens) for u in told if u] == [
        (100, 0, 20), (200, 64, 21), (300, 64, 22),
    ]  # fmt: skip
    assert tuple(ask.response.stop for ask in models(batch)) == truth.stops
    assert tuple(call.name for call in tools(batch)) == truth.called
    first, second, _ = models(batch)
    assert [call.asked_by for call in tools(batch)] == [first.id, first.id, second.id]
    assert all(call.observation is not None for call in tools(batch))
    assert (tally.problems, dict(tally.unknown)) == ([], {})


@each
def test_a_recording_has_the_words_of_the_user_and_the_last_of_the_agent(truth: Truth) -> None:
    batch, _ = read(truth)
    asked = [words for role, words in seen(models(batch)[0]) if role == "user"]
    assert any("Refund my orders" in words for words in asked) is truth.prompt
    last = models(batch)[-1].response.message
    assert last is not None
    assert text(last) == "Order 1039 was refunded, all done."
    assert (batch.header.agent, batch.header.title) == (truth.agent, truth.title)
    assert batch.header.labels["cwd"] == "/home/user/shop"


@each
def test_a_recording_has_one_error_in_the_store(truth: Truth) -> None:
    with Store.open(":memory:") as store:
        Writer(store).take([read(truth)[0]])
        (row,) = trace_rows(store)
        assert (row.steps, row.calls, row.errors) == (3, 3, 1)
