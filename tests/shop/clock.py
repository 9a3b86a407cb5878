"""Time that counts instead of passing: every duration comes from what was done, none from a clock.

Latencies look like a real service's: a model takes longer the more it writes, tools have their own
pace, and now and then something is slow.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

_MS = 1_000_000
_MORNING_NS = int(datetime(2026, 3, 14, 8, tzinfo=UTC).timestamp()) * 1_000_000_000


def morning_of(source_id: str) -> int:
    """When a run began: some time of one working day, by its own name, so runs do not move."""
    return _MORNING_NS + _share(source_id) * 9 * 3600 * 1000 * _MS // 1000


def model_ns(answer: str, input_tokens: int, output_tokens: int) -> int:
    """How long an answer took; one in about twenty waits in a queue."""
    waited = 4 if _share(answer, "queue") < 50 else 1
    spread = _share(answer, "spread") // 3
    return (340 + 13 * output_tokens + input_tokens // 25 + spread) * waited * _MS


def tool_ns(call: str, usual_ms: int) -> int:
    """How long a call took; one in about fifteen meets a slow database."""
    slow = 5 if _share(call, "slow") < 65 else 1
    return usual_ms * slow * (700 + _share(call, "spread") * 6 // 10) // 1000 * _MS


def _share(*names: str) -> int:
    """0..999, always the same for the same names."""
    return int(hashlib.sha256("|".join(names).encode()).hexdigest()[:8], 16) % 1000
