"""How hard the tests try, and how often they stop to look for garbage."""

from __future__ import annotations

import gc
import os

from hypothesis import settings

EXAMPLES = 25
"""Of each property at a desk. Under `CI` it is Hypothesis' own hundred, always the same ones."""

settings.register_profile("desk", max_examples=EXAMPLES)
if not os.environ.get("CI"):
    settings.load_profile("desk")

# The modules under test are hundreds of thousands of objects that never become garbage, and each
# app and each run makes tens of thousands more: with Python's own thresholds a sixth of the time
# goes into looking through them.
gc.set_threshold(200_000, 20, 100)
