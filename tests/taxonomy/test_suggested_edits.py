"""Edits written by rule for failed runs: what they say, where they go, and where none is honest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from replay.edit.changes import Edit, InjectConstraint, PatchSystem, ReplaceText
from replay.edit.editor import Editor, diff_trace
from replay.store import read
from replay.trace import Trace
from taxonomy.classes import SUB_LABELS, FailureClass
from taxonomy.edit_test import Break, break_of, words_on
from taxonomy.findings import Evidence, Finding
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import open_ledger
from taxonomy.suggestions.advice import CLASSES, NO_EDIT, OTHERS
from taxonomy.suggestions.edits import (
    MOST_HUNKS,
    NoSuggestion,
    Passed,
    Suggestion,
    count_hunks,
    most_frequent,
    prompt_of,
    restore_prompt,
    suggest_edits,
)
from tests.arc_tui import try_case
from tests.build import Part, call, error, heard, step, tool, trace
from tests.shared import Imported, needs_shared
from tests.taxonomy.rule_case import findings

TOOLS = (
    tool("get_order", "Look up an order.", order_id="string"),
    tool("find_orders", "List the orders of a customer.", email="string"),
    tool("refund_order", "Refund an order.", order_id="string", amount="number"),
)
SYSTEM = "You help.\n\n- Be quick: no need to look up\n  an order.\n- Be kind."


def suggested(made: Trace, failure: FailureClass | None = None) -> tuple[Suggestion, ...]:
    """For the first finding, or the first of a class."""
    found = [each for each in findings(made) if failure in (None, each.failure)]
    broke = Break(trace=made.id, step=found[0].step, by="rule", failure=found[0].failure)
    edits = suggest_edits(made, broke, found)
    assert not isinstance(edits, NoSuggestion), edits.why
    assert edits == suggest_edits(made, broke, found), "the same run gives the same edits"
    return edits


def added(each: Suggestion, made: Trace) -> str:
    """The lines that an edit adds, in one."""
    lines = [line for line in diff_trace(each.edit, made) if line.startswith("+")]
    return " ".join(line[1:].strip() for line in lines if not line.startswith("+++")).strip()


def failed(*parts: Part, system: str = SYSTEM) -> Trace:
    return trace(parts, task="Refund order 1039.", system=system, tools=TOOLS)


# --- what each class is told


def test_a_made_up_amount_is_to_be_read_first_with_the_tool_that_has_it() -> None:
    made = failed(step(call("refund_order", "done", order_id="1039", amount=7500)), "Done.")
    instead, more = suggested(made)
    assert isinstance(instead.edit.changes[0], ReplaceText)
    assert instead.edit.changes[0].anchor == "- Be quick: no need to look up\n  an order."
    assert more.edit.changes == (InjectConstraint(instead.edit.changes[0].text[2:]),)
    said = added(more, made)
    assert said.startswith(
        "Before you call `refund_order`, call `get_order` with the same `order_id`"
    )
    assert "take `amount` from its result" in said
    assert more.targets == ("system prompt",)
    assert more.because == "amount 7500 not found in context"


def test_no_value_of_the_run_stands_in_an_edit() -> None:
    made = failed(step(call("refund_order", "done", order_id="1039", amount=7500)), "Done.")
    for each in suggested(made):
        assert not {"1039", "7500"} & set(added(each, made).split())


def test_a_made_up_number_is_to_be_searched_with_the_tool_that_finds_it() -> None:
    made = failed(step(call("get_order", error("not found"), order_id="ORD-9911")), "I see.")
    (only,) = suggested(made, FailureClass.HALLUCINATED_STATE)[-1:]
    said = added(only, made)
    assert "For `order_id` of `get_order`, use only what the user or a tool has named." in said
    assert "look it up with `find_orders` or ask for it" in said


def test_what_a_tool_refuses_joins_its_description_without_the_value_that_was_refused() -> None:
    refused = call(
        "find_orders", error("since must be a date like 2026-03-01, not '1 March'"), since="1 March"
    )
    tools = (tool("find_orders", "List orders.", since="string"),)
    made = trace([step(refused)] * 4 + ["I cannot."], system="S", tools=tools)
    first, second, *_ = suggested(made, FailureClass.BAD_ARGS)
    assert first.targets == ("tool find_orders",)
    assert added(first, made) == "List orders. `since` must be a date like 2026-03-01."
    assert "never send the same arguments a second time" in added(second, made)


def test_an_error_about_this_very_call_joins_no_description() -> None:
    too_much = "amount 8400 is more than the 8150 left on order 1047"
    parts: list[Part] = [step(call("refund_order", error(too_much), order_id="1047", amount=8400))]
    made = trace([*parts * 3, "I cannot."], task="Refund 1047: 8400.", system="S", tools=TOOLS)
    edits = suggested(made, FailureClass.BAD_ARGS)
    assert all(each.targets == ("system prompt",) for each in edits)
    assert added(edits[0], made) == (
        "Take `amount` for `refund_order` from the latest result of `get_order` with the same"
        " `order_id`."
    )


def test_a_tool_that_is_not_there_is_named_beside_the_one_that_is() -> None:
    system = "You help.\n- Find people with get_orders.\n- Be kind."
    gone = step(call("get_orders", error("no tool get_orders"), order_id="1039"))
    made = failed(gone, gone, "I cannot.", system=system)
    (only,) = suggested(made, FailureClass.WRONG_TOOL)
    said = added(only, made)
    assert "there is no tool `get_orders`. Use `get_order`." in said
    assert "-- Find people with get_orders." in diff_trace(only.edit, made)


def test_two_tools_that_take_the_same_are_told_apart_where_they_are_described() -> None:
    tools = (
        tool("get_product", "Product features and availability.", product="string"),
        tool("check_stock", "Product stock.", product="string"),
    )
    made = trace(
        [step(call("get_product", "in the catalogue", product="Lamp")), "Yes."], tools=tools
    )
    broke = Break(trace=made.id, step=0, by="tagged by ann", failure=FailureClass.WRONG_TOOL)
    edits = suggest_edits(made, broke, ())
    assert not isinstance(edits, NoSuggestion)
    assert edits[0].targets == ("tool get_product", "tool check_stock")
    assert "Not for product stock: call check_stock for that." in added(edits[0], made)
    assert edits[0].because == "tagged by ann"


def test_the_tagged_one_of_several_calls_is_meant() -> None:
    calls = call("get_order", "ok", order_id="1039"), call("get_product", "ok", product="Lamp")
    tools = (*TOOLS, tool("get_product", "Product features.", product="string"),
             tool("check_stock", "Product stock.", product="string"))  # fmt: skip
    made = trace([step(*calls), "Yes."], tools=tools)
    act = made.steps[0].acts[1]
    wrong = FailureClass.WRONG_TOOL
    broke = Break(trace=made.id, step=0, by="tagged by ann", failure=wrong, span=act.id)
    edits = suggest_edits(made, broke, ())
    assert not isinstance(edits, NoSuggestion)
    assert edits[0].targets == ("tool get_product", "tool check_stock")


def test_which_of_three_tools_would_have_been_right_is_not_guessed() -> None:
    tools = tuple(tool(name, "A tool.", product="string") for name in ("get_a", "get_b", "get_c"))
    made = trace([step(call("get_a", "ok", product="Lamp")), "Yes."], tools=tools)
    broke = Break(trace=made.id, step=0, by="tagged by ann", failure=FailureClass.WRONG_TOOL)
    none = suggest_edits(made, broke, ())
    assert isinstance(none, NoSuggestion)
    assert none.why == "the run does not show what the edit would name"


def test_giving_up_is_met_by_what_it_did_instead() -> None:
    def said(*parts: Part) -> str:
        made = failed(*parts)
        return added(suggested(made, FailureClass.GAVE_UP)[0], made)

    look = step(call("get_order", error("order not found"), order_id="1039"))
    refused = said(look, "I am sorry, I cannot help you with this.")
    assert "If `get_order` fails or finds nothing, that is not the end" in refused
    assert "`find_orders`" in refused
    assert "the call instead of saying" in said(look, "Next I will look at the order.")


def test_a_loop_is_told_to_change_something() -> None:
    made = failed(*[step(call("get_order", error("not found"), order_id="1039"))] * 4, "I stop.")
    (only,) = suggested(made, FailureClass.LOOP)
    assert "If `get_order` fails, read what it returned, then change the arguments" in added(
        only, made
    )


def test_a_requirement_that_an_answer_does_not_meet_is_repeated_where_it_is_given() -> None:
    made = failed("It is on its way.", system="You help. Always answer in JSON.")
    told = Evidence(role="stated", text="Always answer in JSON.", place="system prompt")
    other, sub = FailureClass.OTHER, "instruction broken"
    found = Finding(failure=other, step=0, why="no JSON", rule="by hand", sub=sub, evidence=(told,))
    edits = suggest_edits(made, Break(trace=made.id, step=0, by="rule", failure=other), [found])
    assert not isinstance(edits, NoSuggestion)
    assert added(edits[0], made) == (
        "Before you give your answer, check it against this: “Always answer in JSON.”"
    )


def test_every_class_and_sub_label_has_advice_or_a_reason_why_not() -> None:
    assert {*CLASSES, FailureClass.OTHER} == set(FailureClass)
    assert {*OTHERS, *NO_EDIT} - {""} == set(SUB_LABELS)
    assert not {*OTHERS} & {*NO_EDIT}


@pytest.mark.parametrize("sub", sorted(NO_EDIT))
def test_where_no_edit_is_honest_the_reason_is_said(sub: str) -> None:
    made = failed("Done.")
    other = FailureClass.OTHER
    broke = Break(trace=made.id, step=0, by="tagged by ann", failure=other, sub=sub or None)
    none = suggest_edits(made, broke, ())
    assert none == NoSuggestion(trace=made.id, why=NO_EDIT[sub])


def test_a_break_without_a_class_says_how_it_gets_one() -> None:
    made = failed("Done.")
    none = suggest_edits(made, Break(trace=made.id, step=0, by="first candidate", failure=None), ())
    assert isinstance(none, NoSuggestion)
    assert none.why == "no failure class. Try: arc tag add TRACE STEP CLASS"


# --- where it goes


CLAUDE = (
    "<system-reminder>\nAs you answer, you can use the following context:\n# claudeMd\n"
    "Contents of /work/shop/CLAUDE.md (project instructions, checked into the codebase):\n\n"
    "# Shop\n\nUse pnpm.\n\n# currentDate\nToday is 2026-03-14.\n\n"
    "      IMPORTANT: this context may or may not be relevant\n</system-reminder>"
)
CODEX = (
    "# AGENTS.md instructions for /work/shop\n\n<INSTRUCTIONS>\nUse pnpm.\nBe brief.\n"
    "</INSTRUCTIONS>"
)
GEMINI = "--- Context from: shop/GEMINI.md ---\nUse pnpm.\n--- End of Context from: GEMINI.md ---"


@pytest.mark.parametrize(
    ("words", "name", "last"),
    [(CLAUDE, "CLAUDE.md", "Use pnpm."), (CODEX, "AGENTS.md", "Be brief."),
     (GEMINI, "GEMINI.md", "Use pnpm.")],
)  # fmt: skip
def test_a_coding_agents_edit_goes_into_the_projects_own_file(
    words: str, name: str, last: str
) -> None:
    """In the shape in which these agents send the file; the system prompt is not the user's."""
    parts: list[Part] = [heard(words)]
    parts += [step(call("get_order", error("not found"), order_id="1039"))] * 4
    made = failed(*parts, "I stop.")
    (only,) = suggested(made, FailureClass.LOOP)
    assert only.targets == (name,)
    (change,) = only.edit.changes
    assert isinstance(change, ReplaceText)
    assert (change.target, change.anchor) == ("message 1", last)
    at = made.steps[1].ask.request
    edited = Editor(only.edit, made).request(at, "step 1")
    assert edited.system == at.system
    assert edited.context is not None
    assert edited.context.messages()[1] != at.context.messages()[1] if at.context else False


