"""What is offered for a run that lacks its system prompt or tools: the surest first, with the
evidence, what speaks against it, and never a guess in place of what was recorded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from replay.store import read
from replay.store.edits import SKETCHED, Supplement, attach
from replay.store.gaps import infer_tools, lacks
from replay.store.handle import Store
from replay.store.offers import Offer, content, fitting, offers
from replay.store.write import Writer
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Batch,
    Fidelity,
    Header,
    Level,
    ModelCall,
    Tool,
    ToolCall,
)
from tests.build import Part, call, step, trace

SYSTEM = "You are the support agent of a shop. Look an order up before you say anything of it. " * 2
OTHER_SYSTEM = "You are the support agent of a shop. Be quick, and refund whatever you can. " * 2
CALLS = (
    call("get_order", "shipped", order_id="1049"),
    call("refund_order", "done", order_id="1049", amount=10),
)
PARTS: tuple[Part, ...] = (*map(step, CALLS), "Done.")


def declared(name: str, *arguments: str) -> Tool:
    return Tool(name=name, schema={"type": "object", "properties": {key: {} for key in arguments}})


TOOLS = (declared("get_order", "order_id"), declared("refund_order", "order_id", "amount"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arc.db") as opened:
        yield opened


def put(
    store: Store,
    name: str,
    *,
    parts: Sequence[Part] = PARTS,
    system: str | None = None,
    tools: Sequence[Tool] | None = None,
    ids: str = "",
    **known: Any,
) -> str:
    """A run that lacks what it is not given; `ids` make those of its calls and responses."""
    lacking = (NO_SYSTEM,) * (system is None) + (NO_TOOLS,) * (tools is None)
    fidelity = Fidelity(level=Level.PARTIAL if lacking else Level.REBUILT, reasons=lacking)
    spans = []
    for number, span in enumerate(trace(parts, system=system, tools=tools).spans):
        if isinstance(span, ModelCall):
            response = span.response
            if ids:
                response = structs.replace(response, id=f"msg_{ids}_{number:012}")
            span = structs.replace(span, fidelity=fidelity, response=response)
        elif isinstance(span, ToolCall) and ids:
            span = structs.replace(span, call_id=f"toolu_{ids}_{number:012}")
        spans.append(span)
    head = Header(format=known.pop("format", "claude-code"), source_id=name, **known)
    writer = Writer(store)
    return writer.finish(writer.write(Batch(header=head, spans=tuple(spans), last=True))).id


def of(store: Store, key: str) -> tuple[Offer, ...]:
    return offers(store, [key]).get(key, ())


VERSION: dict[str, Any] = {"agent": "claude-code", "labels": {"version": "2.0.14"}}


def test_what_lacks_nothing_is_offered_nothing(store: Store) -> None:
    key = put(store, "whole", system=SYSTEM, tools=TOOLS)
    assert (lacks(store, [key]), offers(store, [key])) == ({}, {})


def test_the_same_client_and_version_is_offered_with_what_shows_that_it_fits(store: Store) -> None:
    whole = put(store, "whole", system=SYSTEM, tools=TOOLS, parts=["Hello."], **VERSION)
    key = put(store, "bare", **VERSION)
    best, inferred = of(store, key)
    assert (best.match, best.source, best.against) == ("client", whole, ())
    assert (best.system_characters, best.tools) == (len(SYSTEM), 2)
    assert best.evidence == (
        "same client and version: claude-code 2.0.14",
        "tools it calls: 2 of 2 are there",
        "arguments it gives: 3 of 3 are in the schemas",
    )
    assert (inferred.match, inferred.tools, inferred.system_characters) == ("inferred", 2, None)
    attach(store, key, content(store, best))
    call_ = read.load(store, key).steps[0].ask
    assert call_.fidelity.level is Level.SUPPLIED
    assert call_.request.tools == TOOLS
    assert of(store, key) == ()


def test_a_run_that_was_attached_to_is_a_source_for_the_next(store: Store) -> None:
    first, key = put(store, "first", **VERSION), put(store, "second", **VERSION)
    attach(store, first, Supplement(name="mine", system=SYSTEM, tools=TOOLS))
    best = of(store, key)[0]
    assert (best.match, best.source, best.tools) == ("client", first, 2)
    assert content(store, best).tools == TOOLS


def test_inferred_tools_stay_inferred_wherever_they_are_copied_to(store: Store) -> None:
    first, key = put(store, "first", **VERSION), put(store, "second", **VERSION)
    attach(store, first, Supplement(name="calls", tools=TOOLS, sketched=True))
    assert [each.match for each in of(store, key)] == ["inferred"], "no source of recorded tools"
    copied = fitting(store, key, first)
    assert copied is not None
    attach(store, key, copied)
    fidelity = read.load(store, key).steps[0].ask.fidelity
    assert (fidelity.level, SKETCHED in fidelity.reasons) == (Level.PARTIAL, True)
    assert lacks(store, [key])[key].inferred, "recorded tools are still wanted"


def test_another_recording_of_the_run_comes_before_anything_else(store: Store) -> None:
    put(store, "same client", system=SYSTEM, tools=TOOLS, **VERSION)
    heard = put(store, "heard", format="recorded", system=OTHER_SYSTEM, tools=TOOLS, ids="a")
    key = put(store, "kept", ids="a", **VERSION)
    best = of(store, key)[0]
    assert (best.match, best.source) == ("run", heard)
    assert best.evidence[0] == "another recording of this run: 3 responses have the same ids"


def test_the_same_system_prompt_in_the_words_of_another_source_is_evidence(store: Store) -> None:
    whole = put(store, "whole", format="chat", system=SYSTEM, tools=TOOLS)
    key = put(store, "bare", format="tau-bench", system=SYSTEM)
    best = of(store, key)[0]
    assert (best.match, best.source, best.system_characters) == ("prompt", whole, None)
    short = put(store, "short", format="tau-bench", system="Be kind.", parts=PARTS[:1])
    put(store, "kind", format="chat", system="Be kind.", tools=TOOLS)
    assert [each.match for each in of(store, short)] == ["inferred"], "too short to tell"


def test_a_tool_that_is_called_and_not_there_lowers_an_offer_and_half_of_them_rules_it_out(
    store: Store,
) -> None:
    three = (*PARTS, step(call("get_user", "Ann", user_id="7")))
    put(store, "a", system=SYSTEM, tools=TOOLS, **VERSION)
    lowered = of(store, put(store, "bare", parts=three, **VERSION))[0]
    assert lowered.against == ("not there, but called: get_user",)
    put(store, "b", system=OTHER_SYSTEM, tools=(*TOOLS, declared("get_user", "user_id")),
        agent="claude-code", labels={"version": "2.0.13"}, task="refund")  # fmt: skip
    key = put(store, "again", parts=three, task="refund", **VERSION)
    assert [each.match for each in of(store, key)] == ["client", "task", "inferred"]
    assert of(store, key)[1].against == ("another version: 2.0.13, here 2.0.14",)
    strangers = [step(call("list_files", "a.py")), step(call("get_order", "x", order_id="1"))]
    key = put(store, "other tools", parts=strangers, **VERSION)
    assert "client" not in [each.match for each in of(store, key)]


def test_arguments_model_family_and_size_speak_against_an_offer(store: Store) -> None:
    put(store, "whole", system=SYSTEM, tools=(declared("get_order", "id"), TOOLS[1]), agent="shop",
        task="refund")  # fmt: skip
    key = put(store, "bare", agent="shop", task="refund")
    (against,) = of(store, key)[0].against
    assert against == "arguments its schemas do not have: get_order(order_id)"
    tiny = [step(each, tokens=5) for each in CALLS]
    key = put(store, "tiny", parts=tiny, agent="shop", task="refund")
    assert of(store, key)[0].against[-1].endswith("but the first request had 5 tokens in all")


def test_two_system_prompts_found_alike_are_said_to_differ(store: Store) -> None:
    put(store, "v1", system=SYSTEM, tools=TOOLS, agent="shop", task="refund")
    put(store, "v2", system=OTHER_SYSTEM, tools=TOOLS, agent="shop", task="refund")
    key = put(store, "bare", agent="shop", task="refund")
    first, second, _ = of(store, key)
    assert first.against == second.against == ("one of 2 that are found alike and differ",)


def test_an_agent_that_is_not_known_is_found_by_two_tools_it_calls_and_never_by_one(
    store: Store,
) -> None:
    put(store, "whole", format="chat", system=SYSTEM, tools=TOOLS)
    best = of(store, put(store, "bare", format="chat"))[0]
    assert (best.match, best.against) == ("tools", ("agent unknown",))
    one = put(store, "one", format="chat", parts=PARTS[:1])
    assert [each.match for each in of(store, one)] == ["inferred"]
    none = put(store, "none", format="chat", parts=["Hello."])
    assert of(store, none) == ()


def test_tools_are_inferred_from_all_runs_with_the_prompt_or_the_client(store: Store) -> None:
    more: Sequence[Part] = [step(call("get_user", "Ann", user_id="7")), "Hello."]
    put(store, "more", parts=more, system=SYSTEM)
    key = put(store, "bare", system=SYSTEM)
    put(store, "stranger", parts=[step(call("ls", "a.py", path="."))], system=OTHER_SYSTEM)
    found = infer_tools(store, key)
    assert [tool.name for tool in found.tools] == ["get_order", "get_user", "refund_order"]
    assert (found.times, found.runs, found.basis) == (3, 2, "2 runs with the same system prompt")
    alone = infer_tools(store, put(store, "alone"))
    assert ([tool.name for tool in alone.tools], alone.basis) == (
        ["get_order", "refund_order"], "this run",
    )  # fmt: skip


@pytest.mark.slow
def test_a_thousand_runs_are_walked_in_seconds(store: Store) -> None:
    for number in range(500):
        put(store, f"bare {number}", ids=f"b{number}", **VERSION)
        put(store, f"whole {number}", system=SYSTEM, tools=TOOLS, ids=f"w{number}", agent="shop")
    put(store, "the one", system=SYSTEM, tools=TOOLS, **VERSION)
    keys = [key for (key,) in store.db.execute("SELECT key FROM trace")]
    began_s = time.process_time()
    found = offers(store, keys)
    every_s = time.process_time() - began_s
    assert {each[0].match for each in found.values()} == {"client"}
    assert len(found) == 500
    one = next(iter(found))
    began_s = time.process_time()
    offers(store, [one])
    one_s = time.process_time() - began_s
    print(f"offers: {len(keys)} runs, all {every_s:.2f} s, one {one_s:.3f} s")
    assert every_s < 10
    assert one_s < 1
