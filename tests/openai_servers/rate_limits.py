"""Limits of requests and tokens a minute, refilled all the time, and the headers that tell them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.openai_servers.shape import Refused


class RateLimits:
    """What is left of the limits of one server; None is no limit."""

    def __init__(
        self, requests: int | None, tokens: int | None, clock: Callable[[], float]
    ) -> None:
        self._limits = {"requests": requests, "tokens": tokens}
        self._left = {name: float(limit or 0) for name, limit in self._limits.items()}
        self._clock = clock
        self._at_s = clock()
        self._lock = threading.Lock()

    def take(self, model: str, tokens: int) -> tuple[Refused | None, dict[str, str]]:
        """Whether a request may pass, and the headers of its answer."""
        wanted = {"requests": 1, "tokens": tokens}
        with self._lock:
            self._refill()
            short = {n: wanted[n] - self._left[n] for n in self._known if wanted[n] > self._left[n]}
            if not short:
                for name in self._known:
                    self._left[name] -= wanted[name]
            headers = self._headers()
            if not short:
                return None, headers
            name, lacking = next(iter(short.items()))
            wait_s = lacking * 60 / self._limit(name)
            used = self._limit(name) - self._left[name]
            headers |= {"retry-after": str(-(-int(wait_s * 1000) // 1000)),
                        "retry-after-ms": str(int(wait_s * 1000) + 1)}  # fmt: skip
        unit = {"requests": "requests per min (RPM)", "tokens": "tokens per min (TPM)"}[name]
        why = (
            f"Rate limit reached for {model} in organization org-test on {unit}: "
            f"Limit {self._limit(name)}, Used {used:.0f}, Requested {wanted[name]}. "
            f"Please try again in {wait_s:.3f}s."
        )
        return Refused(why, None, "rate_limit_exceeded", 429, name), headers

    @property
    def _known(self) -> list[str]:
        return [name for name, limit in self._limits.items() if limit is not None]

    def _limit(self, name: str) -> int:
        return self._limits[name] or 0

    def _refill(self) -> None:
        now_s = self._clock()
        passed_s, self._at_s = now_s - self._at_s, now_s
        for name in self._known:
            limit = self._limit(name)
            self._left[name] = min(limit, self._left[name] + limit * passed_s / 60)

    def _headers(self) -> dict[str, str]:
        found = {}
        for name in self._known:
            limit, left = self._limit(name), self._left[name]
            found[f"x-ratelimit-limit-{name}"] = str(limit)
            found[f"x-ratelimit-remaining-{name}"] = str(int(left))
            found[f"x-ratelimit-reset-{name}"] = f"{(limit - left) * 60 / limit:.3f}s"
        return found