def test_a_file_in_the_system_prompt_is_found_there() -> None:
    made = failed("Done.", system=f"You code.\n\n{GEMINI}\n\nBe safe.")
    prompt = prompt_of(made.steps[0])
    assert (prompt.target, prompt.name, prompt.text) == ("system", "GEMINI.md", "Use pnpm.")


def test_words_that_only_speak_of_such_a_file_are_not_one() -> None:
    made = failed(heard("Contents of CLAUDE.md matter to me."), "Done.")
    assert prompt_of(made.steps[0]).name == "system prompt"


# --- what the prompt said where the task passed


def restored(now: str, then: str, *parts: Part) -> Suggestion | None:
    made = failed(*(parts or (step(call("refund_order", "done", order_id="1")),)), system=now)
    passed = trace(["Done."], task="Refund order 1039.", system=then, outcome="passed")
    broke = Break(trace=made.id, step=0, by="tagged by ann", failure=FailureClass.OTHER)
    found = restore_prompt(made, broke, Passed(passed, "v4"))
    if found is not None:
        request = Editor(found.edit).request(made.steps[0].ask.request, "here")
        assert request.system is not None
        assert count_hunks(found.edit.changes) <= MOST_HUNKS
    return found


def test_what_the_prompt_said_where_the_task_passed_is_an_edit() -> None:
    found = restored("Help.\nBe quick.\nBye.", "Help.\nRead first.\nBye.")
    assert found is not None
    assert (found.edit.name, found.because) == (
        "suggested: what v4 says", "the task passed under v4",
    )  # fmt: skip
    (change,) = found.edit.changes
    assert isinstance(change, PatchSystem)
    assert {"-Be quick.", "+Read first."} <= {*change.text.split("\n")}


