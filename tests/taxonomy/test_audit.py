"""The sample for a second look: nobody chose it, and it stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taxonomy.calibration.disagreement import audit_sample


class TestAudit:
    @given(st.sets(st.text(max_size=8), max_size=60), st.text(max_size=8))
    def test_a_run_that_comes_later_moves_no_other(self, keys: set[str], late: str) -> None:
        before, after = audit_sample(keys, 0.3), audit_sample(keys | {late}, 0.3)
        if len(before) > 1:
            assert set(before) <= set(after) <= set(before) | {late}

    def test_the_sample_is_about_its_share_and_the_same_everywhere(self) -> None:
        keys = [f"run-{number}" for number in range(2000)]
        drawn = audit_sample(keys)
        assert 0.06 < len(drawn) / 2000 < 0.10
        assert drawn == audit_sample(reversed(keys))
        assert drawn[:2] == audit_sample(keys, 0.01)[:2]

    def test_few_runs_still_give_one_to_look_at(self) -> None:
        assert len(audit_sample(["a", "b"], 0.0001)) == 1
        assert audit_sample([]) == ()
