"""Questions over both migration sets: what was recorded joined with what is said of it.

A question that a person types is read by `language`, may ask the fields of `fields`, and is made by
`compile` into a `filter`, which says which runs are meant. `listing` lists them, `failures` counts
why they failed, `measured` reads what the metrics are counted from. The views `runs` and `failures`
and the indices for such questions are defined here and made by the ledger's migrations.
"""

from taxonomy.query.failures import (
    FAILURES,
    INDICES,
    NONE,
    RunHead,
    TagRow,
    Verdict,
    WordCount,
    count_first_words,
    count_runs,
    first_tools,
    first_words,
    outcome_count,
    rows_beside_rules,
    run_heads,
    tag_rows,
    tags_of,
    unsaid_runs,
    verdict,
    verdicts,
)
from taxonomy.query.measured import (
    CacheShare,
    CallMade,
    StepSign,
    agent_extras,
    cache_shares,
    calls_made,
    references,
    step_signs,
    temperatures,
)

__all__ = [
    "FAILURES",
    "INDICES",
    "NONE",
    "CacheShare",
    "CallMade",
    "RunHead",
    "StepSign",
    "TagRow",
    "Verdict",
    "WordCount",
    "agent_extras",
    "cache_shares",
    "calls_made",
    "count_first_words",
    "count_runs",
    "first_tools",
    "first_words",
    "outcome_count",
    "references",
    "rows_beside_rules",
    "run_heads",
    "step_signs",
    "tag_rows",
    "tags_of",
    "temperatures",
    "unsaid_runs",
    "verdict",
    "verdicts",
]