def test_of_many_differences_those_stay_that_are_about_the_call() -> None:
    now = "\n".join(f"Line {number}.\nSame {number}." for number in range(9))
    then = now.replace("Line 4.", "Refund orders late.").replace("Line 7.", "Read an order.")
    for number in (0, 1, 2, 8):
        then = then.replace(f"Line {number}.", f"Other {number}.")
    found = restored(now, then)
    assert found is not None
    (change,) = found.edit.changes
    assert isinstance(change, PatchSystem)
    added_lines = [line for line in change.text.split("\n") if line.startswith("+")]
    assert added_lines == ["+Refund orders late.", "+Read an order."]
    assert restored(now, then, "I do nothing.") is None, "there is no call to be about"


def test_the_same_prompt_gives_nothing_back() -> None:
    assert restored("Help.", "Help.") is None
    assert restored("Help.", "") is None


# --- of several runs


def test_the_edit_that_most_runs_lead_to_comes_first_and_counts_them() -> None:
    one, other = (
        Suggestion(edit=Edit(name=text, changes=(InjectConstraint(text),)), targets=(), because="")
        for text in ("one", "other")
    )
    first, second = most_frequent([one, other, other], 5)
    assert (first.edit.name, first.runs, second.runs) == ("other", 2, 1)
    assert most_frequent([one, other, other], 1) == (first,)


