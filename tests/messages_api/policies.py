"""Models of the project as policies: what a server can have behind it without a scripted answer."""

from __future__ import annotations

import threading
from collections import Counter

from replay import digests
from replay.models.demo import Demo
from replay.models.protocol import Model
from tests.messages_api.content import Body, Policy

_UNSEEN = frozenset({"stream", "metadata", "service_tier"})


def sampled(model: Model) -> Policy:
    """`model` as a policy: the same request asked again is its next sample.

    Its answers carry the name that was asked for. What it refuses, the server refuses.
    """
    asked: Counter[bytes] = Counter()
    lock = threading.Lock()

    def answer(body: Body) -> Body:
        key = digests.encode(digests.seen({n: v for n, v in body.items() if n not in _UNSEEN}))
        with lock:
            sample = asked[key]
            asked[key] += 1
        return {**model.complete(body, sample), "model": body["model"]}

    return answer


def demo_policy() -> Policy:
    """The demo model, its samples counted from zero."""
    return sampled(Demo())
