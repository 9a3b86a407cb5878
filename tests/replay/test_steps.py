"""Which step a span belongs to that neither is a call nor was asked for."""

from __future__ import annotations

from replay.steps import Node, plan


def of(*nodes: tuple[str, str | None, str]) -> dict[str, int | None]:
    """The step of each span: (id, parent, kind) in the order of the source."""
    return plan(Node(name, parent, kind, seq) for seq, (name, parent, kind) in enumerate(nodes)).of


def test_a_span_that_groups_calls_of_a_model_is_of_the_first_of_them() -> None:
    found = of(
        ("run", None, "other"),
        ("agent", "run", "agent"),
        ("Step 1", "agent", "other"),
        ("a", "Step 1", "model"),
        ("Step 2", "agent", "other"),
        ("retry", "Step 2", "other"),
        ("b", "retry", "model"),
        ("c", "retry", "model"),
    )
    assert found["Step 1"] == 0
    assert (found["Step 2"], found["retry"]) == (1, 1)
    assert found["run"] is None, "the root is the whole run"


def test_one_without_a_model_call_is_of_the_step_before() -> None:
    found = of(
        ("agent", None, "agent"),
        ("a", "agent", "model"),
        ("note", "agent", "other"),
        ("b", "agent", "model"),
    )
    assert found["note"] == 0


def test_a_root_later_in_the_run_is_of_its_own_first_step() -> None:
    found = of(("one", None, "other"), ("a", "one", "model"), ("two", None, "other"),
               ("b", "two", "model"))  # fmt: skip
    assert (found["one"], found["two"]) == (None, 1)


def test_what_a_sub_agent_groups_is_still_the_delegating_step_s() -> None:
    found = plan(
        [
            Node("main", None, "agent", 0),
            Node("a", "main", "model", 1),
            Node("ask", "main", "tool", 2, asked_by="a"),
            Node("sub", "ask", "other", 3),
            Node("b", "sub", "model", 4),
        ]
    ).of
    assert found["sub"] == 0


def test_a_call_of_a_model_below_a_tool_is_a_step_of_its_own() -> None:
    """A tool that asks a model: the step was numbered, and no step had the call."""
    found = plan(
        [
            Node("a", None, "model", 0),
            Node("inspect", None, "tool", 1, asked_by="a"),
            Node("b", "inspect", "model", 2),
            Node("sub", "inspect", "agent", 3),
        ]
    ).of
    assert (found["a"], found["b"], found["sub"]) == (0, 1, 0)


def test_parents_in_a_circle_end() -> None:
    assert of(("x", "y", "other"), ("y", "x", "other"), ("a", "x", "model"))["a"] == 0