def test_a_patch_counts_as_many_places_as_it_has_hunks() -> None:
    patch = "@@ -1 +1 @@\n-a\n+b\n@@ -5 +5 @@\n-c\n+d\n"
    assert count_hunks([PatchSystem(patch), InjectConstraint("x")]) == 3


# --- real runs


def made_for(path: Path) -> tuple[Counter[FailureClass | None], Counter[str]]:
    """What is suggested for the runs of a database; every edit is applied to its run."""
    made: Counter[FailureClass | None] = Counter()
    none: Counter[str] = Counter()
    with open_ledger(path) as store:
        said = words_on(store)
        for trace_, outcome in store.db.execute(
            "SELECT trace, outcome FROM trace_summary"
        ).fetchall():
            known = diagnosis(store, trace_)
            broke = break_of(trace_, outcome, said.get(trace_, ()), known)
            if not isinstance(broke, Break):
                continue
            run = read.load(store, broke.trace)
            edits = suggest_edits(run, broke, known.findings if known else ())
            if isinstance(edits, NoSuggestion):
                none[edits.why] += 1
                continue
            made[broke.failure] += 1
            for each in edits:
                assert 1 <= count_hunks(each.edit.changes) <= MOST_HUNKS
                assert diff_trace(each.edit, run), each.edit.name
                assert added(each, run).isprintable()
    return made, none


@pytest.mark.slow
def test_every_class_of_the_bundled_runs_has_an_edit(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    try_case.put(path, *try_case.OTHERS, "shop-since-v1-0", "shop-prefix-v6-0")
    made, none = made_for(path)
    assert made == {
        FailureClass.HALLUCINATED_STATE: 5,
        FailureClass.LOOP: 1,
        FailureClass.GAVE_UP: 1,
        FailureClass.BAD_ARGS: 1,
    }
    assert none == {"no failure class. Try: arc tag add TRACE STEP CLASS": 1}


@needs_shared
@pytest.mark.data
def test_every_edit_for_a_real_run_is_small_and_applies_to_it(real: Imported) -> None:
    made, none = made_for(real.path)
    assert made[FailureClass.LOOP] >= 20
    assert made[FailureClass.GAVE_UP] >= 30
    assert made[FailureClass.BAD_ARGS] >= 30
    assert sum(none.values()) > sum(made.values()), "most of these runs have no class by rule"
