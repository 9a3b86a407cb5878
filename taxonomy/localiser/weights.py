"""What each feature weighs, and how often a step so likely was right.

Written by `python -m tests.bench.fitting`, not by hand. Fitted on people's labels:
126 runs of whowhen_ag, 9 runs of trail_swe_bench.
Drawn to the guesses by hand that stand beside them. How well this does on runs held
out is in `fixtures/localiser.json`.
"""

from __future__ import annotations

# fmt: off
WEIGHTS: dict[str, float] = {
    "unfounded": 2.49,  # 2.50: acts on a value not found in context, or contradicts a result
    "bad call": 2.47,  # 2.50: a malformed call, rejected arguments, or the wrong tool
    "repeats": 1.50,  # 1.50: a loop begins; one call that returns nothing new counts a quarter
    "bad end": 1.53,  # 1.50: gives up or is truncated; counts less where a limit ended the run
    "other finding": 1.50,  # 1.50: any other finding of the rules
    "first finding": 1.47,  # 1.50: the earliest finding other than a bad end
    "error": 0.94,  # 1.00: a call or code fails for the first time; later failures count a fifth
    "assumption": 1.01,  # 1.00: states that it assumes, simulates or makes up
    "new facts": 1.02,  # 1.00: states numbers and names not found in context
    "objection": 1.00,  # 1.00: the user intervened or objected right after
    "first action": 0.59,  # 0.50: the first step that acts: writes code or changes something
    "last chance": 0.50,  # 0.50: the last step that changed something
    "growth": 0.56,  # 0.50: output or context grows sharply; cost or latency counts half
}
"""By feature: its weight in log odds, then the guess by hand, and what it means."""

CONFIDENCE: tuple[tuple[float, float], ...] = (
    (0.00, 0.02),
    (0.02, 0.03),
    (0.05, 0.16),
    (0.20, 0.37),
    (0.30, 0.42),
    (0.55, 0.52),
)
# fmt: on
"""(from this likelihood on, how often right), of candidates in runs held out."""
