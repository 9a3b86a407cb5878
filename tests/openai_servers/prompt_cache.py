"""A prompt cache as OpenAI's: prefixes of 1024 tokens and more, in steps of 128, unasked.

What a request shares with an earlier one of the same model and `prompt_cache_key` is read; what it
wrote can be read once its answer begins to be sent.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.openai_servers.policy import CHARACTERS_PER_TOKEN, tokens
from tests.openai_servers.shape import Body

FLOOR_TOKENS = 1024
STEP_TOKENS = 128
LIFETIME_S = {None: 1800.0, "in_memory": 600.0, "24h": 86_400.0}
MEDIA_CHARACTERS = 1_500 * CHARACTERS_PER_TOKEN
"""What an image, a sound or a file counts as, whatever its size."""

_STEP = STEP_TOKENS * CHARACTERS_PER_TOKEN


class Reading(Struct, frozen=True, kw_only=True):
    """What a request found in the cache, and what it will leave there."""

    input_tokens: int
    cached_tokens: int
    written_tokens: int
    writes: tuple[bytes, ...]
    lifetime_s: float


class PromptCache:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends_s: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def read(self, body: Body, parts: list[Any]) -> Reading:
        """`parts` are what the model sees, in its order; nothing is written yet."""
        text = shown(parts)
        digest = hashlib.sha256(f"{body['model']} {body.get('prompt_cache_key')} ".encode())
        steps = []
        for at in range(0, len(text) - _STEP + 1, _STEP):
            digest.update(text[at : at + _STEP].encode())
            steps.append(digest.digest())
        with self._lock:
            now_s = self._clock()
            live = [at for at, each in enumerate(steps) if self._ends_s.get(each, 0) > now_s]
        whole, cached = (
            count * STEP_TOKENS if count * STEP_TOKENS >= FLOOR_TOKENS else 0
            for count in (len(steps), live[-1] + 1 if live else 0)
        )
        return Reading(
            input_tokens=tokens(len(text)),
            cached_tokens=cached,
            written_tokens=whole - cached,
            writes=tuple(steps[FLOOR_TOKENS // STEP_TOKENS - 1 :]),
            lifetime_s=LIFETIME_S[body.get("prompt_cache_retention")],
        )

    def write(self, reading: Reading) -> None:
        """Make readable what a request wrote: its answer begins to be sent."""
        with self._lock:
            ends_s = self._clock() + reading.lifetime_s
            self._ends_s.update(dict.fromkeys(reading.writes, ends_s))


def shown(parts: list[Any]) -> str:
    """What a model sees as one text."""
    return "\n".join(json.dumps(_measured(each), ensure_ascii=False) for each in parts)


def _measured(value: Any) -> Any:
    """A value in which every medium has the length it counts as."""
    if isinstance(value, list):
        return [_measured(each) for each in value]
    if isinstance(value, dict):
        media = {"data", "file_data"} & set(value)
        return {
            name: _medium(each) if name in media and isinstance(each, str) else _measured(each)
            for name, each in value.items()
        }
    if isinstance(value, str) and value.startswith("data:"):
        return _medium(value)
    return value


def _medium(value: str) -> str:
    digest = hashlib.sha256(value.encode()).hexdigest()
    return (digest * (MEDIA_CHARACTERS // len(digest) + 1))[:MEDIA_CHARACTERS]
