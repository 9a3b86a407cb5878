"""What a patch claims stands in a file, and a run that patches what it never read."""

from __future__ import annotations

import pytest

from replay.trace import Trace
from taxonomy.classes import FailureClass
from taxonomy.evidence.claims import claimed
from taxonomy.findings import Finding
from taxonomy.rules import hallucinated_state
from tests.build import Part, call, step, trace
from tests.taxonomy.rule_case import findings

FILE = """def total(rows):
    amount = sum(row.price for row in rows)
    currency = rows[0].currency
    return Money(amount, currency)
"""

PATCH = """--- a/shop/money.py
+++ b/shop/money.py
@@ -1,4 +1,5 @@
 def total(rows):
     amount = sum(row.price for row in rows)
-    currency = rows[0].currency
+    currency = rows[0].currency if rows else "EUR"
     return Money(amount, currency)
"""


def made_up(
    parts: list[Part], task: str = "Fix the empty total in shop/money.py."
) -> list[Finding]:
    made: Trace = trace(parts, task=task)
    named = [each for each in findings(made) if each.rule == hallucinated_state.NAME]
    assert all(each.failure is FailureClass.HALLUCINATED_STATE for each in named)
    return named


class TestAPatch:
    def test_claims_what_it_keeps_and_what_it_takes_away(self) -> None:
        patch = claimed(f"Here it is:\n{PATCH}\nThat is all of it, I think.")
        assert patch is not None
        assert patch.path == "shop/money.py"
        assert patch.lines == tuple(line.strip() for line in FILE.splitlines())

    def test_a_search_block_claims_what_it_searches(self) -> None:
        block = f"<<<<<<< SEARCH\n{FILE}=======\nreturn None\n>>>>>>> REPLACE"
        patch = claimed(block)
        assert patch is not None
        assert len(patch.lines) == 4

    @pytest.mark.parametrize("text", ["", "no patch", "@@ not one", "- a list\n- of things"])
    def test_other_text_claims_nothing(self, text: str) -> None:
        assert claimed(text) is None


class TestAPatchOfAFileNobodyRead:
    def test_is_made_up_at_the_step_that_writes_it(self) -> None:
        parts: list[Part] = [step("I look around.", call("ls", "README.md", path=".")),
                             step(f"I fix it.\n{PATCH}")]  # fmt: skip
        (finding,) = made_up(parts)
        assert finding.step == 1
        assert finding.why == "patches money.py with 4 lines not found in context"

    def test_in_the_arguments_of_a_call_too(self) -> None:
        parts: list[Part] = [step("I fix it.", call("apply", "applied", patch=PATCH))]
        assert [each.step for each in made_up(parts)] == [0]

    def test_after_reading_it_is_none(self) -> None:
        parts: list[Part] = [step("I read.", call("read", FILE, path="shop/money.py")),
                             step(f"I fix it.\n{PATCH}")]  # fmt: skip
        assert not made_up(parts)

    def test_a_file_shown_by_the_task_was_read(self) -> None:
        assert not made_up([step(PATCH)], task=f"Fix this:\n{FILE}")

    def test_what_the_source_cut_may_have_shown_it(self) -> None:
        cut = call("read", "def other():\n... output truncated", path="shop/money.py")
        assert not made_up([step("I read.", cut), step(PATCH)])

    def test_a_new_file_claims_nothing(self) -> None:
        new = "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+def something_new():\n+    return 1\n"
        assert not made_up([step(new)])
