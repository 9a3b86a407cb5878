"""A step is read with what is new in its context alone, and that is what comparing whole contexts
says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import NotFound
from replay.messages import new_since
from replay.store import read
from replay.store.edits import Supplement, attach
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.write import Writer
from replay.trace import Batch, Context, Header, Message, ModelCall, Request, Response, extend

SYSTEMS = (None, "Be brief.", "Be brief. It is noon.")


def said(text: str) -> Message:
    return Message(dialect="anthropic", body={"role": "user", "content": text})


def put(store: Store, contexts: list[Context | None], systems: list[str | None]) -> str:
    spans = tuple(
        ModelCall(
            id=f"m{number}",
            name="chat",
            start_ns=number * 10,
            end_ns=number * 10 + 5,
            request=Request(
                system=None if system is None else said(system), context=context, model="m"
            ),
            response=Response(message=said(f"answer {number}")),
        )
        for number, (context, system) in enumerate(zip(contexts, systems, strict=True))
    )
    writer = Writer(store)
    batch = Batch(header=Header(format="chat", source_id="run"), spans=spans, last=True)
    return writer.finish(writer.write(batch)).id


@st.composite
def grown(draw: st.DrawFn) -> list[Context | None]:
    """Contexts as agents send them: most go on, some lose their last messages first (a reminder),
    some begin anew (a summary), some are as before or empty."""
    found: list[Context | None] = []
    for number in range(draw(st.integers(1, 6))):
        before = found[-1] if found else None
        kept = before.nodes() if before is not None else []
        keep = draw(st.integers(0, len(kept)))
        base = kept[keep - 1] if keep else None
        texts = draw(st.lists(st.sampled_from(["a", "b", f"new {number}"]), max_size=3))
        found.append(extend(base, map(said, texts)))
    return found


@given(grown(), st.data())
def test_it_is_what_comparing_whole_contexts_says(
    contexts: list[Context | None], data: st.DataObject
) -> None:
    systems = [data.draw(st.sampled_from(SYSTEMS)) for _ in contexts]
    with Store.open(":memory:") as store:
        key = put(store, contexts, systems)
        if data.draw(st.booleans()):
            attach(store, key, Supplement(name="by hand", system="Be brief."))
        whole = read.load(store, key).steps
        for step in whole:
            before = whole[step.index - 1] if step.index else None
            found = read.step_since(store, key, step.index, before.index if before else None)
            assert found is not None
            earlier = before.ask.request if before else None
            request = step.ask.request
            shared, new = new_since(request.context, earlier.context if earlier else None)
            assert (found.shared, list(found.new)) == (shared, new)
            assert found.depth == (request.context.depth if request.context else 0)
            assert found.system_changed == (
                earlier is not None and earlier.system != request.system
            )
            assert found.step.ask.response.message == step.ask.response.message
            assert found.step.ask.request.system == request.system
            assert found.step.ask.fidelity == step.ask.fidelity


def test_what_is_read_is_the_same_at_the_end_of_a_long_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, context = 0, extend(None, [said("task " * 50_000)])
    contexts: list[Context | None] = []
    for number in range(200):
        contexts.append(context)
        context = extend(context, [said(f"result {number:03} " * 20)])
    with Store.open(tmp_path / "arc.db") as store:
        key = put(store, contexts, [None] * 200)
        decoded: Callable[..., object] = read._json

        def counted(body: str, *kind: object) -> object:
            nonlocal size
            size += len(body)
            return decoded(body, *kind)

        monkeypatch.setattr(read, "_json", counted)
        sizes = []
        for step in (1, 199):
            size = 0
            assert read.step_since(store, key, step, step - 1) is not None
            sizes.append(size)
    assert 0 < sizes[1] < 1.1 * sizes[0]
    assert sizes[1] < 2000, "nothing of the first message, which has 250 000 characters"


def test_a_step_or_a_run_that_is_not_there(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        key = put(store, [None], [None])
        assert trace_rows(store)[0].trace == key
        assert read.step_since(store, key, 7, 0) is None
        with pytest.raises(NotFound):
            read.step_since(store, "nowhere", 0, None)
